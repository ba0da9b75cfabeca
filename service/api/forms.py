"""Answers in another form than JSON: what is asked, drawn and written for them."""

from __future__ import annotations

import asyncio
from typing import Any, Final, final

from api_schemas.base import Result
from service.computations.abstract import Computation
from service.computations.catalogue import resource
from service.engine_version import ENGINE_VERSION
from service.execution.admission import Admission
from service.execution.client import Client
from service.execution.errors import ComputeBudgetExceeded
from service.execution.runner import Answer, ComputationRunner
from service.execution.worker_pool import WorkerPool
from service.privacy.errors import PrivacyComputationError
from service.web.drawing import Drawing, Drawn, Image
from service.web.forms import Form
from service.web.pictures import Need

DRAWING: Final = Drawing()
DRAWING_COST: Final = 300_000
"""Of one image, in units of about one microsecond."""


@final
class DrawingBoard:
    """Draws images in a process of its own, which starts with the first of them; clients have their turns."""

    def __init__(self, pool: WorkerPool, admission: Admission) -> None:
        self._pool = pool
        self._admission = admission

    async def draw(self, spec: str, image: Image, client: Client) -> bytes:
        """One image. Raises QueueFull, OutOfTime, OutOfMemory or WorkerDied."""
        async with self._admission.place(client.key, DRAWING_COST):
            computed = await self._pool.compute(DRAWING, Drawn(spec=spec, image=image), "", ENGINE_VERSION)
        return computed.body

    async def close(self) -> None:
        """Kill the process."""
        await self._pool.close()


async def written(
    form: Form,
    computation: Computation[Any, Any],
    answer: Answer,
    runner: ComputationRunner,
    board: DrawingBoard,
    client: Client,
) -> bytes:
    """An answer in this form. Raises what computing and drawing raise."""
    response = await asyncio.to_thread(computation.response_type.model_validate_json, answer.body)
    read = [await _read(need, runner, client) for need in form.needs(response)]
    specs = await asyncio.to_thread(form.specs, response, read)
    images = [await board.draw(spec, form.image, client) for spec in specs]
    return await asyncio.to_thread(form.write, response, read, images)


async def _read(need: Need, runner: ComputationRunner, client: Client) -> Result | None:
    """A further answer; None where this run has none, or one that costs too much beside the first."""
    computation = resource(need.resource)
    try:
        answer = await runner.run(computation, need.request, client)
    except (PrivacyComputationError, ComputeBudgetExceeded):
        return None
    found: Result = await asyncio.to_thread(computation.response_type.model_validate_json, answer.body)
    return found
