"""Layers before the protocol over HTTP: requests of web pages, and messages with duplicate keys."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.mcp.messages import duplicate_keys_error

JSON: Final = "application/json"


def without_origins(app: ASGIApp) -> ASGIApp:
    """Return an application that rejects requests with a header `Origin` (of web pages) with 403 before `app`."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"])
        await (Response("Invalid Origin header", 403) if is_page else app)(scope, receive, send)

    return call


def without_duplicate_keys(app: ASGIApp, longest: int) -> ASGIApp:
    """Return an application that rejects messages with duplicate keys before `app`, which would keep one of them.

    The status is 400. Everything else passes: invalid JSON, and bodies of more than `longest` bytes, which `app`
    rejects.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        received = await _receive_body(receive, longest)
        body = b"".join(message.get("body", b"") for message in received)
        error = None if len(body) > longest else await asyncio.to_thread(duplicate_keys_error, body)
        if error is not None:
            await Response(json.dumps(error), 400, media_type=JSON)(scope, receive, send)
            return
        received.reverse()

        async def receive_again() -> Message:
            return received.pop() if received else await receive()

        await app(scope, receive_again, send)

    return call


async def _receive_body(receive: Receive, longest: int) -> list[Message]:
    # up to the first message that makes the body longer than `longest` bytes
    received: list[Message] = []
    size = 0
    while size <= longest:
        message = await receive()
        received.append(message)
        size += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            break
    return received
