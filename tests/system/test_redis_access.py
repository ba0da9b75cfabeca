"""The Redis of the compose file: one user with access to the commands and keys of the service, and to nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from service.execution.entry_mac import EntryAuthenticator
from service.execution.redis_client import RedisCircuitBreaker
from service.jobs.celery.blocking_redis import PROBE_SECONDS
from service.jobs.celery.store import RedisStore
from service.jobs.repository import Quota
from service.jobs.results_codec import compress
from tests.conftest import REDIS_PASSWORD, ComposedRedis
from tests.execution.fakes import FAKE, make_metrics, make_shared
from tests.system.jobs import SEAL_KEY, new_job
from tests.timeouts import TEST_TIMEOUT

QUOTA = Quota(10, 2**20)


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[ComposedRedis]:
    server = ComposedRedis(tmp_path)
    server.start()
    yield server
    server.stop()


async def test_service_user_can_run_all_its_commands(composed: ComposedRedis) -> None:
    metrics = make_metrics()
    link = RedisCircuitBreaker(composed.url, TEST_TIMEOUT, metrics)
    await link.start()
    shared = make_shared(link, metrics)
    lease = await shared.leases.acquire("sha256:0", 30.0)
    assert lease is not None
    assert await shared.leases.acquire("sha256:0", 30.0) is None
    shared.cache.put_ground_truth(FAKE.name, "sha256:0", b"{}", "sha256:1", b"[]")
    shared.leases.release(lease)
    await shared.cache.flush()
    assert await shared.cache.fetch(FAKE.name, "sha256:0") == b"{}"
    assert await shared.cache.ground_truth_entry(FAKE.name, "sha256:1") == b"[]"
    assert await shared.leases.acquire("sha256:0", 30.0) is not None
    await link.stop()


def test_jobs_are_stored_with_confirmation(composed: ComposedRedis) -> None:
    with closing(RedisStore(composed.url, EntryAuthenticator([SEAL_KEY]))) as store:
        job = store.add(new_job(), b"{}", None, b"", QUOTA, 1)
        assert store.get(job.id) == job
        assert store.cancel(job.id).state == "cancelled"


@pytest.mark.parametrize("end", [ComposedRedis.stop, ComposedRedis.kill], ids=["in order", "SIGKILL"])
def test_script_writes_survive_restart(tmp_path: Path, each_server: str, end: Callable[[ComposedRedis], None]) -> None:
    """Writes of scripts survive a restart of Redis.

    A server replays the writes of scripts as its default user, who must have permission.
    """
    server = ComposedRedis(tmp_path, executable=each_server)
    server.start()
    try:
        with closing(RedisStore(server.url, EntryAuthenticator([SEAL_KEY]))) as store:
            job = store.add(new_job(), b"{}", None, b"", QUOTA, 1)
            claim = store.claim(job.engine_version, "worker", TEST_TIMEOUT)
            assert claim is not None
            end(server)
            server.start()
            time.sleep(PROBE_SECONDS)
            found = store.get(job.id)
            assert (found.digest, found.generation) == (job.digest, job.generation)
            # The claim may be lost with the last second of writes, for which no confirmation was given.
            held = claim if found.state == "running" else store.claim(job.engine_version, "worker", TEST_TIMEOUT)
            assert held is not None
            assert store.save(held, compress(b"{}\n"), 1).state == "succeeded"
    finally:
        server.stop()


def test_other_users_and_commands_are_denied(composed: ComposedRedis) -> None:
    once = partial(redis.Redis, port=composed.port, retry=Retry(NoBackoff(), 0))
    for user, password in ((None, None), ("default", ""), ("privacy_bounds", "privacy-bounds")):
        with once(username=user, password=password) as client, pytest.raises(redis.RedisError):
            client.get("privacy_bounds:result:fake:sha256:0")
    with once(username="privacy_bounds", password=REDIS_PASSWORD) as client:
        for command in (("GET", "other"), ("KEYS", "*"), ("FLUSHALL",), ("CONFIG", "GET", "*"), ("ACL", "LIST")):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command)
