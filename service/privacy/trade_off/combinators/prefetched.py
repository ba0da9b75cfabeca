"""Trade-off curve with some numbers that were computed in advance, in one batch with those of other curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.delegating import DelegatingCurve


@final
class Known(NamedTuple):
    """Key of a known number of a curve: the direction, the quantity, and its argument.

    Attributes
    ----------
    reflected : bool
        Whether the direction is remove (swapped hypotheses).
    quantity : str
        What the number is.
    at : float
        Argument of the number.

    Notes
    -----
    The quantity `epsilon_cap` is an upper bound of epsilon. `power` is the power at a single rate. `point` is the power
    at a rate of a list, where `type_two_error` and `log_slope` are known, too.
    """

    reflected: bool
    quantity: Literal["power", "point", "type_two_error", "log_slope", "profile", "epsilon", "epsilon_cap"]
    at: float


_OF_POINTS: Final = ("type_two_error", "point", "log_slope")


@final
class PrefetchedCurve(DelegatingCurve):
    """Trade-off curve with the numbers of `curve`. Enclosures in `known` replace their computation.

    `known` has enclosures by direction, quantity and argument (`Known`).
    """

    is_capped = True

    def __init__(self, curve: AbstractTradeOff, known: Mapping[Known, Enclosure], *, reflected: bool) -> None:
        super().__init__(curve)
        self._known, self._reflected = known, reflected
        self.searches_points, self.has_only_profile = curve.searches_points, curve.has_only_profile

    @override
    def reversed(self) -> PrefetchedCurve:
        return PrefetchedCurve(self.curve.reversed(), self._known, reflected=not self._reflected)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        rates: list[float] = alpha.tolist()
        columns = [[self._known.get(Known(self._reflected, name, rate)) for rate in rates] for name in _OF_POINTS]
        known = [[number for number in column if number is not None] for column in columns]
        if any(len(column) < len(rates) for column in known):
            return self.curve.points(alpha)
        return CurvePoints(*map(EnclosureArray.of_numbers, known))

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        known = self._known.get(Known(self._reflected, "power", rate))
        return self.curve.power_at(rate) if known is None else known

    @override
    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        known = self._known.get(Known(self._reflected, "profile", epsilon))
        return self.curve.profile_at(epsilon) if known is None else known

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        known = self._known.get(Known(self._reflected, "epsilon", delta))
        return self.curve.epsilon(delta) if known is None else known

    @override
    def epsilon_cap(self, delta: float, enough: float = -math.inf) -> float:
        cap = self._known.get(Known(self._reflected, "epsilon_cap", delta))
        whole = self._known.get(Known(self._reflected, "epsilon", delta))
        caps = [known.upper for known in (cap, whole) if known is not None]
        return min(caps) if caps else self.curve.epsilon_cap(delta, enough)
