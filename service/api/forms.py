"""Answers in another form than JSON: what is asked, drawn and written for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

from api_schemas.base import Result
from service.computations.abstract import Computation
from service.computations.catalogue import resource
from service.engine_version import ENGINE_VERSION
from service.execution.client import WaitingClient
from service.execution.errors import ComputeBudgetExceeded, OutOfTime
from service.execution.fair_queue import QueuedComputation
from service.execution.memory_cache import InMemoryResultCache
from service.execution.runner import ComputationRunner, ComputedResult
from service.execution.worker_pool import WorkerPool
from service.execution.workers import Workers
from service.privacy.errors import PrivacyComputationError
from service.web.drawing import Drawing, Drawn, Image
from service.web.forms import HTML, Form
from service.web.pictures import Need

DRAWING: Final = Drawing()
DRAWING_COST: Final = 300_000
"""Of one image, in units of about one microsecond."""


@final
class DrawingBoard:
    """Draws images in a process of its own, which starts when the first is asked for; clients have their turns."""

    def __init__(self, pool: WorkerPool, workers: Workers) -> None:
        """`workers`: the queue before the pool."""
        self._pool = pool
        self._workers = workers
        self._starting: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Have the process started, if none ever was, while what is to be drawn is computed."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        with suppress(RuntimeError):  # tried again, and told, by who draws
            await self._pool.start()

    async def draw(self, spec: str, image: Image, client: WaitingClient) -> bytes:
        """One image. Raises QueueFull, OutOfTime, OutOfMemory or WorkerDied."""
        drawn = Drawn(spec=spec, image=image)
        computed = await self._workers.compute(
            QueuedComputation(client.requester), DRAWING_COST, DRAWING, drawn, "", ENGINE_VERSION
        )
        return computed.body

    async def close(self) -> None:
        """Kill the process."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._pool.close()


@final
@dataclass(frozen=True, slots=True)
class WrittenForm:
    """An answer in another form. `is_whole`: nothing was left out that another day, or another machine, would show."""

    body: bytes
    is_whole: bool


class _Found(NamedTuple):
    """A further answer; None where this run has none, or where it is too dear today: `late`."""

    response: Result | None
    late: ComputeBudgetExceeded | OutOfTime | None = None


@final
class Forms:
    """Writes answers in other forms, and keeps what was drawn in `memory`, under the name of the resource and the form.
    `reads_at_once`: how many further answers of one form are asked for at once.
    """

    def __init__(
        self, runner: ComputationRunner, board: DrawingBoard, memory: InMemoryResultCache, reads_at_once: int
    ) -> None:
        self._runner = runner
        self._board = board
        self.memory = memory
        self._reads_at_once = reads_at_once

    def expect(self, form: Form) -> None:
        """Prepare for an answer in this form, which is yet to be computed."""
        if form.is_image:
            self._board.wake()

    async def written(
        self, form: Form, computation: Computation[Any, Any], answer: ComputedResult, client: WaitingClient
    ) -> WrittenForm:
        """An answer in this form. Raises what computing and drawing raise."""
        kept = f"{computation.name};{form.media_type}", answer.digest
        known = self.memory.lookup(*kept) if form.is_drawn else None
        if known is not None:
            return WrittenForm(known, is_whole=True)
        response = await asyncio.to_thread(computation.response_type.model_validate_json, answer.body)
        needs = await asyncio.to_thread(form.needs, response)
        found = await self._read_all(needs, client)
        if found and found[0].late is not None and form.media_type != HTML:
            raise found[0].late  # the picture is of this; a report says more than its pictures
        read = [each.response for each in found]
        specs = await asyncio.to_thread(form.specs, response, read)
        images = [await self._board.draw(spec, form.image, client) for spec in specs]
        body = await asyncio.to_thread(form.write, response, read, images)
        is_whole = answer.cache != "unstored" and all(each.late is None for each in found)
        if form.is_drawn and is_whole:
            self.memory.put(*kept, body, client.requester)
        return WrittenForm(body, is_whole)

    async def _read_all(self, needs: Sequence[Need], client: WaitingClient) -> list[_Found]:
        """All further answers in their order, several at once."""
        places = asyncio.Semaphore(self._reads_at_once)

        async def read(need: Need) -> _Found:
            async with places:
                return await self._read(need, client)

        try:
            async with asyncio.TaskGroup() as group:
                reading = [group.create_task(read(need)) for need in needs]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the first that failed; the others were given up
        return [task.result() for task in reading]

    async def _read(self, need: Need, client: WaitingClient) -> _Found:
        computation = resource(need.resource)
        try:
            answer = await self._runner.run(computation, need.request, client)
        except PrivacyComputationError:
            return _Found(None)
        except (ComputeBudgetExceeded, OutOfTime) as error:
            return _Found(None, error)
        return _Found(await asyncio.to_thread(computation.response_type.model_validate_json, answer.body))
