"""Curve whose numbers are the largest, or the smallest, of those of several curves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import ClassVar, Final, Self, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.extremes import larger, largest, smaller, smallest
from service.privacy.trade_off.enclosed.logs import logged

MOST_COMBINATIONS: Final = 4
"""Largest count of combinations of several curves that are all evaluated. More would cost too much."""


class ExtremeOf(AbstractTradeOff):
    """Curve with the largest (`is_strongest`) or smallest power, profile and epsilon of several `curves`.

    The minimum of several type II errors need not be convex, and the minimum of several profiles need not be the
    profile of a curve. So the slopes of the points are unknown. `map_extremes` combines the `curves` one by one,
    because most combinations need slopes. A subclass sets `is_strongest`.
    """

    is_strongest: ClassVar[bool]

    def __init__(self, curves: Sequence[AbstractTradeOff]) -> None:
        self.curves = tuple(curves)
        self.evidence = Evidence.weakest(*(curve.evidence for curve in self.curves))
        self.method = self.curves[0].method
        self.serves_lists = any(curve.serves_lists for curve in self.curves)
        self.is_one_sided = any(curve.is_one_sided for curve in self.curves)
        self.has_rough_lists = any(curve.has_rough_lists for curve in self.curves)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._extreme(curve.largest_log_ratio for curve in self.curves)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._extreme(curve.singular_power for curve in self.curves)

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        known = ((curve, curve.global_gdp_mu) for curve in self.curves)
        limits = [curve.global_gdp_mu_limit if mu is None else mu.upper for curve, mu in known]
        return max(limits) if self.is_strongest else min(limits)

    @override
    def reversed(self) -> Self:
        return type(self)([curve.reversed() for curve in self.curves])

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = [curve.points(alpha) for curve in self.curves]
        more, less = (larger, smaller) if self.is_strongest else (smaller, larger)
        return CurvePoints.without_slopes(
            reduce(less, (logged(each.type_two_error) for each in points)),
            reduce(more, (logged(each.power) for each in points)),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return reduce(
            larger if self.is_strongest else smaller, (logged(curve.profile(epsilon)) for curve in self.curves)
        )

    @override
    def _rough_profile_formula(self, epsilon: FloatArray, rate: float) -> EnclosureArray:
        read = (
            curve.rough_profile(epsilon, rate) if curve.has_rough_lists else curve.profile(epsilon)
            for curve in self.curves
        )
        return reduce(larger if self.is_strongest else smaller, map(logged, read))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self._extreme(curve.epsilon(delta) for curve in self.curves)

    def _extreme(self, found: Iterable[Enclosure]) -> Enclosure:
        return reduce(largest if self.is_strongest else smallest, found)


@final
class EasiestOf(ExtremeOf):
    """Curve min(f_1, f_2, ...) of the type II errors of several attacks, the strongest at each rate.

    The minimum need not be convex. Each curve is that of one choice of data sets and of one attack on it. So the worst
    case is at least as easy to attack as each of them. The power, the profile and the epsilon of this curve are lower
    bounds of those of the worst case.
    """

    is_strongest = True


@final
class TighterOf(ExtremeOf):
    """Curve with the smallest power, profile and epsilon of several curves that all dominate one worst case.

    Upper bounds of these numbers hold for the worst case, because each of the `curves` is at least as easy to attack.
    """

    is_strongest = False


def map_extremes(combine: Callable[..., AbstractTradeOff], *curves: AbstractTradeOff) -> AbstractTradeOff:
    """Return `combine(*curves)`, also if some curves are the extremes of several curves (`ExtremeOf`).

    Parameters
    ----------
    combine : callable
        Combination of curves whose power rises with the powers of these curves.
    *curves : AbstractTradeOff
        Arguments of the combination. All extremes among them are either the strongest or the tightest of their curves.

    Returns
    -------
    AbstractTradeOff
        The extreme of all combinations if they are few. Otherwise the extreme of the combination of the first curves,
        that of the second curves, and so on. Each combination bounds the combination of the worst cases on the same
        side as its curves bound these worst cases. Without extremes among the arguments the result is
        `combine(*curves)`.
    """
    kinds = {type(curve) for curve in curves if isinstance(curve, ExtremeOf)}
    if len(kinds) != 1:
        return combine(*curves)
    lists = [curve.curves if isinstance(curve, ExtremeOf) else (curve,) for curve in curves]
    (kind,) = kinds
    if math.prod(map(len, lists)) <= MOST_COMBINATIONS:
        return kind(list(itertools.starmap(combine, itertools.product(*lists))))
    count = max(map(len, lists))
    return kind([combine(*(known[min(number, len(known) - 1)] for known in lists)) for number in range(count)])
