"""The tighter of several curves that all bound one worst case from above."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends


@final
class TighterOf(AbstractTradeOff):
    """Smallest number of several curves, each of which is at least as easy to attack as a worst case.

    Parameters
    ----------
    curves : sequence of AbstractTradeOff
        Curves that dominate one worst case. The upper bounds of their powers, deltas and epsilons hold for it.
    """

    def __init__(self, curves: Sequence[AbstractTradeOff]) -> None:
        self.curves = tuple(curves)
        self.evidence = Evidence.weakest(*(curve.evidence for curve in self.curves))
        self.method = self.curves[0].method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._least([curve.largest_log_ratio for curve in self.curves])

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        found = [curve.smallest_log_ratio for curve in self.curves]
        return Enclosure(max(each.lower for each in found), max(each.upper for each in found), self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._least([curve.singular_power for curve in self.curves])

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        known = [curve.global_gdp_mu for curve in self.curves]
        return min(
            limit if mu is None else mu.upper
            for mu, limit in zip(known, (curve.global_gdp_mu_limit for curve in self.curves), strict=True)
        )

    @override
    def reversed(self) -> AbstractTradeOff:
        return TighterOf([curve.reversed() for curve in self.curves])

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = [curve.points(alpha) for curve in self.curves]
        anything = np.full_like(alpha, np.inf)
        return CurvePoints(
            _extreme(np.maximum, [each.type_two_error for each in points]),
            _extreme(np.minimum, [each.power for each in points]),
            EnclosureArray(-anything, anything),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return _extreme(np.minimum, [curve.profile(epsilon) for curve in self.curves])

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self._least([curve.epsilon(delta) for curve in self.curves])

    def _least(self, found: Sequence[Enclosure]) -> Enclosure:
        return Enclosure(min(each.lower for each in found), min(each.upper for each in found), self.evidence)


def _extreme(choose: np.ufunc, bounds: Sequence[EnclosureArray]) -> EnclosureArray:
    lower, upper = (reduce(choose, ends) for ends in zip(*map(log_ends, bounds), strict=True))
    return EnclosureArray.from_logs(np.minimum(lower, 0.0), np.minimum(upper, 0.0))
