"""Documented routes without the framework's work per request, and the application with a door of its own for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, cast, final

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

from service.telemetry.http import request_context

Endpoint = Callable[[Request], Awaitable[Response]]
Handler = Callable[[Request, Exception], Awaitable[Response]]


@final
class DirectRoute(APIRoute):
    """Calls an endpoint that takes a request and returns a response, and nothing else.

    For such an endpoint the framework would still open exit stacks and solve dependencies, which costs more than a
    closed-form answer. Matching, documentation and exception handlers are those of every route. To be added to the
    routes of an application as it is: `include_router` would wrap the endpoint again.
    """

    def __init__(self, path: str, endpoint: Endpoint, **documentation: Any) -> None:
        super().__init__(path, endpoint, **documentation)
        self.answer = endpoint

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = call


@final
class Application(FastAPI):
    """An application that finds its direct routes by their paths.

    A request for one of them meets the middleware that `open_direct_routes` is given, the endpoint, and the exception
    handlers of the application. The layers in between, of which none does anything for such a request, cost as much as
    its answer. All other requests go through all of them.
    """

    _direct: Mapping[str, DirectRoute] = MappingProxyType({})
    _door: ASGIApp

    def open_direct_routes(self, middleware: Callable[[ASGIApp], ASGIApp]) -> None:
        """To be called when all routes are there: the first that matches a path answers."""
        simple = (
            route for route in self.router.routes if isinstance(route, DirectRoute) and not route.param_convertors
        )
        self._direct = {route.path: route for route in simple}
        self._door = middleware(self._answer)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None
        if scope["type"] == "http" and not scope.get("root_path"):
            route = self._direct.get(scope["path"])
        if route is None or scope["method"] not in route.methods:
            await super().__call__(scope, receive, send)
            return
        scope["app"], scope["route"] = self, route
        await self._door(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        route: DirectRoute = scope["route"]
        try:
            response = await route.answer(request)
        except Exception as error:
            known = self.exception_handlers
            handler = next((known[kind] for kind in type(error).__mro__ if kind in known), None)
            if handler is None:
                raise
            response = await cast("Handler", handler)(request, error)  # all of ours are coroutine functions
            if request_context(scope).error is not error:  # the log needs the traceback of what is our fault
                error.__traceback__ = None
        await response(scope, receive, send)
