"""Streams of a job over HTTP: server-sent events of its progress, and its results as JSON lines or CSV."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Final, final

from fastapi.sse import format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

from api_schemas.jobs import ENDED
from service.api.jobs.csv_stream import CsvWriter
from service.api.jobs.representation import job_response
from service.api.limited_protocol import CONNECTION, LimitedProtocol
from service.execution.errors import QueueFull
from service.jobs.service import JobService
from service.telemetry.http import request_context

EVENTS: Final = "text/event-stream"
NO_STORE: Final = {"Cache-Control": "no-store"}
SLICE_LINES: Final = 200
STEADY_SECONDS: Final = 30
"""Age in seconds from which on a stream is revoked first, for a requester that has no stream."""


@final
class JobStreamResponse(StreamingResponse):
    """Streaming response that reserves one of the streaming connections (`JobService.reserve_stream`).

    The stream ends when its job ends, when its connection is needed for another requester, or when the server
    shuts down.
    """

    def __init__(self, jobs: JobService, stream: AsyncGenerator[bytes], media_type: str) -> None:
        super().__init__(stream, headers={**NO_STORE, "X-Accel-Buffering": "no"}, media_type=media_type)
        self._jobs = jobs
        self._stream = stream

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "head" in scope:  # a HEAD request
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": b""})
            return
        connection = scope.get("extensions", {}).get(CONNECTION)
        is_begun = False

        async def send_tracked(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            async with self._jobs.reserve_stream(request_context(scope).requester) as share:
                share.overdue_at = asyncio.get_running_loop().time() + STEADY_SECONDS
                if connection is not None:
                    connection.at_shutdown = share.revoke
                await super().__call__(scope, receive, send_tracked)
        except QueueFull:  # revoked for another requester, or by the shutdown of the server
            if not is_begun:
                raise
            await self._end_early(connection, send)
        finally:
            await self._stream.aclose()

    async def _end_early(self, connection: LimitedProtocol | None, send: Send) -> None:
        # A client resumes events with `Last-Event-ID`. Truncated result lines must not look complete, so that the
        # connection is cut.
        if connection is not None and not (self.media_type == EVENTS and connection.is_read):
            connection.cut()
        else:
            await send({"type": "http.response.body", "body": b""})


async def event_stream(jobs: JobService, job_id: str, requester: str, after: int) -> AsyncGenerator[bytes]:
    """Yield server-sent events `progress` after each change of a job since revision `after`, and `ended` at its end.

    The data of each event is the job as JSON, and its id the revision. Without a change there is a `progress` every 1.5
    seconds. Raise JobNotFound, also for the job of another owner than `requester`.
    """
    async for each in jobs.watch(job_id, requester, after):
        event = "ended" if each.state in ENDED else "progress"
        data = job_response(each).json_bytes().decode()
        yield format_sse_event(data_str=data, event=event, id=str(each.revision), retry=1000)


async def result_stream(
    jobs: JobService, job_id: str, requester: str, start: int, table: CsvWriter | None
) -> AsyncGenerator[bytes]:
    """Yield the result lines of a job from the point `start` on, as JSON lines, or as CSV if `table` is given.

    A part has at most 200 lines. Raise JobNotFound, also for the job of another owner than `requester`.
    """
    async for lines in jobs.stream_results(job_id, requester, start):
        for first in range(0, len(lines), SLICE_LINES):
            part = lines[first : first + SLICE_LINES]
            yield b"\n".join(part) + b"\n" if table is None else table.write(map(json.loads, part))
    if table is not None:
        yield table.finish()
