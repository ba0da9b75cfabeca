"""Results of a cluster with a real worker: its audit stream, and results that another instance has quarantined."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import redis

from api_schemas.bounds import BoundsRequest
from service.engine_version import ENGINE_VERSION
from service.execution.entry_mac import EntryAuthenticator
from service.execution.quarantine import MARKER
from service.resources.digest import digest
from service.resources.disputed import run_digest
from tests.api.test_decisions import run
from tests.system.jobs import (
    ADVANTAGE,
    SEAL_KEY,
    Cluster,
    assert_every_point_once,
    cluster,
    done,
    kill_worker_processes,
    submit,
    sweep,
    wait_for,
    wait_until_ended,
)
from tests.system.running_server import running_server

GAUSSIAN = {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "questions": [ADVANTAGE]}
QUIETER = {"mechanism": {"type": "gaussian", "noise_multiplier": 2.5}, "questions": [ADVANTAGE]}
OTHER = BoundsRequest.model_validate_json(json.dumps(QUIETER))
DIGEST = digest("bounds", ENGINE_VERSION, BoundsRequest.model_validate_json(json.dumps(GAUSSIAN)))


def quarantine(address: str) -> tuple[str, bytes]:
    """Put the marker of a quarantined result into Redis, as another instance does. Return its key and its bytes."""
    key, entry = (
        f"privacy_bounds:result:bounds:{DIGEST}",
        EntryAuthenticator([SEAL_KEY]).sign("result:bounds", DIGEST, MARKER),
    )
    with closing(redis.Redis.from_url(address)) as database:
        database.set(key, entry)
    return key, entry


def assert_refused(client: httpx2.Client, job: str) -> None:
    for form in ("application/json", "application/x-ndjson"):
        refused = client.get(f"{job}/results", headers={"Accept": form})
        assert (refused.status_code, refused.json()["type"]) == (500, "/problems/result-quarantined")


@dataclass(frozen=True)
class Running:
    """A cluster with one worker, a client of its service, and the audit stream of the worker."""

    cluster: Cluster
    client: httpx2.Client
    audit: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("cluster")
    path = folder / "worker-audit.jsonl"
    with (
        cluster(folder, workers=1, audit_log=str(path)) as made,
        running_server(folder, log_level="warning", worker_count="1", **made.settings) as client,
    ):
        yield Running(made, client, path)


def test_sweep_completes_on_cluster(running: Running) -> None:
    """A sweep completes on a cluster although the processes of its worker are killed in the middle."""
    points, client = 2_000, running.client
    assert client.get("/v1/limits").json()["jobs"]["backend"] == "celery"
    job = submit(client, "sweeps", sweep(points), **{"Idempotency-Key": "a"})
    assert submit(client, "sweeps", sweep(points), **{"Idempotency-Key": "a"}) == job
    wait_for(lambda: done(client, job) > 0)
    kill_worker_processes(running.cluster)
    found = wait_until_ended(client, job)
    assert found["progress"] == {"done": points, "failed": 0, "total": points}
    assert_every_point_once(client, job, points)
    other = client.post("/v1/jobs", json={"resource": "sweeps", "request": sweep(9)}, headers={"Idempotency-Key": "a"})
    assert other.status_code == 422


def test_worker_records_decisions_and_disputed_results_are_refused(running: Running) -> None:
    """A worker records decisions, and disputed results are refused.

    A job that had its result before the quarantine is refused, and a later job of the same request fails.
    """
    made, client, path = running.cluster, running.client, running.audit
    first = submit(client, "bounds", GAUSSIAN)
    assert wait_until_ended(client, first)["state"] == "succeeded"
    decided = submit(client, "assessments", run(date="2026-11-25"))
    job = wait_until_ended(client, decided)
    assert job["state"] == "succeeded"
    wait_for(path.exists)
    [record] = map(json.loads, path.read_text().splitlines())
    assert_decision(record, job)

    key, entry = quarantine(made.redis.url)
    assert_refused(client, first)
    ended = wait_until_ended(client, submit(client, "bounds", GAUSSIAN))
    assert (ended["state"], ended["problem"]["type"]) == ("failed", "/problems/result-quarantined")
    with closing(redis.Redis.from_url(made.redis.url)) as database:
        assert database.get(key) == entry, "no process has replaced the marker by a result"
    assert_disputed_run_is_refused(client, made.redis.url)


def share_run(address: str) -> None:
    """Put the list of disputed runs into Redis, as another instance does."""
    body = json.dumps([run_digest(ENGINE_VERSION, OTHER.mechanism, OTHER.threat_model)]).encode()
    with closing(redis.Redis.from_url(address)) as database:
        entry = EntryAuthenticator([SEAL_KEY]).sign("result:quarantine", "runs", body)
        database.set("privacy_bounds:result:quarantine:runs", entry)


def assert_disputed_run_is_refused(client: httpx2.Client, address: str) -> None:
    """Check that worker and instance refuse a run that another instance disputes, and answer for other runs."""
    before = submit(client, "bounds", QUIETER)
    assert wait_until_ended(client, before)["state"] == "succeeded"
    share_run(address)
    swept = QUIETER | {"vary": {"/mechanism/noise_multiplier": {"values": [2.5, 2.75]}}}
    job = submit(client, "sweeps", swept)
    assert wait_until_ended(client, job)["state"] == "succeeded"
    refused, free = client.get(f"{job}/results").json()["points"]
    assert (refused["problem"]["type"], free["problem"]) == ("/problems/result-quarantined", None)
    later = wait_until_ended(client, submit(client, "bounds", QUIETER))
    assert (later["state"], later["problem"]["type"]) == ("failed", "/problems/result-quarantined")
    wait_for(lambda: client.get(f"{before}/results").status_code == 500)
    assert_refused(client, before)


def assert_decision(record: dict[str, Any], job: dict[str, Any]) -> None:
    assert (record["event"], record["requester"], record["resource"]) == (
        "decision",
        "127.0.0.1",
        {"job_id": job["id"]},
    )
    assert record["decision"] == record["digest"] == job["digest"]
    assert record["verdict"] == "met"
    assert record["request_id"]
    assert "noise_multiplier" not in json.dumps(record), "no record has a body"
