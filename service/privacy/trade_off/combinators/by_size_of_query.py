"""Trade-off curve with two engines: one for a few numbers, the other for long lists."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.intersected import MOST_PLACES
from service.privacy.trade_off.delegating import DelegatingCurve


@final
class BySizeOfQuery(DelegatingCurve):
    """Trade-off curve of two engines: `few` evaluates lists of up to MOST_PLACES numbers, `many` longer lists.

    The engine `few` gives narrower enclosures, but needs a search for each number. Both engines enclose the same curve.
    """

    def __init__(self, few: AbstractTradeOff, many: AbstractTradeOff) -> None:
        super().__init__(many)
        self.few = few
        self.evidence = Evidence.weakest(few.evidence, many.evidence)

    @override
    def reversed(self) -> AbstractTradeOff:
        return BySizeOfQuery(self.few.reversed(), self.curve.reversed())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return self._for(alpha).points(alpha)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return self._for(epsilon).profile(epsilon)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return (self.curve if is_spent() else self.few).epsilon(delta)

    def _for(self, places: FloatArray) -> AbstractTradeOff:
        return self.few if len(places) <= MOST_PLACES and not is_spent() else self.curve
