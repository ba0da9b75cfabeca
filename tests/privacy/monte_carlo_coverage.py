"""Miss rate of Monte Carlo intervals for known values: every question of the API, in every direction."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter
from scipy import stats

from api_schemas.questions import QuestionSpec
from service.privacy.composition.planning import choose
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.answers import evaluate_question
from tests.privacy.cases import built, dpsgd, gaussian, laplace, mixture, sampled
from tests.privacy.random_cases import DIRECTIONS

Spec = Mapping[str, Any]
SAMPLES: Final = 2_000
MECHANISMS: Final[Mapping[str, Spec]] = {
    "Gaussian": gaussian(1.0),
    "sampled Gaussian": sampled(0.3, gaussian(0.7)),
    "sampled Laplace": sampled(0.4, laplace(0.7)),
    "Laplace run": {"type": "repeated", "mechanism": laplace(2.0), "steps": 5},
    "exponential": {"type": "exponential", "epsilon": 1.5},
    "approximate DP": {"type": "approximate_dp", "epsilon": 1.0, "delta": 0.05},
    "sampled Gaussian run": dpsgd(2.0, 0.1, 100),
    "mixture": mixture((0.4, gaussian(0.8)), (0.6, sampled(0.5, gaussian(1.0)))),
}
"""Smooth laws, atoms, mass outside the other law, sums on lattices, and mixtures of evaluated parts."""
MIXED: Final = ("mixture",)
"""Questions that need an expensive search."""
QUESTIONS: Final[Mapping[str, Spec]] = {
    "trade_off, 12 points": {"type": "trade_off", "false_positive_rates": np.geomspace(1e-3, 0.95, 12).tolist()},
    "epsilon": {"type": "epsilon", "delta": 0.08},
    "delta": {"type": "delta", "epsilon": 0.4},
    "advantage": {"type": "advantage"},
    "reconstruction": {"type": "reconstruction", "baseline_success": 0.02},
    "reconstruction, 1 of 7": {"type": "reconstruction", "candidates": 7},
    "attack_accuracy": {"type": "attack_accuracy", "prior": 0.4},
    "attack_accuracy at a rate": {"type": "attack_accuracy", "prior": 0.7, "false_positive_rate": 0.2},
    "positive_predictive_value": {"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 0.05},
    "positive_predictive_value, at_least": {
        "type": "positive_predictive_value",
        "prior": 0.3,
        "false_positive_rate": 0.3,
        "side": "at_least",
    },
    "negative_predictive_value": {"type": "negative_predictive_value", "prior": 0.3, "false_positive_rate": 0.3},
    "negative_predictive_value, at_least": {
        "type": "negative_predictive_value",
        "prior": 0.3,
        "false_positive_rate": 0.1,
        "side": "at_least",
    },
    "advantage_over_prior": {"type": "advantage_over_prior", "prior": 0.2},
    "deletion_capacity": {"type": "deletion_capacity", "prior": 0.001, "confidence": 0.9},
    "unlearning_guarantee": {"type": "unlearning_guarantee", "prior": 0.05, "confidence": 0.9},
}
SEARCHED: Final[Mapping[str, Spec]] = {
    "gdp_mu": {"type": "gdp_mu", "false_positive_rate_min": 0.01, "type_two_error_min": 0.01},
    "gdp_mu, wide range": {"type": "gdp_mu"},
}
"""Suprema over whole curves: hundreds of evaluations each."""
CONFIDENCES: Final = (0.9, 0.99)
SEEDS: Final = 500
"""Seeds for every kind of question: half of them on either of two mechanisms, if a mechanism is fast enough."""
MIXED_SEEDS: Final = 60
CHANCE: Final = 1e-6
"""Probability that one row is reported to miss too often although it does not."""


@dataclass(frozen=True)
class CoverageRow:
    """A row of the sweep: a question on a mechanism, at a confidence."""

    mechanism: str
    question: str
    direction: str
    confidence: float


def asked(mechanism: str, questions: Sequence[str], confidence: float) -> list[CoverageRow]:
    return [CoverageRow(mechanism, name, direction, confidence) for name in questions for direction in DIRECTIONS]


def rows(seeds: int = SEEDS) -> list[tuple[CoverageRow, int]]:
    """Return the questions whose coverage is measured, each with its number of seeds."""
    plain = [name for name in MECHANISMS if name not in MIXED]
    found: list[tuple[CoverageRow, int]] = []
    for confidence in CONFIDENCES:
        for index, question in enumerate(QUESTIONS):
            for mechanism in (plain[index % len(plain)], plain[(index + 3) % len(plain)]):
                found += [(row, seeds // 2) for row in asked(mechanism, [question], confidence)]
        for question, mechanism in zip(SEARCHED, ("sampled Gaussian", "Laplace run"), strict=True):
            directions = DIRECTIONS if question == "gdp_mu" else ("add",)
            found += [(CoverageRow(mechanism, question, direction, confidence), seeds) for direction in directions]
        for mechanism in MIXED:
            few = ("epsilon", "delta", "attack_accuracy")
            found += [(row, min(seeds, MIXED_SEEDS)) for row in asked(mechanism, few, confidence)]
    return found


def misses(rows: Sequence[CoverageRow], seeds: Sequence[int]) -> Counter[CoverageRow]:
    """Count for every row the seeds whose answer misses the true value in any of its numbers."""
    found: Counter[CoverageRow] = Counter(dict.fromkeys(rows, 0))
    for mechanism, confidence in dict.fromkeys((row.mechanism, row.confidence) for row in rows):
        together = [row for row in rows if (row.mechanism, row.confidence) == (mechanism, confidence)]
        for seed in seeds:
            options = EngineOptions(samples=SAMPLES, seed=seed, confidence=confidence)
            pair = choose.pair(built(MECHANISMS[mechanism]), "monte_carlo", options=options)
            for row in together:
                pairs = zip(_numbers(pair, row), _truth(mechanism, row.question, row.direction), strict=True)
                found[row] += any(low > most or high < least for (low, high), (least, most) in pairs)
    return found


def allowed(seeds: int, confidence: float) -> int:
    """Return the largest number of misses that a valid method exceeds with probability at most `CHANCE` in `seeds`
    trials.
    """
    return int(stats.binom.isf(CHANCE, seeds, 1 - confidence))


@cache
def _truth(mechanism: str, question: str, direction: str) -> tuple[tuple[float, float], ...]:
    pair = choose.pair(built(MECHANISMS[mechanism]), "auto", options=EngineOptions(relative_tolerance=1e-6))
    return tuple(_numbers(pair, CoverageRow(mechanism, question, direction, 1.0)))


@cache
def _question(name: str, direction: str) -> QuestionSpec:
    spec = QUESTIONS.get(name) or SEARCHED[name]
    return TypeAdapter[QuestionSpec](QuestionSpec).validate_json(json.dumps({**spec, "direction": direction}))


def _numbers(pair: TradeOffPair, row: CoverageRow) -> Iterator[tuple[float, float]]:
    """Return both bounds of every number of an answer."""
    question = _question(row.question, row.direction)
    fields = evaluate_question(pair, question, 1e-6).answer(question, conditional=False)
    if "points" in fields:
        for point in fields["points"]:
            yield point["type_two_error"]["lower"], point["type_two_error"]["upper"]
            yield point["power"]["lower"], point["power"]["upper"]
        return
    yield fields["lower"], fields["upper"]
    if "global_mu" in fields:
        yield fields["global_mu"]["lower"], fields["global_mu"]["upper"]
