"""Coalescing of equal requests: the first one starts the computation, and all receive its result or its error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar, final

from service.execution.client import WaitingClient
from service.execution.errors import ClientGone
from service.execution.fair_queue import QueuedComputation
from service.execution.worker_admission import WorkerAdmission

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _RunningComputation(Generic[Result]):
    task: asyncio.Task[Result]
    work: QueuedComputation
    traceback: TracebackType | None = None
    """Traceback of the error of the task. The error is raised once per waiting client, each time with this traceback,
    so that the traceback does not grow.
    """


@final
class InFlightComputations(Generic[Result]):
    """Computations in progress by request digest, each in an asyncio task of its own.

    A client that disconnects does not affect the other clients of the computation. When the last client has
    disconnected, the task is cancelled and its worker killed.
    """

    def __init__(self, admission: WorkerAdmission, on_cancelled: Callable[[], None]) -> None:
        """Set up the collection without computations.

        `on_cancelled` is called after a computation was cancelled because its last client disconnected. `admission`
        holds the queue of computations.
        """
        self._admission = admission
        self._on_cancelled = on_cancelled
        self._in_flight: dict[str, _RunningComputation[Result]] = {}

    async def compute_once(
        self, digest: str, client: WaitingClient, compute: Callable[[QueuedComputation], Coroutine[Any, Any, Result]]
    ) -> tuple[Result, bool]:
        """Return the result of `compute` for a request digest, and whether this call started the computation.

        Equal requests that arrive meanwhile share one computation. Raise ClientGone if `client` disconnects before the
        result, and errors of `compute`.

        A client that joins a queued computation adds a queue entry of its own requester. The computation starts with
        the entry that is served first.
        """
        entry = self._in_flight.get(digest)
        is_first = entry is None
        if entry is None:
            work = QueuedComputation(client.requester)
            entry = _RunningComputation(asyncio.get_running_loop().create_task(compute(work)), work)
            self._in_flight[digest] = entry
            entry.task.add_done_callback(partial(self._forget, digest, entry))
        else:
            self._admission.join(entry.work, client.requester)
        gone = ClientGone()
        disconnected = asyncio.ensure_future(client.wait_disconnected())
        try:
            await asyncio.wait((entry.task, disconnected), return_when=asyncio.FIRST_COMPLETED)
            if not entry.task.done():
                raise gone
            error = entry.task.exception()
            if error is not None:
                raise error.with_traceback(entry.traceback or error.__traceback__)
            return entry.task.result(), is_first
        finally:
            disconnected.cancel()
            self._admission.leave(entry.work, client.requester)
            if not entry.work.requesters and not entry.task.done():
                started = entry.work.started_at
                gone.worker_seconds = 0.0 if started is None else time.monotonic() - started
                self._cancel_unwatched(digest, entry)

    def _cancel_unwatched(self, digest: str, entry: _RunningComputation[Result]) -> None:
        self._in_flight.pop(digest, None)
        entry.task.cancel()
        self._on_cancelled()

    def _forget(self, digest: str, entry: _RunningComputation[Result], task: asyncio.Task[Result]) -> None:
        if self._in_flight.get(digest) is entry:
            del self._in_flight[digest]
        error = None if task.cancelled() else task.exception()  # retrieved, also when every client has disconnected
        entry.traceback = None if error is None else error.__traceback__
