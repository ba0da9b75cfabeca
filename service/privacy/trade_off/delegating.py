"""Curves that delegate to another curve: their base class, a memoising curve, and a curve of approximations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, Alternatives, CurvePoints


class DelegatingCurve(AbstractTradeOff):
    """Trade-off curve whose numbers are those of another `curve`, for subclasses that change some of them.

    Single numbers are evaluated from lists of length one, as in `AbstractTradeOff`. Subclasses override the methods
    that compute in another way, or the conversion of every number and every array (`_number`, `_array`).
    """

    def __init__(self, curve: AbstractTradeOff) -> None:
        self.curve = curve
        self.evidence, self.method = curve.evidence, curve.method
        self.serves_lists, self.has_rough_lists = curve.serves_lists, curve.has_rough_lists
        self.is_one_sided = curve.is_one_sided

    def _number(self, number: Enclosure) -> Enclosure:
        """Convert one enclosure of the wrapped curve to that of this curve; by default return the argument."""
        return number

    def _array(self, bounds: EnclosureArray) -> EnclosureArray:
        """Convert enclosures of the wrapped curve to those of this curve; by default return the argument."""
        return bounds

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._number(self.curve.largest_log_ratio)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self._number(self.curve.smallest_log_ratio)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._number(self.curve.singular_power)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        known = self.curve.global_gdp_mu
        return None if known is None else self._number(known)

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        return self.curve.global_gdp_mu_limit

    @property
    @override
    def composed_of(self) -> Sequence[Alternatives]:
        return self.curve.composed_of

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = self.curve.points(alpha)
        return CurvePoints(*map(self._array, (points.type_two_error, points.power, points.log_slope)))

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return self._array(self.curve.profile(epsilon))

    @override
    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> EnclosureArray:
        return self._array(self.curve.rough_profile(epsilon, rate))

    @override
    def epsilon_cap(self, delta: float, enough: float = -math.inf) -> float:
        return self.curve.epsilon_cap(delta, enough)

    @override
    def profile_cap(self, epsilon: float) -> float:
        return self.curve.profile_cap(epsilon)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self._number(self.curve.epsilon(delta))


@final
class MemoisedCurve(DelegatingCurve):
    """Trade-off curve with the numbers of `curve` that computes points once for every list of rates."""

    def __init__(self, curve: AbstractTradeOff, inverse: AbstractTradeOff | MemoisedCurve) -> None:
        super().__init__(curve)
        self._swapped = inverse if isinstance(inverse, MemoisedCurve) else MemoisedCurve(inverse, self)
        self._known: dict[tuple[float, ...], CurvePoints] = {}
        self.searches_points = curve.searches_points

    @override
    def reversed(self) -> MemoisedCurve:
        return self._swapped

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        rates = tuple(alpha.tolist())
        if rates not in self._known:
            self._known[rates] = self.curve.points(alpha)
        return self._known[rates]


@final
class Approximate(DelegatingCurve):
    """Trade-off curve with the numbers of `curve` as asymptotic evidence: approximations without bounds."""

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
