"""What people who are new here get wrong first, and what they are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.resources.calibration import evaluator

RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
ADVANTAGE = [{"type": "advantage"}]
STATE = {"history": [[1.1, 0.004, 3000.0], [0.9, 0.004, 1000.0]], "mechanism": "prv"}


def told(client: TestClient, path: str, body: Any) -> dict[str, str]:
    """What is said about which place of a request that is refused."""
    answer = client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    return {each["pointer"]: each["detail"] for each in answer.json()["errors"]}


@pytest.mark.parametrize(
    ("mechanism", "pointer", "hint"),
    [
        ({**RUN, "noise_multplier": 1.0}, "/mechanism/noise_multplier", "Did you mean `noise_multiplier`?"),
        ({**RUN, "Steps": 7}, "/mechanism/Steps", "Did you mean `steps`?"),
        ({"type": "dp-sgd"}, "/mechanism/type", "Did you mean `dpsgd`?"),
        ({"noise_multiplier": 1.0}, "/mechanism/type", 'Must be one of "gaussian", "laplace",'),
        ({**RUN, "z" * 100_000: 1}, "/mechanism/" + "z" * 100_000, "Unknown field."),
    ],
    ids=["misspelt", "capital", "misspelt type", "no type", "long"],
)
def test_a_misspelt_name_is_told_its_neighbour(
    client: TestClient, mechanism: dict[str, Any], pointer: str, hint: str
) -> None:
    assert hint in told(client, "/v1/bounds", {"mechanism": mechanism, "questions": ADVANTAGE})[pointer]


def test_what_is_like_nothing_gets_no_guess(client: TestClient) -> None:
    said = told(client, "/v1/bounds", {"mechanism": {**RUN, "colour": 1}, "questions": ADVANTAGE})
    assert "Did you mean" not in said["/mechanism/colour"]


def test_a_state_in_place_of_a_request_is_told_where_it_goes(client: TestClient) -> None:
    said = told(client, "/v1/assessments", STATE)
    assert '"type": "imported"' in said["/history"]


def test_epochs_that_are_not_the_steps_are_told_what_they_are(client: TestClient) -> None:
    run = {**RUN, "epochs": 20}
    said = told(client, "/v1/bounds", {"mechanism": run, "questions": ADVANTAGE})["/mechanism/epochs"]
    assert "These epochs are 2000 steps (one step is one batch), and steps is 1000" in said


def test_whole_numbers_of_a_history_may_have_a_point(client: TestClient) -> None:
    whole = {**STATE, "history": [[1.1, 0.004, 3000], [0.9, 0.004, 1000]]}
    found = [client.post("/v1/imports", json={"format": "opacus", "content": each}).json() for each in (STATE, whole)]
    assert found[0]["mechanism"] == found[1]["mechanism"]
    assert found[0]["mechanism"]["steps"] == [3000, 1000]
    broken = {"format": "opacus", "content": {"history": [[1.1, 0.004, 3000.5]]}}
    assert list(told(client, "/v1/imports", broken)) == ["/content/history/0/2"]
    events = {"noise_multiplier": 1.0, "iterations": 500.0, "sampling_prob": 0.01}
    read = client.post("/v1/imports", json={"format": "jax_privacy", "content": events}).json()
    assert read["mechanism"]["steps"] == 500


def test_columns_that_look_exchanged_are_a_hazard(client: TestClient) -> None:
    exchanged = {"format": "opacus", "content": {"history": [[0.004, 0.9, 3000]]}}
    hazards = [each["code"] for each in client.post("/v1/imports", json=exchanged).json()["hazards"]]
    assert "columns_may_be_exchanged" in hazards
    usual = client.post("/v1/imports", json={"format": "opacus", "content": STATE}).json()["hazards"]
    assert "columns_may_be_exchanged" not in [each["code"] for each in usual]
    rate = {"format": "opacus", "content": {"history": [[0.004, 1.1, 3000]]}}
    assert "look exchanged" in told(client, "/v1/imports", rate)["/content/history/0/1"]


def test_a_wrong_path_is_told_where_to_look(client: TestClient) -> None:
    assert "/v1/catalogue" in client.get("/v1/bound").json()["detail"]


def assessed(client: TestClient, holds: str, form: str) -> str:
    attested = [{"code": "sampling_is_poisson", "holds": holds, "by": "ML platform"}]
    body = {"mechanism": RUN, "context": {"delta": 1e-6, "dataset_size": 60_000, "attested": attested}}
    return client.post("/v1/assessments", json=body, headers={"accept": form}).text


def test_void_numbers_are_called_void_wherever_they_would_be_copied_from(client: TestClient) -> None:
    for form in ("text/markdown", "text/plain"):
        assert "Void: sampling_is_poisson" in assessed(client, "no", form)
        assert "Void" not in assessed(client, "yes", form)
    assert "differential privacy" not in assessed(client, "no", "text/markdown").split("###", 1)[0]


def test_predictive_values_say_what_they_depend_on(client: TestClient) -> None:
    assert "depends on the prior" in assessed(client, "yes", "text/markdown")


def test_infeasible_is_not_said_of_what_a_budget_kept_from_being_looked_at(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.resources.calibration.resource import CALIBRATIONS

    body = {
        "mechanism": RUN,
        "free": "/mechanism/noise_multiplier",
        "targets": [{"question": {"type": "epsilon", "delta": 1e-5}, "at_most": 0.001}],
    }
    request = CALIBRATIONS.request_type.model_validate_json(json.dumps(body))
    monkeypatch.setattr(evaluator, "MOST_WORK", 1)  # where a budget ends is a constant of the module
    ended = CALIBRATIONS.response(request, "sha256:" + "0" * 64, "any")
    assert ended.status == "undecided"
    assert any("reached the work limit" in note for note in ended.notes)
