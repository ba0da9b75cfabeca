"""Disputed runs over the whole application: no resource, job or stored decision serves a number of such a run."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from starlette.testclient import TestClient

from api_schemas.bounds import BoundsRequest
from service.engine_version import ENGINE_VERSION
from service.execution.entry_mac import EntryAuthenticator
from service.execution.quarantine import ResultQuarantine
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.result_cache import RedisResultCache
from service.execution.shared_quarantine import exchange_runs, read_shared_runs
from service.resources.disputed import run_digest
from tests.api.test_cross_check import running, wait_until
from tests.api.test_decisions import run
from tests.execution.fakes import make_metrics

GAUSSIAN: Final = {"type": "gaussian", "noise_multiplier": 1.25}
FREE: Final = {"type": "gaussian", "noise_multiplier": 2.5}
DELTA: Final = {"type": "delta", "epsilon": 1.0}
BOUNDS: Final[dict[str, Any]] = {"mechanism": GAUSSIAN, "questions": [DELTA]}
REQUEST: Final = BoundsRequest.model_validate_json(json.dumps(BOUNDS))
RUN: Final = run_digest(ENGINE_VERSION, REQUEST.mechanism, REQUEST.threat_model)
ASSESSMENT: Final[dict[str, Any]] = run(date="2026-11-28") | {"mechanism": GAUSSIAN}
SWEEP: Final[dict[str, Any]] = {**BOUNDS, "vary": {"/mechanism/noise_multiplier": {"values": [1.0, 1.25, 2.5]}}}
REFUSED: Final[dict[str, dict[str, Any]]] = {
    "bounds": {**BOUNDS, "questions": [{"type": "epsilon", "delta": 1e-6}]},
    "assessments": ASSESSMENT,
    "curves": {"mechanism": GAUSSIAN, "false_positive_rates": [0.1]},
    "comparisons": {
        "runs": [{"name": "a", "mechanism": FREE}, {"name": "b", "mechanism": GAUSSIAN}],
        "questions": [DELTA],
    },
    "claims": {"mechanism": GAUSSIAN, "claims": [{"question": DELTA, "value": 0.9}]},
}


def dispute(client: TestClient) -> None:
    client.app_state["services"].runner.results.quarantine.add("sha256:" + "0" * 64, "two engines", RUN)


def assert_refused(response: Any) -> None:
    assert (response.status_code, response.json()["type"]) == (500, "/problems/result-quarantined"), response.text
    assert "lower" not in response.text


def job_of(client: TestClient, resource: str, request: dict[str, Any]) -> dict[str, Any]:
    """Send a job, and return it when it has ended."""
    url = f"/v1/jobs/{client.post('/v1/jobs', json={'resource': resource, 'request': request}).json()['id']}"
    wait_until(lambda: client.get(url).json()["state"] in ("succeeded", "failed"))
    return {**client.get(url).json(), "url": url}


def test_no_resource_serves_a_number_of_a_disputed_run(tmp_path: Path) -> None:
    """Answers before and after a dispute, from the caches and computed again, also after a restart of the service."""
    with running(tmp_path, share=0.0) as client:
        before = {name: client.post(f"/v1/{name}", json=sent) for name, sent in REFUSED.items()}
        assert [each.status_code for each in before.values()] == [200] * len(REFUSED), before["claims"].text
        rows = client.post("/v1/sweeps", json=SWEEP).json()
        dispute(client)
        assert_all_refused(client)
        for earlier in before.values():
            assert client.get(f"/v1/results/{earlier.json()['digest']}").status_code in (404, 500)
        assert client.get(f"/v1/decisions/{before['assessments'].json()['digest']}").status_code in (404, 500)
        assert_row_refused(client.post("/v1/sweeps", json=SWEEP).json(), rows)
    with running(tmp_path, share=0.0) as client:
        assert_all_refused(client)
        stored = client.post("/v1/sweeps", json=SWEEP).json()
        assert_row_refused(stored, rows)
        assert client.get(f"/v1/results/{stored['digest']}").json() == stored
        assert client.get("/readyz").json()["status"] == "degraded"


def test_a_dispute_during_a_computation_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker computes numbers of a run that becomes disputed before its answer arrives: they are not served."""
    with running(tmp_path, share=0.0) as client:
        runner = client.app_state["services"].runner
        monkeypatch.setattr("service.execution.runner.guard", lambda computation, _: (dispute(client), computation)[1])
        assert_refused(client.post("/v1/assessments", json=ASSESSMENT))
        monkeypatch.undo()
        assert runner.results.quarantine.runs == {RUN}
        assert_refused(client.post("/v1/assessments", json=ASSESSMENT))


