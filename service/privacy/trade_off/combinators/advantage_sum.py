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
NEGLIGIBLE: Final = UNIT_ROUNDOFF / 4
"""Share of a rate and of its complement below which a total advantage changes points by less than their rounding."""


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
        if self._total <= NEGLIGIBLE * min(float(alpha.min()), 1 - float(alpha.max())):
            return self._without_curve(alpha)
        points = self.curve.points(alpha)
        most = np.minimum((alpha + self._total) * OUTWARD, 1.0)
        return CurvePoints(points.type_two_error, _lowered(points.power, most), points.log_slope)

    def _without_curve(self, alpha: FloatArray) -> CurvePoints:
        """Return points at the rates `alpha` from `total` alone, if it is below the rounding errors of the points.

        Notes
        -----
        The power is in [alpha, alpha + total]. It is concave, at least 0 at rate 0 and at most 1 at rate 1. So each of
        its slopes at alpha is in [1 - total/(1 - alpha), 1 + total/alpha].
        """
        rest = 1 - alpha
        power = EnclosureArray(alpha, np.minimum((alpha + self._total) * OUTWARD, 1.0))
        error = EnclosureArray((rest - self._total) / OUTWARD, np.minimum(rest * OUTWARD, 1.0))
        return CurvePoints(error, power, EnclosureArray(-2 * self._total / rest, 2 * self._total / alpha))

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
