"""Numbers of one run at similar thresholds share an inversion contour, and no answer depends on earlier requests."""

from __future__ import annotations

import random

import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd

RATES = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10)
DELTAS = (1e-3, 1e-5, 1e-8)
EPSILONS = (0.0, 0.3, 1.0)


def _pair(seed: int) -> TradeOffPair:
    draw = random.Random(seed)
    noise, rate = 10 ** draw.uniform(-0.1, 1.2), 10 ** draw.uniform(-3, -0.5)
    return WorstCase().curves(built(dpsgd(noise, rate, int(10 ** draw.uniform(2.5, 5)))))


def _read(pair: TradeOffPair, question: tuple[str, float]) -> Enclosure:
    kind, at = question
    if kind == "power":
        return pair.add.power_at(at)
    return pair.both.epsilon(at) if kind == "epsilon" else pair.both.profile_at(at)


@pytest.mark.parametrize("seed", range(4))
def test_answer_does_not_depend_on_earlier_requests(seed: int) -> None:
    questions = (
        [("power", at) for at in RATES] + [("epsilon", at) for at in DELTAS] + [("delta", at) for at in EPSILONS]
    )
    random.Random(seed).shuffle(questions)
    together = _pair(seed)
    for question in questions:
        after_others, alone = _read(together, question), _read(_pair(seed), question)
        assert (after_others.lower, after_others.upper) == (alone.lower, alone.upper), question


@pytest.mark.parametrize("seed", range(6))
def test_epsilon_of_both_directions_is_the_larger(seed: int) -> None:
    """Epsilon of both directions meets the larger one of two directions, and is no wider."""
    pair = _pair(100 + seed)
    for delta in DELTAS:
        both, add, remove = pair.both.epsilon(delta), pair.add.epsilon(delta), pair.remove.epsilon(delta)
        assert both.lower <= max(add.upper, remove.upper)
        assert both.upper >= max(add.lower, remove.lower)
        assert both.relative_width() <= max(add.relative_width(), remove.relative_width())
