"""Selections over HTTP: bad numbers of trials are refused with pointer and remedy, and calibrations may free them."""

from __future__ import annotations

from typing import Any

import pytest
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
