"""A curve that approximates the one in question: its numbers, without the claim that they bound anything."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.delegating import DelegatingCurve


@final
class Approximate(DelegatingCurve):
    """The readings of `curve`, as evidence asymptotic."""

    def __init__(self, curve: AbstractTradeOff) -> None:
        super().__init__(curve)
        self.evidence = Evidence.ASYMPTOTIC

    @override
    def reversed(self) -> AbstractTradeOff:
        inverse = self.curve.reversed()
        return self if inverse is self.curve else Approximate(inverse)

    @override
    def _number(self, number: Enclosure) -> Enclosure:
        return replace(number, evidence=Evidence.ASYMPTOTIC)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        return self._number(self.curve.power_at(rate))

    @override
    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        return self._number(self.curve.profile_at(epsilon))
