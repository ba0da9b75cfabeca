"""Curve of the strongest of several attacks at every rate."""

from __future__ import annotations

import math
from functools import reduce
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.extremes import larger, largest, smaller, smallest
from service.privacy.trade_off.enclosed.logs import logged


@final
class EasiestOf(AbstractTradeOff):
    """Curve min(f_1, f_2, ...) of the type II errors of several attacks, the strongest at each rate.

    The minimum need not be convex. Each curve is that of one choice of data sets and of one attack on it. So the worst
    case is at least as easy to attack as each of them. The power, the profile and the epsilon of this curve are lower
    bounds of those of the worst case.
    """

    def __init__(self, curves: tuple[AbstractTradeOff, ...]) -> None:
        self.curves = curves
        self.evidence = Evidence.weakest(*(curve.evidence for curve in curves))
        self.method = curves[0].method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return reduce(largest, (curve.largest_log_ratio for curve in self.curves))

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return reduce(smallest, (curve.smallest_log_ratio for curve in self.curves))

    @property
    @override
    def singular_power(self) -> Enclosure:
        return reduce(largest, (curve.singular_power for curve in self.curves))

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        known = ((curve, curve.global_gdp_mu) for curve in self.curves)
        return max(curve.global_gdp_mu_limit if mu is None else mu.upper for curve, mu in known)

    @override
    def reversed(self) -> AbstractTradeOff:
        return EasiestOf(tuple(curve.reversed() for curve in self.curves))

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = [curve.points(alpha) for curve in self.curves]
        anything = np.full_like(alpha, math.inf)
        return CurvePoints(
            reduce(smaller, (logged(each.type_two_error) for each in points)),
            reduce(larger, (logged(each.power) for each in points)),
            EnclosureArray(-anything, anything),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return reduce(larger, (logged(curve.profile(epsilon)) for curve in self.curves))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return reduce(largest, (curve.epsilon(delta) for curve in self.curves))
