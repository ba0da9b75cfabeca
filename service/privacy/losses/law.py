"""Law of the loss of one step, L = ln dP1/dP0 in the add direction (P0: record absent), and of its sum over a run.

Losses of composed (independent) steps add up, and so do their cumulants and cumulant generating functions K(s) = ln E0
e^{sL}. So the cost of a run is that of its different steps, whatever their counts. All computations have double
precision without an error bound, for engines that approximate or sample.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, final

import numpy as np
from scipy.special import logsumexp
from typing_extensions import override

from service.privacy.errors import UnsupportedCombination
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.exponentials import divergence, growth, remainder
from service.privacy.numerics.work import count_work

Hypothesis = Literal[0, 1]
"""0: the record is absent. 1: the record is present."""
CUMULANTS = 6
A_PAIR, MOST_AT_ONCE = 0.4, 4e6
"""Approximate work of a tilt at a node of a law, and largest work of all tilts together, in microseconds."""
TOO_MANY_LOSSES = (
    "a step has too many different losses: the computation of their cumulants exceeds the work limit of a request."
)
MOST_PAIRS = 2**16
"""Largest count of tilts times nodes in one array, so that the array stays in the cache of the processor."""

MASS_MISSED = 1e-3
"""Largest distance of the logarithm of the total mass of nodes from 0, under both hypotheses."""
TOO_FAR_APART = "its modes are too far apart for quadrature nodes, which miss some of its mass."
_NEAR_ONE = 0.5
"""Limit of |K| below which M - 1 is summed in place of M, so that K keeps its digits."""


@final
@dataclass(frozen=True, slots=True)
class Generating:
    """Cumulant generating function K(s) = ln E0 e^{sL} of a privacy loss L, with derivatives, at real tilts s.

    Attributes
    ----------
    value, first, second : array
        K(s), K'(s) and K''(s), in the shape of the tilts.
    divergence : array
        s K'(s) - K(s) = KL(P_s, P0), nats, with its own relative accuracy. P_s is the tilted law, proportional to
        e^{sL} P0.
    divergence_from_one : array
        (s - 1) K'(s) - K(s) = KL(P_s, P1), nats, with its own relative accuracy.
    """

    value: FloatArray
    first: FloatArray
    second: FloatArray
    divergence: FloatArray
    divergence_from_one: FloatArray

    @staticmethod
    def joined(parts: Sequence[Generating]) -> Generating:
        """Concatenate the values of several `parts`, each at a group of tilts.

        A tilt s is the argument of the cumulant generating function ln E0 e^{sL} of the privacy loss L.
        """
        names = [field.name for field in fields(Generating)]
        return Generating(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class LossLaw(ABC):
    """Law of the privacy loss L = ln dP1/dP0 of one step, under both hypotheses (P0: record absent, P1: present).

    Attributes
    ----------
    smallest, largest : float
        Essential infimum and supremum of the finite losses, nats.
    singular_mass : float
        P1(L = inf) = P0(L = -inf). All other numbers describe the law given that L is finite.
    gaussian_mu_squared : float or None
        mu^2 for the normal law of a Gaussian step; None for other laws.
    holds_its_mass : bool
        Whether the quadrature nodes have the mass of the law. They do not if the losses are too far apart.
    """

    smallest: float
    largest: float
    singular_mass: float
    gaussian_mu_squared: float | None = None
    holds_its_mass: bool = True

    @abstractmethod
    def cumulants(self, hypothesis: Hypothesis) -> FloatArray:
        """Return the cumulants of the privacy loss L under one hypothesis.

        Parameters
        ----------
        hypothesis : Hypothesis
            H0 (record absent) or H1.

        Returns
        -------
        array, shape (6,)
            Cumulants of orders 1 to 6, in powers of nats.
        """

    @abstractmethod
    def generating(self, tilts: FloatArray) -> Generating:
        """Return the log-moment function K(s) = ln E0 e^{sL} and its derivatives at real tilts, shape (S,).

        L is the privacy loss. The result also has the divergences. S is the number of tilts.
        """

    @property
    @abstractmethod
    def clt_mu_squared(self) -> float:
        """Contribution of the step to mu^2 in the central limit: mu^2 of a Gaussian step, otherwise chi^2(P1, P0)."""

    @abstractmethod
    def distribution(self, losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        """Return the distribution function of the privacy loss L.

        Parameters
        ----------
        losses : array
            Losses in nats, any shape.
        hypothesis : Hypothesis
            H0 (record absent) or H1.

        Returns
        -------
        array
            P(L <= loss), in the shape of `losses`.
        """


@final
class GaussianLossLaw(LossLaw):
    """Law of the privacy loss L of N(0, 1) against N(mu, 1).

    L is normal with variance mu^2, and its mean is -mu^2/2 without the record (H0) and mu^2/2 with it (H1).
    """

    def __init__(self, mu: float) -> None:
        self.mu, self.gaussian_mu_squared = mu, mu**2
        self.smallest, self.largest = (-math.inf, math.inf) if mu > 0 else (0.0, 0.0)
        self.singular_mass = 0.0

    @override
    def cumulants(self, hypothesis: Hypothesis) -> FloatArray:
        variance = self.mu * self.mu
        found = np.zeros(CUMULANTS)
        found[:2] = (variance / 2 if hypothesis else -variance / 2), variance
        return found

    @override
    def generating(self, tilts: FloatArray) -> Generating:
        variance = self.mu * self.mu
        return Generating(
            value=0.5 * variance * tilts * (tilts - 1),
            first=variance * (tilts - 0.5),
            second=np.full_like(tilts, variance),
            divergence=0.5 * variance * tilts**2,
            divergence_from_one=0.5 * variance * (tilts - 1) ** 2,
        )

    @property
    @override
    def clt_mu_squared(self) -> float:
        return self.mu * self.mu

    @override
    def distribution(self, losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        from scipy.special import ndtr

        if self.mu == 0:
            return np.where(losses >= 0, 1.0, 0.0)
        return ndtr(losses / self.mu + (-0.5 if hypothesis else 0.5) * self.mu)


@final
@dataclass(frozen=True)
class NodeLossLaw(LossLaw):
    """Loss law as quadrature nodes: E0 g(L) = sum e^{log_weights} g(losses), with losses added to the weights for H1.

    Attributes
    ----------
    losses, log_weights : array of shape (nodes,)
        The nodes; atoms are nodes of their own.
    smallest, largest : float
        Essential bounds of the finite losses, nats.
    exact_distribution : callable
        (losses, hypothesis) to P(L <= loss).
    singular_mass : float
        P1(L = inf) = P0(L = -inf).

    Notes
    -----
    With E0 e^L = 1, sums are arranged so that leading terms cancel before rounding (E0 L = -E0 [e^L - 1 - L]). So K, K'
    and the divergences have a relative accuracy of 1e-12 or better for losses as small as 1e-150, if the nodes resolve
    the tilted law (tested against 40 digits).
    """

    losses: FloatArray
    log_weights: FloatArray
    smallest: float
    largest: float
    exact_distribution: Callable[[FloatArray, Hypothesis], FloatArray]
    singular_mass: float = 0.0

    @override
    def distribution(self, losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        return self.exact_distribution(losses, hypothesis)

    @cached_property
    def _means(self) -> tuple[float, float]:
        absent = -remainder(self.log_weights, self.losses).sum()
        present = remainder(self.log_weights + self.losses, -self.losses).sum()
        return float(absent), float(present)

    @property
    @override
    def holds_its_mass(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        logs = np.stack((self.log_weights, self.log_weights + self.losses))
        return bool((np.abs(logsumexp(logs, axis=1)) < MASS_MISSED).all())

    @override
    def cumulants(self, hypothesis: Hypothesis) -> FloatArray:
        weights = np.exp(self.log_weights + self.losses if hypothesis else self.log_weights)
        deviations = self.losses - (weights @ self.losses) / weights.sum()
        m2, m3, m4, m5, m6 = (float(weights @ deviations**order / weights.sum()) for order in range(2, 7))
        return np.array(
            [
                self._means[hypothesis],
                m2,
                m3,
                m4 - 3 * m2 * m2,
                m5 - 10 * m3 * m2,
                m6 - 15 * m4 * m2 - 10 * m3 * m3 + 30 * m2**3,
            ]
        )

    @override
    def generating(self, tilts: FloatArray) -> Generating:
        work = A_PAIR * len(tilts) * len(self.losses)
        if work > MOST_AT_ONCE:
            raise UnsupportedCombination("method", "an approximation by cumulants", TOO_MANY_LOSSES, ("auto",))
        count_work(work)
        block = max(MOST_PAIRS // len(self.losses), 1)
        parts = [self._generating(tilts[at : at + block]) for at in range(0, len(tilts), block)]
        return parts[0] if len(parts) == 1 else Generating.joined(parts)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _generating(self, tilts: FloatArray) -> Generating:
        # Tilts are relative to the nearer hypothesis, whose own terms vanish for a tilt of 0.
        from_one = tilts > 0.5
        tilt = np.where(from_one, tilts - 1, tilts)[:, np.newaxis]
        mean = np.where(from_one, self._means[1], self._means[0])
        log_weights = np.where(from_one[:, np.newaxis], self.log_weights + self.losses, self.log_weights)
        exponent = tilt * self.losses
        joint = log_weights + exponent
        top = joint.max(axis=1)
        value = top + np.log(np.exp(joint - top[:, np.newaxis]).sum(axis=1))
        near_one = np.abs(value) < _NEAR_ONE
        rise = remainder(log_weights, exponent).sum(axis=1) + tilt[:, 0] * mean
        value = np.where(near_one, np.log1p(np.where(near_one, rise, 0.0)), value)
        tilted = np.exp(joint - value[:, np.newaxis])
        plain = tilted @ self.losses
        careful = (growth(log_weights, exponent) @ self.losses + mean) / np.exp(value)
        first = np.where(near_one, careful, plain)
        second = (tilted * (self.losses - plain[:, np.newaxis]) ** 2).sum(axis=1)
        near: FloatArray = divergence(log_weights, exponent - value[:, np.newaxis]).sum(axis=1)
        return Generating(
            value, first, second, np.where(from_one, near + first, near), np.where(from_one, near, near - first)
        )

    @property
    @override
    def clt_mu_squared(self) -> float:
        exponent = float(self.generating(np.array([2.0])).value[0])
        return math.expm1(exponent) if exponent < 700 else math.inf


@final
@dataclass(frozen=True)
class ComposedLoss:
    """Privacy loss of a run of independent steps.

    Attributes
    ----------
    parts : tuple of (LossLaw, int)
        Law of each different step, and the number of such steps.
    """

    parts: tuple[tuple[LossLaw, int], ...]

    @property
    def holds_its_mass(self) -> bool:
        """Whether the quadrature nodes of all steps represent the whole probability of their laws."""
        return all(law.holds_its_mass for law, _ in self.parts)

    @property
    def smallest(self) -> float:
        """Smallest finite privacy loss of the run (essential infimum), nats."""
        return math.fsum(count * law.smallest for law, count in self.parts)

    @property
    def largest(self) -> float:
        """Largest finite privacy loss of the run (essential supremum), nats."""
        return math.fsum(count * law.largest for law, count in self.parts)

    def cumulants(self, hypothesis: Hypothesis) -> FloatArray:
        """Return the cumulants of the run's privacy loss under one hypothesis.

        Parameters
        ----------
        hypothesis : Hypothesis
            H0 (record absent) or H1.

        Returns
        -------
        array, shape (6,)
            Cumulants of orders 1 to 6, in powers of nats.
        """
        total = np.zeros(CUMULANTS)
        for law, count in self.parts:
            total += count * law.cumulants(hypothesis)
        return total

    def generating(self, tilts: FloatArray) -> Generating:
        """Return the cumulant generating function of the run's loss, with derivatives, at real tilts of shape (S,).

        S is the number of tilts.
        """
        listed = [(law.generating(tilts), float(count)) for law, count in self.parts]
        return Generating(
            value=sum((count * one.value for one, count in listed), np.zeros_like(tilts)),
            first=sum((count * one.first for one, count in listed), np.zeros_like(tilts)),
            second=sum((count * one.second for one, count in listed), np.zeros_like(tilts)),
            divergence=sum((count * one.divergence for one, count in listed), np.zeros_like(tilts)),
            divergence_from_one=sum((count * one.divergence_from_one for one, count in listed), np.zeros_like(tilts)),
        )
