"""Results of a cluster with a real worker: its audit stream, and results that another instance has quarantined."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import redis

from api_schemas.bounds import BoundsRequest
from service.engine_version import ENGINE_VERSION
from service.execution.entry_mac import EntryAuthenticator
from service.execution.quarantine import MARKER
from service.resources.digest import digest
from tests.api.test_decisions import run
from tests.system.jobs import ADVANTAGE, SEAL_KEY, cluster, submit, wait_for, wait_until_ended
from tests.system.running_server import running_server

GAUSSIAN = {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "questions": [ADVANTAGE]}
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


def test_worker_records_decisions_and_disputed_results_are_refused(tmp_path: Path) -> None:
    """A worker records decisions, and disputed results are refused.

    A job that had its result before the quarantine is refused, and a later job of the same request fails.
    """
    path = tmp_path / "worker-audit.jsonl"
    with (
        cluster(tmp_path, workers=1, audit_log=str(path)) as made,
        running_server(tmp_path, log_level="warning", worker_count="1", **made.settings) as client,
    ):
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
