"""Answers lie in the range known before any computation, are consistent with each other, and say if they are
trivial.

The space is every question on mechanisms with closed forms or inexpensive contours, with random fields, both
directions, and relaxed threat models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from service.resources.bounds import BOUNDS, compute_bounds

DELETED = "deletion_capacity"


def ask(mechanism: dict[str, Any], questions: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    body = {"mechanism": mechanism, "questions": questions, **more}
    return compute_bounds(BOUNDS.request_type.model_validate_json(json.dumps(body)), "digest", "version")


def log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** generator.uniform(low, high))


def random_probability(generator: np.random.Generator) -> float:
    """Draw a number in (0, 1), near its endpoints as often as between."""
    kind, small = int(generator.integers(0, 4)), log_uniform(generator, -16, 0)
    return min((small, 1 - small, log_uniform(generator, -300, 0), float(generator.uniform(0, 1)))[kind], 1 - 2.0**-53)


def mechanisms(generator: np.random.Generator) -> list[dict[str, Any]]:
    def noise(kind: str) -> dict[str, Any]:
        return {"type": kind, "noise_multiplier": log_uniform(generator, -2, 3)}

    rate = float(generator.uniform(0, 1))
    return [
        noise("gaussian"),
        noise("laplace"),
        {"type": "pure_dp", "epsilon": log_uniform(generator, -8, 6)},
        {"type": "approximate_dp", "epsilon": log_uniform(generator, -8, 3), "delta": log_uniform(generator, -16, 0)},
        {"type": "exponential", "epsilon": log_uniform(generator, -6, 3)},
        {"type": "poisson_sampled", "sample_rate": rate, "mechanism": noise("gaussian")},
        {"type": "poisson_sampled", "sample_rate": rate, "mechanism": noise("laplace")},
        {"type": "repeated", "steps": int(log_uniform(generator, 0, 12)), "mechanism": noise("gaussian")},
    ]


def questions(generator: np.random.Generator) -> list[dict[str, Any]]:
    prior, rate = random_probability(generator), random_probability(generator)
    with_prior: list[dict[str, Any]] = [
        {"type": "attack_accuracy", "prior": prior},
        {"type": "attack_accuracy", "prior": prior, "false_positive_rate": rate},
        {"type": "advantage_over_prior", "prior": prior},
        {"type": DELETED, "prior": prior, "confidence": random_probability(generator)},
        {"type": "unlearning_guarantee", "prior": prior, "confidence": random_probability(generator)},
    ]
    for kind in ("positive_predictive_value", "negative_predictive_value"):
        for side in ("at_most", "at_least"):
            with_prior.append({"type": kind, "prior": prior, "side": side})
            with_prior.append({"type": kind, "prior": prior, "side": side, "false_positive_rate": rate})
    return [
        {"type": "epsilon", "delta": random_probability(generator)},
        {"type": "delta", "epsilon": log_uniform(generator, -6, 3)},
        {"type": "advantage"},
        {"type": "reconstruction", "baseline_success": random_probability(generator)},
        {"type": "reconstruction", "candidates": int(log_uniform(generator, 0, 9))},
        *with_prior,
    ]


def known_range(asked: dict[str, Any]) -> tuple[Any, Any]:
    """Return the exact range of the answer to a question over all mechanisms."""
    prior = Fraction(asked.get("prior", 0))
    match asked["type"]:
        case "epsilon" | "gdp_mu":
            return 0, math.inf
        case "reconstruction":
            given = asked.get("baseline_success")
            return (Fraction(given) if given is not None else Fraction(1, asked["candidates"])), 1
        case "attack_accuracy" if asked.get("false_positive_rate") is None:
            return max(prior, 1 - prior), 1
        case "advantage_over_prior":
            return 0, 2 * (1 - prior)
        case "positive_predictive_value":
            return (prior, 1) if asked["side"] == "at_most" else (0, prior)
        case "negative_predictive_value":
            return (1 - prior, 1) if asked["side"] == "at_most" else (0, 1 - prior)
        case "unlearning_guarantee":
            return 0, 1 - prior
        case "deletion_capacity":
            return 0, math.inf
        case _:
            return 0, 1


def lies_in_range(number: dict[str, Any], low: Any, high: Any) -> bool:
    """Return whether a number lies in a range, up to the neighbouring double of an inexact endpoint."""
    return math.nextafter(float(low), -1) <= number["lower"] <= number["upper"] <= math.nextafter(float(high), math.inf)


@pytest.mark.parametrize("seed", range(12))
def test_answers_lie_in_known_range(seed: int) -> None:
    generator = np.random.default_rng([51, seed])
    for mechanism in mechanisms(generator):
        asked = questions(generator)
        for answer, question in zip(ask(mechanism, asked)["answers"], asked, strict=True):
            low, high = known_range(question)
            assert lies_in_range(answer, low, high), (mechanism, question, answer["lower"], answer["upper"])
            assert answer["value"] in (answer["lower"], answer["upper"])


@pytest.mark.parametrize("seed", range(4))
def test_curves_lie_in_known_range(seed: int) -> None:
    generator = np.random.default_rng([52, seed])
    rates = sorted({random_probability(generator) for _ in range(20)})
    for mechanism in mechanisms(generator):
        for direction in ("add", "remove", "both"):
            asked = {"type": "trade_off", "false_positive_rates": rates, "direction": direction}
            [answer] = ask(mechanism, [asked])["answers"]
            for point in answer["points"]:
                rate = Fraction(point["false_positive_rate"])
                assert lies_in_range(point["power"], rate, 1), (mechanism, point)
                assert lies_in_range(point["type_two_error"], 0, 1 - rate), (mechanism, point)


def monotone_questions(generator: np.random.Generator) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Yield questions along which answers increase (1) or decrease (-1)."""
    chances = sorted({random_probability(generator) for _ in range(5)})
    sizes = sorted(log_uniform(generator, -6, 2) for _ in range(5))
    prior = random_probability(generator)
    yield [{"type": "epsilon", "delta": each} for each in chances], -1
    yield [{"type": "delta", "epsilon": each} for each in sizes], -1
    yield [{"type": "reconstruction", "baseline_success": each} for each in chances], 1
    ppv = {"type": "positive_predictive_value"}
    yield [ppv | {"prior": each, "false_positive_rate": 0.01} for each in chances], 1
    yield [ppv | {"prior": prior, "false_positive_rate": each} for each in chances], -1
    yield [{"type": DELETED, "prior": each, "confidence": 0.5} for each in chances], -1
    yield [{"type": "unlearning_guarantee", "prior": each, "confidence": 0.5} for each in chances], -1


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_monotone_in_their_question(seed: int) -> None:
    """Answers are monotone in the number of their question.

    No upper bound lies below the lower bound of an answer that is at most as large.
    """
    generator = np.random.default_rng([53, seed])
    for mechanism in mechanisms(generator):
        for asked, sign in monotone_questions(generator):
            answers = ask(mechanism, asked)["answers"][::sign]
            for smaller, larger in pairwise(answers):
                assert smaller["lower"] <= larger["upper"], (mechanism, asked)


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_consistent_with_each_other(seed: int) -> None:
    """Answers of one response do not contradict each other.

    One direction is compared with both, and predictive values and accuracies at a rate with those at any rate.
    """
    generator = np.random.default_rng([54, seed])
    for mechanism in mechanisms(generator):
        delta, epsilon, rate, prior = (
            log_uniform(generator, -9, -1),
            log_uniform(generator, -3, 1),
            random_probability(generator),
            random_probability(generator),
        )
        at = {"prior": prior, "false_positive_rate": rate}
        pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"type": "attack_accuracy", **at}, {"type": "attack_accuracy", "prior": prior}),
        ]
        for kind in ("positive_predictive_value", "negative_predictive_value"):
            pairs.append(({"type": kind, **at}, {"type": kind, "prior": prior}))
            least = {"type": kind, "prior": prior, "side": "at_least"}
            pairs += [(least, least | at), (least | at, {"type": kind, **at})]
        for question in (
            {"type": "epsilon", "delta": delta},
            {"type": "delta", "epsilon": epsilon},
            {"type": "reconstruction", "baseline_success": rate},
            {"type": "advantage"},
        ):
            both = question | {"direction": "both"}
            pairs += [(question | {"direction": each}, both) for each in ("add", "remove")]
        answers = ask(mechanism, [question for pair in pairs for question in pair])["answers"]
        for (small, large), smaller, larger in zip(pairs, answers[::2], answers[1::2], strict=True):
            assert smaller["lower"] <= larger["upper"], (mechanism, small, large)


