"""Titles of runs: short for every mechanism, shortened at whole items, with the sent numbers."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from api_schemas.mechanisms import ImportedMechanism, MechanismSpec, nodes_of
from service.rendering.sentences.title import LONGEST_TITLE, MORE, joined, run_title
from tests.resources.request_space import mechanism

ADAPTER: TypeAdapter[Any] = TypeAdapter(MechanismSpec)
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.1}
LAPLACE = {"type": "laplace", "noise_multiplier": 2.0}
SIZES = {"type": "dpsgd", "noise_multiplier": 1.1, "batch_size": 256, "dataset_size": 60_000}


def selected(trials: dict[str, Any]) -> dict[str, Any]:
    """Return a selection among trials of a mu-GDP mechanism, whose number has the law `trials`."""
    return {"type": "selected", "mechanism": {"type": "gdp", "mu": 0.5}, "trials": trials}


TITLES: dict[str, dict[str, Any]] = {
    "Gaussian mechanism, noise 1.1": GAUSSIAN,
    "Laplace mechanism, noise 2": LAPLACE,
    "stated mu 0.5": {"type": "gdp", "mu": 0.5},
    "stated epsilon 1": {"type": "pure_dp", "epsilon": 1.0},
    "stated epsilon 1 and delta 1e-05": {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-5},
    "stated rho 0.5": {"type": "zcdp", "rho": 0.5},
    "stated Renyi divergences, 2 orders 2 to infinity": {
        "type": "rdp",
        "orders": [2.0, "Infinity"],
        "epsilons": [0.3, 1.0],
    },
    "exponential mechanism, epsilon 1": {"type": "exponential", "epsilon": 1.0},
    "randomised response, epsilon 1, 4 options": {"type": "randomized_response", "epsilon": 1.0, "options": 4},
    "10 000 shuffled reports, stated epsilon 1": {
        "type": "shuffled_reports",
        "reports": 10_000,
        "randomizer": {"type": "pure_dp", "epsilon": 1.0},
    },
    "500 shuffled reports, randomised response, epsilon 1, 2 options, 20 others hold 1": {
        "type": "shuffled_reports",
        "reports": 500,
        "randomizer": {"type": "randomized_response", "epsilon": 1.0, "options": 2},
        "others_holding_one": 20,
    },
    "unary encoding, bits 0.5 and 0.25, 2 bits per value": {
        "type": "unary_encoding",
        "true_bit": 0.5,
        "false_bit": 0.25,
        "bits_per_value": 2,
    },
    "staircase mechanism, epsilon 1, gamma 0.5": {"type": "staircase", "epsilon": 1.0, "gamma": 0.5},
    "discrete Laplace mechanism, scale 2, sensitivity 3": {
        "type": "discrete_laplace",
        "scale": 2.0,
        "sensitivity": 3,
    },
    "discrete Gaussian mechanism, sigma 2, sensitivity 3": {
        "type": "discrete_gaussian",
        "sigma": 2.0,
        "sensitivity": 3,
    },
    "Skellam mechanism, variance 4, sensitivity 3": {"type": "skellam", "variance": 4.0, "sensitivity": 3},
    "report noisy max, Laplace noise, scale 2, sensitivity 1, monotone scores": {
        "type": "report_noisy_max",
        "noise": "laplace",
        "scale": 2.0,
        "sensitivity": 1.0,
        "monotone": True,
    },
    "permute and flip, epsilon 1": {"type": "permute_and_flip", "epsilon": 1.0},
    "sparse vector technique, epsilon 0.5 and 0.25, 3 positive": {
        "type": "sparse_vector",
        "threshold_epsilon": 0.5,
        "query_epsilon": 0.25,
        "positives": 3,
    },
    "Gaussian mechanism, noise 1.1, 3 random shifts up to 2": {
        **GAUSSIAN,
        "type": "gaussian_mixture",
        "shifts": [0.0, 1.0, 2.0],
        "weights": [0.5, 0.25, 0.25],
    },
    "Gaussian mechanism, noise 1.1, sampled at rate 0.01": {
        "type": "poisson_sampled",
        "sample_rate": 0.01,
        "mechanism": GAUSSIAN,
    },
    "Gaussian mechanism, noise 1.1, 1 000 times": {"type": "repeated", "mechanism": GAUSSIAN, "steps": 1000},
    "2 mechanisms: Gaussian mechanism, noise 1.1; Laplace mechanism, noise 2": {
        "type": "composed",
        "mechanisms": [GAUSSIAN, LAPLACE],
    },
    "(2 mechanisms: Gaussian mechanism, noise 1.1; Laplace mechanism, noise 2), 3 times": {
        "type": "repeated",
        "mechanism": {"type": "composed", "mechanisms": [GAUSSIAN, LAPLACE]},
        "steps": 3,
    },
    "one drawn of: 75 % Gaussian mechanism, noise 1.1; 25 % Laplace mechanism, noise 2": {
        "type": "mixture",
        "components": [{"weight": 0.75, "mechanism": GAUSSIAN}, {"weight": 0.25, "mechanism": LAPLACE}],
    },
    "stated mu 0.5, best of 3 trials": selected({"type": "fixed", "count": 3}),
    "stated mu 0.5, all of 1 trial": selected({"type": "fixed", "count": 1}) | {"released": "all"},
    "stated mu 0.5, best of a geometric number of trials, mean 10": selected({"type": "geometric", "mean": 10}),
    "stated mu 0.5, best of a negative binomial number of trials, mean 10, shape 0": selected(
        {"type": "truncated_negative_binomial", "mean": 10, "shape": 0}
    ),
    "stated mu 0.5, best of a Poisson number of trials, mean 2.5": selected({"type": "poisson", "mean": 2.5}),
    "stated mu 0.5, best of up to 20 trials, each run with probability 0.5": selected(
        {"type": "binomial", "count": 20, "probability": 0.5}
    ),
    "DP-SGD, noise 1.1, batches of 256 of 60 000, 15 epochs": {**SIZES, "epochs": 15},
    "DP-SGD, noise 1.1, batches of 256 of 60 000, 1 step": {**SIZES, "steps": 1},
    "DP-SGD, noise 1.1, fixed batches of 256 of 60 000, 1.5 epochs": {
        **SIZES,
        "sampling": "fixed_without_replacement",
        "epochs": 1.5,
    },
    "DP-SGD, noise 1.1, batches of 256 of 60 000 drawn with replacement, 20 steps": {
        **SIZES,
        "sampling": "fixed_with_replacement",
        "steps": 20,
    },
    "DP-SGD, noise 1.1, shuffled batches of 256 of 60 000, 15 epochs": {**SIZES, "sampling": "shuffled", "epochs": 15},
    "DP-SGD, noise 1.1, shuffled batches of 256 of 60 000, 15 epochs, one order for all epochs": {
        **SIZES,
        "sampling": "shuffled",
        "epochs": 15,
        "reshuffled": False,
    },
    "DP-SGD, noise 1.1, fixed batches at rate 0.01, 20 steps": {
        "type": "dpsgd",
        "noise_multiplier": 1.1,
        "sampling": "fixed_without_replacement",
        "sample_rate": 0.01,
        "steps": 20,
    },
    "DP-SGD, noise 0.9 to 1.1, sampling rate 0.01, 4 000 steps in 2 phases": {
        "type": "dpsgd",
        "noise_multiplier": [1.1, 0.9],
        "sample_rate": 0.01,
        "steps": [3000, 1000],
    },
    "DP-SGD, noise 1, sampling rates 0.01 to 0.02, 2 epochs in each of 2 phases": {
        "type": "dpsgd",
        "noise_multiplier": 1.0,
        "sample_rate": [0.01, 0.02],
        "epochs": 2,
    },
    "noisy SGD, noise of standard deviation 0.1, batches of 50 of 100, 3 steps, dimension 20, gradients clipped to 1": {
        "type": "noisy_sgd",
        "dataset_size": 100,
        "batch_size": 50,
        "dimension": 20,
        "steps": 3,
        "noise_std": 0.1,
        "max_grad_norm": 1.0,
    },
}


def spec(sent: dict[str, Any]) -> Any:
    return ADAPTER.validate_json(json.dumps(sent))


@pytest.mark.parametrize("title", TITLES)
def test_run_has_expected_title(title: str) -> None:
    assert run_title(spec(TITLES[title])) == title.replace(" 000", "\u00a0000").replace(" %", "\u00a0%")


def test_every_type_of_mechanism_is_covered() -> None:
    union = get_args(get_args(MechanismSpec)[0])
    types = {type(node) for sent in TITLES.values() for node in nodes_of(spec(sent))}
    assert set(union) - types == {ImportedMechanism}  # Imports are read before any answer.


def test_titles_over_request_space_are_short_and_complete() -> None:
    rng, seen = np.random.default_rng(28), 0
    while seen < 500:
        try:
            run = spec(mechanism(rng))
        except ValidationError:
            continue
        seen += 1
        for longest in (60, 110, LONGEST_TITLE):
            title = run_title(run, longest)
            assert 0 < len(title) <= longest
            assert title.count("(") == title.count(")")


def test_titles_are_shortened_at_whole_items() -> None:
    assert joined(["noise 1.1", "batches of 256"], 30) == "noise 1.1, batches of 256"
    assert joined(["noise 1.1", "batches of 256"], 24) == f"noise 1.1, {MORE}"
    assert joined(["noise 1.1"], 5) == MORE


@pytest.mark.parametrize("phases", [2, 10_000])
def test_long_schedule_has_short_title(phases: int) -> None:
    rng = np.random.default_rng(phases)
    noises = [float(each) for each in rng.uniform(0.5, 2.0, phases)]
    rates = [float(each) for each in rng.uniform(1e-4, 1e-2, phases)]
    run = spec({"type": "dpsgd", "noise_multiplier": noises, "sample_rate": rates, "steps": [10**6] * phases})
    title = run_title(run)
    assert len(title) <= LONGEST_TITLE
    assert str(min(noises)) in title
    assert str(max(noises)) in title


def test_deep_or_wide_tree_has_short_title() -> None:
    tree: dict[str, Any] = GAUSSIAN
    for _ in range(15):
        tree = {"type": "repeated", "mechanism": tree, "steps": 2}
    assert len(run_title(spec(tree))) <= LONGEST_TITLE
    wide = run_title(spec({"type": "composed", "mechanisms": [GAUSSIAN] * 256}))
    assert len(wide) <= LONGEST_TITLE
    assert wide.startswith("256 mechanisms: Gaussian mechanism, noise 1.1; ")
    assert wide.endswith(MORE)
