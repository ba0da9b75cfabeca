"""How long the steps of an event loop take, of CPU of its thread; and what its runner makes of a request until a worker
would compute it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import pytest

from service.execution.errors import ExecutionError
from service.execution.memory_cache import InMemoryResultCache
from service.execution.runner import ComputationRunner
from service.execution.worker_admission import WorkerAdmission
from service.execution.workers import Workers
from service.importers.catalogue import validate_with_imports
from service.parsing import RequestBodyError
from service.privacy.errors import PrivacyComputationError
from service.resources.catalogue import resource
from tests.execution.fakes import ENGINE_VERSION, make_metrics


class _NoPool:
    """In the place of worker processes: what comes here is dear."""

    worker_count = 1

    async def compute(self, *_: Any, **__: Any) -> NoReturn:
        raise NobodyComputes


class NobodyComputes(ExecutionError):
    """A worker would."""


def runner_without_workers() -> ComputationRunner:
    """Reads, prices and answers as that of the service does, but for what workers do."""
    admission = WorkerAdmission(max_cost=10**9, worker_count=1, queue_limit=9, queue_wait_limit_seconds=1e9)
    return ComputationRunner(
        engine_version=ENGINE_VERSION,
        memory=InMemoryResultCache(100, 10**8),
        shared=None,
        workers=Workers(cast("Any", _NoPool()), admission),
        metrics=make_metrics(),
        max_remembered_bodies=100,
        validate=validate_with_imports,
    )


async def seen(runner: ComputationRunner, name: str, body: Any) -> str:
    """What became of a request: `answered`, or the name of the error."""
    sent = json.dumps(body).encode()
    return await asyncio.create_task(_outcome(runner, name, sent))  # a step of its own, which is timed


async def _outcome(runner: ComputationRunner, name: str, sent: bytes) -> str:
    try:
        await runner.answer(resource(name), sent)
    except (ExecutionError, RequestBodyError, PrivacyComputationError) as error:
        return type(error).__name__
    return "answered"


@contextmanager
def steps(monkeypatch: pytest.MonkeyPatch) -> Generator[list[float]]:
    """Seconds of CPU of every step of the loop, as they are taken."""
    found: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        started = time.thread_time()
        run(handle)
        found.append(time.thread_time() - started)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.Handle, "_run", timed)
        yield found
