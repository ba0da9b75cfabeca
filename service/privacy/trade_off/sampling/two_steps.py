"""Trade-off curve of two independent steps: closed form of one step, at thresholds shifted by the loss of the other.

Sums that bound the profile (`loss_sums.py`) answer every question. Coarse sums locate the threshold, finer sums locate
it more closely, and the finest sums prove both bounds. The lower sum is the profile of a pair except for its total
mass. So points follow from it as from any profile (`trade_off/combinators/profile_points.py`). Every threshold of the
upper sum also gives a bound of a point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import lowest
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.profile_points import LARGEST, narrow_threshold, proved_error, proved_power
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root, decreasing_root_near
from service.privacy.trade_off.enclosed.logs import with_logs
from service.privacy.trade_off.sampling.loss_sums import SHORT, FirstStep, Sums

STAGES: Final = (1e-2, 1e-4)
"""Relative differences of the two sums in the search for the threshold."""
FINEST: Final = 1e-7
"""Relative difference of the two sums that prove the result."""
CLOSE: Final = 1e-9
"""Tolerance of the search for thresholds, as a share of the interval."""
LEAST_TARGET: Final = 1e-9
NEWTON_STEPS: Final = 2
MOST_READINGS: Final = 4
ENOUGH: Final = 2 * FINEST
"""Relative width of a power or an error at which the refinement stops."""
SMALLEST_INTERVAL: Final = 1e-12
HALF: Final = 0.5
"""Powers below this number are computed directly, whatever the slope. For larger ones the type II error is computed."""
BELOW: Final = -0.75
"""Smallest level of a search, a little below ln(1/2)."""
LEAST_SHARE: Final = 1e-12
"""Smallest resolved share of a complement; doubles have no more digits."""
FARTHEST: Final = 700.0
"""Largest level in nats."""
AROUND: Final = (3e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Distances, over 1 + |c|, of the bounds of a level. Around its minimum a sum changes by their squares."""
NOISE: Final = 1e-11
"""Approximate rounding error of sums near 1."""
GOOD: Final = 1e-8
"""Relative width of the power of one pair at which the search evaluates no more thresholds."""


