"""PMP answers over all scales of a request: at most the accompanying worst case, and enclosing the exact value.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import json
import math
from itertools import combinations
from typing import Any

import mpmath
import numpy as np
import pytest

from service.resources.abstract import Computation
from service.resources.pmp.exponential import PMP_EXPONENTIAL
from service.resources.pmp.finite import PMP_FINITE
from service.resources.pmp.gaussian import PMP_GAUSSIAN
from service.resources.pmp.simulations import PMP_SIMULATIONS
from tests.privacy import pmp_oracle
from tests.slow_marker import sample_of

DIGEST = "sha256:" + 64 * "0"


def ask(computation: Computation[Any, Any], body: dict[str, Any]) -> dict[str, Any]:
    request = computation.request_type.model_validate_json(json.dumps(body))
    return computation.response(request, DIGEST, "version").model_dump()


def log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    return float(10 ** generator.uniform(low, high))


def rows(generator: np.random.Generator, count: int, dimension: int, largest: float) -> list[list[float]]:
    """Draw vectors with coordinates up to about `largest`, often around a common center of another size."""
    place = log_uniform(generator, -9, 11) * generator.integers(0, 2)
    return np.clip(place + largest * generator.normal(size=(count, dimension)), -1e12, 1e12).tolist()


def distances(generator: np.random.Generator) -> dict[str, Any]:
    half, dimension = int(generator.integers(1, 4)), int(generator.integers(1, 4))
    return {
        "points": rows(generator, 2 * half, dimension, log_uniform(generator, -9, 11)),
        "objects": rows(generator, int(generator.integers(2, 4)), dimension, log_uniform(generator, -9, 11)),
        "clip_radius": log_uniform(generator, -9, 12),
    }


def losses(generator: np.random.Generator) -> dict[str, Any]:
    """Draw losses with large offsets for objects and points, and an exact, larger, or rounded sensitivity."""
    half, objects = int(generator.integers(1, 4)), int(generator.integers(2, 4))
    values = log_uniform(generator, -6, 6) * generator.normal(size=(objects, 2 * half))
    values += log_uniform(generator, -6, 11) * generator.normal(size=(objects, 1)) * generator.integers(0, 2)
    values += log_uniform(generator, -6, 6) * generator.normal(size=(1, 2 * half)) * generator.integers(0, 2)
    largest = float(np.ptp(values, axis=1).max())
    factor = generator.choice([1.0, 3.0, 1 - 1e-10])
    return {"losses": values.tolist(), "aggregate": "sum", "sensitivity": max(factor * largest, 1e-9)}


def logits_of(body: dict[str, Any], sensitivity: float) -> list[list[Any]]:
    """Return the logits theta of the exponential mechanism, in many digits, from the doubles of the request."""
    count = len(body["losses"][0] if "losses" in body else body["points"])
    records = 1 if body.get("aggregate") == "sum" else count // 2
    with mpmath.workdps(60):
        scale = mpmath.mpf(body["epsilon"]) / (2 * mpmath.mpf(sensitivity) * records)
        if "losses" in body:
            return [[-scale * mpmath.mpf(value) for value in row] for row in body["losses"]]
    return pmp_oracle.distance_logits(body["points"], body["objects"], body["clip_radius"], scale)


@pytest.fixture(autouse=True)
def _many_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pmp_oracle, "DIGITS", 60)


@sample_of(20)
@pytest.mark.parametrize("seed", range(60))
def test_exponential_encloses_exact_value_at_any_scale(seed: int) -> None:
    generator = np.random.default_rng([7, seed])
    body = (distances if seed % 3 else losses)(generator) | {"epsilon": log_uniform(generator, -6, 4)}
    if seed % 5 == 4:
        body |= {"exact": False, "samples": 100 * (seed % 2)}
    found = ask(PMP_EXPONENTIAL, body)
    worst, adjacent = found["worst_case"]["epsilon"], found["epsilon_on_population"]["exact"]
    assert found["epsilon_pmp"]["upper"] <= adjacent["upper"] <= worst["upper"]
    assert found["swap_bound"] <= worst["upper"]
    assert worst["upper"] <= body["epsilon"] * (1 + 1e-9)
    logits = logits_of(body, found["sensitivity"])
    if found["method"] != "sampling":
        assert found["epsilon_pmp"]["lower"] <= pmp_oracle.epsilon(logits) <= found["epsilon_pmp"]["upper"]
    assert adjacent["lower"] <= pmp_oracle.adjacent_epsilon(logits) <= adjacent["upper"]


@pytest.mark.parametrize("centre", [0.0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("far", [1.0, 1e3, 1e6, 1e9, 1e11])
def test_distant_objects_cost_no_digits(far: float, centre: float) -> None:
    """Distant objects cost no digits of epsilon.

    Two objects lie on either side of two close points, so epsilon_pmp is epsilon/2 to nearly all digits.
    """
    body = {
        "epsilon": 1.0,
        "points": [[centre + 0.5], [centre - 0.5]],
        "objects": [[centre + far], [centre - far]],
        "clip_radius": centre + 1.0,
        "sensitivity": 1.0,
    }
    found = ask(PMP_EXPONENTIAL, body)["epsilon_pmp"]
    ends = found["upper"] - found["lower"]
    assert ends <= 1e-9
    assert found["lower"] <= pmp_oracle.epsilon(logits_of(body, 1.0)) <= found["upper"]


@sample_of(15)
@pytest.mark.parametrize("seed", range(30))
def test_gaussian_encloses_exact_value_at_any_scale(seed: int) -> None:
    generator = np.random.default_rng([8, seed])
    half, dimension = int(generator.integers(1, 4)), int(generator.integers(1, 3))
    largest = log_uniform(generator, -6, 9)
    body: dict[str, Any] = {
        "points": rows(generator, 2 * half, dimension, largest),
        "query": str(generator.choice(["sum", "mean"])),
        "clip_radius": largest * log_uniform(generator, -2, 2),
        "noise_std": largest * log_uniform(generator, -2, 3),
        "delta": log_uniform(generator, -12, -0.1),
    }
    found = ask(PMP_GAUSSIAN, body)
    assert (
        0 <= found["epsilon_pmp"]["lower"] <= found["epsilon_pmp"]["upper"] <= found["worst_case"]["epsilon"]["upper"]
    )


@pytest.mark.parametrize("reading", ["sensitivity", "exact"])
@pytest.mark.parametrize("experiment", ["exponential", "gaussian"])
@pytest.mark.parametrize("budget", ["epsilon", "epsilon_on_population"])
def test_simulations_are_ordered_at_any_scale(experiment: str, budget: str, reading: str) -> None:
    for seed in range(3):
        generator = np.random.default_rng([9, seed])
        body: dict[str, Any] = {
            "experiment": experiment,
            "data_size": int(generator.integers(1, 5)),
            "dimension": int(generator.integers(1, 5)),
            "data_std": log_uniform(generator, -3, 3),
            "clip_radius": log_uniform(generator, -3, 3),
            budget: log_uniform(generator, -3, 1),
            "trials": 3,
            "seed": seed,
            "reading": reading,
        }
        body |= {"objects": 3} if experiment == "exponential" else {"delta": 1e-5}
        if experiment == "gaussian":
            body.pop("reading")
        for trial in ask(PMP_SIMULATIONS, body)["trials"]:
            parts = [
                trial[name]
                for name in ("epsilon", "epsilon_on_population_by_sensitivity", "epsilon_on_population_exact")
                if trial[name] is not None
            ]
            assert all(trial["epsilon_pmp"] <= part for part in parts)
            assert all(math.isfinite(part) for part in parts)


def finite_truth(rows: list[list[Any]], points: int, epsilon: float) -> tuple[Any, Any, Any]:
    """Return the epsilon of a finite mechanism, its delta at `epsilon` and its Bayes success, in 60 digits.

    `rows` are divided by their sums.
    """
    with mpmath.workdps(60):
        laws = [[mpmath.mpf(value) / mpmath.fsum(row) for value in row] for row in rows]
        subsets = list(combinations(range(points), points // 2))
        found: list[tuple[Any, Any, Any]] = []
        for point in range(points):
            inside, outside = (
                [mpmath.fsum(column) * 2 / len(laws) for column in zip(*chosen, strict=True)]
                for chosen in (
                    [law for law, subset in zip(laws, subsets, strict=True) if (point in subset) is is_in]
                    for is_in in (True, False)
                )
            )
            for p, q in ((inside, outside), (outside, inside)):
                ratio = max(mpmath.log(a / b) if b else mpmath.inf for a, b in zip(p, q, strict=True) if a)
                delta, variation = (
                    mpmath.fsum(max(a - mpmath.exp(at) * b, 0) for a, b in zip(p, q, strict=True))
                    for at in (mpmath.mpf(epsilon), mpmath.mpf(0))
                )
                found.append((ratio, delta, (1 + variation) / 2))
        return tuple(max(column) for column in zip(*found, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_finite_encloses_exact_value_at_any_scale(seed: int) -> None:
    """Answers on finite mechanisms enclose the exact value at any scale of their probabilities.

    Rows may miss a sum of 1 by up to 1e-9. They are divided by their sums, with a note.
    """
    generator = np.random.default_rng([10, seed])
    points, outputs = 2 * int(generator.integers(1, 4)), int(generator.integers(1, 5))
    count = math.comb(points, points // 2)
    rows = np.tile(generator.dirichlet(np.ones(outputs)), (count, 1)) ** log_uniform(generator, -1, 1)
    rows *= 1 + log_uniform(generator, -14, 0) * generator.uniform(-0.9, 0.9, size=rows.shape)
    rows[generator.uniform(size=rows.shape) < 0.1 * generator.integers(0, 2)] = 0.0
    rows[:, 0] += rows.sum(axis=1) == 0
    rows /= rows.sum(axis=1, keepdims=True)
    if seed % 4:
        rows *= 1 + 0.9e-9 * generator.uniform(-1, 1, size=(count, 1))
        rows = np.minimum(rows, 1.0)
    body = {"points": points, "probabilities": rows.tolist(), "epsilon": log_uniform(generator, -9, 1)}
    found = ask(PMP_FINITE, body)
    divided = any(math.fsum(row) != 1 for row in rows.tolist())
    assert any("normalised" in note for note in found["notes"]) == divided
    assert (found["evidence"] == "certified") == divided
    truth = finite_truth(rows.tolist(), points, body["epsilon"])
    for name, true in zip(("epsilon_pmp", "delta_pmp", "bayes_success"), truth, strict=True):
        slack = 0 if divided else 4e-16  # As sent, a row may miss 1 by less than can be resolved.
        assert found[name]["lower"] - slack <= true <= found[name]["upper"] + slack, name
    assert found["epsilon_pmp"]["upper"] <= found["worst_case"]["epsilon"]["upper"]
    assert found["delta_pmp"]["upper"] <= found["worst_case"]["delta"]["upper"]
    assert found["bayes_success"]["upper"] <= found["success_bound"]["upper"]
