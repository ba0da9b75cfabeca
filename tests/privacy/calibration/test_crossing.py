"""Search for a crossing: it finds neighbouring numbers on both sides for any objective, with few evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.privacy.calibration.crossing import Crossing, Evaluation
from service.privacy.calibration.scale import TINY, Scale

Height = Callable[[float], float]
"""Objectives of log(number/root): above 0 left of the root, where the condition does not hold."""
SHAPES: dict[str, Height] = {
    "power": lambda away: -1.3 * away,
    "steep": lambda away: -16 * away,
    "flat": lambda away: -0.1 * away,
    "curved": lambda away: -away - 0.1 * math.copysign(away**2, away),
    "saturating": lambda away: -math.tanh(away),
    "exponential": lambda away: math.expm1(-away) if away > -600 else math.inf,
    "jump": lambda away: 1.0 if away < 0 else -1.0,
    "stairs": lambda away: 0.5 - math.floor(4 * away + 0.5) if abs(away) < 1e6 else -away,
    "nothing known": lambda away: math.inf if away < 0 else -math.inf,
    "no numbers": lambda _: math.nan,
    "rough": lambda away: -away * (1 + 0.5 * math.sin(50 * away)),
    "slow at the root": lambda away: -(away**3),
}
MOST_LOOKS = 90
SMOOTH = ("power", "steep", "flat", "curved", "saturating")
FEW_LOOKS = 16


class CountingCondition:
    """A condition that holds from a root on (in the coordinate), with its objective and its domain.

    It counts its evaluations.
    """

    def __init__(self, shape: str, root: float, scale: Scale, served: tuple[float, float] = (0, math.inf)) -> None:
        self.shape, self.root, self.scale, self.served, self.looks = SHAPES[shape], root, scale, served, 0

    def holds(self, number: float) -> bool:
        return self.scale.side * (number - self.root) >= 0

    def __call__(self, number: float) -> Evaluation | None:
        assert self.scale.low <= number <= self.scale.high
        self.looks += 1
        if not self.served[0] <= number <= self.served[1]:
            return None
        away = self.scale.coordinate(number) - self.scale.coordinate(self.root)
        height = self.shape(away)
        # Rounding of the objective near the root does not decide.
        return Evaluation(number, self.holds(number), height)


def searched(condition: CountingCondition, start: float) -> Crossing:
    crossing = Crossing(condition, condition.scale, [])
    crossing.run(start)
    return crossing


@given(
    shape=st.sampled_from(list(SHAPES)),
    root=st.floats(-11, 11),
    start=st.floats(-11, 11),
    side=st.sampled_from([-1, 1]),
    tolerance=st.sampled_from([1e-2, 1e-6, 1e-9]),
)
def test_search_returns_neighbours_on_both_sides(
    shape: str, root: float, start: float, side: int, tolerance: float
) -> None:
    scale = Scale(low=1e-6, high=1e6, whole=False, side=side, tolerance=tolerance)
    condition = CountingCondition(shape, math.exp(root), scale)
    found = searched(condition, math.exp(start))
    assert found.inside is not None
    assert found.outside is not None
    assert condition.holds(found.inside.at)
    assert not condition.holds(found.outside.at)
    assert scale.are_neighbours(found.inside.at, found.outside.at)
    assert condition.looks <= MOST_LOOKS
    if shape in SMOOTH:
        assert condition.looks <= FEW_LOOKS


@given(
    shape=st.sampled_from(list(SHAPES)),
    root=st.integers(2, 10**12),
    start=st.integers(1, 10**12),
    side=st.sampled_from([-1, 1]),
)
def test_search_over_integers_is_exact(shape: str, root: int, start: int, side: int) -> None:
    scale = Scale(low=1, high=10**12, whole=True, side=side, tolerance=1e-6)
    condition = CountingCondition(shape, root, scale)
    found = searched(condition, start)
    assert found.inside is not None
    assert found.inside.at == root
    if root - side > 10**12:
        assert found.outside is None
    else:
        assert found.outside is not None
        assert found.outside.at == root - side
    assert condition.looks <= MOST_LOOKS


@pytest.mark.parametrize("root", [2.0, -1.0])
@pytest.mark.parametrize("side", [-1, 1])
def test_search_evaluates_range_endpoints(side: int, root: float) -> None:
    scale = Scale(low=0.0, high=1.0, whole=False, side=side, tolerance=1e-6)
    crossing = Crossing(lambda number: Evaluation(number, side * (number - root) >= 0, math.nan), scale, [])
    crossing.run(0.5)
    holds = side * (0.5 - root) >= 0
    found, missing = (crossing.inside, crossing.outside) if holds else (crossing.outside, crossing.inside)
    assert missing is None
    assert found is not None
    assert found.at == (scale.first if holds else scale.last)


@given(served=st.floats(0.1, 10), root=st.floats(0.001, 1000), side=st.sampled_from([-1, 1]))
def test_search_stops_at_unsupported_numbers(served: float, root: float, side: int) -> None:
    """The search evaluates only supported numbers, and its result is the last of them if the crossing lies beyond."""
    scale = Scale(low=1e-4, high=1e4, whole=False, side=side, tolerance=1e-4)
    condition = CountingCondition("power", root, scale, (served / 3, served * 3))
    found = searched(condition, served)
    seen = [each.at for each in found.evaluations]
    assert all(served / 3 <= at <= served * 3 for at in seen)
    if served / 3 * 1.001 < root < served * 3 / 1.001:
        assert found.inside is not None
        assert found.outside is not None
        assert scale.are_neighbours(found.inside.at, found.outside.at)
    elif not served / 3 <= root <= served * 3:
        assert (found.inside is None) != (found.outside is None)
        edge = served * 3 if root > served * 3 else served / 3
        assert min(abs(math.log(at / edge)) for at in seen) < 2e-4
    assert condition.looks <= MOST_LOOKS


def test_unsupported_gap_counts_as_condition_not_met() -> None:
    scale = Scale(low=1e-4, high=1e4, whole=False, side=1, tolerance=1e-6)
    condition = CountingCondition("power", 1.0, scale)
    known = [seen for seen in (condition(0.1), condition(10.0)) if seen is not None]
    crossing = Crossing(lambda number: None if 0.5 < number < 2 else condition(number), scale, known)
    crossing.run(1.0)
    assert crossing.inside is not None
    assert crossing.inside.at == pytest.approx(2.0, rel=1e-5)


@given(
    numbers=st.tuples(st.floats(0, 1e15), st.floats(0, 1e15)),
    whole=st.booleans(),
    tolerance=st.sampled_from([1e-12, 1e-6, 1.0]),
)
def test_midpoint_lies_between_its_numbers(numbers: tuple[float, float], whole: bool, tolerance: float) -> None:
    scale = Scale(low=0.0, high=1e15, whole=whole, side=1, tolerance=tolerance)
    one, other = (float(round(number)) for number in numbers) if whole else numbers
    if scale.are_neighbours(one, other):
        return
    middle = scale.between(one, other)
    assert min(one, other) < middle < max(one, other)
    assert not whole or middle == int(middle)


@given(st.floats(0, 1e15), st.sampled_from([-1, 1]))
def test_coordinates_round_trip(number: float, side: int) -> None:
    scale = Scale(low=0.0, high=1e15, whole=False, side=side, tolerance=1e-6)
    found = scale.number(scale.coordinate(number))
    assert found == 0 if number < TINY / 2 else found == pytest.approx(number, rel=1e-11)


def test_spread_covers_whole_range() -> None:
    scale = Scale(low=1, high=10**6, whole=True, side=-1, tolerance=1e-6)
    numbers = scale.spread(9)
    assert (numbers[0], numbers[-1]) == (10**6, 1)
    assert (np.diff(numbers) < 0).all()
    assert all(number == int(number) for number in numbers)
