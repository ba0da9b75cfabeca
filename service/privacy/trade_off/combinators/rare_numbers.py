"""Trade-off curve whose tiny numbers come from a second, expensive curve."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.extreme_of import ExtremeOf
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.enclosed.logs import log_ends, logs_of_guess, placed

RARE: Final = 1e-25
"""Rates, type II errors and deltas below which the second curve serves."""


@final
class RareNumbers(DelegatingCurve):
    """Trade-off curve of a release without singular mass: `curve`, or `rare()` for rates and deltas below RARE.

    Parameters
    ----------
    curve : AbstractTradeOff
        Bound of the release.
    rare : callable
        Function that returns a bound from the same side. It is called when a number needs it.
    ratios : (float, float)
        Bounds of the smallest and the largest log-likelihood ratio of the release (nats). No number is rare beyond.
    """

    is_capped = True

    def __init__(
        self, curve: AbstractTradeOff, rare: Callable[[], AbstractTradeOff], ratios: tuple[float, float]
    ) -> None:
        super().__init__(curve)
        self._made, self._ratios = rare, ratios

    @cached_property
    def _rare(self) -> AbstractTradeOff:
        return self._made()

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        most = self._ratios[1]  # the second curve may reach beyond the largest ratio of the first one
        return Enclosure(min(self.curve.largest_log_ratio.lower, most), most, self.evidence)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        least = self._ratios[0]
        return Enclosure(least, max(self.curve.smallest_log_ratio.upper, least), self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure.point(0.0)

    @override
    def reversed(self) -> RareNumbers:
        smallest, largest = self._ratios
        return RareNumbers(self.curve.reversed(), self._reversed_rare, (-largest, -smallest))

    def _reversed_rare(self) -> AbstractTradeOff:
        return self._rare.reversed()

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = self.curve.points(alpha)
        tiny = (alpha < RARE) | (points.type_two_error.lower < RARE)
        if not tiny.any():
            return points
        found = self._rare.points(alpha[tiny])
        if self.is_one_sided:  # lower bounds of powers belong to the second curve, and may contradict the first one
            log_rate, log_rest = logs_of_guess(alpha[tiny])
            error, power = log_ends(found.type_two_error)[0], log_ends(found.power)[1]
            found = CurvePoints(
                EnclosureArray.from_logs(error, np.maximum(error, log_rest)),
                EnclosureArray.from_logs(np.minimum(log_rate, power), power),
                found.log_slope,
            )
        return points.replaced(tiny, found)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        known = self.curve.profile(epsilon)
        tiny = (known.lower < RARE) & (epsilon < self._ratios[1])
        if not tiny.any():
            return known
        found = self._rare.profile(epsilon[tiny])
        if self.is_one_sided:
            found = EnclosureArray(np.maximum(-np.expm1(np.minimum(epsilon[tiny], 0.0)), 0.0), found.upper)
        return placed(known, tiny, found)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return (self._rare if delta < RARE else self.curve).epsilon(delta)


def with_rare_numbers(
    curve: AbstractTradeOff, rare: Callable[[], AbstractTradeOff], ratios: tuple[float, float]
) -> AbstractTradeOff:
    """Return `curve` with numbers below RARE from `rare()`; both bound one release without singular mass.

    `ratios` are bounds of the smallest and the largest log-likelihood ratio of the release (nats). If `curve` is the
    extreme of several curves, the numbers of the first one are replaced, so that combinations still see all curves.
    """
    if not isinstance(curve, ExtremeOf):
        return RareNumbers(curve, rare, ratios)
    first, *others = curve.curves
    return type(curve)([RareNumbers(first, rare, ratios), *others])
