"""Jobs of a cluster over HTTP, without a worker: invalid ids, and records with foreign content."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import redis
from starlette.testclient import TestClient

from service.jobs.celery.scripts import PREFIX
from service.main import create_app
from service.settings import Settings
from tests.conftest import RedisServer
from tests.execution.fakes import SEAL_KEY
from tests.jobs.test_redis_store import poisons
from tests.system.jobs import wait_for

SEED = 20269
BODY = {
    "resource": "bounds",
    "request": {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [{"type": "advantage"}]},
}


def settings_of(redis_url: str) -> Settings:
    return Settings.model_validate(
        {
            "redis_url": redis_url,
            "seal_key": SEAL_KEY,
            "jobs_backend": "celery",
            "worker_count": 1,
            "worker_niceness": 0,
            "log_level": "error",
        }
    )


@pytest.fixture
def client(redis_url: str) -> Iterator[TestClient]:
    with TestClient(create_app(settings_of(redis_url)), raise_server_exceptions=False) as client:
        yield client


def test_foreign_ids_and_records_cause_no_internal_error(client: TestClient, redis_url: str) -> None:
    source = random.Random(SEED)
    with redis.Redis.from_url(redis_url) as database:
        job = client.post("/v1/jobs", json=BODY).json()["id"]
        for name in ("expiry", "list", f"{job}:lines", f"{job}:request", f"{job}:index", "%00", "%ff", "x" * 60):
            for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/results"), ("GET", "/events")):
                assert client.request(method, f"/v1/jobs/{name}{path}").status_code == 404, (method, name, path)
        assert client.get(f"/v1/jobs/{job}").json()["state"] == "queued"
        seen: set[int] = set()
        for part, (command, *values) in source.sample(poisons(), 40):
            job = client.post("/v1/jobs", json=BODY, headers={"Idempotency-Key": source.randbytes(8).hex()}).json()[
                "id"
            ]
            key = f"{PREFIX}job:{job}{part}"
            if command not in ("HSET", "HDEL") or part:
                database.delete(key)
            database.execute_command(command, key, *values)
            for method, path in (("GET", ""), ("GET", "/results"), ("DELETE", ""), ("GET", "")):
                status = client.request(method, f"/v1/jobs/{job}{path}").status_code
                assert status in (200, 404, 409, 503), (part, command, values, method, path, status)
                seen.add(status)
            database.flushdb()
        assert {404, 503} <= seen


def test_full_redis_is_named_in_problem(own_redis: RedisServer) -> None:
    with TestClient(create_app(settings_of(own_redis.url))) as client, redis.Redis.from_url(own_redis.url) as database:
        wait_for(lambda: "no worker is running" in client.get("/readyz?verbose").text)
        database.config_set("maxmemory", 1)
        wait_for(lambda: "Redis has no memory left. Raise maxmemory" in client.get("/readyz?verbose").text)
        database.config_set("maxmemory", 0)
        wait_for(lambda: "no worker is running" in client.get("/readyz?verbose").text)
