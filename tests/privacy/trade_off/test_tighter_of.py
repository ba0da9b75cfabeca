"""Smallest of several upper bounds of one worst case, alone and in mixtures, against the curve of their maximum.

`PointwiseMax` is computed independently: its profile is the convex envelope of both profiles. It is the largest worst
case that two curves bound. So no answer of their `TighterOf` may be more private than that of `PointwiseMax`.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator

from api_schemas.questions import QuestionSpec
from service.privacy.composition.planning import choose
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.extreme_of import TighterOf
from service.privacy.trade_off.combinators.pointwise_max import PointwiseMax
from service.privacy.trade_off.mixture.curve import mixed
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.answers import EngineAnswer, evaluate_question
from service.resources.bounds import BOUNDS
from tests.privacy.cases import built, gaussian, laplace, sampled
from tests.resources import request_space

SEED: Final = 20261128
NEAR: Final = 1e-9
WEIGHTS: Final = (Fraction(1, 4), Fraction(3, 4))
FALLING: Final = ("deletion_capacity", "unlearning_guarantee")
"""Questions whose answers fall where the power rises."""
RATES: Final = np.array([1e-6, 0.02, 0.7])


def drawn(random: Generator) -> TradeOffPair:
    """Draw one step in closed form, of which half have different curves in both directions."""
    noise = math.exp(random.uniform(-0.7, 1.0))
    step: list[dict[str, Any]] = [
        gaussian(noise),
        laplace(noise),
        {"type": "pure_dp", "epsilon": 1 / noise},
        {"type": "approximate_dp", "epsilon": 1 / noise, "delta": 10.0 ** random.uniform(-5, -1)},
    ]
    base = step[random.integers(4)]
    if random.uniform() < 0.5:
        base = sampled(random.uniform(0.05, 0.9), step[random.integers(2)])
    return choose.pair(built(base))


def both_ways(random: Generator) -> tuple[list[TradeOffPair], TradeOffPair, TradeOffPair]:
    """Return two curves, their `TighterOf`, and their `PointwiseMax`."""
    first, second = drawn(random), drawn(random)
    add, remove = PointwiseMax(first.add, second.add), PointwiseMax(first.remove, second.remove)
    return [first, second], choose._tightest([first, second]), TradeOffPair(add, remove, "")


def parsed(question: dict[str, Any]) -> QuestionSpec:
    body = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [question]}
    return BOUNDS.request_type.model_validate_json(json.dumps(body)).questions[0]


def safe(question: QuestionSpec, answer: EngineAnswer) -> list[tuple[float, float, int]]:
    """Return the safe and the other bound of all numbers of an answer, and whether the safe bound is the upper one."""
    falls = question.type in FALLING or getattr(question, "side", "") == "at_least"
    numbers = [(answer.number, falls)]
    if "points" in answer.number:
        names = ("power", "type_two_error")
        numbers = [(point[name], name == "type_two_error") for point in answer.number["points"] for name in names]
    ends = [(float(str(number["lower"])), float(str(number["upper"])), down) for number, down in numbers]
    return [(low, high, -1) if down else (high, low, 1) for low, high, down in ends]


@pytest.mark.parametrize("seed", range(6))
def test_every_answer_lies_between_that_of_the_maximum_and_those_of_both_curves(seed: int) -> None:
    random = np.random.default_rng([SEED, seed])
    for name, draw in request_space.QUESTIONS.items():
        if name == "gdp_mu":
            continue  # mu over a range does not rise with the power where the range may be empty
        parts, tighter, true = both_ways(random)
        question = parsed(request_space._direction(random, {"type": name, **draw(random)}))
        pairs = (tighter, true, *parts)
        found, least, *most = (safe(question, evaluate_question(pair, question, 1e-6)) for pair in pairs)
        for (bound, _, sign), (_, truth, _), *alone in zip(found, least, *most, strict=True):
            assert sign * bound >= sign * truth - NEAR * abs(truth), question
            assert all(sign * bound <= sign * other + NEAR * abs(other) for other, _, _ in alone), question


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 6))])
def test_mixtures_of_bounds_are_bounds(seed: int) -> None:
    """Check that a mixture of `TighterOf` bounds the mixture of the maxima, and nowhere exceeds its parts."""
    random = np.random.default_rng([SEED, 1, seed])
    parts, tighter, true = both_ways(random)
    _, other, true_other = both_ways(random) if seed % 2 else (None, *[drawn(random)] * 2)
    found, least = (mixed(WEIGHTS, pairs, "", "") for pairs in ([tighter, other], [true, true_other]))
    for direction in ("add", "remove", "both"):
        curve, truth = getattr(found, direction), getattr(least, direction)
        assert isinstance(curve, TighterOf)
        points, attained = curve.points(RATES), truth.points(RATES)
        assert (points.power.upper >= attained.power.lower * (1 - NEAR)).all()
        assert (points.type_two_error.lower <= attained.type_two_error.upper * (1 + NEAR)).all()
        epsilons = np.array([0.0, 0.7])
        assert (curve.profile(epsilons).upper >= truth.profile(epsilons).lower * (1 - NEAR)).all()
        for part in parts:
            alone = getattr(mixed(WEIGHTS, [part, other], "", ""), direction).points(RATES)
            assert (points.power.upper <= alone.power.upper * (1 + NEAR)).all()
            assert (points.type_two_error.lower >= alone.type_two_error.lower * (1 - NEAR)).all()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 8))])
def test_power_and_type_two_error_agree_in_every_direction(seed: int) -> None:
    """Check that bounds of power and type II error do not improve each other, and that powers rise with the rate."""
    random = np.random.default_rng([SEED, 2, seed])
    _, tighter, _ = both_ways(random)
    bracket = TradeOffPair(
        Bracketed(tighter.add, tighter.add),
        Bracketed(tighter.remove, tighter.remove),
        "",
    )
    for pair in (tighter, bracket, mixed(WEIGHTS, [bracket, drawn(random)], "", "")):
        for curve in (pair.add, pair.remove, pair.both):
            points = curve.points(RATES)
            assert (points.power.upper <= 1 - points.type_two_error.lower + NEAR).all()
            assert (points.type_two_error.lower <= 1 - points.power.upper + NEAR).all()
            assert (np.diff(points.power.upper) >= -NEAR * points.power.upper[1:]).all()
