"""Selections over HTTP: bad numbers of trials are refused with pointer and remedy, and calibrations may free them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from starlette.testclient import TestClient

GDP: dict[str, Any] = {"type": "gdp", "mu": 0.5}
EPSILON: dict[str, Any] = {"type": "epsilon", "delta": 1e-5}
GEOMETRIC: dict[str, Any] = {"type": "geometric", "mean": 10.0}


def selected(trials: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "selected", "mechanism": GDP, "trials": trials, **more}


@pytest.mark.parametrize(
    ("trials", "more", "pointer", "words"),
    [
        ({"type": "geometric", "mean": 0}, {}, "/mechanism/trials/mean", "1"),
        ({"type": "poisson", "mean": 0}, {}, "/mechanism/trials/mean", "0"),
        ({"type": "truncated_negative_binomial", "mean": 10, "shape": -1}, {}, "/mechanism/trials/shape", "-0.9"),
        ({"type": "fixed", "count": 0}, {}, "/mechanism/trials/count", "1"),
        ({"type": "fixed", "count": 2.5}, {}, "/mechanism/trials/count", "integer"),
        ({"type": "binomial", "count": 5, "probability": 0}, {}, "/mechanism/trials/probability", "0"),
        (GEOMETRIC, {"released": "all"}, "/mechanism/released", "fixed number of trials"),
        (GEOMETRIC, {"released": "worst"}, "/mechanism/released", "best"),
        ({"type": "uniform", "count": 5}, {}, "/mechanism/trials", "geometric"),
    ],
)
def test_bad_numbers_of_trials_are_refused(
    client: TestClient, trials: dict[str, Any], more: dict[str, Any], pointer: str, words: str
) -> None:
    response = client.post("/v1/bounds", json={"mechanism": selected(trials, **more), "questions": [EPSILON]})
    assert response.status_code == 422
    errors = response.json()["errors"]
    assert [each["pointer"].startswith(pointer) for each in errors] == [True]
    assert words in errors[0]["detail"]


def test_selection_of_the_best_inside_a_repetition_is_refused(client: TestClient) -> None:
    inner = {"type": "repeated", "mechanism": selected(GEOMETRIC), "steps": 2}
    response = client.post("/v1/bounds", json={"mechanism": inner, "questions": [EPSILON]})
    assert response.status_code == 422
    assert "outermost" in response.text


@pytest.mark.parametrize("trials", [GEOMETRIC, {"type": "poisson", "mean": 4.0}])
def test_calibration_frees_the_mean_number_of_trials(client: TestClient, trials: dict[str, Any]) -> None:
    target = {"question": EPSILON, "at_most": 3.5}
    sent = {"mechanism": selected(trials), "free": "/mechanism/trials/mean", "targets": [target]}
    response = client.post("/v1/calibrations", json=sent)
    assert response.status_code == 200, response.text
    mean = response.json()["value"]
    assert mean > 1

    def upper(number: float) -> float:
        asked = {"mechanism": selected(trials | {"mean": number}), "questions": [EPSILON]}
        found: float = client.post("/v1/bounds", json=asked).json()["answers"][0]["upper"]
        return found

    assert upper(mean) <= 3.5 < upper(1.05 * mean)


PRIORS: dict[str, Any] = {"prior": 0.3}
QUESTIONS: list[dict[str, Any]] = [
    {"type": "trade_off", "false_positive_rates": [1e-100, 1e-9, 0.0197366, 0.5, 0.9, 0.999999, 1 - 1e-12]},
    EPSILON,
    {"type": "epsilon", "delta": 0.5},
    {"type": "delta", "epsilon": 1e-3},
    {"type": "delta", "epsilon": 81.0},
    {"type": "advantage"},
    {"type": "gdp_mu"},
    {"type": "reconstruction", "baseline_success": 0.03},
    {"type": "attack_accuracy", **PRIORS},
    {"type": "positive_predictive_value", **PRIORS},
    {"type": "negative_predictive_value", **PRIORS},
    {"type": "advantage_over_prior", **PRIORS},
]
NEARLY_PARALLEL: dict[str, Any] = {
    "type": "selected",
    "mechanism": {"type": "pure_dp", "epsilon": 0.015175211456944308},
    "trials": {"type": "poisson", "mean": 2.0},
}
MIXED: dict[str, Any] = {
    "type": "mixture",
    "components": [
        {"weight": 0.021841305041305326, "mechanism": NEARLY_PARALLEL},
        {"weight": 0.9781586949586947, "mechanism": {"type": "gaussian", "noise_multiplier": 1.3036873160152471}},
    ],
}


def numbers_of_trials(random: Generator) -> list[dict[str, Any]]:
    """Draw one number of trials of each law."""
    mean = 1 + float(10 ** random.uniform(-1, 6))
    return [
        {"type": "geometric", "mean": mean},
        {"type": "truncated_negative_binomial", "mean": mean, "shape": float(random.uniform(-0.9, 3))},
        {"type": "poisson", "mean": float(10 ** random.uniform(-1, 2))},
        {"type": "binomial", "count": int(random.integers(2, 50)), "probability": float(random.uniform(0.1, 0.9))},
        {"type": "fixed", "count": int(random.integers(2, 50))},
    ]


def drawn_selections() -> list[dict[str, Any]]:
    """Draw selections of runs that reveal nearly nothing, and of runs that reveal nearly everything."""
    random = np.random.default_rng(20261128)
    found: list[dict[str, Any]] = []
    for low, high in ((-9.0, -1.0), (1.5, 2.5)):
        for kind in ({"type": "pure_dp"}, {"type": "randomized_response", "options": int(random.integers(2, 9))}):
            trials = numbers_of_trials(random)
            found += [
                selected(law, mechanism={**kind, "epsilon": float(10 ** random.uniform(low, high))}) for law in trials
            ]
    return found


@pytest.mark.parametrize(
    "mechanism",
    [
        *(
            selected(law, mechanism={"type": "pure_dp", "epsilon": epsilon})
            for law in ({"type": "geometric", "mean": 2.0}, {"type": "poisson", "mean": 2.0})
            for epsilon in (80.0, 100.0, 300.0)
        ),
        selected({"type": "geometric", "mean": 1e6}, mechanism={"type": "pure_dp", "epsilon": 60.0}),
        selected(
            {"type": "truncated_negative_binomial", "mean": 332519.5671681873, "shape": 2.1787582917592827},
            mechanism={"type": "pure_dp", "epsilon": 124.32659635765923},
        ),
        NEARLY_PARALLEL,
        MIXED,
        *drawn_selections(),
    ],
)
def test_all_questions_about_selections_with_extreme_epsilons_have_ordered_bounds(
    client: TestClient, mechanism: dict[str, Any]
) -> None:
    response = client.post("/v1/bounds", json={"mechanism": mechanism, "questions": QUESTIONS})
    assert response.status_code == 200, response.text
    bounds = list(ordered(response.json()["answers"]))
    assert len(bounds) >= len(QUESTIONS)
    assert all(lower <= upper for lower, upper in bounds)


def ordered(answer: Any) -> Iterator[tuple[float, float]]:
    """Yield all pairs of a lower and an upper bound inside an answer, those of lists of bounds included."""
    if isinstance(answer, list):
        for each in answer:
            yield from ordered(each)
    elif isinstance(answer, dict):
        found: dict[str, Any] = answer
        lower, upper = found.get("lower"), found.get("upper")
        if isinstance(lower, list):
            yield from zip(map(float, found["lower"]), map(float, found["upper"]), strict=True)
        elif lower is not None and upper is not None:
            yield float(lower), float(upper)
        for each in found.values():
            yield from ordered(each)
