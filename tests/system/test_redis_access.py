"""The Redis of the compose file: one user, who can do what the service does, on its own keys, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from redis.exceptions import NoPermissionError

from service.execution.redis_link import RedisLink
from service.execution.seals import Seals
from service.jobs.celery.store import RedisStore
from tests.conftest import free_port, redis_executable
from tests.execution.fakes import FAKE, make_metrics, make_shared
from tests.system.jobs import SEAL_KEY, a_job

ROOT = Path(__file__).parents[2]
PASSWORD = "of this test"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server with the configuration and the user of the compose file; only its place and port are ours."""
    compose = (ROOT / "docker-compose.yml").read_text("utf-8")
    found = re.search(r"exec redis-server /etc/redis\.conf\s+(--user .*)", compose)
    assert found
    port = free_port()
    configuration = (ROOT / "deploy/redis/redis.conf").read_text("utf-8")
    (tmp_path / "redis.conf").write_text(
        configuration.replace("dir /data", f"dir {tmp_path}").replace("port 6379", f"port {port}")
    )
    command = f"exec {redis_executable()} {tmp_path}/redis.conf {found[1].replace('$$', '$')}"
    process = subprocess.Popen(
        ["sh", "-c", command], env=os.environ | {"REDISCLI_AUTH": PASSWORD}, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 20
    while True:
        try:
            with redis.Redis(port=port, username="privacy_bounds", password=PASSWORD) as client:
                client.ping()
            break
        except redis.ConnectionError:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
    yield port
    process.terminate()
    process.wait(timeout=20)


async def test_the_service_can_do_what_it_does(port: int) -> None:
    metrics = make_metrics()
    link = RedisLink(f"redis://privacy_bounds:{PASSWORD}@127.0.0.1:{port}/0", 1.0, metrics)
    await link.start()
    shared = make_shared(link, metrics)
    lease = await shared.leases.acquire("sha256:0", 30.0)
    assert lease is not None
    assert await shared.leases.acquire("sha256:0", 30.0) is None
    shared.cache.put_ground_truth(FAKE.name, "sha256:0", b"{}", "sha256:1", b"[]")
    shared.leases.release(lease)
    await shared.cache.settle()
    assert await shared.cache.fetch(FAKE.name, "sha256:0") == b"{}"
    assert await shared.cache.ground_truth_entry(FAKE.name, "sha256:1") == b"[]"
    assert await shared.leases.acquire("sha256:0", 30.0) is not None
    await link.stop()


def test_jobs_are_kept_and_known_to_be_written(port: int) -> None:
    url = f"redis://privacy_bounds:{PASSWORD}@127.0.0.1:{port}/0"
    with closing(RedisStore(url, Seals([SEAL_KEY]), ())) as store:
        job = store.add(a_job(), None, b"", 10, 1)
        assert store.get(job.id) == job
        assert store.cancel(job.id).state == "cancelled"


def test_nobody_else_and_nothing_else(port: int) -> None:
    for user, password in ((None, None), ("default", ""), ("privacy_bounds", "privacy-bounds")):
        with redis.Redis(port=port, username=user, password=password) as client, pytest.raises(redis.RedisError):
            client.get("privacy_bounds:result:fake:sha256:0")
    with redis.Redis(port=port, username="privacy_bounds", password=PASSWORD) as client:
        for command in (("GET", "other"), ("KEYS", "*"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("ACL", "LIST")):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command)
