"""CPU time of the steps of an event loop, and a runner that stops where a worker would compute."""

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
from service.execution.stored_results import StoredResults
from service.execution.worker_admission import WorkerAdmission
from service.execution.workers import Workers
from service.importers.catalogue import validate_with_imports
from service.parsing import RequestBodyError
from service.privacy.errors import PrivacyComputationError
from service.resources.catalogue import resource
from tests.execution.fakes import ENGINE_VERSION, make_metrics


class _NoPool:
    """A pool without workers. A request that reaches it is too expensive for the event loop."""

    worker_count = 1

    async def compute(self, *_: Any, **__: Any) -> NoReturn:
        raise NobodyComputes


class NobodyComputes(ExecutionError):
    """Raised by the pool of tests in place of a computation in a worker."""


def runner_without_workers() -> ComputationRunner:
    """Build a runner that reads, estimates and answers like that of the service, but has no workers."""
    admission = WorkerAdmission(max_cost=10**9, worker_count=1, queue_limit=9, queue_wait_limit_seconds=1e9)
    return ComputationRunner(
        results=StoredResults(ENGINE_VERSION, InMemoryResultCache(100, 10**8)),
        workers=Workers(cast("Any", _NoPool()), admission),
        metrics=make_metrics(),
        max_remembered_bodies=100,
        validate=validate_with_imports,
    )


async def outcome_of(runner: ComputationRunner, name: str, body: Any) -> str:
    """Return the outcome of a request to the resource `name`: `answered`, or the name of the error."""
    sent = json.dumps(body).encode()
    return await asyncio.create_task(_outcome(runner, name, sent))  # A separate step, which is timed.


async def _outcome(runner: ComputationRunner, name: str, sent: bytes) -> str:
    try:
        await runner.answer(resource(name), sent)
    except (ExecutionError, RequestBodyError, PrivacyComputationError) as error:
        return type(error).__name__
    return "answered"


@contextmanager
def steps(monkeypatch: pytest.MonkeyPatch) -> Generator[list[float]]:
    """Yield the list of CPU seconds of every step of the loop, which grows during the block."""
    found: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        started = time.thread_time()
        run(handle)
        found.append(time.thread_time() - started)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.Handle, "_run", timed)
        yield found