def assert_all_refused(client: TestClient) -> None:
    for name, sent in REFUSED.items():
        assert_refused(client.post(f"/v1/{name}", json=sent))
        free = json.loads(json.dumps(sent).replace("1.25", "1.5"))
        assert client.post(f"/v1/{name}", json=free).status_code == 200, name


def assert_row_refused(swept: dict[str, Any], rows: dict[str, Any]) -> None:
    [problem] = swept["problems"]
    assert (problem["point"], problem["type"]) == (1, "/problems/result-quarantined")
    [free], [before] = swept["answers"], rows["answers"]
    assert free["upper"] == [before["upper"][0], None, before["upper"][2]]


def test_jobs_serve_no_number_of_a_disputed_run(tmp_path: Path) -> None:
    """A job that ended before the dispute is refused. A later job fails, and a sweep has a problem in one row."""
    with running(tmp_path, share=0.0) as client:
        ended, free = job_of(client, "assessments", ASSESSMENT), job_of(client, "bounds", {**BOUNDS, "mechanism": FREE})
        dispute(client)
        for form in ("application/json", "application/x-ndjson"):
            assert_refused(client.get(f"{ended['url']}/results", headers={"Accept": form}))
        assert client.get(f"{free['url']}/results").json()["points"]
        later = job_of(client, "bounds", REFUSED["bounds"])
        assert (later["state"], later["problem"]["type"]) == ("failed", "/problems/result-quarantined")
        swept = job_of(client, "sweeps", SWEEP)
        points = client.get(f"{swept['url']}/results").json()["points"]
        assert [each["problem"] and each["problem"]["type"] for each in points] == [
            None,
            "/problems/result-quarantined",
            None,
        ]


def test_a_dispute_is_known_to_instances_that_share_redis(tmp_path: Path, redis_url: str) -> None:
    """The list of disputed runs reaches other instances, and one of them restores a list that Redis lost."""

    async def exchange() -> None:
        link = RedisCircuitBreaker(redis_url, 1.0, make_metrics())
        await link.start()
        caches = [
            RedisResultCache(link, ttl_seconds=60, authenticator=EntryAuthenticator([key]), metrics=make_metrics())
            for key in ("k" * 32, "k" * 32, "o" * 32)
        ]
        first, second = ResultQuarantine(tmp_path / "first"), ResultQuarantine(tmp_path / "second")
        first.add("sha256:" + "0" * 64, "two engines", RUN)
        for cache, quarantine in zip(caches, (first, second), strict=False):
            await exchange_runs(cache, quarantine)
            await cache.flush()
        assert second.runs == {RUN}
        assert ResultQuarantine(tmp_path / "second").runs == {RUN}
        assert not await read_shared_runs(caches[2]), "the list of another key has no effect"
        with closing(redis.Redis.from_url(redis_url)) as database:
            database.flushdb()
        await exchange_runs(caches[1], second)
        await caches[1].flush()
        assert await read_shared_runs(caches[0]) == {RUN}
        await link.stop()

    asyncio.run(exchange())


@pytest.mark.parametrize("entry", [{"run": 1}, {"run": ["a"]}, {"run": None}])
def test_a_line_with_a_damaged_run_keeps_its_digest(tmp_path: Path, entry: dict[str, Any]) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps({"digest": "sha256:1", **entry}) + "\n")
    quarantine = ResultQuarantine(path)
    assert "sha256:1" in quarantine
