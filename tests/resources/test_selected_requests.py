"""Selections of random mechanisms: every question has bounds in order, also for laws of trials that hardly ever run."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pytest

from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.numerics.work import at_most
from service.resources.bounds import BOUNDS
from tests.resources import request_space
from tests.slow_marker import sample_of

ALLOWANCE: Final = 3e5
KINDS: Final = ("gaussian", "laplace", "gdp", "exponential", "gaussian_mixture", "dpsgd", "randomized_response")
"""Trials, most of which are inexpensive."""
QUESTIONS: Final = (
    {"type": "gdp_mu"},
    {"type": "delta", "epsilon": 0.0},
    {"type": "trade_off", "false_positive_rates": [1e-9, 0.3]},
)


def answers(body: dict[str, Any]) -> list[dict[str, Any]]:
    sent = BOUNDS.request_type.model_validate_json(json.dumps(body))
    with at_most(ALLOWANCE):
        found: list[dict[str, Any]] = json.loads(BOUNDS.body(sent, "", ""))["answers"]
    return found


@sample_of(7)
@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in KINDS for seed in range(30)])
def test_no_bounds_of_selections_contradict_each_other(kind: str, seed: int) -> None:
    random = np.random.default_rng([20261129, KINDS.index(kind), seed])
    trial = {**request_space.ELEMENTS, **request_space.LATER}[kind](random)
    mechanism = {"type": "selected", "mechanism": trial, "released": "best"}
    mean, probability = float(10 ** random.uniform(-300, 3)), float(10 ** random.uniform(-300, 0))
    laws = ({"type": "poisson", "mean": mean}, {"type": "binomial", "count": 15, "probability": probability})
    for trials in laws:
        for question in QUESTIONS:
            with suppress(UnsupportedCombination, OutOfDomain):
                answers({"mechanism": {**mechanism, "trials": trials}, "questions": [question]})


@pytest.mark.parametrize("seed", range(6))
def test_advantage_of_trials_that_hardly_run_is_that_of_one_trial_times_their_probability(seed: int) -> None:
    """Check that P(K = 1) adv <= advantage <= E K adv, for the advantage adv of one trial."""
    random = np.random.default_rng([20261130, seed])
    gaussian = {"type": "gaussian", "noise_multiplier": float(10 ** random.uniform(-1, 3))}
    mean = float(10 ** random.uniform(-290, -4))
    alone = answers({"mechanism": gaussian, "questions": [{"type": "advantage"}]})[0]
    for trials in ({"type": "poisson", "mean": mean}, {"type": "binomial", "count": 7, "probability": mean / 7}):
        selected = {"type": "selected", "mechanism": gaussian, "trials": trials, "released": "best"}
        found = answers({"mechanism": selected, "questions": [{"type": "advantage"}]})[0]
        assert found["upper"] >= alone["lower"] * mean * (1 - mean - 1e-9)
        assert found["lower"] <= alone["upper"] * mean * (1 + 1e-9)
