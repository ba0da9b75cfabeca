"""A documented route without the framework's work per request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

Endpoint = Callable[[Request], Awaitable[Response]]


@final
class DirectRoute(APIRoute):
    """Calls an endpoint that takes a request and returns a response, and nothing else.

    For such an endpoint the framework would still open exit stacks and solve dependencies, which costs more than a
    closed-form answer. Matching, documentation and exception handlers are those of every route. To be added to the
    routes of an application as it is: `include_router` would wrap the endpoint again.
    """

    def __init__(self, path: str, endpoint: Endpoint, **documentation: Any) -> None:
        super().__init__(path, endpoint, **documentation)

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = call
