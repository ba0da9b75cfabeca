"""Answers for a relaxed adversary or a mixture never exceed the accompanying worst case."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from api_schemas.curves import CurvesRequest
from service.resources.bounds import BOUNDS, compute_bounds
from service.resources.curves import compute_curves
from tests.resources.request_space import QUESTIONS, spread
from tests.slow_marker import sample_of

Spec = dict[str, Any]
ADDED = {"type": "worst_case", "neighboring_relation": "add_or_remove_one"}
REPLACED = {"type": "worst_case", "neighboring_relation": "replace_one"}
FREE = sorted({*QUESTIONS} - {"gdp_mu", "trade_off"})
PROFILES = ("delta",)
AS_SMALL = ("deletion_capacity", "unlearning_guarantee")
"""Questions whose answers decrease with the power of an attack."""
noise = spread(0.2, 20.0)


def _plain(random: Generator) -> Spec:
    """Draw a mechanism that both relations support, and several adversaries."""
    kind = random.integers(6)
    if kind == 0:
        return {"type": "laplace", "noise_multiplier": noise(random)}
    if kind == 1:
        return {"type": "exponential", "epsilon": random.uniform(0.1, 4.0)}
    if kind == 2:
        return {"type": "approximate_dp", "epsilon": random.uniform(0.1, 4.0), "delta": 1e-6}
    gaussian = {"type": "gaussian", "noise_multiplier": noise(random)}
    return gaussian if kind == 3 else {"type": "repeated", "mechanism": gaussian, "steps": int(random.integers(1, 99))}


def _batches(random: Generator) -> Spec:
    """Draw runs whose steps use all records."""
    size = int(random.integers(2, 1000))
    return {
        "type": "noisy_sgd",
        "dataset_size": size,
        "batch_size": size,
        "dimension": int(random.integers(1, 1000)),
        "steps": int(random.integers(1, 50)),
        "noise_std": noise(random) / size,
        "max_grad_norm": 1.0,
    }


def _adversary(random: Generator, mechanism: Spec) -> Spec:
    kind = random.integers(3)
    if kind < 2:
        return (ADDED, REPLACED)[kind]
    if mechanism["type"] == "noisy_sgd":
        return {"type": "membership"}
    if mechanism.get("mechanism", mechanism)["type"] == "gaussian":
        return {"type": "glrt", "dimension": int(random.integers(1, 100))}
    return REPLACED


def _drawn(random: Generator) -> tuple[Spec, Spec]:
    """Draw a mechanism with several adversaries, one of which may be rare."""
    mechanism = (_plain, _batches)[random.integers(2)](random)
    weights = random.dirichlet([0.3] * int(random.integers(2, 4))).clip(1e-9)
    parts = [
        {"weight": float(weight), "threat_model": _adversary(random, mechanism)} for weight in weights / weights.sum()
    ]
    return mechanism, {"type": "mixture", "components": parts}


def _question(random: Generator, mixture: Spec) -> Spec:
    """Draw questions. Points of mixtures with chi-square laws take seconds each, so their profiles are evaluated."""
    cheap = all(part["threat_model"]["type"] == "worst_case" for part in mixture["components"])
    kinds = FREE if cheap else PROFILES
    kind = kinds[random.integers(len(kinds))]
    return {"type": kind, **QUESTIONS[kind](random), "direction": str(random.choice(["add", "remove", "both"]))}


@sample_of(10)
@pytest.mark.parametrize("seed", range(24))
def test_mixture_of_adversaries_does_not_exceed_worst_case(seed: int) -> None:
    random = np.random.default_rng([81, seed])
    mechanism, mixture = _drawn(random)
    asked = [_question(random, mixture) for _ in range(3)]
    body = {"mechanism": mechanism, "threat_model": mixture, "questions": asked}
    found = compute_bounds(BOUNDS.request_type.model_validate_json(json.dumps(body)), "digest", "version")
    for question, ours, worst in zip(asked, found["answers"], found["worst_case"]["answers"], strict=True):
        smaller, larger = (worst, ours) if _falls(question) else (ours, worst)
        assert _end(smaller, "lower") <= _end(larger, "upper"), (body, question)


def _falls(question: Spec) -> bool:
    return question["type"] in AS_SMALL or question.get("side") == "at_least"


def _end(answer: Spec, side: str) -> float:
    return math.inf if answer[side] == "Infinity" else float(answer[side])


@pytest.mark.parametrize("seed", range(12))
def test_curve_of_adversaries_does_not_exceed_worst_case(seed: int) -> None:
    """Curves of adversaries never exceed the worst case.

    The relaxed adversary stands alone, or beside another one whose own worst case is weaker.
    """
    random = np.random.default_rng([82, seed])
    mechanism, mixture = _drawn(random)
    for part in mixture["components"]:
        part["threat_model"] = (ADDED, REPLACED)[random.integers(2)]  # Other questions have points that take seconds.
    several: list[Spec] = [mixture, {"type": "practical", "epsilon_pmp": random.uniform(0.1, 9.0)}]
    if mechanism.get("mechanism", mechanism)["type"] == "gaussian":
        several.append({"type": "glrt", "dimension": 3})
    body: Spec = {
        "mechanism": mechanism,
        "threat_models": [several[place] for place in random.permutation(len(several))[: random.integers(1, 4)]],
        "false_positive_rates": [1e-12, 1e-3, 0.2, 0.9],
    }
    request = CurvesRequest.model_validate_json(json.dumps(body))
    *relaxed, worst = compute_curves(request, "digest", "version")["curves"]
    assert worst["threat_model"].type == "worst_case"
    for curve in relaxed:
        assert (np.array(curve["power"]["lower"]) <= np.array(worst["power"]["upper"])).all(), body


def test_supported_worst_case_is_drawn_for_mixed_sampling() -> None:
    """`curves` and `bounds` show the worst case of one relation for a run of batches and of Poisson samples.

    It is an added record, because no curve of such a run is known for a replaced one.
    """
    batches = {"type": "noisy_sgd", "dataset_size": 10, "batch_size": 10, "dimension": 3, "steps": 2, "noise_std": 0.1}
    sampled = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 3}
    mechanism = {"type": "composed", "mechanisms": [batches | {"max_grad_norm": 1.0}, sampled]}
    practical = {"type": "practical", "epsilon_pmp": 1.0}
    body = {"mechanism": mechanism, "threat_models": [practical], "false_positive_rates": [0.1]}
    drawn = compute_curves(CurvesRequest.model_validate_json(json.dumps(body)), "digest", "version")["curves"]
    body = {"mechanism": mechanism, "threat_model": practical, "questions": [{"type": "advantage"}]}
    found = compute_bounds(BOUNDS.request_type.model_validate_json(json.dumps(body)), "digest", "version")
    assert drawn[-1]["threat_model"] == found["worst_case"]["threat_model"]
