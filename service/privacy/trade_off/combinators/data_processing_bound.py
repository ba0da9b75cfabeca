"""Lower bounds of a composed trade-off curve from its parts: a composition reveals at least what a part does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import CLOSED_FORM, AbstractTradeOff, CurvePoints
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.enclosed.logs import log_ends, relative_widths

WIDE: Final = 1e-6
"""Relative width above which parts are evaluated: a part could not narrow a narrower enclosure by more."""
MOST_WHEN_SPENT: Final = 16
"""Largest count of wide numbers that closed forms of parts narrow after the work of a request is spent."""
ROUNDING: Final = 1e-13
"""Largest crossing of logarithms, relative to 1 + their size, that rounding explains."""


@final
class DataProcessingBound(DelegatingCurve):
    """Trade-off curve of a composition `whole`, whose lower bounds are improved by those of parts of the composition.

    Parameters
    ----------
    whole : AbstractTradeOff
        Curve of the composition, with certain evidence. Its upper bounds stay unchanged.
    parts : callable
        Builds the curves of the parts. It is called, and the parts are evaluated, only for an enclosure of a
        relative width above 1e-6.

    Notes
    -----
    Forgetting the results of the other parts is post-processing. So on any pair of data sets no test of a part has more
    power than the best test of the whole (Dong, Roth, Su 2022, Proposition 2.9).
    """

    is_capped = True

    def __init__(self, whole: AbstractTradeOff, parts: Callable[[], Sequence[AbstractTradeOff]]) -> None:
        super().__init__(whole)
        self._make_parts = parts

    @cached_property
    def parts(self) -> Sequence[AbstractTradeOff]:
        """Trade-off curves of the parts of the composition, built at their first use."""
        return self._make_parts()

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._raised(self.curve.largest_log_ratio, lambda part: part.largest_log_ratio)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        found = self.curve.smallest_log_ratio
        if found.lower == found.upper:
            return found
        least = min((part.smallest_log_ratio.upper for part in self.parts), default=found.upper)
        return Enclosure(found.lower, max(min(found.upper, least), found.lower), found.evidence)

    @property
    @override
    def outer_log_ratios(self) -> tuple[float, float]:
        return self.curve.outer_log_ratios

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._raised(self.curve.singular_power, lambda part: part.singular_power)

    @override
    def reversed(self) -> AbstractTradeOff:

        def parts() -> Sequence[AbstractTradeOff]:  # built at their first use, as in this direction
            return [part.reversed() for part in self.parts]

        return DataProcessingBound(self.curve.reversed(), parts)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = self.curve.points(alpha)
        wide = (relative_widths(points.power) > WIDE) | (relative_widths(points.type_two_error) > WIDE)
        parts = self._affordable(int(wide.sum()))
        if not parts:
            return points
        read = [part.points(alpha[wide]) for part in parts]
        return CurvePoints(
            _from_above(points.type_two_error, [part.type_two_error for part in read], wide),
            _from_below(points.power, [part.power for part in read], wide),
            points.log_slope,
        )

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        """Compute the power alone at one false positive rate.

        If a composition reveals nearly everything, only the type II error is wide.
        """
        found = self.curve.power_at(rate)
        if found.lower == found.upper or found.relative_width() <= WIDE:
            return found
        at = np.array([rate])
        read = [part.points(at).power for part in self._affordable(1)]
        return _from_below(EnclosureArray.of(found), read, np.array([True])).at(0, found.evidence)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        profile = self.curve.profile(epsilon)
        wide = relative_widths(profile) > WIDE
        parts = self._affordable(int(wide.sum()))
        return _from_below(profile, [part.profile(epsilon[wide]) for part in parts], wide) if parts else profile

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self._raised(self.curve.epsilon(delta), lambda part: part.epsilon(delta))

    def _affordable(self, numbers: int) -> Sequence[AbstractTradeOff]:
        """Return the parts to evaluate for `numbers` numbers of which the whole has wide enclosures.

        When the work of the request is spent, at most `MOST_WHEN_SPENT` numbers are still evaluated, and only on parts
        in closed form, which cost milliseconds.
        """
        if numbers == 0:
            return ()
        if not is_spent():
            return self.parts
        return [part for part in self.parts if part.method == CLOSED_FORM] if numbers <= MOST_WHEN_SPENT else ()

    def _raised(self, found: Enclosure, read: Callable[[AbstractTradeOff], Enclosure]) -> Enclosure:
        if found.lower == found.upper or found.relative_width() <= WIDE:
            return found
        least = max((read(part).lower for part in self._affordable(1)), default=found.lower)
        if least <= found.lower:
            return found
        if least > found.upper + ROUNDING * (1 + abs(found.upper)):
            raise NumericalFailure("a part reveals more than the whole, beyond rounding")
        return Enclosure(min(least, found.upper), found.upper, found.evidence)


def _from_below(whole: EnclosureArray, parts: Sequence[EnclosureArray], where: BoolArray) -> EnclosureArray:
    """Return `whole` with lower bounds raised to those of `parts` where `where` is true.

    The `parts` have only these entries. Raised lower bounds do not exceed the upper bounds; NumericalFailure is raised
    if rounding does not explain the excess.
    """
    lower, upper = log_ends(whole)
    raised, plain = lower.copy(), whole.lower.copy()
    for part in parts:
        raised[where] = np.maximum(raised[where], log_ends(part)[0])
        plain[where] = np.maximum(plain[where], part.lower)
    _check_order(raised, upper)
    return EnclosureArray(np.minimum(plain, whole.upper), whole.upper, np.minimum(raised, upper), upper)


def _from_above(whole: EnclosureArray, parts: Sequence[EnclosureArray], where: BoolArray) -> EnclosureArray:
    """Return `whole` with upper bounds reduced to those of `parts` where `where` is true.

    The `parts` have only these entries. Reduced upper bounds are not below the lower bounds; NumericalFailure is raised
    if rounding does not explain the gap.
    """
    lower, upper = log_ends(whole)
    lowered, plain = upper.copy(), whole.upper.copy()
    for part in parts:
        lowered[where] = np.minimum(lowered[where], log_ends(part)[1])
        plain[where] = np.minimum(plain[where], part.upper)
    _check_order(lower, lowered)
    return EnclosureArray(whole.lower, np.maximum(plain, whole.lower), lower, np.maximum(lowered, lower))


def _check_order(lower: FloatArray, upper: FloatArray) -> None:
    """Raise NumericalFailure if `lower` exceeds `upper` by more than rounding; both are logarithms."""
    known = upper > -np.inf
    if (lower[known] > upper[known] + ROUNDING * (1 + np.abs(upper[known]))).any():
        raise NumericalFailure("a part reveals more than the whole, beyond rounding")
