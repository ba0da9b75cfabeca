"""Pairs of laws with finitely many values of the log-likelihood ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums

WIDEST_PIECE, HEADROOM = 600.0, 300.0
"""Nats by which the terms of one piece of a sum may rise, and by which the largest term exceeds its scale."""
LIGHTEST = -60.0
"""ln of the smallest mass that counts for the cost of sums over losses."""


@final
@dataclass(frozen=True, eq=False)
class AtomicLaw:
    """Law of a privacy loss L = ln dH1/dH0 with n finite values.

    Attributes
    ----------
    losses : array, shape (n,)
        Values of L in nats, descending.
    gaps : array, shape (n - 1,)
        Differences of consecutive losses, > 0, computed without cancellation.
    log_absent, log_present : array, shape (n,)
        ln of the masses under H0 (record absent) and under H1.
    position_error, mass_error : float
        Absolute error of every loss (nats), and relative error of every mass. The gaps are those of the stated losses.
    dropped : float
        Upper bound of the H0-mass and of the H1-mass that are left out.
    is_unbounded : bool
        Whether losses of any size have mass, which is left out.
    is_symmetric : bool
        Whether swapped hypotheses give the same law exactly.
    extremes : (float, float) or None
        Smallest and largest loss with mass, if the law leaves out such losses; None if it contains them.
    """

    losses: FloatArray
    gaps: FloatArray
    log_absent: FloatArray
    log_present: FloatArray
    position_error: float = 0.0
    mass_error: float = 2 * FUNCTION_ERROR
    dropped: float = 0.0
    is_unbounded: bool = False
    is_symmetric: bool = False
    extremes: tuple[float, float] | None = None

    @property
    def smallest(self) -> float:
        """Smallest finite loss with mass, nats."""
        return float(self.losses[-1]) if self.extremes is None else self.extremes[0]

    @property
    def largest(self) -> float:
        """Largest finite loss with mass, nats."""
        return float(self.losses[0]) if self.extremes is None else self.extremes[1]

    @property
    def size(self) -> int:
        """Number of finite values of the loss."""
        return len(self.losses)

    @cached_property
    def spread(self) -> float:
        """Approximate standard deviation of the loss under H0, nats."""
        masses = np.exp(self.log_absent)
        mean = float(masses @ self.losses)
        return math.sqrt(float(masses @ (self.losses - mean) ** 2))

    @cached_property
    def heavy(self) -> int:
        """Number of losses whose masses are not negligible.

        The geometric mean of the masses under H0 and H1 is at least e^`LIGHTEST` for these losses.
        """
        return int(np.count_nonzero(self.log_absent + self.log_present >= 2 * LIGHTEST))

    def swapped(self) -> AtomicLaw:
        """Return the law under H1 of minus the loss, which is the loss for swapped hypotheses."""
        return AtomicLaw(
            -self.losses[::-1],
            self.gaps[::-1],
            self.log_present[::-1],
            self.log_absent[::-1],
            self.position_error,
            self.mass_error,
            self.dropped,
            self.is_unbounded,
            self.is_symmetric,
            None if self.extremes is None else (-self.extremes[1], -self.extremes[0]),
        )

    @cached_property
    def log_above(self) -> tuple[FloatArray, FloatArray, float]:
        """ln of the H0- and of the H1-mass at or above each loss, shape (n,), and a bound of the absolute errors."""
        absent, first = log_running_sums(self.log_absent)
        present, second = log_running_sums(self.log_present)
        return absent, present, self.mass_error + max(first, second) + 2 * FUNCTION_ERROR

    @cached_property
    def log_below(self) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the H0-mass and of the H1-mass strictly below each loss, with the error of `log_above`."""
        absent, present = (log_running_sums(each[::-1])[0][::-1] for each in (self.log_absent, self.log_present))
        nothing = np.full(1, -np.inf)
        return np.concatenate([absent[1:], nothing]), np.concatenate([present[1:], nothing])


def log_running_sums(logs: FloatArray) -> tuple[FloatArray, float]:
    """Return ln sum_{i <= k} e^{logs_i} for every k, and a bound of the absolute errors; shape (n,).

    Notes
    -----
    The running maximum splits the terms into pieces, within which it rises by at most `WIDEST_PIECE`. Every piece
    is summed relative to its own scale, after the sum of the earlier pieces. Terms that underflow are below e^-400 of
    an earlier term of the piece.
    """
    maximum: Any = np.maximum
    tops: FloatArray = maximum.accumulate(logs)
    sums, start, before = np.empty(len(logs)), 0, -np.inf
    pieces = 0
    while start < len(logs):
        first = float(tops[start])
        stop = max(int(np.searchsorted(tops, first + WIDEST_PIECE, side="right")), start + 1)
        last = float(tops[stop - 1])
        scale = last - (HEADROOM if last > first + HEADROOM else 0.0)
        terms: FloatArray = np.exp(np.maximum(logs[start:stop] - scale, -745.0))
        terms[0] += math.exp(max(before - scale, -745.0)) if before > -np.inf else 0.0
        sums[start:stop] = np.log(running_sums(terms)) + scale
        before, start, pieces = float(sums[stop - 1]), stop, pieces + 1
    size = 2 * float(np.abs(logs).max()) + (HEADROOM if pieces > 1 or tops[-1] > tops[0] + HEADROOM else 0.0)
    return sums, pieces * (running_sum_error(len(logs)) + 2 * FUNCTION_ERROR + 2 * UNIT_ROUNDOFF * (1 + size))


