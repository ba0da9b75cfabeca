"""Likely costs are within a factor of the counted cost, for kinds of requests that do more than one evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from numpy.random import Generator

from service.parsing import parse_request
from service.resources.catalogue import resource
from service.resources.cost_range import cost_range
from tests.privacy.random_cases import log_uniform
from tests.resources.counted_cost import counted_cost

LIMIT_SECONDS: Final = 30.0
FACTOR: Final = 5.0
"""Largest ratio of the likely to the counted cost, either way. Function calls count as one microsecond each."""
Spec = dict[str, Any]


def _small_loss(random: Generator) -> tuple[str, Spec]:
    alone = {"type": "laplace", "noise_multiplier": log_uniform(random, 1e7, 1e12)}
    gaussian = {"type": "gaussian", "noise_multiplier": log_uniform(random, 1e3, 1e6)}
    sampled = {"type": "poisson_sampled", "sample_rate": log_uniform(random, 1e-3, 1e-2), "mechanism": gaussian}
    return "bounds", {"mechanism": [alone, sampled][random.integers(2)], "questions": [{"type": "gdp_mu"}]}


def _laplace_sums(random: Generator) -> tuple[str, Spec]:
    noise, steps = log_uniform(random, 2.0, 10.0), int(random.integers(5, 30))
    run = {"type": "repeated", "steps": steps, "mechanism": {"type": "laplace", "noise_multiplier": noise}}
    return "curves", {"mechanism": run, "grid": {"spacing": "log_mirrored", "smallest": 1e-8, "count": 1000}}


def _selection(random: Generator) -> tuple[str, Spec]:
    trials = {"type": "truncated_negative_binomial", "mean": log_uniform(random, 2.0, 20.0), "shape": 1.0}
    trial = {"type": "gdp", "mu": log_uniform(random, 0.05, 2.0)}
    return "bounds", {
        "mechanism": {"type": "selected", "mechanism": trial, "trials": trials, "released": "best"},
        "questions": [{"type": "gdp_mu"}],
    }


def _few_records(random: Generator) -> tuple[str, Spec]:
    points = np.sort(random.uniform(0, 1, (random.integers(4, 7), 1)), axis=0).round(3).tolist()
    noise, delta = log_uniform(random, 0.5, 2.0), log_uniform(random, 1e-3, 1e-1)
    return "pmp_gaussian", {"points": points, "query": "sum", "noise_std": noise, "delta": delta}


def _run_on_lattices(random: Generator) -> Spec:
    parts = [
        {"type": "exponential", "epsilon": log_uniform(random, 0.3, 2.0)},
        {"type": "gaussian", "noise_multiplier": log_uniform(random, 1.0, 4.0)},
    ]
    return {"type": "composed", "mechanisms": parts}


def _tiny_on_lattices(random: Generator) -> tuple[str, Spec]:
    run = _run_on_lattices(random)
    asked = {"type": "trade_off", "false_positive_rates": [log_uniform(random, 1e-150, 1e-50)]}
    return "bounds", {"mechanism": run, "questions": [asked]}


def _list_on_lattices(random: Generator) -> tuple[str, Spec]:
    grid = {"spacing": "log_mirrored", "smallest": 1e-25, "count": 50}
    return "curves", {"mechanism": _run_on_lattices(random), "grid": grid}


def _exponentials(random: Generator) -> tuple[str, Spec]:
    epsilon, steps = log_uniform(random, 0.1, 1.0), int(random.integers(10, 60))
    run = {"type": "repeated", "steps": steps, "mechanism": {"type": "exponential", "epsilon": epsilon}}
    return "bounds", {"mechanism": run, "questions": [{"type": "epsilon", "delta": log_uniform(random, 1e-9, 1e-4)}]}


def _list_of_shifts(random: Generator) -> tuple[str, Spec]:
    parts = [
        {"type": "exponential", "epsilon": log_uniform(random, 0.3, 2.0)},
        {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": 0.3}, "steps": int(random.integers(5, 30))},
    ]
    grid = {"spacing": "log_mirrored", "smallest": 1e-8, "count": 100}
    return "curves", {"mechanism": {"type": "composed", "mechanisms": parts}, "grid": grid}


def _fixed_batches(random: Generator) -> tuple[str, Spec]:
    run = {"type": "dpsgd", "sampling": "fixed_without_replacement", "noise_multiplier": log_uniform(random, 0.8, 2.0)}
    run |= {
        "dataset_size": 60_000,
        "batch_size": int(random.integers(50, 500)),
        "steps": int(random.integers(500, 3000)),
    }
    asked = {"type": "epsilon", "delta": log_uniform(random, 1e-6, 1e-4)}
    threat_model = {"type": "worst_case", "neighboring_relation": "replace_one"}
    return "bounds", {"mechanism": run, "threat_model": threat_model, "questions": [asked]}


KINDS: Final = (
    _small_loss,
    _laplace_sums,
    _selection,
    _few_records,
    _tiny_on_lattices,
    _list_on_lattices,
    _exponentials,
    _list_of_shifts,
    _fixed_batches,
)


def counted(name: str, body: Spec) -> tuple[float, float]:
    """Return the likely and the counted cost of a request, in microseconds."""
    computation = resource(name)
    sent = parse_request(computation.request_type, json.dumps(body).encode())
    quoted = computation.quote(sent)
    cost = counted_cost(computation, sent, quoted, LIMIT_SECONDS)
    return cost_range(name, quoted, LIMIT_SECONDS).likely, cost


@pytest.mark.parametrize("kind", KINDS)
def test_likely_cost_is_near_counted_cost(kind: Callable[[Generator], tuple[str, Spec]]) -> None:
    random = np.random.default_rng(20261128)
    for _ in range(4):
        likely, cost = counted(*kind(random))
        assert 1 / FACTOR <= likely / cost <= FACTOR
