"""Routes that bypass the per-request work of the framework, and the application that dispatches to them."""

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
class FastRoute(APIRoute):
    """Route whose endpoint takes a request and returns a response.

    For other endpoints the framework opens exit stacks and resolves dependencies, which costs more than a closed-form
    answer. Matching, documentation and exception handlers work as for every route. The route has to be added to the
    routes of an application directly, since `include_router` would wrap the endpoint again.
    """

    def __init__(self, path: str, endpoint: Endpoint, **documentation: Any) -> None:
        super().__init__(path, endpoint, **documentation)
        self.respond = endpoint

        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive, send))
            await response(scope, receive, send)

        self.app = call


@final
class FastPathApplication(FastAPI):
    """Application that dispatches requests to fast routes by their path, past most middleware.

    A request to a fast route passes the middleware of `enable_fast_path`, the endpoint, and the exception handlers of
    the application. The middleware layers in between have no effect on such a request, and would cost as much as its
    answer. All other requests pass all layers.
    """

    _fast_routes: Mapping[str, FastRoute] = MappingProxyType({})
    _fast_path: ASGIApp
    _entry: ASGIApp | None = None

    def wrap(self, middleware: Callable[[ASGIApp], ASGIApp]) -> None:
        """Put a middleware around the whole application, for fast routes and all others.

        The middleware that is added last is outermost.
        """
        self._entry = middleware(self._entry or self._dispatch)

    def enable_fast_path(self, middleware: Callable[[ASGIApp], ASGIApp]) -> None:
        """Set up the dispatch of fast routes, after all routes were added.

        `middleware` wraps the requests to fast routes. If several routes match a path, the first one answers.
        """
        simple = (route for route in self.router.routes if isinstance(route, FastRoute) and not route.param_convertors)
        self._fast_routes = {route.path: route for route in simple}
        self._fast_path = middleware(self._answer)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._entry or self._dispatch)(scope, receive, send)

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = None
        if scope["type"] == "http" and not scope.get("root_path"):
            route = self._fast_routes.get(scope["path"])
        if route is None or scope["method"] not in route.methods:
            await super().__call__(scope, receive, send)
            return
        scope["app"], scope["route"] = self, route
        await self._fast_path(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        route: FastRoute = scope["route"]
        try:
            response = await route.respond(request)
        except Exception as error:
            known = self.exception_handlers
            handler = next((known[kind] for kind in type(error).__mro__ if kind in known), None)
            if handler is None:
                raise
            response = await cast("Handler", handler)(request, error)  # all of ours are coroutine functions
            if request_context(scope).error is not error:  # the log needs the traceback of what is our fault
                error.__traceback__ = None
        await response(scope, receive, send)
