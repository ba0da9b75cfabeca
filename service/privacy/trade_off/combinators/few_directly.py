"""One curve known by two engines: one for few numbers, the other for long lists."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from service.privacy.enclosure import Bounds, Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.intersected import MOST_PLACES


@final
class FewDirectly(AbstractTradeOff):
    """`few` for up to MOST_PLACES numbers at once, each of which costs it a search; `many` for longer lists."""

    def __init__(self, few: AbstractTradeOff, many: AbstractTradeOff) -> None:
        self.few, self.many = few, many
        self.evidence, self.method = Evidence.weakest(few.evidence, many.evidence), many.method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self.many.largest_log_ratio

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self.many.smallest_log_ratio

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self.many.singular_power

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        return self.many.global_gdp_mu

    @override
    def reversed(self) -> AbstractTradeOff:
        return FewDirectly(self.few.reversed(), self.many.reversed())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return self._for(alpha).points(alpha)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        return self._for(epsilon).profile(epsilon)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return (self.many if is_spent() else self.few).epsilon(delta)

    def _for(self, places: FloatArray) -> AbstractTradeOff:
        return self.few if len(places) <= MOST_PLACES and not is_spent() else self.many
