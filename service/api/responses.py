"""Responses with stored results: a fast response for short bodies, and slices for long ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, final

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from service.api.conditional_requests import is_not_modified
from service.rendering.registry import JSON

SLICE_BYTES: Final = 2**16


def result_response(
    request: Request, tag: str, body: bytes, headers: dict[str, str], media_type: str = JSON
) -> Response:
    """Return a response with a stored result `body`, or 304 to a GET by a client that already has the result.

    `tag` is the entity tag of the result, and `headers` are sent beside it.
    """
    if is_not_modified(request, tag):
        return Response(status_code=304, headers=headers)
    if len(body) > SLICE_BYTES:
        return ChunkedBodyResponse(body, headers=headers, media_type=media_type)
    return FastResponse(body, headers, media_type)


@final
class FastResponse(Response):
    """Response with a body and headers that are sent unchanged.

    Building this response takes a third of the time of the framework's response, which matters for answers in closed
    form.
    """

    def __init__(self, body: bytes, headers: Mapping[str, str], media_type: str) -> None:
        self.status_code, self.body, self.background = 200, body, None
        self.raw_headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        self.raw_headers += (b"content-length", b"%d" % len(body)), (b"content-type", media_type.encode())

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


@final
class ChunkedBodyResponse(Response):
    """Response that sends a long body in slices, one after the other. Slow clients share a single copy in memory."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body), SLICE_BYTES):
            end = start + SLICE_BYTES
            part = bytes(self.body[start:end])
            await send({"type": "http.response.body", "body": part, "more_body": end < len(self.body)})
            await asyncio.sleep(0)  # fast clients yield the event loop as well
