"""The curve of a mixture: one of several curves is drawn, and the attacker learns which."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Bounds, Enclosure, Evidence, FloatArray
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.falling_search import FallingSearch, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.decreasing_root import decreasing_root
from service.privacy.trade_off.likelihood_level import (
    ALPHA_HIGH,
    ALPHA_LOW,
    ERROR_HIGH,
    ERROR_LOW,
    POWER_HIGH,
    POWER_LOW,
    REST_HIGH,
    REST_LOW,
    LevelledCurve,
)
from service.privacy.trade_off.logs import log, log_ends

SLACK: Final = 4 * FUNCTION_ERROR
CHUNK: Final = 128
"""Rates searched for together; more would only need more memory."""
GRID: Final = np.linspace(0.0, 1.0, 9)
MOST_LEVELS: Final = 8
"""Slopes of the parts among the first looks: where a part is straight, its slope may be the answer."""
PADDING: Final = 1e-3
LOSS, LEVEL = 8, 9
SUMS: Final = 10
"""Rows of `_sums`: those of a level's points, then the loss and c."""


@final
class MixtureTradeOff(AbstractTradeOff):
    """f(alpha) = min of sum w_i f_i(alpha_i) over all alpha_i with sum w_i alpha_i = alpha, w_i > 0, sum w_i = 1.

    Profiles mix linearly, delta(eps) = sum w_i delta_i(eps) for every real eps, and at a slope -e^c every part stands
    where its own slope is that: f is never the average of the f_i at equal alpha. Two levels c+ >= c- are proved to lie
    on either side of alpha; the points T of the mixture there, and the lines of slope -e^c below them, give
    - from above the chord between both points, for every choice of alpha_i is an attack on the mixture;
    - from below the lines, lowered by what a part may gain beside the rate at which it was read.
    The same for the power with signs exchanged. Errors are of second order in the distance of the levels, so that what
    remains is the width of the parts. Relative width 1e-12 for parts in closed form (tested). Source: Leemann et al.
    2023 (Gaussian membership inference privacy), Definition 4.1 (stochastic composition).
    """

    def __init__(self, parts: Sequence[tuple[Fraction, AbstractTradeOff]]) -> None:
        """`parts`: (weight, curve), positive weights with sum 1 exactly."""
        if not parts or sum(weight for weight, _ in parts) != 1:
            raise NumericalFailure("the weights of a mixture do not sum to 1")
        self.parts = tuple(parts)
        self.evidence = Evidence.weakest(*(curve.evidence for _, curve in parts))
        self.method = next(curve.method for _, curve in parts if curve.evidence is self.evidence)
        weights = np.array([float(weight) for weight, _ in parts])
        self._light, self._heavy = weights * (1 - UNIT_ROUNDOFF), weights * (1 + UNIT_ROUNDOFF)
        self._sum_error = (len(parts) + 4) * UNIT_ROUNDOFF

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return _extreme([curve.largest_log_ratio for _, curve in self.parts], max)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return _extreme([curve.smallest_log_ratio for _, curve in self.parts], min)

    @cached_property
    @override
    def singular_power(self) -> Enclosure:  # pyright: ignore[reportIncompatibleVariableOverride]
        lower, upper = (
            sum((weight * Fraction(end(curve.singular_power)) for weight, curve in self.parts), Fraction(0))
            for end in (lambda mass: mass.lower, lambda mass: mass.upper)
        )
        return Enclosure(_rounded(lower, -1), _rounded(upper, 1), self.evidence)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Infinite where H1 has mass outside H0; else not known in closed form."""
        return Enclosure.point(math.inf) if self.singular_power.lower > 0 else None

    @override
    def reversed(self) -> AbstractTradeOff:
        return MixtureTradeOff([(weight, curve.reversed()) for weight, curve in self.parts])

    @override
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        profiles = [curve.profile(epsilon) for _, curve in self.parts]
        ends = [log_ends(profile) for profile in profiles]
        lower = self._mixed(np.stack([profile.lower for profile in profiles]), -1)
        upper = self._mixed(np.stack([profile.upper for profile in profiles]), 1)
        log_lower = self._mixed_logs(np.stack([low for low, _ in ends]), lower, -1)
        log_upper = self._mixed_logs(np.stack([high for _, high in ends]), upper, 1)
        return Bounds(lower, np.minimum(upper, 1.0), log_lower, np.minimum(log_upper, 0.0))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        least = min(curve.epsilon(delta).lower for _, curve in self.parts)
        most = max(curve.epsilon(delta).upper for _, curve in self.parts)
        if math.isinf(most):
            # A part never comes down to delta, but weighted all of them may.
            most = max(2 * least, 1.0)
            while self.profile_at(most).upper > delta:
                most *= 2
                if most > 1e300:
                    return Enclosure(least, math.inf, self.evidence)
        return decreasing_root(self._profile_formula, delta, least, most, self.evidence)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        with np.errstate(all="ignore"):
            parts = [self._read(alpha[start : start + CHUNK]) for start in range(0, len(alpha), CHUNK)]
        error, power, slope = (np.concatenate(rows, axis=1) for rows in zip(*parts, strict=True))
        if (error[0] > error[1]).any() or (power[0] > power[1]).any():
            raise NumericalFailure("the points of a mixture are out of order")
        return CurvePoints(
            Bounds.from_logs(error[0], error[1]), Bounds.from_logs(power[0], power[1]), Bounds(slope[0], slope[1])
        )

    @cached_property
    def _levelled(self) -> tuple[LevelledCurve, ...]:
        return tuple(LevelledCurve(curve) for _, curve in self.parts)

    def _mixed(self, values: FloatArray, side: int) -> FloatArray:
        """sum w_i values_i, values >= 0 of shape (parts, ...), rounded down (side -1) or up (side 1)."""
        total = np.tensordot(self._light if side < 0 else self._heavy, values, axes=1)
        step = SMALLEST * len(self.parts)
        return np.maximum(total * (1 + side * self._sum_error) + side * np.where(total > 0, step, 0.0), 0.0)

    def _mixed_logs(self, logs: FloatArray, total: FloatArray, side: int) -> FloatArray:
        """ln sum w_i e^{logs_i}, by the sum itself where that is a normal double."""
        terms = logs + log(self._light if side < 0 else self._heavy).reshape(-1, *(1 for _ in logs.shape[1:]))
        value = np.logaddexp.reduce(terms, axis=0)
        error = self._sum_error + SLACK * (1 + np.where(np.isfinite(value), np.abs(value), 0.0))
        by_sum = log(total) * (1 - side * FUNCTION_ERROR)
        return np.where(total > 1e-290, by_sum, np.where(np.isfinite(value), value + side * error, value))

    def _sums(self, c: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """At levels c: rows of the mixture's point, and a rate (and its complement) where it is surely steeper."""
        levels = [curve.at(c) for curve in self._levelled]
        rows = np.stack([level.rows for level in levels])
        sums = np.empty((SUMS, len(c)))
        for low, high in ((ALPHA_LOW, ALPHA_HIGH), (REST_LOW, REST_HIGH)):
            sums[low], sums[high] = self._mixed(rows[:, low], -1), self._mixed(rows[:, high], 1)
        for low, high in ((ERROR_LOW, ERROR_HIGH), (POWER_LOW, POWER_HIGH)):
            for row, side in ((low, -1), (high, 1)):
                total = self._mixed(np.exp(rows[:, row]) * (1 + side * FUNCTION_ERROR), side)
                sums[row] = np.minimum(self._mixed_logs(rows[:, row], total, side), 0.0)
        sums[LOSS] = self._mixed(np.stack([level.loss(c) for level in levels]), 1)
        sums[LEVEL] = c
        steeper = self._mixed(np.stack([level.least_alpha for level in levels]), -1)
        return sums, steeper, self._mixed(np.stack([level.largest_rest for level in levels]), 1)

    def _read(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """ln f, ln power and log slope, both ends of each: shape (2, n)."""
        small, rest = alpha <= 0.5, 1 - alpha

        def reading(levels: FloatArray, which: IndexArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            sums, steeper, steeper_rest = (
                part.reshape(*part.shape[:-1], *levels.shape) for part in self._sums(levels.ravel())
            )
            a, b, is_small = alpha[which], rest[which], small[which]
            # Their signs are exact, and the logarithms keep them.
            lower = np.where(is_small, np.log1p((steeper - a) / a), -np.log1p((steeper_rest - b) / b))
            upper = np.where(is_small, np.log1p((sums[ALPHA_HIGH] - a) / a), -np.log1p((sums[REST_LOW] - b) / b))
            return lower, upper, sums

        looks = self._first_looks(alpha)
        search = FallingSearch(looks[0], looks[-1], SUMS)
        everything = np.arange(len(alpha))
        search.add(everything, looks, *reading(looks, everything))
        search.run(reading)
        before = np.where(np.isfinite(search.right), search.right_rows, self._edge_rows[0][:, None])
        after = np.where(np.isfinite(search.left), search.left_rows, self._edge_rows[1][:, None])
        error, power = _enclosed(before, (after, search.undecided_rows), alpha, rest)
        return error, power, np.stack((search.left, search.right))

    def _first_looks(self, alpha: FloatArray) -> FloatArray:
        """Levels c, rising: the slopes of the parts at alpha enclose that of the mixture."""
        slopes = [curve.points(alpha).log_slope for _, curve in self.parts]
        extremes = [curve.extreme_slopes for curve in self._levelled]
        least, most = min(low for low, _ in extremes) - 1.0, max(high for _, high in extremes) + 1.0
        lower = np.clip(np.sort(np.stack([slope.lower for slope in slopes]), axis=0), least, most)
        upper = np.clip(np.sort(np.stack([slope.upper for slope in slopes]), axis=0), least, most)
        low, high = lower[0] - PADDING * (1 + np.abs(lower[0])), upper[-1] + PADDING * (1 + np.abs(upper[-1]))
        chosen = np.unique(np.linspace(0, len(slopes) - 1, MOST_LEVELS).round().astype(int))
        unit = 8 * UNIT_ROUNDOFF * (1 + np.abs(upper[chosen])) + (upper[chosen] - lower[chosen])
        grid = low + GRID[:, None] * (high - low)
        return np.sort(np.concatenate((grid, lower[chosen] - unit, upper[chosen] + unit)), axis=0)

    @cached_property
    def _edge_rows(self) -> tuple[FloatArray, FloatArray]:
        """Rows of the mixture's points at rates 0 and 1, which no line supports."""
        singular = self.singular_power
        logs = [math.log(end) if end > 0 else -math.inf for end in (singular.lower, singular.upper)]
        missed = [math.log1p(-end) if end < 1 else -math.inf for end in (singular.upper, singular.lower)]
        missed = [missed[0] * (1 + FUNCTION_ERROR), missed[1] * (1 - FUNCTION_ERROR)]
        none = -math.inf
        return (
            np.array(
                [0.0, 0.0, 1.0, 1.0, *missed, logs[0] * (1 + FUNCTION_ERROR), logs[1] * (1 - FUNCTION_ERROR), 0, np.inf]
            ),
            np.array([1.0, 1.0, 0.0, 0.0, none, none, 0.0, 0.0, 0.0, none]),
        )


def _enclosed(
    before: FloatArray, later: Sequence[FloatArray], alpha: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ends of ln f(alpha) and ln power(alpha), (2, n) each.

    `before`: rows of the mixture's point at a rate of at most alpha. `later`: of others, perhaps not-a-number; where
    they do not lie behind alpha, they prove f(alpha) themselves, and the chord to them is only worse.
    """
    # The chord lies highest (for the error, lowest for the power) where alpha is nearest to the point before.
    ahead, _ = _distances(before, alpha, rest)
    error, power = [_line(before, alpha, rest, -1)], [_line(before, alpha, rest, 1)]
    error_high, power_low = before[ERROR_HIGH], before[POWER_LOW]
    for after in later:
        _, behind = _distances(after, alpha, rest)
        near, far = log(behind / (behind + ahead)), log(ahead / (behind + ahead))
        error_chord = _log_sum(before[ERROR_HIGH] + near, np.minimum(after[ERROR_HIGH], before[ERROR_HIGH]) + far, 1)
        power_chord = _log_sum(before[POWER_LOW] + near, np.maximum(after[POWER_LOW], before[POWER_LOW]) + far, -1)
        error_high, power_low = np.fmin(error_high, error_chord), np.fmax(power_low, power_chord)
        error.append(_line(after, alpha, rest, -1))
        power.append(_line(after, alpha, rest, 1))
    error_high, power_low = np.minimum(error_high, 0.0), np.minimum(power_low, 0.0)
    error_low = np.minimum(np.fmax.reduce(error), error_high)
    power_high = np.minimum(np.maximum(np.fmin.reduce(power), power_low), 0.0)
    return np.stack((error_low, error_high)), np.stack((power_low, power_high))


def _distances(rows: FloatArray, alpha: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far alpha is behind the rate of a point at least, and before it at most; differences of close numbers are
    exact.
    """
    small = alpha <= 0.5
    ahead = np.where(small, alpha - rows[ALPHA_HIGH], rows[REST_LOW] - rest)
    behind = np.where(small, rows[ALPHA_HIGH] - alpha, rest - rows[REST_LOW])
    return np.maximum(ahead, 0.0) * (1 - 4 * UNIT_ROUNDOFF), np.maximum(behind, 0.0) * (1 + 4 * UNIT_ROUNDOFF)


def _line(rows: FloatArray, alpha: FloatArray, rest: FloatArray, side: int) -> FloatArray:
    """At alpha, the line of slope -e^c below f (side -1), e^c above the power (side 1), through a point but for its
    loss.
    """
    shift = np.where(alpha <= 0.5, alpha - rows[ALPHA_LOW], rows[REST_HIGH] - rest) + rows[LOSS]
    shift += 4 * UNIT_ROUNDOFF * np.abs(shift)
    value = rows[ERROR_LOW if side < 0 else POWER_HIGH]
    return _moved(value, rows[LEVEL], side * shift, side)


def _moved(log_value: FloatArray, c: FloatArray, shift: FloatArray, side: int) -> FloatArray:
    """ln(e^log_value + e^c shift), rounded down (side -1) or up (side 1); no bound where c is infinite."""
    log_shift = c + log(np.abs(shift))
    error = SLACK * (4 + np.abs(c) + np.abs(log_shift))
    raised = _log_sum(log_value, log_shift + side * error, side)
    # What is taken away is rounded the other way.
    share = np.minimum(np.exp(log_shift - side * error - log_value) * (1 - side * SLACK), 1.0)
    lowered = log_value + np.log1p(-share)
    lowered += side * SLACK * np.where(np.isfinite(lowered), 1 + np.abs(log_value) + np.abs(lowered), 0.0)
    moved = np.where(shift >= 0, np.where(shift == 0, log_value, raised), lowered)
    return np.where(np.isfinite(c) & ~np.isnan(moved), moved, side * np.inf)


def _log_sum(first: FloatArray, second: FloatArray, side: int) -> FloatArray:
    value = np.logaddexp(first, second)
    return value + side * SLACK * np.where(np.isfinite(value), 1 + np.abs(value), 0.0)


def _extreme(ratios: Sequence[Enclosure], pick: Callable[[Sequence[float]], float]) -> Enclosure:
    evidence = Evidence.weakest(*(ratio.evidence for ratio in ratios))
    return Enclosure(pick([ratio.lower for ratio in ratios]), pick([ratio.upper for ratio in ratios]), evidence)


def _rounded(value: Fraction, side: int) -> float:
    """A double that is not above (side -1) or not below (side 1) the value."""
    nearest = float(value)
    if side * (Fraction(nearest) - value) >= 0:
        return nearest
    return math.nextafter(nearest, side * math.inf)