@pytest.mark.parametrize("seed", range(1, 3))
def test_relaxed_answers_do_not_exceed_worst_case(seed: int) -> None:
    generator = np.random.default_rng([55, seed])
    half = [question for question in questions(generator) if question["type"] != DELETED]
    half = [question | ({"prior": 0.5} if "prior" in question else {}) for question in half]
    for mechanism in mechanisms(generator)[:5]:
        stated = {
            "type": "practical",
            "epsilon_pmp": log_uniform(generator, -2, 2),
            "delta": log_uniform(generator, -12, -2),
        }
        found = ask(mechanism, half, threat_model=stated)
        for question, ours, worst in zip(half, found["answers"], found["worst_case"]["answers"], strict=True):
            if question.get("side") == "at_least" or question["type"] == "unlearning_guarantee":
                assert ours["upper"] >= worst["lower"], (mechanism, question)
            else:
                assert ours["upper"] <= worst["upper"] * (1 + 1e-12), (mechanism, stated, question)


TRIVIAL: list[tuple[dict[str, Any], str]] = [
    ({"type": "positive_predictive_value", "prior": 0.1}, "false_positive_rate"),
    ({"type": "positive_predictive_value", "prior": 0.1, "side": "at_least"}, "false_positive_rate"),
    ({"type": "negative_predictive_value", "prior": 0.1}, "false_positive_rate"),
    ({"type": "negative_predictive_value", "prior": 0.1, "side": "at_least"}, "false_positive_rate"),
    ({"type": "advantage_over_prior", "prior": 0.1}, "false_positive_rate"),
    ({"type": DELETED, "prior": 0.1, "confidence": 0.5}, "false_positive_rate"),
    ({"type": "unlearning_guarantee", "prior": 0.1, "confidence": 0.5}, "false_positive_rate"),
    ({"type": "epsilon", "delta": 0.0}, "delta above 0"),
]


