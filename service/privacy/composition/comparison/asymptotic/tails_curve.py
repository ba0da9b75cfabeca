"""Common parts of the asymptotic engines: checks of a run, and the trade-off curve of two approximate tails.

S is the loss of the run and c a threshold. An approximate tail has the normal form P(S > c) = phi(x) [R(x) + e] and P(S
<= c) = phi(x) [R(-x) - e]. Here R = Phi(-.)/phi is the Mills ratio, x(c) a normal argument and e(c) a correction. The
approximation may leave [0, 1] and may be non-monotone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.special import erfcx
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import UnsupportedCombination
from service.privacy.losses.law import TOO_FAR_APART, ComposedLoss, Hypothesis
from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints

SERVED_BY = ("auto", "closed_form", "discretised", "monte_carlo")
CERTAIN = ("auto", "discretised")
FARTHEST_SCORE = 45.0
"""Range of the search in standard deviations (tilts: in their inverse). Beyond it normal tails underflow."""
CHECKED = (-6.0, 12.0)
"""Range in which a series is checked for its notes, in standard deviations from the mean."""
LEAVES, NOT_MONOTONE = "the series leaves [0, 1]", "the series is not monotone"
TOLERANCE = 1e-12
"""Largest violation of [0, 1] or of monotonicity that counts as rounding."""
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)


LEAST_VARIANCE = 1e-150
"""Smallest variance of the loss (nats squared). Skewness and excess are quotients of its powers."""


def composed_loss(steps: Steps, method: str) -> ComposedLoss:
    """Return the loss of a run of these steps, or raise UnsupportedCombination if it has no asymptotic expansion.

    The error has the field `method`, and its message names the engine `method`.

    The loss must not have singular mass (outcomes that one hypothesis excludes), and its variance must be positive
    under both hypotheses. Its modes must not be so far apart that no quadrature covers them.
    """
    parts = tuple((step.loss_law(), count) for step, count in steps)
    singular = sorted({step.type for (step, _), (law, _) in zip(steps, parts, strict=True) if law.singular_mass > 0})
    if singular:
        reason = (
            "outcomes that are possible under only one hypothesis are outside every expansion around the normal law."
        )
        raise UnsupportedCombination("method", f"{method} for {', '.join(singular)} with delta > 0", reason, SERVED_BY)
    loss = ComposedLoss(parts)
    if not loss.holds_its_mass:
        raise UnsupportedCombination("method", f"{method} for shifts this far apart", TOO_FAR_APART, CERTAIN)
    if not min(loss.cumulants(0)[1], loss.cumulants(1)[1]) > LEAST_VARIANCE:
        reason = "an expansion needs a positive variance, and the variance of the loss underflows in double precision."
        raise UnsupportedCombination("method", f"{method} for a run whose loss does not vary", reason, SERVED_BY)
    return loss


@dataclass(frozen=True, slots=True)
class ApproximateLogTails:
    """Approximate ln P(S > c) (`upper`) and ln P(S <= c) (`lower`) of a loss S at the same thresholds c.

    The value is -inf for a negative approximation. Both arrays have the shape of the thresholds.
    """

    upper: FloatArray
    lower: FloatArray

    def exchanged(self) -> ApproximateLogTails:
        """Return the tails of -S for the loss S: its upper and its lower tail swapped."""
        return ApproximateLogTails(self.lower, self.upper)

    @staticmethod
    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def of_normal_form(x: FloatArray, correction: FloatArray) -> ApproximateLogTails:
        """Build both tails from P(S > c) = phi(x) [R(x) + correction], with the Mills ratio R(x) = Phi(-x)/phi(x).

        x is the normal argument of the threshold c, where P(S > c) is about Phi(-x). The smaller tail is evaluated from
        the Mills ratio, the other as its complement.
        """
        # Large finite numbers replace infinite arguments and corrections (laws that hardly vary).
        size, correction = np.minimum(np.abs(x), 1e150), np.clip(correction, -1e300, 1e300)
        right = x >= 0
        near = math.sqrt(math.pi / 2) * erfcx(_SQRT_HALF * size) + np.where(right, correction, -correction)
        log_near = np.log(np.maximum(near, 0.0)) - 0.5 * size * size - _LOG_SQRT_2PI
        share = np.exp(-0.5 * size * size - _LOG_SQRT_2PI) * near
        log_far = np.log1p(np.maximum(-share, -1.0))
        return ApproximateLogTails(np.where(right, log_near, log_far), np.where(right, log_far, log_near))


class ApproximateTails(ABC):
    """Approximate law of the loss S of a run under both hypotheses, as a function of a parameter.

    The parameter indexes thresholds and increases with the threshold of S; each engine chooses its own. This class
    stores the moments of S. A subclass supplies a grid of parameters, the maps between parameters and thresholds, and
    both tails.
    """

    def __init__(self, loss: ComposedLoss) -> None:
        """Store the cumulants, means and standard deviations (nats) of the loss of a run under H0 and H1."""
        self.cumulants = loss.cumulants(0), loss.cumulants(1)
        self.means = float(self.cumulants[0][0]), float(self.cumulants[1][0])
        self.deviations = math.sqrt(self.cumulants[0][1]), math.sqrt(self.cumulants[1][1])

    @abstractmethod
    def grid(self, hypothesis: Hypothesis) -> FloatArray:
        """Return increasing parameters whose thresholds run from far left to far right of the mean of the loss.

        The array has one axis, and the mean under the given hypothesis is in the middle. A parameter stands for a
        threshold of the loss, in a scale that the engine chooses.
        """

    @abstractmethod
    def thresholds(self, parameters: FloatArray) -> FloatArray:
        """Return the thresholds c of the loss (nats) for these parameters, in the shape of `parameters`.

        A parameter stands for a threshold, in a scale that the engine chooses.
        """

    @abstractmethod
    def parameters_of(self, thresholds: FloatArray) -> FloatArray:
        """Return the parameters of thresholds of the loss (nats), the inverse of `thresholds`, in their shape.

        A parameter stands for a threshold, in a scale that the engine chooses.
        """

    @abstractmethod
    def log_tails(self, hypothesis: Hypothesis, parameters: FloatArray) -> ApproximateLogTails:
        """Return the approximate tails of the loss at these parameters, without any correction for monotonicity.

        A parameter stands for a threshold of the loss, in a scale that the engine chooses. The result has ln P(S > c)
        and ln P(S <= c) of the loss S at the thresholds c under `hypothesis` (H0 or H1), in the shape of `parameters`.
        """


@final
class MonotoneTails:
    """Tails of the loss under one hypothesis, made monotone.

    A tail that decreases from the mean outwards does not increase again. The threshold of a given probability is
    therefore unique: the first from the mean outwards. A parameter stands for a threshold, in a scale that the engine
    chooses.
    """

    def __init__(self, tails: ApproximateTails, hypothesis: Hypothesis) -> None:
        self._tails = tails
        self._hypothesis: Hypothesis = hypothesis
        self._grid = tails.grid(hypothesis)
        raw = tails.log_tails(hypothesis, self._grid)
        self._upper = _outward(np.minimum(raw.upper, 0.0))
        self._lower = _outward(np.minimum(raw.lower, 0.0)[::-1])[::-1]

    @property
    def least(self) -> ApproximateLogTails:
        """ln of the smallest P(S > c) and of the smallest P(S <= c) on the grid of thresholds c, shape (1,) each."""
        return ApproximateLogTails(self._upper[-1:], self._lower[:1])

    def at(self, parameters: FloatArray) -> ApproximateLogTails:
        """Return the monotone tails at any parameters, which stand for thresholds and increase with them."""
        raw = self._tails.log_tails(self._hypothesis, parameters)
        last = len(self._grid) - 1
        right = np.searchsorted(self._grid, parameters)
        left, right = np.maximum(right - 1, 0), np.minimum(right, last)
        before, after = parameters < self._grid[0], parameters > self._grid[last]
        return ApproximateLogTails(
            np.clip(raw.upper, np.where(after, -np.inf, self._upper[right]), np.where(before, 0.0, self._upper[left])),
            np.clip(raw.lower, np.where(before, -np.inf, self._lower[left]), np.where(after, 0.0, self._lower[right])),
        )

    def parameters(self, upper: FloatArray, lower: FloatArray) -> FloatArray:
        """Return the parameters whose thresholds c have P(S > c) = `upper` and P(S <= c) = `lower`, in their shape.

        S is the loss. `upper` and `lower` add up to 1, and the smaller of both decides. If its tail is larger on the
        whole grid, the result is the end of the grid.
        """
        low = upper <= lower
        targets = np.log(np.where(low, upper, lower))
        right = np.where(
            low,
            np.searchsorted(-self._upper, -targets),
            np.searchsorted(self._lower, targets, side="right"),
        )
        right = np.clip(right, 1, len(self._grid) - 1)

        def excess(parameters: FloatArray) -> FloatArray:
            tails = self.at(parameters)
            return np.maximum(np.where(low, tails.upper - targets, targets - tails.lower), -1e6)

        return bracketed_roots(excess, self._grid[right - 1], self._grid[right])


@final
class ApproximateTradeOff(AbstractTradeOff):
    """Curve of two approximate tails: power P1(S > c) and type II error P1(S <= c) at P0(S > c) = alpha.

    S is the loss of the run, c its threshold, alpha the false positive rate, and delta(eps) = P1(S > eps) - e^eps P0(S
    > eps). All numbers are limited to the range of a valid curve. Both bounds of every number are the approximation.
    `reflected` selects the remove direction: S -> -S with swapped hypotheses. The extreme losses are those of the run
    itself.
    """

    evidence = Evidence.ASYMPTOTIC

    def __init__(self, loss: ComposedLoss, tails: ApproximateTails, method: str, *, reflected: bool = False) -> None:
        self.method = method
        self._loss, self._tails, self._reflected = loss, tails, reflected

    @cached_property
    def _hypotheses(self) -> tuple[MonotoneTails, MonotoneTails]:
        return MonotoneTails(self._tails, 0), MonotoneTails(self._tails, 1)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return _known(-self._loss.smallest if self._reflected else self._loss.largest)

    @override
    def reversed(self) -> AbstractTradeOff:
        return ApproximateTradeOff(self._loss, self._tails, self.method, reflected=not self._reflected)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        absent, present = self._hypotheses
        if self._reflected:
            # The test S <= c has the rate P1(S <= c) = alpha.
            parameters = present.parameters(1 - alpha, alpha)
            tails, least = absent.at(parameters).exchanged(), present.least.exchanged()
            slopes = -self._tails.thresholds(parameters)
        else:
            parameters = absent.parameters(alpha, 1 - alpha)
            tails, least = present.at(parameters), absent.least
            slopes = self._tails.thresholds(parameters)
        # Beyond the range of the tails the curve is a chord to its endpoint. It is never worse than guessing.
        log_alpha, log_rest = np.log(alpha), np.log1p(-alpha)
        power = np.maximum(tails.upper + np.minimum(log_alpha - least.upper, 0.0), log_alpha)
        error = np.minimum(tails.lower + np.minimum(log_rest - least.lower, 0.0), log_rest)
        return CurvePoints(_both_ends(error), _both_ends(power), EnclosureArray(slopes, slopes))

    @override
    @np.errstate(divide="ignore", over="ignore", invalid="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        log_delta = np.minimum(self._log_profile(epsilon), 0.0)
        floor = np.log(np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0))
        log_delta = np.where(epsilon >= self.largest_log_ratio.upper, floor, np.maximum(log_delta, floor))
        return _both_ends(np.where(epsilon <= self.smallest_log_ratio.lower, floor, log_delta))

    def _log_profile(self, epsilon: FloatArray) -> FloatArray:
        absent, present = self._hypotheses
        parameters = self._tails.parameters_of(-epsilon if self._reflected else epsilon)
        null, other = absent.at(parameters), present.at(parameters)
        if self._reflected:
            null, other = other.exchanged(), null.exchanged()
        # P1(S > eps) - e^eps P0(S > eps) equals 1 - e^eps + e^eps P0(S <= eps) - P1(S <= eps). For each epsilon the
        # form without cancellation is used.
        share = np.where(other.upper > -np.inf, epsilon + null.upper - other.upper, 0.0)
        direct = other.upper + np.log(np.maximum(-np.expm1(share), 0.0))
        rest = np.exp(epsilon + null.lower) - np.exp(other.lower) - np.expm1(epsilon)
        return np.where(epsilon >= 0, direct, np.log(np.maximum(rest, 0.0)))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        target = math.log(delta)
        high = min(self._last_epsilon(np.array([delta])), self.largest_log_ratio.upper)
        points = np.linspace(0.0, high, 129)
        below = self._logs(points) <= target
        if below[0] or high == 0:
            return Enclosure(0.0, 0.0, self.evidence)
        first = int(np.argmax(below)) if below.any() else len(points) - 1

        def excess(epsilons: FloatArray) -> FloatArray:
            return np.maximum(self._logs(epsilons) - target, -1e6)

        root = float(bracketed_roots(excess, points[first - 1 : first], points[first : first + 1])[0])
        return Enclosure(root, root, self.evidence)

    def _last_epsilon(self, delta: FloatArray) -> float:
        """Return the epsilon at which P(S > epsilon) under H1, an upper bound of delta(epsilon), decreases to delta.

        S is the loss in this direction. The result is in nats and at least 0.
        """
        absent, present = self._hypotheses
        if self._reflected:
            return max(-float(self._tails.thresholds(absent.parameters(1 - delta, delta))[0]), 0.0)
        return max(float(self._tails.thresholds(present.parameters(delta, 1 - delta))[0]), 0.0)

    def _logs(self, epsilon: FloatArray) -> FloatArray:
        logs = self._profile_formula(epsilon).log_upper
        return logs if logs is not None else np.log(epsilon)


def warnings_of(tails: ApproximateTails, name: str) -> tuple[str, ...]:
    """Return notes on the faults of the approximate tails of the loss under both hypotheses.

    `name` is the name of the engine.
    """
    faults = dict.fromkeys((*faults_of(tails, 0), *faults_of(tails, 1)))
    return tuple(
        (f"{name}: {fault} between -6 and 12 standard deviations. Do not rely on this approximation here.")
        for fault in faults
    )


def faults_of(tails: ApproximateTails, hypothesis: Hypothesis) -> tuple[str, ...]:
    """Return sentences on the faults of approximate tails under one hypothesis: increases, or values outside [0, 1].

    The tails are checked between -6 and 12 standard deviations from the mean.
    """
    parameters = tails.grid(hypothesis)
    standardised = (tails.thresholds(parameters) - tails.means[hypothesis]) / tails.deviations[hypothesis]
    logs = tails.log_tails(hypothesis, parameters[(standardised >= CHECKED[0]) & (standardised <= CHECKED[1])])
    # If one tail is negative, the other exceeds 1.
    outside = max(logs.upper.max(), logs.lower.max()) > TOLERANCE
    rises = (np.diff(np.exp(logs.upper)) > TOLERANCE).any() or (np.diff(np.exp(logs.lower)) < -TOLERANCE).any()
    return (LEAVES,) * bool(outside) + (NOT_MONOTONE,) * bool(rises)


def _outward(log_tail: FloatArray) -> FloatArray:
    """Return ln of a tail, made monotone, on a grid with the mean of the loss in the middle.

    The result is the running minimum to the right of the middle, and the running maximum to the left, in the shape of
    `log_tail`.
    """
    middle = len(log_tail) // 2
    left = np.maximum.accumulate(log_tail[middle::-1])[::-1]
    right = np.minimum.accumulate(log_tail[middle:])
    return np.concatenate((left, right[1:]))


def _both_ends(logs: FloatArray) -> EnclosureArray:
    values = np.exp(logs)
    return EnclosureArray(values, values, logs, logs)


def _known(value: float) -> Enclosure:
    return Enclosure(value, value, Evidence.ASYMPTOTIC)
