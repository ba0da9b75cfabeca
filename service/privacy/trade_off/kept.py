"""A curve and its inverse whose points are read once: for readings that ask for the same rates again."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from service.privacy.enclosure import Bounds, Enclosure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.forwarded import Forwarded


@final
class Kept(Forwarded):
    """The numbers of `curve`; lists of points are kept by their rates."""

    def __init__(self, curve: AbstractTradeOff, inverse: AbstractTradeOff | Kept) -> None:
        self.curve = curve
        self._exchanged = inverse if isinstance(inverse, Kept) else Kept(inverse, self)
        self._known: dict[tuple[float, ...], CurvePoints] = {}
        self.evidence, self.method, self.searches_points = curve.evidence, curve.method, curve.searches_points

    @override
    def reversed(self) -> Kept:
        return self._exchanged

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        rates = tuple(alpha.tolist())
        if rates not in self._known:
            self._known[rates] = self.curve.points(alpha)
        return self._known[rates]

    @override
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        return self.curve.profile(epsilon)

    @override
    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> Bounds:
        return self.curve.rough_profile(epsilon, rate)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self.curve.epsilon(delta)
