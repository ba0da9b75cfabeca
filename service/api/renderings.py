"""Renderings over HTTP: answers as text, tables, charts or reports.

A rendering may show *further answers*, for example of the same training run to another question. The further answers
are computed first. Charts are drawn in a separate process, and expensive bodies are cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, final

from api_schemas.base import Result
from service.engine_version import ENGINE_VERSION
from service.execution.client import WaitingClient
from service.execution.errors import ComputeBudgetExceeded, OutOfTime
from service.execution.fair_queue import QueuedComputation
from service.execution.memory_cache import InMemoryResultCache
from service.execution.runner import ComputationRunner
from service.execution.stored_results import ComputedResult
from service.execution.worker_pool import WorkerPool
from service.execution.workers import Workers
from service.privacy.errors import PrivacyComputationError
from service.rendering.chart_catalogue import Dependency
from service.rendering.chart_images import ChartDrawing, ChartRequest, Image
from service.rendering.registry import HTML, Rendering
from service.resources.abstract import Computation
from service.resources.catalogue import resource

DRAWING: Final = ChartDrawing()
DRAWING_COST: Final = 300_000
"""Estimated cost of one image in microseconds."""


@final
class ChartRenderer:
    """Renderer of charts in a separate process, which starts with the first request.

    Clients share the process fairly.
    """

    def __init__(self, pool: WorkerPool, workers: Workers) -> None:
        """Store the pool of rendering processes, and `workers`, the queue in front of the pool."""
        self._pool = pool
        self._workers = workers
        self._starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the rendering process in the background, unless it was started before.

        The numbers of the chart are computed meanwhile. A failure raises nothing: the next image starts the process
        again.
        """
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        with suppress(RuntimeError):  # tried again, and told, by who draws
            await self._pool.start()

    async def draw(self, spec: str, image: Image, client: WaitingClient) -> bytes:
        """Render the Vega-Lite specification `spec` as one image, and return its bytes.

        `image` is the format, and `client` waits for the image. Raise QueueFull, OutOfTime, OutOfMemory or WorkerDied.
        Raise WorkLimitExceeded if the client has used up its work.
        """
        if client.account is not None:
            await client.account.charge(DRAWING_COST)
        drawn = ChartRequest(spec=spec, image=image)
        computed = await self._workers.compute(
            QueuedComputation(client.requester), DRAWING_COST, DRAWING, drawn, "", ENGINE_VERSION
        )
        return computed.body

    async def close(self) -> None:
        """Stop the rendering process and cancel its start."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._pool.close()


@final
@dataclass(frozen=True, slots=True)
class RenderedBody:
    """Body of a rendered answer.

    `is_complete` is False if a time or cost limit left parts out that a later request, or another machine, would show.
    """

    body: bytes
    is_complete: bool


class _DependencyResult(NamedTuple):
    response: Result | None
    late: ComputeBudgetExceeded | OutOfTime | None = None


@final
class RenderingService:
    """Service that renders answers and caches expensive renderings in `memory`, by resource and media type.

    `reads_at_once` is the largest number of further answers of one rendering that are computed concurrently.
    """

    def __init__(
        self, runner: ComputationRunner, board: ChartRenderer, memory: InMemoryResultCache, reads_at_once: int
    ) -> None:
        self._runner = runner
        self._board = board
        self.memory = memory
        self._reads_at_once = reads_at_once

    def prewarm(self, form: Rendering) -> None:
        """Start the chart renderer if the rendering `form` needs it, while the answer is still being computed."""
        if form.has_images:
            self._board.start()

    async def render(
        self, form: Rendering, computation: Computation[Any, Any], answer: ComputedResult, client: WaitingClient
    ) -> RenderedBody:
        """Render `answer` in the media type of `form`. Raise the errors of computations and of the chart renderer.

        `computation` is the resource that computed the answer. A rendering may show answers to other requests beside
        this answer. Of these, answers above a limit of cost or time are left out, and the body is incomplete. But a
        rendering other than an HTML report raises the error if the first of them is above a limit. Incomplete bodies
        are not cached.
        """
        kept = f"{computation.name};{form.media_type}", answer.digest
        known = self.memory.lookup(*kept) if form.is_expensive else None
        if known is not None:
            return RenderedBody(known, is_complete=True)
        response = await asyncio.to_thread(computation.response_type.model_validate_json, answer.body)
        dependencies = await asyncio.to_thread(form.dependencies, response)
        found = await self._compute_dependencies(dependencies, client)
        if found and found[0].late is not None and form.media_type != HTML:
            raise found[0].late  # the picture is of this; a report says more than its pictures
        read = [each.response for each in found]
        specs = await asyncio.to_thread(form.specs, response, read)
        images = [await self._board.draw(spec, form.image, client) for spec in specs]
        body = await asyncio.to_thread(form.write, response, read, images)
        is_complete = answer.cache != "unstored" and all(each.late is None for each in found)
        if form.is_expensive and is_complete:
            self.memory.put(*kept, body, client.requester)
        return RenderedBody(body, is_complete)

    async def _compute_dependencies(
        self, dependencies: Sequence[Dependency], client: WaitingClient
    ) -> list[_DependencyResult]:
        places = asyncio.Semaphore(self._reads_at_once)

        async def compute(dependency: Dependency) -> _DependencyResult:
            async with places:
                return await self._compute_dependency(dependency, client)

        try:
            async with asyncio.TaskGroup() as group:
                reading = [group.create_task(compute(dependency)) for dependency in dependencies]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None  # the first that failed; the others were given up
        return [task.result() for task in reading]

    async def _compute_dependency(self, dependency: Dependency, client: WaitingClient) -> _DependencyResult:
        computation = resource(dependency.resource)
        try:
            answer = await self._runner.run(computation, dependency.request, client)
        except PrivacyComputationError:
            return _DependencyResult(None)
        except (ComputeBudgetExceeded, OutOfTime) as error:
            return _DependencyResult(None, error)
        return _DependencyResult(await asyncio.to_thread(computation.response_type.model_validate_json, answer.body))
