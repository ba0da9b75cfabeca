"""Trade-off curve with two engines: wide enclosures of the first engine are intersected with those of the second."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.limit import WidthLimit
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.work import at_most, is_spent, remaining_work
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.second_engine import SecondEngine
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.enclosed.logs import log_ends, relative_widths

SHARE: Final = 0.6
"""Share of the remaining work that the first engine may use. The second engine may use the rest."""
Ends = tuple[FloatArray, FloatArray]
MOST_PLACES = 8
"""Largest count of wide numbers in a list for which the second engine is used. It would take minutes for more."""
FAINTEST = -690.0
"""ln delta below which the second engine cannot help: a lattice holds masses as doubles."""


@final
class Intersected(DelegatingCurve):
    """Trade-off curve of `first`, intersected with that of a second, slower engine where enclosures are wide.

    Widths are relative, (upper - lower)/upper, and wide if above `tolerance`. `counter` counts the uses of the second
    engine.
    """

    is_capped = True

    def __init__(
        self,
        first: AbstractTradeOff,
        second: Callable[[], AbstractTradeOff],
        tolerance: float,
        counter: SecondEngine | None = None,
    ) -> None:
        super().__init__(first)
        self._make_second, self._tolerance, self._counter = second, tolerance, counter

    @property
    def second(self) -> AbstractTradeOff:
        """Curve of the second engine, built at its first use; every access is counted."""
        if self._counter is not None:
            self._counter.times += 1
        return self._made

    @cached_property
    def _made(self) -> AbstractTradeOff:
        return self._make_second()

    @override
    def reversed(self) -> AbstractTradeOff:

        def second() -> AbstractTradeOff:  # built at its first use, as in this direction
            return self._made.reversed()

        return Intersected(self.curve.reversed(), second, self._tolerance, self._counter)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        with at_most(SHARE * remaining_work()):
            points = self.curve.points(alpha)
        wide = self._wide(points.power) | self._wide(points.type_two_error)
        if not self._uses_second(int(wide.sum())):
            return points
        other = self.second.points(alpha[wide])
        slope, found = points.log_slope, other.log_slope
        return CurvePoints(
            _tightened(points.type_two_error, other.type_two_error, wide),
            _tightened(points.power, other.power, wide),
            EnclosureArray(*_met((slope.lower, slope.upper), (found.lower, found.upper), wide)),
        )

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        with at_most(SHARE * remaining_work()):
            found = self.curve.power_at(rate)
        if found.relative_width() <= self._tolerance or is_spent():
            return found
        other = self.second.power_at(rate)
        tightened = _tightened(EnclosureArray.of(found), EnclosureArray.of(other), np.array([True]))
        return tightened.at(0, Evidence.weakest(found.evidence, other.evidence))

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        with at_most(SHARE * remaining_work()):
            profile = self.curve.profile(epsilon)
        wide = self._wide(profile)
        representable = wide & (log_ends(profile)[1] > FAINTEST)
        if (wide & ~representable).any():
            self._decline(WidthLimit.SMALL_TAIL)
        wide = representable & [not self.curve.is_settled(each) for each in epsilon.tolist()]
        if not self._uses_second(int(wide.sum())):
            return profile
        return _tightened(profile, self.second.profile(epsilon[wide]), wide)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        with at_most(SHARE * remaining_work()):
            found = self.curve.epsilon(delta)
        if found.relative_width() <= self._tolerance or is_spent():
            return found
        return found.intersected(self.second.epsilon(delta))

    def _uses_second(self, wide: int) -> bool:
        """Return whether the second engine shall evaluate `wide` enclosures: 1 to 8 of them, while work is left.

        More than 8 wide enclosures are recorded as the reason (`WidthLimit.LONG_LIST`) why the second engine was not
        used.
        """
        if wide > MOST_PLACES:
            self._decline(WidthLimit.LONG_LIST)
        return 0 < wide <= MOST_PLACES and not is_spent()

    def _decline(self, limit: WidthLimit) -> None:
        if self._counter is not None:
            self._counter.declined = limit

    def _wide(self, bounds: EnclosureArray) -> BoolArray:
        return relative_widths(bounds) > self._tolerance


def _tightened(first: EnclosureArray, second: EnclosureArray, where: BoolArray) -> EnclosureArray:
    lower, upper = _met(log_ends(first), log_ends(second), where)
    return EnclosureArray.from_logs(np.minimum(lower, 0.0), np.minimum(upper, 0.0))


def _met(first: Ends, second: Ends, where: BoolArray) -> Ends:
    """Return the intersection of the bounds `first` and `second` where `where` is true, and `first` elsewhere.

    `second` has only the entries where `where` is true. Raises NumericalFailure where the bounds do not meet.
    """
    lower, upper = (end.copy() for end in first)
    lower[where], upper[where] = np.maximum(lower[where], second[0]), np.minimum(upper[where], second[1])
    if (lower > upper).any():
        raise NumericalFailure("two certified enclosures of one number do not meet")
    return lower, upper
