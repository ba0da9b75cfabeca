"""A curve and a loss of a few values beside it: readings of the curve at shifted thresholds.

Let the loss be R + A, A independent of R with values a_j of masses q_j under H1. Given A = a, a test of level eps on
the sum is one of level eps - a on R, so for every real eps

    delta(eps) = sum_j q_j delta_R(eps - a_j).

Points follow from the profile alone: with k = e^c and g(k) = delta(c), which is convex,

    power(alpha) = min_k phi(k),    phi(k) = g(k) + k alpha.

Any k bounds it from above. From below, on an interval between two known k, the secants through the neighbours on either
side do; beyond the outermost phi is larger than there, once it is proved to fall towards the inside. The type II error
is that of the curve with the hypotheses exchanged, delta' its profile, by its own maximum:

    type II error(alpha) = max_k (1 - alpha - delta'(ln k))/k,

where small errors keep their digits. Any k bounds it from below, and secants as before from above: over a line the
quotient is largest at an end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, final

import numpy as np
from scipy.optimize import minimize_scalar
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Bounds, Enclosure, Evidence, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.decreasing_root import decreasing_root
from service.privacy.trade_off.logs import log_ends, with_logs

CLOSE: Final = 1e-7
"""Distance of thresholds, over 1 + |c|, to which the minimum is sought; it steers."""
SPACINGS: Final = (1e-5, 1e-3, 1e-7)
"""Distances of the thresholds of a proof, over 1 + |c|, tried in turn ..."""
ROUNDS: Final = 16
SMALLEST_GAP: Final = 1e-10
"""... after which the levels proved on either side are closed in on, down to this distance, so often altogether."""
NEARBY: Final = np.arange(-3.0, 4.0)
GOOD: Final = 1e-9
"""Relative width of the power at which no other distances are tried."""
FARTHEST: Final = 700.0
"""Nats."""


@final
@dataclass(frozen=True, slots=True)
class Shifts:
    """Values a_j (nats) of a loss and ln q_j, q_j their masses under H1; absolute error of every value, and of every
    logarithm; arrays of shape (K,).
    """

    loss: FloatArray
    log_mass: FloatArray
    loss_error: float
    mass_error: float

    @staticmethod
    def of(two_point: tuple[tuple[float, int], ...]) -> Shifts:
        """Of independent steps with losses +-eps, (eps, count): the larger with probability 1/(1 + e^-eps) under H1."""
        loss, log_mass = np.zeros(1), np.zeros(1)
        loss_error = mass_error = 0.0
        for epsilon, count in two_point:
            low = np.arange(count + 1, dtype=np.float64)
            rest = math.log1p(math.exp(-epsilon))
            ways = np.array([math.log(math.comb(count, k)) for k in range(count + 1)])
            own = ways - low * epsilon - count * rest
            loss = (loss[:, None] + (count - 2 * low) * epsilon).ravel()
            log_mass = (log_mass[:, None] + own).ravel()
            loss_error += 4 * UNIT_ROUNDOFF * count * epsilon
            mass_error += 2 * FUNCTION_ERROR * (count + float(ways.max()) + count * epsilon)
        terms = len(two_point) * UNIT_ROUNDOFF
        return Shifts(
            loss,
            log_mass,
            loss_error + 2 * terms * float(np.abs(loss).max()),
            mass_error + 2 * terms * float(np.abs(log_mass).max()),
        )

    def reversed(self) -> Shifts:
        """With the hypotheses exchanged: the loss is -A, and the masses are those of H0."""
        error = self.mass_error + self.loss_error + 2 * UNIT_ROUNDOFF * float(np.abs(self.log_mass).max())
        return Shifts(-self.loss, self.log_mass - self.loss, self.loss_error, error)


@final
class ShiftedMixture(AbstractTradeOff):
    """The curve of `rest` beside a loss of few values.

    Relative width of the profile that of `rest`, of the power and the type II error 1e-9 beside closed forms (tested).
    The profile costs 2 K readings of the rest.
    """

    def __init__(self, rest: AbstractTradeOff, shifts: Shifts) -> None:
        self.rest, self.shifts = rest, shifts
        self.evidence = Evidence.weakest(rest.evidence, Evidence.CERTIFIED)
        self.method = rest.method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._moved(self.rest.largest_log_ratio, float(self.shifts.loss.max()))

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self._moved(self.rest.smallest_log_ratio, float(self.shifts.loss.min()))

    def _moved(self, ratio: Enclosure, shift: float) -> Enclosure:
        ends: list[float] = []
        for end, side in ((ratio.lower, -1), (ratio.upper, 1)):
            slack = self.shifts.loss_error + 2 * UNIT_ROUNDOFF * (abs(end) + abs(shift)) if math.isfinite(end) else 0.0
            ends.append(end + shift + side * slack)
        return Enclosure(ends[0], ends[1], self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self.rest.singular_power

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Not known."""
        return None

    @override
    def reversed(self) -> ShiftedMixture:
        return self._reversed

    @cached_property
    def _reversed(self) -> ShiftedMixture:
        return ShiftedMixture(self.rest.reversed(), self.shifts.reversed())

    @override
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        lower, upper = self._log_profile(epsilon)
        return Bounds.from_logs(np.minimum(lower, 0.0), np.minimum(upper, 0.0))

    def _log_profile(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both ends of ln delta, each shape (n,): the rest at the ends of each threshold, which is rounded."""
        shifts = self.shifts
        thresholds = epsilon[:, None] - shifts.loss
        slack = shifts.loss_error + 2 * UNIT_ROUNDOFF * (np.abs(epsilon[:, None]) + np.abs(shifts.loss))
        both = np.stack([thresholds - slack, thresholds + slack])
        low, high = log_ends(self.rest.profile(both.ravel()))
        shape = both.shape
        error = shifts.mass_error + (len(shifts.loss) + 8) * UNIT_ROUNDOFF + 2 * FUNCTION_ERROR
        sums: list[FloatArray] = []
        with np.errstate(divide="ignore", invalid="ignore"):
            for logs, side in ((low.reshape(shape)[1], -1), (high.reshape(shape)[0], 1)):
                total: FloatArray = np.logaddexp.reduce(shifts.log_mass + logs, axis=1)
                moved: FloatArray = total + side * (error + 4 * UNIT_ROUNDOFF * np.abs(total))
                sums.append(np.where(np.isfinite(total), moved, total))
        return sums[0], sums[1]

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        most = self.largest_log_ratio.upper
        if math.isinf(most):
            most = 1.0
            while self.profile_at(most).upper > delta:
                most *= 2
                if most > 1e15:
                    return Enclosure(0.0, math.inf, self.evidence)
        return decreasing_root(self._profile_formula, delta, 0.0, max(most, 0.0), self.evidence)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        found = np.array([self._point(float(rate)) for rate in alpha])
        missed = np.array([self._reversed.error_at(1 - float(rate)) for rate in alpha])
        # Each end as one form or the other proves it.
        low = np.maximum(found[:, 0], 1 - missed[:, 1] - UNIT_ROUNDOFF)
        high = np.minimum(found[:, 1], 1 - missed[:, 0] + UNIT_ROUNDOFF)
        error_low = np.maximum(missed[:, 0], 1 - found[:, 1] - UNIT_ROUNDOFF)
        error_high = np.minimum(missed[:, 1], 1 - found[:, 0] + UNIT_ROUNDOFF)
        error = with_logs(error_low, np.minimum(error_high, 1 - alpha + UNIT_ROUNDOFF * (alpha < 0.5)))
        return CurvePoints(error, with_logs(low, np.minimum(high, 1.0)), Bounds(found[:, 2], found[:, 3]))

    def _point(self, alpha: float) -> tuple[float, float, float, float]:
        """Both ends of the power at a rate, and of the level of the likelihood ratio there."""
        # At the best level k alpha <= 1.
        top = min(self.largest_log_ratio.upper, -math.log(alpha), FARTHEST)
        bottom = min(max(self.smallest_log_ratio.lower, -FARTHEST), top)

        def phi(c: float) -> float:
            return math.exp(float(self._log_profile(np.array([c]))[1][0])) + alpha * math.exp(c)

        return _closed_in(phi, lambda c: self._proved(alpha, c), bottom, top, (alpha, 1.0))

    def error_at(self, power: float) -> tuple[float, float]:
        """Both ends of the rate at which this curve has a power: the type II error 1 - power of its reverse."""
        if power <= 0:
            return 0.0, 0.0
        top = min(self.largest_log_ratio.upper, FARTHEST)
        bottom = min(max(self.smallest_log_ratio.lower, -FARTHEST), top)

        def loss(c: float) -> float:
            left = power - math.exp(float(self._log_profile(np.array([c]))[1][0]))
            return c - math.log(left) if left > 0 else FARTHEST + 1 - c + bottom - left

        low, high, _, _ = _closed_in(loss, lambda c: self._proved_error(power, c), bottom, top, (0.0, power))
        return low, high

    def _proved(self, alpha: float, c: FloatArray) -> tuple[float, float, float, float]:
        """What the profile at thresholds c, rising, proves: ends of the power, and of the best c."""
        log_low, log_high = self._log_profile(c)
        k = np.exp(c)
        rounding = 4 * FUNCTION_ERROR
        low = np.exp(log_low) * (1 - rounding) + k * alpha * (1 - rounding) - SMALLEST
        high = np.exp(log_high) * (1 + rounding) + k * alpha * (1 + rounding) + SMALLEST
        falls, rises = low[:-1] > high[1:], low[1:] > high[:-1]
        left = float(c[:-1][falls].max()) if falls.any() else -math.inf
        right = float(c[1:][rises].min()) if rises.any() else math.inf
        least, most = alpha, float(high.min())
        if falls[0] and rises[-1]:
            # The rounding of k is far below its differences, which are at least 1e-10 of it.
            widths = np.diff(k)
            onward, back = 1.001 * widths[1:] / widths[:-1], 1.001 * widths[:-1] / widths[1:]
            from_left = low[1:-1] - np.maximum(high[:-2] - low[1:-1], 0.0) * onward
            from_right = low[1:-1] - np.maximum(high[2:] - low[1:-1], 0.0) * back
            # Interval i has the points i and i + 1: its left secant ends in the one, its right in the other.
            inner = np.maximum(from_left[:-1], from_right[1:])
            outer = min(float(from_right[0]), float(from_left[-1]))
            least = max(least, min(float(inner.min()), outer))
        return least, min(most, 1.0), left, right

    def _proved_error(self, power: float, c: FloatArray) -> tuple[float, float, float, float]:
        """The same of the largest (power - delta(c)) e^-c, which rises up to its maximum, then falls."""
        log_low, log_high = self._log_profile(c)
        k, rounding = np.exp(c), 4 * FUNCTION_ERROR
        least, most = np.exp(log_low) * (1 - rounding), np.exp(log_high) * (1 + rounding) + SMALLEST
        low, high = (power * (1 - rounding) - most) / k, (power * (1 + rounding) - least) / k
        low, high = low * (1 - np.sign(low) * rounding), high * (1 + np.sign(high) * rounding)
        rises, falls = high[:-1] < low[1:], high[1:] < low[:-1]
        left = float(c[:-1][rises].max()) if rises.any() else -math.inf
        right = float(c[1:][falls].min()) if falls.any() else math.inf
        proved, bound = max(float(low.max()), 0.0), power
        if rises[0] and falls[-1]:
            widths = np.diff(k)
            # What the secants through the points before and after an interval leave at its far end.
            onward = least[1:-1] - (most[:-2] - least[1:-1]) * 1.001 * widths[1:] / widths[:-1]
            fall = least[1:-1] - most[2:]
            back = least[1:-1] + fall * np.where(fall > 0, 0.999, 1.001) * widths[:-1] / widths[1:]
            first = np.append(math.inf, np.maximum(high[1:-1], (power * (1 + rounding) - onward) / k[2:]))
            last = np.append(np.maximum((power * (1 + rounding) - back) / k[:-2], high[1:-1]), math.inf)
            bound = min(bound, float(np.minimum(first, last).max()) * (1 + rounding))
        return proved, max(bound, proved), left, right


def _closed_in(
    steer: Callable[[float], float],
    proved: Callable[[FloatArray], tuple[float, float, float, float]],
    bottom: float,
    top: float,
    known: tuple[float, float],
) -> tuple[float, float, float, float]:
    """Both ends of a number and of the threshold that decides it, from what thresholds near the least of `steer` prove;
    `known`: both ends before.
    """
    near = top
    if top - bottom > CLOSE:
        found: Any = minimize_scalar(steer, bounds=(bottom, top), method="bounded", options={"xatol": CLOSE})
        near = float(found.x)
    (low, high), left, right = known, -math.inf, math.inf
    spacings = iter(SPACINGS)
    for _ in range(ROUNDS):
        if high - low <= GOOD * high:
            break
        # Where the profile has a kink, its level is closed in on; else a few distances serve.
        gap = (right - left) / (len(NEARBY) - 3)
        if gap < SMALLEST_GAP * (1 + abs(near)) or not math.isfinite(gap):
            spacing = next(spacings, None)
            if spacing is None:
                break
            unit = spacing * (1 + abs(near))
            far = unit * 4.0 ** np.arange(1, 2 + math.ceil(math.log(max((top - bottom) / unit, 4.0), 4.0)))
            # Far points close in on a level where the profile is straight: there all levels between serve.
            c = np.clip(np.concatenate([near - far[::-1], near + unit * NEARBY, near + far]), bottom - 1, top + 1)
            c = np.unique(c)
        else:
            c = 0.5 * (left + right) + gap * NEARBY
        found_low, found_high, found_left, found_right = proved(np.asarray(c, dtype=np.float64))
        low, high = max(low, found_low), min(high, found_high)
        left, right = max(left, found_left), min(right, found_right)
    return low, high, left, right