@pytest.mark.parametrize(("question", "instead"), TRIVIAL, ids=json.dumps)
def test_answers_independent_of_parameters_have_note(question: dict[str, Any], instead: str) -> None:
    for mechanism, trivial in (
        ({"type": "gaussian", "noise_multiplier": 3.0}, True),
        ({"type": "gaussian", "noise_multiplier": 1e6}, True),
        ({"type": "repeated", "steps": 9, "mechanism": {"type": "gaussian", "noise_multiplier": 3.0}}, True),
        ({"type": "laplace", "noise_multiplier": 3.0}, False),
        ({"type": "pure_dp", "epsilon": 1.0}, False),
    ):
        [answer] = ask(mechanism, [question])["answers"]
        assert any(instead in note for note in answer["notes"]) == trivial, mechanism


@pytest.mark.parametrize(
    ("mechanism", "warned"),
    [
        ({"type": "pure_dp", "epsilon": 1.0}, True),
        ({"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6}, True),
        ({"type": "repeated", "steps": 3, "mechanism": {"type": "pure_dp", "epsilon": 1.0}}, True),
        ({"type": "gdp", "mu": 1.0}, False),
        ({"type": "gaussian", "noise_multiplier": 1.0}, False),
    ],
    ids=str,
)
def test_stated_parameters_alone_are_a_hazard(mechanism: dict[str, Any], warned: bool) -> None:
    codes = {hazard.code for hazard in ask(mechanism, [{"type": "advantage"}])["hazards"]}
    assert ("stated_parameters_alone" in codes) == warned


def test_lattice_note_appears_only_for_wide_contour() -> None:
    """The note that a lattice was used appears only if the contour is too wide, whatever was requested earlier."""
    mechanism = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
    narrow = {"type": "epsilon", "delta": 1e-5}
    wide = {"type": "delta", "epsilon": 0.1}
    few = {"type": "dpsgd", "noise_multiplier": 2.0, "sample_rate": 0.3, "steps": 4}
    assert not _names_lattices(ask(mechanism, [narrow])["answers"][0])
    answers = ask(few, [wide, wide])["answers"]
    assert [_names_lattices(answer) for answer in answers] == [True, True]
    assert answers[0]["notes"] == answers[1]["notes"] == ask(few, [wide])["answers"][0]["notes"]


def _names_lattices(answer: dict[str, Any]) -> bool:
    return any("discretised" in note for note in answer["notes"])
