"""Comparison of curves: verdicts follow from enclosures alone, and claim nothing that the enclosures leave open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.privacy.enclosure import EnclosureArray, Evidence
from service.privacy.questions.dominance import Verdict, compare
from service.privacy.trade_off.abstract import CurvePoints

RATES = np.array([0.1, 0.2, 0.3])


def points(power: EnclosureArray | None = None, type_two_error: EnclosureArray | None = None) -> CurvePoints:
    """Return points of a curve with a known power, a known type II error, or neither."""
    count = 3 if power is None else len(power.lower)
    unknown = EnclosureArray(np.zeros(count), np.ones(count))
    return CurvePoints(
        type_two_error or unknown, power or unknown, EnclosureArray(np.full(count, -np.inf), np.full(count, np.inf))
    )


def at(*values: float, width: float = 0.0) -> EnclosureArray:
    return EnclosureArray(np.array(values) - width, np.array(values) + width)


def verdict(first: CurvePoints, second: CurvePoints) -> Verdict:
    return compare(RATES, (first, Evidence.EXACT), (second, Evidence.EXACT)).verdict


def test_smaller_power_or_larger_error_is_harder() -> None:
    assert verdict(points(at(0.2, 0.3, 0.4)), points(at(0.3, 0.3, 0.5))) is Verdict.FIRST_IS_HARDER
    assert verdict(points(at(0.3, 0.3, 0.5)), points(at(0.2, 0.3, 0.4))) is Verdict.SECOND_IS_HARDER
    small, large = at(1e-30, 1e-40, 1e-50), at(2e-30, 2e-40, 2e-50)
    assert verdict(points(type_two_error=large), points(type_two_error=small)) is Verdict.FIRST_IS_HARDER


def test_logarithms_decide_when_bounds_underflow() -> None:
    zero, least = np.zeros(3), np.full(3, 5e-324)
    smaller = EnclosureArray(zero, least, np.full(3, -2001.0), np.full(3, -2000.0))
    larger = EnclosureArray(zero, least, np.full(3, -1999.0), np.full(3, -1998.0))
    assert verdict(points(type_two_error=larger), points(type_two_error=smaller)) is Verdict.FIRST_IS_HARDER
    plain = EnclosureArray(zero, least)
    assert verdict(points(type_two_error=plain), points(type_two_error=smaller)) is Verdict.UNDECIDED


def test_overlapping_enclosures_are_undecided_and_counted() -> None:
    wide = compare(
        RATES,
        (points(at(0.2, 0.3, 0.4, width=0.01)), Evidence.EXACT),
        (points(at(0.3, 0.31, 0.41, width=0.01)), Evidence.CERTIFIED),
    )
    assert (wide.verdict, wide.undecided, wide.crossings) == (Verdict.UNDECIDED, 2, ())
    assert wide.evidence is Evidence.CERTIFIED


def test_equal_points_and_same_object_are_equal() -> None:
    assert verdict(points(at(0.2, 0.3, 0.4)), points(at(0.2, 0.3, 0.4))) is Verdict.EQUAL
    one = points()
    assert verdict(one, one) is Verdict.EQUAL
    assert verdict(points(), points()) is Verdict.UNDECIDED


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_crossing_lies_between_nearest_distinguishable_rates(order: list[int]) -> None:
    rates = np.array([0.1, 0.2, 0.3, 0.4])[order]
    first = at(*np.array([0.2, 0.4, 0.5, 0.9])[order], width=0.01)
    second = at(*np.array([0.3, 0.41, 0.49, 0.7])[order], width=0.01)
    found = compare(rates, (points(first), Evidence.EXACT), (points(second), Evidence.EXACT))
    assert (found.verdict, found.crossings, found.undecided) == (Verdict.CROSSING, ((0.1, 0.4),), 2)


def test_touching_curves_do_not_cross() -> None:
    first, second = points(at(0.2, 0.3, 0.4)), points(at(0.3, 0.3, 0.5))
    assert compare(RATES, (first, Evidence.EXACT), (second, Evidence.EXACT)).crossings == ()
    touching = points(at(0.3, 0.3, 0.3)), points(at(0.3, 0.2, 0.3))
    assert compare(RATES, *((side, Evidence.EXACT) for side in touching)).crossings == ()


ENDS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=3)


@given(ENDS)
def test_verdict_holds_for_every_curve_inside_enclosures(ends: list[tuple[float, float, float, float]]) -> None:
    sides = [
        EnclosureArray(
            np.array([min(row[place], row[place + 1]) for row in ends]),
            np.array([max(row[place], row[place + 1]) for row in ends]),
        )
        for place in (0, 2)
    ]
    found = compare(RATES, (points(sides[0]), Evidence.EXACT), (points(sides[1]), Evidence.EXACT))
    back = compare(RATES, (points(sides[1]), Evidence.EXACT), (points(sides[0]), Evidence.EXACT))
    swapped = {Verdict.FIRST_IS_HARDER: Verdict.SECOND_IS_HARDER, Verdict.SECOND_IS_HARDER: Verdict.FIRST_IS_HARDER}
    assert back.verdict is swapped.get(found.verdict, found.verdict)
    assert back.crossings == found.crossings
    hostile = sides[0].upper - sides[1].lower  # The least favourable values for 'first is harder'.
    kind = sides[0].lower - sides[1].upper
    assert (found.verdict in (Verdict.FIRST_IS_HARDER, Verdict.EQUAL)) == bool((hostile <= 0).all())
    for start, end in found.crossings:
        left, right = (int(np.flatnonzero(rate == RATES)[0]) for rate in (start, end))
        assert (hostile[left] < 0 and kind[right] > 0) or (kind[left] > 0 and hostile[right] < 0)
