"""Stated classes over HTTP: answers with their proof, and errors with pointer and remedy."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.api.requests import bounds, post

RDP: dict[str, Any] = {"type": "rdp", "orders": [2, 4], "epsilons": [0.5, 1.0]}


@pytest.mark.parametrize(
    ("mechanism", "pointer", "remedy"),
    [
        ({"type": "zcdp", "rho": 0.5, "delta": 1e-5}, "/mechanism/delta", "Send delta in a question"),
        ({"type": "zcdp", "rho": -1}, "/mechanism/rho", "in [0, 1000000]"),
        ({"type": "zcdp", "rho": "Infinity"}, "/mechanism/rho", "in [0, 1000000]"),
        (RDP | {"epsilons": [1.0, 0.5]}, "/mechanism/epsilons", "Replace an epsilon by that of the next larger order"),
        (RDP | {"epsilons": [1.0]}, "/mechanism/epsilons", "as many epsilons as orders"),
        (RDP | {"orders": [0.5, 2]}, "/mechanism/orders/0", 'in [1, 1000000000] or "Infinity"'),
        (RDP | {"orders": [4, 2]}, "/mechanism/orders", "Sort them"),
        (RDP | {"orders": [2, 2]}, "/mechanism/orders", "send each order once"),
        (RDP | {"orders": ["two", 4]}, "/mechanism/orders/0", "JSON numbers have no quotes"),
        (RDP | {"epsilons": ["Infinity", "Infinity"]}, "/mechanism/epsilons", "At least one epsilon must be finite"),
        (RDP | {"directions": "backward"}, "/mechanism/directions", '"both", "forward_only"'),
    ],
)
def test_invalid_class_names_field_and_remedy(
    client: TestClient, mechanism: dict[str, Any], pointer: str, remedy: str
) -> None:
    answer = post(client, bounds(mechanism))
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert remedy in error["detail"]


def test_too_many_records_of_class_are_refused(client: TestClient) -> None:
    threat_model = {"type": "worst_case", "records": 100_000}
    answer = post(client, bounds({"type": "zcdp", "rho": 0.1}, threat_model=threat_model))
    assert answer.status_code == 422
    assert "at most 1024 records" in answer.json()["detail"]


@pytest.mark.parametrize("spelled", ["Infinity", "infinity", "inf"])
def test_class_answers_are_tight_and_proved(client: TestClient, spelled: str) -> None:
    answer = post(client, bounds(RDP | {"orders": [2, spelled], "epsilons": [0.3, 1.0]})).json()
    assert answer["mechanism"]["orders"] == [2.0, "Infinity"]
    [found] = answer["answers"]
    assert (found["tight"], found["evidence"]) == (True, "proved")
    assert [hazard["code"] for hazard in answer["hazards"]].count("stated_divergences_alone") == 1


def test_run_of_classes_is_bracket(client: TestClient) -> None:
    run = {"type": "repeated", "steps": 3, "mechanism": {"type": "zcdp", "rho": 0.1}}
    [found] = post(client, bounds(run)).json()["answers"]
    assert found["tight"] is False
    assert any("Bun, Steinke 2016" in note for note in found["notes"])
