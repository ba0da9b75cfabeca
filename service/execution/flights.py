"""Equal requests under way: the first computes, all get its answer or its error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar, final

from service.execution.admission import Admission
from service.execution.client import WaitingClient
from service.execution.errors import ClientGone
from service.execution.fair_queue import QueuedWork

Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class _Flight(Generic[Result]):
    """A computation under way, with the requesters that wait for it."""

    task: asyncio.Task[Result]
    work: QueuedWork
    traceback: TracebackType | None = None
    """Of the error of the task, which is raised for each who waits: it begins here again, and does not grow."""


@final
class Flights(Generic[Result]):
    """Each computation is a task of its own: a client that goes away does not take the answer of the others with it.

    The last one does: the task ends, and with it its worker.
    """

    def __init__(self, admission: Admission, abandoned: Callable[[], None]) -> None:
        """`abandoned` is called for each computation whose last client has gone."""
        self._admission = admission
        self._abandoned = abandoned
        self._flights: dict[str, _Flight[Result]] = {}

    async def join(
        self, digest: str, client: WaitingClient, fly: Callable[[QueuedWork], Coroutine[Any, Any, Result]]
    ) -> tuple[Result, bool]:
        """Return what `fly` returns, and whether it ran for this client. Raise ClientGone and what `fly` raises.

        Whoever joins a computation that waits brings a place in the queue, so that its turn is that of the requester
        who is served soonest.
        """
        flight = self._flights.get(digest)
        is_first = flight is None
        if flight is None:
            work = QueuedWork(client.requester)
            flight = _Flight(asyncio.get_running_loop().create_task(fly(work)), work)
            self._flights[digest] = flight
            flight.task.add_done_callback(partial(self._land, digest, flight))
        else:
            self._admission.join(flight.work, client.requester)
        gone = asyncio.ensure_future(client.gone())
        try:
            await asyncio.wait((flight.task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not flight.task.done():
                raise ClientGone
            error = flight.task.exception()
            if error is not None:
                raise error.with_traceback(flight.traceback or error.__traceback__)
            return flight.task.result(), is_first
        finally:
            gone.cancel()
            self._admission.leave(flight.work, client.requester)
            if not flight.work.requesters and not flight.task.done():
                self._abandon(digest, flight)

    def _abandon(self, digest: str, flight: _Flight[Result]) -> None:
        """End a computation that nobody waits for. Who asks from now on asks anew."""
        self._flights.pop(digest, None)
        flight.task.cancel()
        self._abandoned()

    def _land(self, digest: str, flight: _Flight[Result], task: asyncio.Task[Result]) -> None:
        if self._flights.get(digest) is flight:
            del self._flights[digest]
        error = None if task.cancelled() else task.exception()  # retrieved, also when every client has gone
        flight.traceback = None if error is None else error.__traceback__
