"""The monitor of a cluster reports a Redis that came back without its jobs, for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import pytest
import redis
import structlog

from service.execution.entry_mac import EntryAuthenticator
from service.jobs.celery import backend
from service.jobs.celery.store import RedisStore
from tests.conftest import RedisServer
from tests.execution.fakes import make_metrics
from tests.system.jobs import SEAL_KEY
from tests.timeouts import TEST_TIMEOUT


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(TEST_TIMEOUT):
        while not happened():
            await asyncio.sleep(0.01)


async def test_lost_jobs_are_reported_for_a_while(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert backend.SHOWN_SECONDS == 600, "the guide says ten minutes"
    monkeypatch.setattr(backend, "SHOWN_SECONDS", 0.5)
    monkeypatch.setattr(backend, "PERIOD_SECONDS", 0.02)
    with closing(RedisStore(own_redis.url, EntryAuthenticator([SEAL_KEY]))) as store:
        store.announce("worker", "1")
        monitor = backend.ClusterMonitor(store, make_metrics(), structlog.get_logger())
        running = asyncio.create_task(monitor.run())
        await until(lambda: monitor.condition().works)
        with redis.Redis.from_url(own_redis.url) as client:
            client.flushall()
        await until(lambda: monitor.condition().sentence == backend.LOST)
        assert not monitor.condition().works
        store.announce("worker", "1")
        await until(lambda: monitor.condition().works)
        running.cancel()
