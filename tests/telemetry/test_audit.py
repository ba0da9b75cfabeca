"""The audit stream: what it records, and what happens on a full disk and after a rotation."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from service.main import create_app
from service.settings import Settings
from service.telemetry import audit
from service.telemetry.audit import AuditStream
from service.telemetry.logs import make_logger
from service.telemetry.metrics import Metrics
from tests.api.callers import closed_application, credentials, key_id_of, key_of
from tests.api.requests import bounds
from tests.api.test_decisions import SUBJECT, run
from tests.timeouts import TEST_TIMEOUT

FULL = Path("/dev/full")
needs_full_disk = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TEST_TIMEOUT
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stream(path: Path, log: io.BytesIO | None = None) -> AuditStream:
    made = AuditStream(str(path), Metrics(CollectorRegistry(), "1"), make_logger("info", log or io.BytesIO()))
    made.start()
    return made


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_records_name_who_what_digest_decision_and_status(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    secret = key_of("alpha")
    with closed_application(audit_log=str(path)) as client:
        group = credentials("alpha")
        answer = client.post("/v1/assessments", json=run(subject=SUBJECT), headers=group)
        digest = answer.json()["digest"]
        client.get(f"/v1/decisions/{digest}", headers=group)
        client.head(f"/v1/results/{digest}", headers=credentials("beta"))
        job = client.post("/v1/jobs", json={"resource": "bounds", "request": bounds()}, headers=group).json()["id"]
        client.delete(f"/v1/jobs/{job}", headers=group)
        client.post("/v1/bounds", json={"mechanism": SUBJECT["name"]}, headers=group)
        for path_ in ("/livez", "/readyz", "/problems", "/"):
            client.get(path_)
    assert path.stat().st_mode & 0o777 == 0o600
    assessed, decision, refused, sent, ended, invalid = records(path)
    who = {"id": key_id_of("alpha"), "kind": "key", "name": "robot", "group": "alpha"}
    for record in (assessed, decision, sent, ended, invalid):
        assert (record["event"], record["caller"], record["address"]) == ("request", who, "testclient")
    decided = answer.json()["decision"]
    for record, route in ((assessed, "/v1/assessments"), (decision, "/v1/decisions/{id}")):
        assert (record["route"], record["status"], record["digest"]) == (route, 200, digest)
        assert (record["decision"], record["verdict"]) == (decided["id"], decided["verdict"])
    assert (refused["caller"]["group"], refused["method"], refused["status"]) == ("beta", "HEAD", 404)
    assert refused["resource"] == {"digest": digest}
    assert (ended["method"], ended["resource"]) == ("DELETE", {"job_id": job})
    assert (invalid["status"], invalid["problem"]) == (422, "/problems/invalid-request")
    text = path.read_text("utf-8")
    assert SUBJECT["name"] not in text
    assert secret not in text
    assert assessed["request_id"] == answer.headers["x-request-id"]


def test_decision_of_a_job_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with closed_application(audit_log=str(path)) as client:
        sent = {"resource": "assessments", "request": run(date="2026-11-25")}
        job = client.post("/v1/jobs", json=sent, headers=credentials("alpha")).json()
        wait_until(lambda: path.exists() and any(each["event"] == "decision" for each in records(path)))
    [found] = [each for each in records(path) if each["event"] == "decision"]
    assert (found["requester"], found["resource"]) == ("group:alpha", {"job_id": job["id"]})
    assert (found["decision"], found["digest"]) == (job["digest"], job["digest"])
    assert found["verdict"] == "met"


def test_logs_name_the_caller_and_anonymous_lines_stay_as_they_were(capfd: pytest.CaptureFixture[str]) -> None:
    with closed_application(log_level="info") as client:
        client.post("/v1/bounds", json=bounds(), headers=credentials("alpha"))
        client.post("/v1/assessments", json=run(), headers=credentials("alpha"))
        refused = client.post("/v1/bounds", json=bounds())
    with TestClient(create_app(Settings.model_validate({"redis_url": None}))) as client:
        client.post("/v1/bounds", json=bounds())
    found = capfd.readouterr().err
    lines = [json.loads(line) for line in found.splitlines() if '"event":"started"' not in line]
    *named, unknown, anonymous = [line for line in lines if line["event"] in ("request", "decision")]
    assert [line["event"] for line in named] == ["request", "decision", "request"]
    for line in named:
        assert (line["caller"], line["caller_kind"]) == (key_id_of("alpha"), "key")
        assert line["requester"] == "group:alpha"
    assert (refused.status_code, unknown["status"]) == (401, 401)
    for line in (unknown, anonymous):
        assert not {"caller", "caller_kind"} & set(line)
        assert line["requester"] == "testclient"
    assert key_of("alpha") not in found


@needs_full_disk
def test_full_disk_stops_no_answer_and_is_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.05)
    path = tmp_path / "audit.jsonl"
    path.symlink_to(FULL)
    settings = Settings.model_validate({"redis_url": None, "log_level": "critical", "audit_log": str(path)})
    with TestClient(create_app(settings)) as client:
        for _ in range(3):
            assert client.post("/v1/bounds", json=bounds()).status_code == 200
        wait_until(lambda: "No space left on device" in client.get("/readyz?verbose").text)
        ready = client.get("/readyz?verbose")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert 'privacy_bounds_audit_failures_total{reason="write"}' in client.get("/metrics").text
        path.unlink()  # the disk has room again
        wait_until(lambda: client.get("/readyz?verbose").json()["status"] == "ready")
    routes = [each["route"] for each in records(path)]
    assert routes.count("/v1/bounds") == 3, "no record was lost"


@needs_full_disk
def test_records_beyond_the_queue_are_counted_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_RECORDS", 10)
    log = io.BytesIO()
    made = stream(FULL, log)
    made.write({"number": 0})
    wait_until(lambda: "cannot be written" in (made.trouble() or ""))
    began = time.monotonic()
    for number in range(500):
        made.write({"number": number})
    assert time.monotonic() - began < audit.RETRY_SECONDS, "nobody waits for the disk"
    assert "490 audit records were lost" in (made.trouble() or "")
    made.close()
    assert "501 audit records were lost" in (made.trouble() or "")
    [event] = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (event["event"], event["state"], event["cause"]) == ("audit", "not written", "No space left on device")


def test_renamed_file_is_made_again(tmp_path: Path) -> None:
    path, rotated = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    made = stream(path)
    made.write({"number": 1})
    wait_until(lambda: path.exists() and len(records(path)) == 1)
    path.rename(rotated)
    made.write({"number": 2})
    made.close()
    assert [each["number"] for file in (rotated, path) for each in records(file)] == [1, 2]


def test_streams_of_several_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    made = [stream(path) for _ in range(3)]
    for number in range(3_000):
        made[number % 3].write({"number": number, "text": "x" * (number % 300)})
    for each in made:
        each.close()
    assert sorted(each["number"] for each in records(path)) == list(range(3_000))


@pytest.mark.parametrize(
    ("written", "rest"), [(0, "one\ntwo\n"), (4, "two\n"), (8, ""), (2, "\none\ntwo\n"), (6, "\ntwo\n"), (7, "\ntwo\n")]
)
def test_torn_line_is_written_again_as_a_whole(written: int, rest: str) -> None:
    assert audit._lines_to_write_again(b"one\ntwo\n", written) == rest.encode()


def test_any_text_of_a_client_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    made = stream(path)
    odd = "a\nb\u2028\x00\ud800"
    made.write({"route": odd})
    made.close()
    [line] = path.read_bytes().splitlines()
    assert json.loads(line)["route"] == odd


def test_stream_goes_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    made = stream(Path("-"))
    made.write({"number": 7})
    made.close()
    assert json.loads(capfd.readouterr().out)["number"] == 7
