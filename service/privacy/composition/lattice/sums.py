"""Sums of two lattice laws composed at one tilt, with rounding included in the bounds.

A lattice law bounds the loss of a step from above (upper) or below (lower). `_Side` has the sums of one law as
logarithms, `LatticePair` those of both laws, and `Slack` the factors that hold for all thresholds of a run.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, final

import numpy as np

from service.privacy.composition.lattice.law import LatticeLaw
from service.privacy.composition.lattice.off_nodes import OffNodeLosses
from service.privacy.composition.lattice.windows import ComposedLattice, CountedLaw
from service.privacy.numerics.arrays import FloatArray

LOG_ROUNDING = 1e-14
"""Relative rounding of the few operations between sums and results, without the rounding of exponents."""

EXPONENT_ROUNDING = 1e-15
"""Rounding of the logarithms that a result adds up, relative to their size."""

KEPT_BYTES: Final = 384 * 2**20
"""Largest size of all cached sums of this process, for all curves together."""
_BYTES_OF_A_THRESHOLD: Final = 64
"""Approximate size of all sums at a threshold."""


@dataclass(frozen=True, slots=True)
class Slack:
    """Logarithms s of the factors e^{+-s} by which a run's lattice law bounds the true law, and its outer masses.

    `profile`, `left` and `middle` belong to D(c) = E(X - e^c)_+, G(c) = E(e^c - X)_+ and H(c) = E min(X, e^c) of the
    likelihood ratio X. `log_infinite` is ln of the H1-mass where H0 has none, and `log_vanishing` ln of the H0-mass
    where H1 has none. `shift` is the error bound (nats) of the losses.
    """

    profile: float
    left: float
    middle: float
    log_infinite: float
    log_vanishing: float
    shift: float


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.maximum(values, 0.0))


class _Side:
    """Logarithms of the sums of one composed law at its thresholds c, as lower (sign -1) or upper (sign 1) bounds.

    S is the loss of the run, X = e^S its likelihood ratio, and theta the tilt of the composition. D(c) = E(X - e^c)_+
    is the profile, G(c) = E(e^c - X)_+ and H(c) = E min(X, e^c), with the expectation under H0. All arrays have the
    shape (thresholds,). Each sum is available for the tilts theta that its docstring states.
    """

    def __init__(self, lattice: ComposedLattice, sign: int) -> None:
        self.lattice, self.sign = lattice, sign
        self._above_known: dict[int, FloatArray] = {}
        self.slack = lattice.log_rounding + LOG_ROUNDING
        self.size = _BYTES_OF_A_THRESHOLD * lattice.threshold_count

    def forget(self) -> None:
        """Release the memory of the sums over the composed law. A later use recomputes them with identical results."""
        for name in ("c", "rounding", "alpha", "rest", "power", "beta", "profile", "middle", "left"):
            self.__dict__.pop(name, None)
        self._above_known = {}

    @cached_property
    def c(self) -> FloatArray:
        """Thresholds c of the loss at which the sums are evaluated, nats, shape (thresholds,)."""
        return self.lattice.thresholds

    @cached_property
    def rounding(self) -> FloatArray:
        """Upper bound of the rounding of the exponents K - slope c of the sums, at each threshold c.

        K is the log-moment of the run at the tilt. The array has the shape (thresholds,).
        """
        return EXPONENT_ROUNDING * (1 + abs(self.lattice.value) + np.abs(self.lattice.theta * self.c))

    def _scaled(self, sums: list[tuple[FloatArray, float]], slope: float, sign: float = 1.0) -> FloatArray:
        """Return the lower or upper bound of ln(e^{K - slope c} sum) at each threshold c, with all errors and rounding.

        The object's own sign decides which bound. K is the log-moment function of the run at the tilt. `sums` has one
        or two pairs (values, decay rate), and the sum is the first plus the argument `sign` times the second. The
        result has the shape (thresholds,).
        """
        values = sums[0][0] if len(sums) == 1 else sums[0][0] + sign * sums[1][0]
        # The rounding of a difference is relative to its two terms.
        errors = [self.lattice.error(rate) + self.lattice.sum_rounding(rate) * np.abs(part) for part, rate in sums]
        scaled = _log(values + self.sign * np.sum(errors, axis=0)) + (self.lattice.value - slope * self.c)
        return scaled + self.sign * (self.slack + self.rounding)

    @cached_property
    def alpha(self) -> FloatArray:
        """ln P0(S > c) at the thresholds c of the loss S, for a tilt theta > 0."""
        return self._scaled([self._above(0)], self.lattice.theta)

    @cached_property
    def rest(self) -> FloatArray:
        """ln P0(S <= c) at the thresholds c of the loss S, for a tilt theta < 0."""
        return self._scaled([self._below(0)], self.lattice.theta)

    @cached_property
    def power(self) -> FloatArray:
        """ln P1(S > c) at the thresholds c of the loss S, for a tilt theta > 1."""
        return self._scaled([self._above(1)], self.lattice.theta - 1)

    @cached_property
    def beta(self) -> FloatArray:
        """ln P1(S <= c) at the thresholds c of the loss S, for a tilt theta < 1."""
        return self._scaled([self._below(1)], self.lattice.theta - 1)

    @cached_property
    def profile(self) -> FloatArray:
        """ln of the profile D(c) = E0(e^S - e^c)_+ of the finite losses S, for a tilt theta > 1.

        c is a threshold of the loss. The array has the shape (thresholds,).
        """
        return self._scaled([self._above(1), self._above(0)], self.lattice.theta - 1, sign=-1.0)

    @cached_property
    def middle(self) -> FloatArray:
        """ln of H(c) = E0 min(e^S, e^c) for the loss S, for a tilt 0 < theta < 1.

        c is a threshold of the loss. The array has the shape (thresholds,).
        """
        return self._scaled([self._below(1), self._above(0)], self.lattice.theta - 1, sign=1.0)

    @cached_property
    def left(self) -> FloatArray:
        """ln of G(c) = E0(e^c - e^S)_+ over finite losses S, for a tilt theta < 0.

        c is a threshold of the loss. The array has the shape (thresholds,).
        """
        return self._scaled([self._below(0), self._below(1)], self.lattice.theta - 1, sign=-1.0)

    def _above(self, hypothesis: int) -> tuple[FloatArray, float]:
        rate, known = self.lattice.theta - hypothesis, self._above_known
        if hypothesis not in known:
            known[hypothesis] = self.lattice.above(rate)
        return known[hypothesis], rate

    def _below(self, hypothesis: int) -> tuple[FloatArray, float]:
        rate = hypothesis - self.lattice.theta
        return self.lattice.below(rate), rate


@final
class _RecentlyUsed:
    """Sums of composed laws in the order of their last use.

    The sums that were not used for the longest time are released if the total size is too large.
    """

    def __init__(self) -> None:
        self._sides: dict[int, tuple[weakref.ref[_Side], int]] = {}
        self.total = 0

    def read(self, side: _Side) -> _Side:
        """Return `side`, the sums over one composed law, and mark them as the most recently used.

        Sums that were not used for the longest time are released if the total size is too large.
        """
        key = id(side)
        known = self._sides.pop(key, None)
        if known is None:
            known = weakref.ref(side, lambda _: self._gone(key)), side.size
            self.total += side.size
        self._sides[key] = known
        while self.total > KEPT_BYTES and len(self._sides) > 1:
            oldest = next(iter(self._sides))
            forgotten = self._sides[oldest][0]()
            self._gone(oldest)
            if forgotten is not None:
                forgotten.forget()
        return side

    def _gone(self, key: int) -> None:
        _, size = self._sides.pop(key, (None, 0))
        self.total -= size


RECENTLY_USED: Final = _RecentlyUsed()


@dataclass(frozen=True)
class LatticePair:
    """Upper and lower law of a run's loss on a lattice, composed at one tilt.

    At a tilt theta the masses are multiplied by e^{theta loss}. The slacks are logarithms of the factors by which sums
    over the laws bound the true sums.
    """

    upper: ComposedLattice
    lower: ComposedLattice
    upper_slack: Slack
    lower_slack: Slack
    _sides: dict[tuple[bool, int], _Side] = field(default_factory=dict[tuple[bool, int], _Side])

    @property
    def theta(self) -> float:
        """Tilt theta of both laws: masses are multiplied by e^{theta loss}."""
        return self.upper.theta

    @property
    def high_upper(self) -> _Side:
        """Upper bounds of ln of the tail and profile sums over the upper law, at its thresholds."""
        return self._side(self.upper, 1)

    @property
    def low_upper(self) -> _Side:
        """Lower bounds of ln of the tail and profile sums over the upper law, at its thresholds."""
        return self._side(self.upper, -1)

    @property
    def high_lower(self) -> _Side:
        """Upper bounds of ln of the tail and profile sums over the lower law, at its thresholds."""
        return self._side(self.lower, 1)

    @property
    def low_lower(self) -> _Side:
        """Lower bounds of ln of the tail and profile sums over the lower law, at its thresholds."""
        return self._side(self.lower, -1)

    def _side(self, lattice: ComposedLattice, sign: int) -> _Side:
        key = lattice is self.upper, sign
        if key not in self._sides:
            self._sides[key] = _Side(lattice, sign)
        return RECENTLY_USED.read(self._sides[key])


def run_slack(laws: tuple[CountedLaw, ...], off_nodes: OffNodeLosses | None, sign: int) -> Slack:
    """Return the slack of a run: logarithms of the factors by which its lattice law bounds the true law.

    `laws` are the upper or the lower laws of the steps with their counts, and `off_nodes` has the steps with losses
    between the nodes, or is None. The slacks add up over all steps. Masses that only one hypothesis has are rounded up
    (`sign` 1) or down (-1).
    """

    def total(value: Callable[[LatticeLaw], float]) -> float:
        return math.fsum(counted.count * value(counted.law) for counted in laws) * (1 + 1e-12)

    profile, left = total(lambda law: law.log_slack_profile), total(lambda law: law.log_slack_left)
    deltas = [] if off_nodes is None else list(off_nodes.deltas)
    # The factor 2 covers finite masses that add up to slightly more or less than the rest.
    return Slack(
        profile,
        left,
        total(lambda law: law.log_slack_middle),
        _log_some([*((counted.law.infinite, counted.count) for counted in laws), *deltas], 2 * sign * profile),
        _log_some([*((counted.law.vanishing, counted.count) for counted in laws), *deltas], 2 * sign * left),
        total(lambda law: law.shift),
    )


def _log_some(masses: list[tuple[float, int]], slack: float) -> float:
    """Return ln of 1 - prod (1 - q)^N, plus `slack`: the probability that some step has an outcome of probability q.

    `masses` has pairs (q, N) for N steps each. The result is -inf if all q are 0.
    """
    none = math.fsum(count * (math.log1p(-mass) if mass < 1 else -math.inf) for mass, count in masses)
    some = -math.expm1(none)
    return math.log(some) + slack + math.copysign(1e-13, slack) if some > 0 else -math.inf
