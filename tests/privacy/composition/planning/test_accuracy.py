"""Relative tolerance in the contour engine: a smaller tolerance is used, a larger one leaves its answers unchanged."""

from __future__ import annotations

import pytest

from service.privacy.composition.planning.accuracy import DEFAULT_ACCURACY, Accuracy
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.enclosure import Enclosure
from tests.privacy.random_cases import BoxPoint, box_points

POINTS = box_points(40, seed=5)
RARE_JUMPS = POINTS[39]
"""The default answer is 1e-7 wide, by a deformed contour."""
NO_FINER_CONTOUR = POINTS[12]
"""No deformed contour truncates as little as 1e-9 requires."""


def epsilon(point: BoxPoint, tolerance: float) -> Enclosure:
    return pair(point.mechanism, "contour", options=EngineOptions(relative_tolerance=tolerance)).add.epsilon(1e-6)


def power(point: BoxPoint, tolerance: float) -> Enclosure:
    curves = pair(point.mechanism, "contour", options=EngineOptions(relative_tolerance=tolerance))
    return curves.remove.power_at(point.baseline)


def test_small_tolerance_is_met_by_deformed_contour() -> None:
    default, fine = epsilon(RARE_JUMPS, 1e-6), epsilon(RARE_JUMPS, 1e-9)
    assert 1e-8 < default.relative_width() <= 1e-6
    assert fine.relative_width() <= 1e-9
    assert default.lower <= fine.lower <= fine.upper <= default.upper


def test_unattainable_tolerance_widens_nothing() -> None:
    default, fine = power(NO_FINER_CONTOUR, 1e-6), power(NO_FINER_CONTOUR, 1e-9)
    assert 1e-9 < fine.relative_width() <= default.relative_width()
    assert fine.lower <= default.upper
    assert default.lower <= fine.upper


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 2.5e-7])
def test_large_tolerances_leave_contour_engine_unchanged(tolerance: float) -> None:
    accuracy = Accuracy(tolerance)
    assert accuracy.deformed == DEFAULT_ACCURACY.deformed
    assert accuracy.straight == DEFAULT_ACCURACY.straight
    assert epsilon(RARE_JUMPS, tolerance) == epsilon(RARE_JUMPS, 1e-6)


def test_width_follows_tolerance_down_to_rounding() -> None:
    widths = [Accuracy(tolerance).deformed for tolerance in (1e-6, 1e-8, 1e-9, 1e-12)]
    assert widths == [1e-6, 1e-8, 1e-9, 1e-10]
    assert DEFAULT_ACCURACY.straight == 1e-9
    assert DEFAULT_ACCURACY.straight_of_many == 1e-8


def test_options_are_only_made_coarser() -> None:
    assert DEFAULT_OPTIONS.no_finer_than(1e-9) is DEFAULT_OPTIONS
    assert DEFAULT_OPTIONS.no_finer_than(1e-3).relative_tolerance == 1e-3
