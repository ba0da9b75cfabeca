"""First mistakes of new users, and the hints in the responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.resources.calibration import evaluator

RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
ADVANTAGE = [{"type": "advantage"}]
STATE = {"history": [[1.1, 0.004, 3000.0], [0.9, 0.004, 1000.0]], "mechanism": "prv"}


def rejection_details(client: TestClient, path: str, body: Any) -> dict[str, str]:
    """Return the details of a rejected request by pointer."""
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
def test_misspelt_field_gets_closest_name(
    client: TestClient, mechanism: dict[str, Any], pointer: str, hint: str
) -> None:
    assert hint in rejection_details(client, "/v1/bounds", {"mechanism": mechanism, "questions": ADVANTAGE})[pointer]


def test_unknown_field_without_close_name_gets_no_guess(client: TestClient) -> None:
    details = rejection_details(client, "/v1/bounds", {"mechanism": {**RUN, "colour": 1}, "questions": ADVANTAGE})
    assert "Did you mean" not in details["/mechanism/colour"]


def test_bare_state_as_request_gets_hint_to_import(client: TestClient) -> None:
    details = rejection_details(client, "/v1/assessments", STATE)
    assert '"type": "imported"' in details["/history"]


def test_epochs_inconsistent_with_steps_are_explained(client: TestClient) -> None:
    run = {**RUN, "epochs": 20}
    details = rejection_details(client, "/v1/bounds", {"mechanism": run, "questions": ADVANTAGE})["/mechanism/epochs"]
    assert "These epochs are 2000 steps (one step is one batch), and steps is 1000" in details


def test_integers_in_history_may_be_written_as_floats(client: TestClient) -> None:
    whole = {**STATE, "history": [[1.1, 0.004, 3000], [0.9, 0.004, 1000]]}
    found = [client.post("/v1/imports", json={"format": "opacus", "content": each}).json() for each in (STATE, whole)]
    assert found[0]["mechanism"] == found[1]["mechanism"]
    assert found[0]["mechanism"]["steps"] == [3000, 1000]
    broken = {"format": "opacus", "content": {"history": [[1.1, 0.004, 3000.5]]}}
    assert list(rejection_details(client, "/v1/imports", broken)) == ["/content/history/0/2"]
    events = {"noise_multiplier": 1.0, "iterations": 500.0, "sampling_prob": 0.01}
    read = client.post("/v1/imports", json={"format": "jax_privacy", "content": events}).json()
    assert read["mechanism"]["steps"] == 500


def test_swapped_looking_columns_are_a_hazard(client: TestClient) -> None:
    exchanged = {"format": "opacus", "content": {"history": [[0.004, 0.9, 3000]]}}
    hazards = [each["code"] for each in client.post("/v1/imports", json=exchanged).json()["hazards"]]
    assert "columns_may_be_exchanged" in hazards
    usual = client.post("/v1/imports", json={"format": "opacus", "content": STATE}).json()["hazards"]
    assert "columns_may_be_exchanged" not in [each["code"] for each in usual]
    rate = {"format": "opacus", "content": {"history": [[0.004, 1.1, 3000]]}}
    assert "look exchanged" in rejection_details(client, "/v1/imports", rate)["/content/history/0/1"]


def test_unknown_path_names_the_catalogue(client: TestClient) -> None:
    assert "/v1/catalogue" in client.get("/v1/bound").json()["detail"]


def assessment_text(client: TestClient, holds: str, form: str) -> str:
    attested = [{"code": "sampling_is_poisson", "holds": holds, "by": "ML platform"}]
    body = {"mechanism": RUN, "context": {"delta": 1e-6, "dataset_size": 60_000, "attested": attested}}
    return client.post("/v1/assessments", json=body, headers={"accept": form}).text


def test_void_numbers_are_marked_in_every_rendering(client: TestClient) -> None:
    for form in ("text/markdown", "text/plain"):
        assert "Void: sampling_is_poisson" in assessment_text(client, "no", form)
        assert "Void" not in assessment_text(client, "yes", form)
    assert "differential privacy" not in assessment_text(client, "no", "text/markdown").split("###", 1)[0]


def test_predictive_value_mentions_the_prior(client: TestClient) -> None:
    assert "depends on the prior" in assessment_text(client, "yes", "text/markdown")


def test_search_stopped_by_budget_is_not_reported_infeasible(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.resources.calibration.resource import CALIBRATIONS

    body = {
        "mechanism": RUN,
        "free": "/mechanism/noise_multiplier",
        "targets": [{"question": {"type": "epsilon", "delta": 1e-5}, "at_most": 0.001}],
    }
    request = CALIBRATIONS.request_type.model_validate_json(json.dumps(body))
    monkeypatch.setattr(evaluator, "MOST_WORK", 1)  # The end of the budget is a constant of the module.
    ended = CALIBRATIONS.response(request, "sha256:" + "0" * 64, "any")
    assert ended.status == "undecided"
    assert any("reached the work limit" in note for note in ended.notes)
