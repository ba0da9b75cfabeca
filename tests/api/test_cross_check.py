"""Answers that are computed twice, over the whole application and its real processes: a wrong number is quarantined."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from api_schemas.bounds import BoundsRequest
from service.engine_version import ENGINE_VERSION
from service.execution import quarantine as module
from service.execution.quarantine import FILE_NAME as QUARANTINE_FILE
from service.main import create_app
from service.resources.bounds import BOUNDS
from service.resources.digest import digest as request_digest
from service.settings import Settings
from tests.execution.fakes import counted
from tests.timeouts import TEST_TIMEOUT

BODY: Final[dict[str, Any]] = {
    "mechanism": {"type": "gaussian", "noise_multiplier": 1.25},
    "questions": [{"type": "delta", "epsilon": 1.0}],
}
SAME_RUN: Final = {**BODY, "questions": [{"type": "epsilon", "delta": 1e-5}]}
OTHER_MECHANISM: Final = {"type": "gaussian", "noise_multiplier": 1.5}
OTHER: Final = {**BODY, "mechanism": OTHER_MECHANISM}
REQUEST: Final = BoundsRequest.model_validate(json.loads(json.dumps(BODY)), strict=False)
DIGEST: Final = request_digest("bounds", ENGINE_VERSION, REQUEST)


@contextmanager
def running(folder: Path, share: float = 1.0) -> Generator[TestClient]:
    settings = Settings(redis_url=None, log_level="critical", cross_check_share=share, data_folder=folder)
    with TestClient(create_app(settings)) as client:
        yield client


def poison(client: TestClient, factor: float) -> None:
    """Put an answer into the memory cache whose bounds are too small, as a defect of an engine would."""
    body = json.loads(BOUNDS.body(REQUEST, DIGEST, ENGINE_VERSION))
    for name in ("value", "lower", "upper"):
        body["answers"][0][name] *= factor
    client.app_state["services"].runner.results.store(BOUNDS, DIGEST, json.dumps(body).encode(), 0)


def wait_until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + TEST_TIMEOUT
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def count(client: TestClient, sample: str) -> float:
    return counted(client.app_state["services"].metrics, "privacy_bounds_" + sample)


def test_a_wrong_number_is_never_served_again(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        poison(client, 0.999)
        wrong = client.post("/v1/bounds", json=BODY)
        assert wrong.status_code == 200  # the answer does not wait for its check
        wait_until(lambda: count(client, "cross_check_failures_total") == 1)
        wait_until(lambda: DIGEST in client.app_state["services"].runner.results.quarantine)
        ready = client.get("/readyz?verbose").json()
        assert ready["status"] == "degraded"
        assert {"cross_check": "degraded"}.items() <= {each["name"]: each["status"] for each in ready["checks"]}.items()
        assert_quarantined(client)
        assert_problem(client.post("/v1/bounds", json=SAME_RUN))
    assert DIGEST in (tmp_path / QUARANTINE_FILE).read_text()
    with running(tmp_path, share=0.0) as client:
        assert_quarantined(client)
        assert_problem(client.post("/v1/bounds", json=SAME_RUN))
        assert client.get("/readyz").json()["status"] == "degraded"


def assert_quarantined(client: TestClient) -> None:
    spaced = json.dumps(BODY, indent=1)  # another body of the same request
    for refused in (
        client.post("/v1/bounds", json=BODY),
        client.post("/v1/bounds", content=spaced, headers={"Content-Type": "application/json"}),
        client.get(f"/v1/results/{DIGEST}"),
    ):
        assert_problem(refused)
    assert client.post("/v1/bounds", json=OTHER).status_code == 200


def assert_problem(refused: Any) -> None:
    assert (refused.status_code, refused.json()["type"]) == (500, "/problems/result-quarantined")
    assert "lower" not in refused.text


JOB: Final = {"resource": "bounds", "request": BODY}
JSON_AND_LINES: Final = ("application/json", "application/x-ndjson")


def test_a_stored_job_with_a_disputed_result_is_refused(tmp_path: Path) -> None:
    """The result was stored before its check. It is refused in every form, also after a restart, and in later jobs."""
    key = {"Idempotency-Key": "one"}
    with running(tmp_path, share=0.0) as client:
        job = client.post("/v1/jobs", json=JOB, headers=key).json()["id"]
        wait_until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] == "succeeded")
        assert client.get(f"/v1/jobs/{job}/results").json()["points"]
        client.app_state["services"].runner.results.quarantine.add(DIGEST, "two engines")
        assert_job_refused(client, job)
    with running(tmp_path, share=0.0) as client:
        assert_job_refused(client, job)
        for headers in (key, {}):
            refused = client.post("/v1/bounds", json=BODY, headers=headers | {"Prefer": "respond-async, wait=20"})
            assert refused.json()["type"] == "/problems/result-quarantined"
        later = client.post("/v1/jobs", json=JOB).json()["id"]
        wait_until(lambda: client.get(f"/v1/jobs/{later}").json()["state"] == "failed")
        assert client.get(f"/v1/jobs/{later}").json()["problem"]["type"] == "/problems/result-quarantined"
        other = client.post("/v1/jobs", json=JOB | {"request": OTHER}).json()["id"]
        wait_until(lambda: client.get(f"/v1/jobs/{other}").json()["state"] == "succeeded")
        assert client.get(f"/v1/jobs/{other}/results").json()["points"]


def assert_job_refused(client: TestClient, job: str) -> None:
    assert client.get(f"/v1/jobs/{job}").json()["state"] == "succeeded"
    for form in JSON_AND_LINES:
        refused = client.get(f"/v1/jobs/{job}/results", headers={"Accept": form})
        assert (refused.status_code, refused.json()["type"]) == (500, "/problems/result-quarantined"), form
        assert "lower" not in refused.text


def test_service_with_an_unreadable_quarantine_answers_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RELOAD_SECONDS", 0.0)
    (tmp_path / QUARANTINE_FILE).mkdir()
    with running(tmp_path, share=0.0) as client:
        assert client.post("/v1/bounds", json=BODY).status_code == 200
        assert client.get(f"/v1/results/{DIGEST}").status_code == 200
        ready = client.get("/readyz?verbose")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        [detail] = [each["detail"] for each in ready.json()["checks"] if each["name"] == "quarantine"]
        assert f"{tmp_path / QUARANTINE_FILE}: Is a directory" in detail
        (tmp_path / QUARANTINE_FILE).rmdir()
        assert "quarantine" not in {each["name"] for each in client.get("/readyz?verbose").json()["checks"]}


def test_right_numbers_are_confirmed_and_stay(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        first = client.post("/v1/bounds", json=BODY)
        wait_until(lambda: count(client, 'cross_checks_total{outcome="agreed"}') == 1)
        again = client.post("/v1/bounds", json=BODY)
        assert again.content == first.content
        assert count(client, "cross_check_failures_total") == 0
        wait_until(lambda: client.get("/readyz").json()["status"] == "ready")


def test_without_a_share_nothing_is_checked(tmp_path: Path) -> None:
    with running(tmp_path, share=0.0) as client:
        poison(client, 0.999)
        assert client.post("/v1/bounds", json=BODY).status_code == 200
        assert client.app_state["services"].runner.offer_cross_check("bounds", REQUEST, DIGEST, b"") is None
        assert "cross_checks_total{" not in client.get("/metrics").text
