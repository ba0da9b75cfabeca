"""Signed statements about the results of jobs: which jobs have one, and that a replay has the same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.api.jobs import job_results
from service.command.replaying import CannotReplay, compute_again
from service.command.signatures import replay
from service.jobs.job import Chunk, ChunkResult
from service.jobs.results_codec import failure_lines
from service.main import create_app
from service.resources.sweeps.problems import INVALID, KINDS, is_lasting
from service.server.jobs import serialize_problem
from service.settings import Settings
from service.signing.statement import Statement
from service.signing.verification import verify_file
from tests.api.test_signatures import SIGNED, ended
from tests.signing.statements import GAUSSIAN, key_set, pem, write

DPSGD: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 100}
SWEEP: Final[dict[str, Any]] = {
    "mechanism": DPSGD,
    "vary": {"/mechanism/noise_multiplier": {"from": 0.8, "to": 2.0, "count": 150}},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}
"""More points than one block, so that the pieces of the job and of the replay differ."""
PARTLY_INVALID: Final = SWEEP | {"vary": {"/mechanism/sample_rate": {"values": [0.01, 2.0]}}}


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("keys")
    path = write(folder, "keys.pem", pem(1))
    settings = Settings(redis_url=None, log_level="error", signing_keys=Path(path), data_folder=folder)
    with TestClient(create_app(settings)) as client:
        yield client


def signed_job(client: TestClient, request: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return an ended job of a sweep, and the response to a request for its signed statement."""
    job = ended(client, {"resource": "sweeps", "request": request})
    return job, client.get(f"/v1/jobs/{job['id']}/results", headers=SIGNED)


def streamed(client: TestClient, job: dict[str, Any]) -> bytes:
    return client.get(f"/v1/jobs/{job['id']}/results", headers={"Accept": "application/x-ndjson"}).content


@pytest.mark.parametrize("request_", [SWEEP, PARTLY_INVALID], ids=["answers", "problems"])
def test_sweep_in_a_job_is_signed_and_replays_equal(request_: dict[str, Any], signing: TestClient) -> None:
    job, answer = signed_job(signing, request_)
    assert (answer.status_code, answer.headers["content-type"]) == (200, ENVELOPE_MEDIA_TYPE)
    found = verify_file(answer.content, key_set(1))
    lines = streamed(signing, job)
    assert (found.kind, found.resource, f"sha256:{found.request_sha256}") == ("job", "sweeps", job["digest"])
    assert found.answer_sha256 == hashlib.sha256(lines).hexdigest()
    assert found.answer["points"] == [json.loads(line) for line in lines.splitlines()]
    assert len(found.answer["points"]) == job["progress"]["total"]
    assert compute_again(found) == (found.answer_sha256, found.answer)


def test_command_replays_the_results_of_a_job(
    signing: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, answer = signed_job(signing, PARTLY_INVALID)
    assert replay(write(tmp_path, "job.json", answer.content), None) == 0
    assert "equal: " in (shown := capsys.readouterr().out)
    assert "job of sweeps" in shown


def test_changed_point_of_a_job_is_found_by_a_replay(signing: TestClient) -> None:
    _, answer = signed_job(signing, PARTLY_INVALID)
    found = verify_file(answer.content, key_set(1))
    found.answer["points"][0]["answers"][0]["value"] *= 1.001
    assert compute_again(found)[1] != found.answer


def test_statement_of_a_job_of_another_resource_cannot_be_replayed() -> None:
    values: dict[str, Any] = {"engine_version": "1", "request_sha256": "", "answer_sha256": "", "key_id": ""}
    made = Statement(kind="job", resource="bounds", request=GAUSSIAN, answer={}, report_sha256=None, **values)
    with pytest.raises(CannotReplay, match="another kind"):
        compute_again(made)


def test_results_that_are_too_long_are_not_signed(signing: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_results, "LARGEST_ENVELOPE", 100)
    _, refused = signed_job(signing, PARTLY_INVALID)
    assert (refused.status_code, refused.json()["type"]) == (406, "/problems/not-acceptable")
    assert "too long" in refused.json()["detail"]


def test_active_and_cancelled_jobs_are_not_signed(signing: TestClient) -> None:
    long = SWEEP | {"vary": {"/mechanism/noise_multiplier": {"from": 0.8, "to": 2.0, "count": 100_000}}}
    job = signing.post("/v1/jobs", json={"resource": "sweeps", "request": long}).json()
    for _ in range(2):
        refused = signing.get(f"/v1/jobs/{job['id']}/results", headers=SIGNED)
        assert refused.status_code == 406
        assert "succeeded" in refused.json()["detail"]
        signing.delete(f"/v1/jobs/{job['id']}")


@pytest.mark.parametrize("error", [TimeoutError(), MemoryError()])
def test_results_with_points_that_a_limit_left_out_are_not_signed(
    error: Exception, signing: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results that lack points because of a limit are not signed.

    Another run may answer these points, so that a replay would differ.
    """
    job, _ = signed_job(signing, PARTLY_INVALID)
    repository = signing.app_state["services"].jobs.repository
    failed = ChunkResult(Chunk(0, 2), failure_lines(Chunk(0, 2), serialize_problem(error)))
    monkeypatch.setattr(repository, "results", lambda _, start, __: [failed] if start < 2 else [])
    refused = signing.get(f"/v1/jobs/{job['id']}/results", headers=SIGNED)
    assert refused.status_code == 406
    assert "limit of this service" in refused.json()["detail"]


def test_every_problem_of_a_request_lasts_but_for_the_time_limit_and_disputes() -> None:
    types = {INVALID.type, *(kind.type for kind in KINDS.values())}
    assert {each for each in types if not is_lasting(each)} == {"/problems/out-of-time", "/problems/result-quarantined"}
