"""A seeded part of the sweeps of `make bench`: random runs of the box and random cases of every kind, by two
engines.
"""

from __future__ import annotations

import math

import pytest

from service.privacy.enclosure import Enclosure, Evidence
from tests.privacy.agreement import Comparison, box_answer, box_comparison, comparisons, meet
from tests.privacy.random_cases import FAMILIES, BoxPoint, RandomCase, box_points, random_cases
from tests.privacy.relaxed_cases import RelaxedCase, relaxed_cases, relaxed_comparisons
from tests.slow_marker import sample_of

POINTS = box_points(10, seed=2026)
CASES = random_cases(20, 2, seed=2026)
RELAXED = relaxed_cases(5, 3, seed=2026)
WIDTH = 1e-6


def is_sampled_often(point: BoxPoint) -> bool:
    """Return whether a record is expected in 30 steps or more, so that e^-30 is negligible beside the numbers."""
    return point.steps * point.sample_rate >= 30 and point.sample_rate >= 1e-3


OFTEN = [point for point in box_points(24, seed=7) if is_sampled_often(point)]


@sample_of(8)
@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_engines_agree_in_the_box(point: BoxPoint, direction: str) -> None:
    answer = box_answer(point, direction)
    assert 0 <= answer.lower <= answer.upper <= 1
    assert answer.upper >= point.baseline
    comparison = box_comparison(point, direction, lambda: answer)
    assert comparison.agrees, comparison


@pytest.mark.parametrize("point", OFTEN, ids=str)
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_enclosures_are_narrow_if_record_is_sampled_often(point: BoxPoint, direction: str) -> None:
    assert box_answer(point, direction).relative_width() <= WIDTH


@sample_of(10)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.family)
def test_engines_agree_on_random_cases(case: RandomCase) -> None:
    for comparison in comparisons(case):
        assert comparison.agrees, comparison


@pytest.mark.parametrize("case", RELAXED, ids=lambda case: case.family)
def test_relaxed_answers_agree_with_second_opinions(case: RelaxedCase) -> None:
    """Answers against relaxed adversaries agree with simulated attacks, other engines, or the parts of a mixture.

    The worst case never has less power.
    """
    for comparison in relaxed_comparisons(case):
        assert comparison.agrees, comparison


def test_every_family_is_drawn_and_has_a_second_engine() -> None:
    assert {case.family for case in random_cases(400, 1, seed=1)} == set(FAMILIES)


def test_box_points_lie_in_the_box() -> None:
    for point in box_points(200, seed=3):
        assert 0.3 <= point.noise_multiplier <= 100
        assert 1e-6 <= point.sample_rate <= 1
        assert 1 <= point.steps <= 10**6
        assert 1e-12 <= point.baseline <= 0.5


def enclosure(lower: float, upper: float, *, logarithms: bool = False) -> Enclosure:
    if logarithms:
        return Enclosure(0.0, math.exp(upper), Evidence.CERTIFIED, lower, upper)
    return Enclosure(lower, upper, Evidence.CERTIFIED)


def test_meet_requires_common_number() -> None:
    assert meet(enclosure(0.1, 0.2), enclosure(0.2, 0.3))
    assert not meet(enclosure(0.1, 0.2), enclosure(0.25, 0.3))
    assert meet(enclosure(1.0, math.inf), enclosure(math.inf, math.inf))
    assert meet(enclosure(-900.0, -890.0, logarithms=True), enclosure(-895.0, -880.0, logarithms=True))
    assert not meet(enclosure(-900.0, -890.0, logarithms=True), enclosure(-885.0, -880.0, logarithms=True))
    assert not Comparison("", "", ("auto",), (), "contradiction").agrees
