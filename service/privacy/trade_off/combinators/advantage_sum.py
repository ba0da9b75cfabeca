"""Composed curve whose advantage (total variation) is at most the sum of the advantages of its steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.enclosed.logs import log_ends, log_up

OUTWARD: Final = 1 + 8 * UNIT_ROUNDOFF


@final
class AdvantageSum(DelegatingCurve):
    """Trade-off curve of `whole`, with upper bounds that also follow from the advantages of its steps.

    The advantage of a curve is its total variation distance delta(0). The advantage of products of laws is at most the
    sum of the advantages: power(alpha) <= alpha + total, and delta(eps) <= total for eps >= 0. `advantages` returns the
    sum `total`, rounded up.
    """

    is_capped = True

    def __init__(self, whole: AbstractTradeOff, advantages: Callable[[], float]) -> None:
        super().__init__(whole)
        self._advantages = advantages

    @cached_property
    def _total(self) -> float:
        return self._advantages()

    @override
    def reversed(self) -> AbstractTradeOff:
        return AdvantageSum(self.curve.reversed(), lambda: self._total)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = self.curve.points(alpha)
        most = np.minimum((alpha + self._total) * OUTWARD, 1.0)
        return CurvePoints(points.type_two_error, _lowered(points.power, most), points.log_slope)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return _lowered(self.curve.profile(epsilon), np.where(epsilon >= 0, min(self._total, 1.0), 1.0))


def _lowered(bounds: EnclosureArray, most: FloatArray) -> EnclosureArray:
    """Limit `bounds` to [0, 1], with upper bounds of at most `most`, which is no lower than the truth."""
    lower, upper = log_ends(bounds)
    upper = np.minimum(upper, log_up(most))
    return EnclosureArray(
        np.minimum(bounds.lower, most), np.minimum(bounds.upper, most), np.minimum(lower, upper), upper
    )
