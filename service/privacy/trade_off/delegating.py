"""Base of curves that delegate to another curve."""

from __future__ import annotations

from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints


class DelegatingCurve(AbstractTradeOff):
    """The extremes, lists, epsilons and inexpensive upper bounds of `curve`, which hold for what a subclass computes.

    Single numbers are read off lists of length one, as in `AbstractTradeOff`. Subclasses replace what they compute in
    another way.
    """

    def __init__(self, curve: AbstractTradeOff) -> None:
        self.curve = curve
        self.evidence, self.method = curve.evidence, curve.method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self.curve.largest_log_ratio

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self.curve.smallest_log_ratio

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self.curve.singular_power

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        return self.curve.global_gdp_mu

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        return self.curve.global_gdp_mu_limit

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return self.curve.points(alpha)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return self.curve.profile(epsilon)

    @override
    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> EnclosureArray:
        return self.curve.rough_profile(epsilon, rate)

    @override
    def epsilon_cap(self, delta: float) -> float:
        return self.curve.epsilon_cap(delta)

    @override
    def profile_cap(self, epsilon: float) -> float:
        return self.curve.profile_cap(epsilon)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self.curve.epsilon(delta)
