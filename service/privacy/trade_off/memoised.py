"""A curve and its inverse that keep the points which they have computed."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.delegating import DelegatingCurve


@final
class MemoisedCurve(DelegatingCurve):
    """The numbers of `curve`. Points are computed once for every list of rates."""

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