@final
class TwoSteps(AbstractTradeOff):
    """Trade-off curve of two independent steps: one divided into cells, the other with a closed-form profile.

    Notes
    -----
    Each hypothesis must give mass to every outcome to which the other gives mass. The relative width is about 1e-7 for
    profile, power and type II error, and 1e-6 for epsilon, wherever numbers are above 1e-250 (tested). Type II errors
    far below 1 at rates far below 1 lose digits, since both formulas of a point are then differences of numbers near 1.

    References
    ----------
    Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs).
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"

    def __init__(self, first: FirstStep, alone: AbstractTradeOff, rest: AbstractTradeOff) -> None:
        """Build the curve of two steps: `first`, with its own curve `alone`, and one with the curve `rest`."""
        self.first, self.alone, self.rest = first, alone, rest

    @cached_property
    def _coarse(self) -> Sums:
        return Sums(self.first, self.rest, self.first.ends[0].first_borders())

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return _added(self.alone.largest_log_ratio, self.rest.largest_log_ratio)

    @override
    def reversed(self) -> TwoSteps:
        return self._reversed

    @cached_property
    def _reversed(self) -> TwoSteps:
        first = FirstStep(self.first.ends, not self.first.swapped)
        return TwoSteps(first, self.alone.reversed(), self.rest.reversed())

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        finest = [self._coarse.refined(each, FINEST).log_ends_at(each) for each in epsilon.tolist()]
        ends = np.minimum(np.array(finest), 0.0)
        return EnclosureArray.from_logs(ends[:, 0], ends[:, 1])

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        target, most = math.log(delta), max(self.largest_log_ratio.upper, 0.0)
        if self.profile_at(0.0).upper <= delta:
            return Enclosure(0.0, 0.0, self.evidence)
        if math.isinf(most):
            most = 1.0
            while self._coarse.upper(most) > target:
                most *= 2
                if most > 1e15:
                    return Enclosure(0.0, math.inf, self.evidence)
        sums, guess = self._coarse, _root(self._coarse, target, most)
        for stage in STAGES:
            sums = sums.refined(guess, stage)
            guess = _root(sums, target, most)
        near = SHORT * (1 + guess)
        slope = (sums.middle(guess) - sums.middle(guess + near)) / near
        # Where delta is nearly constant, epsilon has fewer digits than delta.
        sums = sums.refined(guess, min(max(FINEST * guess * slope, LEAST_TARGET), FINEST))
        left, right = guess, guess
        for _ in range(NEWTON_STEPS):
            left, right = sums.near_root(0.5 * (left + right), target, most)
        radius = 0.5 * (right - left) + 1e-13 * (1 + right)

        def log_end(epsilon: float, side: int) -> float:
            return sums.lower(epsilon) if side < 0 else sums.upper(epsilon)

        found = decreasing_root_near(log_end, delta, 0.5 * (left + right), radius, most)
        if found is None:  # the profile falls steeply nearby because of an atom of the loss
            found = decreasing_root(sums.profile, delta, 0.0, most)
        return Enclosure(found.lower, found.upper, self.evidence)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        found = np.array([self._point(rate) for rate in alpha.tolist()])
        error, power = with_logs(found[:, 0], found[:, 1]), with_logs(found[:, 2], found[:, 3])
        return CurvePoints(error, power, EnclosureArray(found[:, 4], found[:, 5]))

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        """Compute the power at one false positive rate, without the log slope, which costs as much."""
        known = None if is_spent() else self._power(rate)
        if known is None:
            return self._points_formula(np.array([rate])).power.at(0, self.evidence)
        low, high, _ = known
        return with_logs(np.array([low]), np.array([high])).at(0, self.evidence)

    def _point(self, rate: float) -> tuple[float, float, float, float, float, float]:
        """Return lower and upper bound of the type II error, of the power, and of the log slope at `rate`, six numbers.

        delta and delta' are the profiles of the hypotheses in order and swapped. With the slope k = e^c of the power at
        the rate alpha, the power is the smallest delta(c) + k alpha, and the error is the largest (1 - alpha -
        delta'(-c)) k. Relative to the error, rounding has k times the weight in the second formula.
        """
        if is_spent():
            return 0.0, 1 - rate + UNIT_ROUNDOFF, rate, 1.0, -math.inf, math.inf
        known = self._power(rate)
        if known is not None:
            low, high, near = known
            levels = self._level(near, rate)
            return max(1 - high - UNIT_ROUNDOFF, 0.0), 1 - low + UNIT_ROUNDOFF, low, high, levels[0], levels[1]
        low, high = self.reversed().rate_of(rate)
        power = max(1 - high - UNIT_ROUNDOFF, 0.0), min(1 - low + UNIT_ROUNDOFF, 1.0)
        return low, high, *power, -math.inf, math.inf

    def _levels(self, most: float) -> tuple[float, float]:
        """Return the interval of log-likelihood ratios (nats) to search, from about ln(1/2) up to `most`."""
        top = min(self.largest_log_ratio.upper, most)
        return min(BELOW, top), top

    def _power(self, rate: float) -> tuple[float, float, float] | None:
        """Return lower and upper bound of the power at a false positive rate, and the approximate log slope, or None.

        None stands for a power above 1/2 with a slope below 1, for which the type II error is evaluated instead.
        """
        bottom, top = self._levels(min(-math.log(rate), LARGEST))  # at the best level k alpha <= 1

        def phi(sums: Sums, c: float) -> float:
            return math.exp(sums.middle(c)) + rate * math.exp(c)

        def share(sums: Sums, c: float) -> float:
            read = phi(sums, c)
            return max(min(read, 1 - read), LEAST_SHARE) / math.exp(max(sums.middle(c), -FARTHEST))

        sums, near = self._minimise(phi, share, bottom, top)
        if near < 0 and phi(sums, near) > HALF:
            return None
        good = max(GOOD * min(1 / phi(sums, near) - 1, 1.0), NOISE)

        def read(fine: Sums, near: float) -> tuple[float, float, float]:
            best = near, math.inf

            def proved(c: FloatArray) -> tuple[float, float, float, float]:
                nonlocal best
                ends = fine.lower_ends(c)
                values = np.exp(ends[1]) + rate * np.exp(c)
                best = min(best, (float(c[values.argmin()]), float(values.min())), key=lambda one: one[1])
                return proved_power(rate, c, *ends)

            low = narrow_threshold(lambda c: abs(c - near), proved, bottom, top, (rate, 1.0), good)[0]
            near, rounding = best[0], 1 + 4 * FUNCTION_ERROR
            high = (math.exp(fine.upper(near)) * rounding + rate * math.exp(near) * rounding) * rounding
            return low, high, near

        low, high = _evaluate_finely(read, share, sums, near)
        return low, high, near

    def _level(self, near: float, rate: float) -> tuple[float, float]:
        """Return (lower, upper) bounds of the log slope c that minimises delta(c) + `rate` e^c.

        delta is the profile of both steps, evaluated around c = `near`. The sum is convex in e^c. A bound without a
        proof near `near` is infinite.
        """
        rounding = 4 * FUNCTION_ERROR

        def ends_at(c: float) -> tuple[float, float]:
            low, high = (
                math.exp(min(end, 0.0)) + rate * math.exp(c) for end in self._coarse.refined(c, FINEST).log_ends_at(c)
            )
            return low * (1 - rounding), high * (1 + rounding)

        _, most = ends_at(near)
        found: list[float] = []
        for side in (-1, 1):
            tried = (near + side * distance * (1 + abs(near)) for distance in AROUND)
            found.append(next((c for c in tried if c < FARTHEST and ends_at(c)[0] > most), side * math.inf))
        return found[0], found[1]

    def rate_of(self, missed: float) -> tuple[float, float]:
        """Return bounds of the false positive rate at which the power is 1 - missed.

        Parameters
        ----------
        missed : float
            Type II error of the attack, in (0, 1).

        Returns
        -------
        (float, float)
            Lower and upper bound of the rate, the type II error of the swapped hypotheses.
        """
        power = 1 - missed
        bottom, top = self._levels(FARTHEST)

        def left(sums: Sums, c: float) -> float:
            return power - math.exp(sums.middle(c))

        def loss(sums: Sums, c: float) -> float:
            rest = left(sums, c)
            return c - math.log(rest) if rest > 0 else FARTHEST + 1 - c + bottom - rest

        def share(sums: Sums, c: float) -> float:
            return max(left(sums, c), LEAST_SHARE) / math.exp(max(sums.middle(c), -FARTHEST))

        def read(fine: Sums, near: float) -> tuple[float, float, float]:
            best = near, -math.inf

            def proved(c: FloatArray) -> tuple[float, float, float, float]:
                nonlocal best
                ends = fine.lower_ends(c)
                values = (power - np.exp(ends[1])) * np.exp(-c)
                best = max(best, (float(c[values.argmax()]), float(values.max())), key=lambda one: one[1])
                return proved_error(power, c, *ends)

            high = narrow_threshold(lambda c: abs(c - near), proved, bottom, top, (0.0, power), good)[1]
            near, rounding = best[0], 1 - 4 * FUNCTION_ERROR
            low = (power * rounding - math.exp(fine.upper(near)) / rounding) / math.exp(near)
            return max(low * (1 - math.copysign(1 - rounding, low)), 0.0), high, near

        sums, near = self._minimise(loss, share, bottom, top)
        good = GOOD + NOISE / max(left(sums, near), LEAST_SHARE)
        if near > FARTHEST - 1:  # the rate is next to the smallest doubles, or below
            return 0.0, power
        return _evaluate_finely(read, share, sums, near)

    def _minimise(
        self, steer: Callable[[Sums, float], float], share: Callable[[Sums, float], float], bottom: float, top: float
    ) -> tuple[Sums, float]:
        """Return refined sums, and the threshold in [`bottom`, `top`] that minimises `steer`.

        Sums bound the profile delta from both sides. `steer` is a function of sums and a threshold, and `share` gives
        the required accuracy relative to delta there.
        """
        sums = self._coarse
        near = _lowest(lambda c: steer(self._coarse, c), bottom, top)
        for stage in STAGES:
            finer = sums.refined(near, stage * share(sums, near))
            near = _lowest(lambda c, sums=finer: steer(sums, c), bottom, top)
            sums = finer
        return sums, near


def _evaluate_finely(
    read: Callable[[Sums, float], tuple[float, float, float]],
    share: Callable[[Sums, float], float],
    sums: Sums,
    near: float,
) -> tuple[float, float]:
    """Return the (lower, upper) bounds of a number that `read` evaluates, from sums that become finer.

    `read` returns (lower bound, upper bound, next threshold), given sums and a threshold (nats). The sums bound the
    profile of two steps. `near` is the first threshold, `share` the required accuracy relative to delta, and `sums`
    the first sums.
    """
    low, high = 0.0, 1.0
    for _ in range(MOST_READINGS):
        sums = sums.refined(near, FINEST * share(sums, near))
        found_low, found_high, near = read(sums, near)
        before, low, high = high - low, max(low, found_low), min(high, found_high)
        if high - low <= ENOUGH * min(high, 1 - low) or high - low > 0.5 * before or is_spent():
            break
    return low, high


def _lowest(function: Callable[[float], float], bottom: float, top: float) -> float:
    return top if top - bottom < SMALLEST_INTERVAL else lowest(function, bottom, top, CLOSE * (top - bottom))


def _root(sums: Sums, log_delta: float, most: float) -> float:
    """Return the approximate epsilon (nats), at most `most`, at which ln of the profile is `log_delta`.

    `sums` bound the profile of two steps.
    """
    if sums.middle(0.0) <= log_delta:
        return 0.0
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return max(sums.middle(epsilon), -1e4) - log_delta

    return brentq(excess, 0.0, most, xtol=CLOSE * most) if excess(most) < 0 else most


def _added(first: Enclosure, second: Enclosure) -> Enclosure:
    ends: list[float] = []
    for one, other, side in ((first.lower, second.lower, -1), (first.upper, second.upper, 1)):
        slack = 2 * UNIT_ROUNDOFF * (abs(one) + abs(other)) if math.isfinite(one + other) else 0.0
        ends.append(one + other + side * slack)
    return Enclosure(ends[0], ends[1], Evidence.CERTIFIED)