def three_atoms(epsilon: float, log_zero: float, log_apart: float, error: float = 0.0) -> AtomicLaw:
    """Return the symmetric law with the losses epsilon, 0 and -epsilon.

    Parameters
    ----------
    epsilon : float
        Loss > 0, nats.
    log_zero, log_apart : float
        ln of the mass of the loss 0 and of its complement, within a few roundings of max(1, |ln|).
    error : float
        Absolute error of epsilon.

    Returns
    -------
    AtomicLaw
        With m = e^log_apart, P1(L = epsilon) = m/(1 + e^-epsilon) and P0(L = epsilon) = m e^-epsilon/(1 + e^-epsilon).
    """
    more = log_apart - math.log1p(math.exp(-epsilon))
    logs = np.array([more - epsilon, log_zero, more])
    relative = 8 * FUNCTION_ERROR + 16 * UNIT_ROUNDOFF * (1 + abs(log_apart) + epsilon + abs(log_zero)) + error
    losses = np.array([epsilon, 0.0, -epsilon])
    return AtomicLaw(losses, np.full(2, epsilon), logs, logs[::-1], error, relative, is_symmetric=True)


def two_atoms(epsilon: float) -> AtomicLaw:
    """Return the worst law of an epsilon-DP step: the losses epsilon > 0 and -epsilon (nats).

    Under H1 the loss epsilon has the mass 1/(1 + e^-epsilon).
    """
    more = -math.log1p(math.exp(-epsilon))
    logs = np.array([more - epsilon, more])
    error = 4 * FUNCTION_ERROR + 4 * UNIT_ROUNDOFF * (1 + epsilon)
    losses = np.array([epsilon, -epsilon])
    return AtomicLaw(losses, np.array([2 * epsilon]), logs, logs[::-1], mass_error=error, is_symmetric=True)


def with_zero(law: AtomicLaw, rate: float) -> AtomicLaw:
    """Return the law of a loss that is 0 with probability 1 - `rate`, and otherwise has the given law.

    The loss is 0 where the record is not used, which has the same probability under both hypotheses.
    """
    at = int(np.searchsorted(-law.losses, 0.0))
    has_zero = at < law.size and law.losses[at] == 0
    logs = [law.log_absent + math.log(rate), law.log_present + math.log(rate)]
    rest = math.log1p(-rate)
    if has_zero:
        masses = [np.concatenate([each[:at], [np.logaddexp(rest, each[at])], each[at + 1 :]]) for each in logs]
        losses, gaps = law.losses, law.gaps
    else:
        masses = [np.insert(each, at, rest) for each in logs]
        losses = np.insert(law.losses, at, 0.0)
        gaps = losses[:-1] - losses[1:]
    size = 1 - math.log(rate) + float(max(np.abs(each).max() for each in logs))
    return AtomicLaw(
        losses,
        gaps,
        masses[0],
        masses[1],
        law.position_error,
        law.mass_error + 8 * FUNCTION_ERROR + 4 * UNIT_ROUNDOFF * size,
        law.dropped,
        law.is_unbounded,
        law.is_symmetric,
    )


def sampled_law(law: AtomicLaw, rate: float) -> AtomicLaw:
    """Return the law of the loss of H0 against (1 - p) H0 + p H1, where p in (0, 1) is the `rate`.

    The loss L becomes ln(1 - p + p e^L), with the same masses under H0. `law` is the law of L.
    """
    growth = rate * np.expm1(np.minimum(law.losses, 700.0))
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + law.losses)
    losses = np.where(np.abs(growth) < 0.5, np.log1p(np.clip(growth, -0.5, 0.5)), far)
    size = float(np.abs(law.losses).max())
    # The slope of the sampled loss in L is at most 1.
    position = law.position_error + 8 * FUNCTION_ERROR * float(np.abs(losses).max())
    position += 4 * UNIT_ROUNDOFF * (size - math.log(rate)) * float((np.abs(growth) >= 0.5).any())
    return AtomicLaw(
        losses,
        losses[:-1] - losses[1:],
        law.log_absent,
        law.log_absent + losses,
        position,
        law.mass_error + position + 4 * UNIT_ROUNDOFF * (1 + float(np.abs(law.log_absent).max())),
        law.dropped,
        law.is_unbounded,
    )
