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

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return _unproved(self.curve.largest_log_ratio)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return _unproved(self.curve.smallest_log_ratio)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return _unproved(self.curve.singular_power)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        known = self.curve.global_gdp_mu
        return None if known is None else _unproved(known)

    @override
    def reversed(self) -> AbstractTradeOff:
        inverse = self.curve.reversed()
        return self if inverse is self.curve else Approximate(inverse)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        return _unproved(self.curve.power_at(rate))

    @override
    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        return _unproved(self.curve.profile_at(epsilon))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return _unproved(self.curve.epsilon(delta))


def _unproved(number: Enclosure) -> Enclosure:
    return replace(number, evidence=Evidence.ASYMPTOTIC)
