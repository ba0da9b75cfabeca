"""Verdicts on runs that clip averages of several gradients: one record moves a sum by twice the norm of the clip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy import stats

from api_schemas.assessments import AssessmentsResponse
from tests.rendering.assessment_cases import assess

SEED = 20261128
DELTA = 1e-5
EPSILON = 0.25
QUIET = {"type": "dpsgd", "noise_multiplier": 50.0, "sample_rate": 0.001, "steps": 3}
"""A step of training that adds hardly anything to the other parts."""


def judge(mechanism: dict[str, Any], rule: dict[str, Any]) -> AssessmentsResponse:
    context = {"delta": DELTA, "microbatch_size": 4}
    return assess({"mechanism": mechanism, "context": context, "policy": {"name": "gate", "rules": [rule]}})


def epsilon_of(mechanism: dict[str, Any], relation: str) -> float:
    """Return the upper bound of epsilon of the run as described, each record of which is clipped by itself."""
    sent = {
        "mechanism": mechanism,
        "context": {"delta": DELTA, "microbatch_size": 1},
        "threat_model": {"type": "worst_case", "neighboring_relation": relation},
    }
    [answer] = [each for each in assess(sent).threat_models[0].answers if each.type == "epsilon"]
    assert answer.upper is not None
    return float(answer.upper)


def integer_noise(random: Generator, kind: str) -> tuple[dict[str, Any], float]:
    """Draw integer noise, and return it with delta at EPSILON of a query that moves by twice its sensitivity."""
    sensitivity, size = int(random.integers(1, 4)), float(random.uniform(1.5, 6))
    outputs = np.arange(-400, 401)
    match kind:
        case "discrete_gaussian":
            fields, masses = {"sigma": size}, np.exp(-(outputs**2) / (2 * size**2))
        case "discrete_laplace":
            fields, masses = {"scale": size}, np.exp(-np.abs(outputs) / size)
        case _:
            fields, masses = {"variance": size**2}, stats.skellam.pmf(outputs, size**2 / 2, size**2 / 2)
    masses /= masses.sum()
    moved = np.concatenate([np.zeros(2 * sensitivity), masses[: -2 * sensitivity]])
    delta = float(np.maximum(moved - math.exp(EPSILON) * masses, 0).sum())
    return {"type": kind, "sensitivity": sensitivity, **fields}, delta


@pytest.mark.parametrize("kind", ["discrete_gaussian", "discrete_laplace", "skellam"])
@pytest.mark.parametrize("seed", range(2))
def test_integer_noise_beside_training_is_not_met_at_its_described_sensitivity(kind: str, seed: int) -> None:
    random = np.random.default_rng([SEED, seed])
    noise, delta = integer_noise(random, kind)
    beside = {"type": "composed", "mechanisms": [QUIET, noise]}
    for mechanism, factor, wrong in ((beside, 0.99, "met"), (noise, 0.99, "met"), (noise, 1.02, "violated")):
        received = judge(mechanism, {"question": {"type": "delta", "epsilon": EPSILON}, "at_most": factor * delta})
        assert received.decision is not None
        assert received.decision.rulings[0].verdict != wrong, (mechanism, factor)


def test_staircase_noise_beside_training_leaves_no_bound() -> None:
    """Noise with steps as long as a sensitivity is not staircase noise for twice that sensitivity."""
    staircase = {"type": "staircase", "epsilon": 0.5, "gamma": 0.4}
    rule = {"question": {"type": "epsilon", "delta": DELTA}, "at_most": 0.9}
    assert judge({"type": "composed", "mechanisms": [QUIET, staircase]}, rule).verdict == "undecided"


def fixed_or_shuffled(random: Generator) -> dict[str, Any]:
    size, noise = int(random.integers(100, 1000)), float(random.uniform(2, 6))
    sampling = str(random.choice(["fixed_without_replacement", "fixed_with_replacement", "shuffled"]))
    length = {"epochs": int(random.integers(1, 4))} if sampling == "shuffled" else {"steps": int(random.integers(1, 9))}
    batch = int(random.integers(size // 20 + 1, size // 4))
    run = {"type": "dpsgd", "noise_multiplier": noise, "batch_size": batch, "dataset_size": size, "sampling": sampling}
    return run | length


@pytest.mark.parametrize("seed", range(6))
def test_batches_of_fixed_size_do_not_violate_a_limit_that_the_run_keeps(seed: int) -> None:
    """A batch of fixed size holds a record in the place of another one, whose contribution the record reverses.

    So a batch moves no farther if averages are clipped, and limits that the described run keeps are kept.
    """
    random = np.random.default_rng([SEED, seed])
    run = fixed_or_shuffled(random)
    relation = "zero_out" if run["sampling"] == "shuffled" else "add_or_remove_one"
    rule = {"question": {"type": "epsilon", "delta": DELTA}, "at_most": epsilon_of(run, relation) * 1.01}
    assert judge(run, rule).verdict in ("met", "undecided")


@pytest.mark.parametrize("seed", range(4))
def test_rule_about_replaced_records_is_not_violated_by_twice_the_movement(seed: int) -> None:
    """A record that replaces another one reverses the contribution of the batch once, with clipped averages too."""
    random = np.random.default_rng([SEED, seed])
    run = {
        "type": "dpsgd",
        "noise_multiplier": float(random.uniform(1, 4)),
        "sample_rate": float(random.uniform(0.01, 1)),
        "steps": int(random.integers(1, 20)),
    }
    replaced = {"type": "worst_case", "neighboring_relation": "replace_one"}
    rule: dict[str, Any] = {"question": {"type": "epsilon", "delta": DELTA}, "threat_model": replaced}
    rule["at_most"] = epsilon_of(run, "replace_one") * 1.01
    assert judge(run, rule).verdict in ("met", "undecided")
    added = {"question": {"type": "epsilon", "delta": DELTA}, "at_most": epsilon_of(run, "add_or_remove_one") * 1.01}
    assert judge(run, added).verdict == "violated"
