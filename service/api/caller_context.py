"""Middleware behind authentication: shares, owners, limits and logs know the caller of a request."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, final

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access.caller import Caller, caller_of
from service.api.dependencies import AppServices
from service.execution.client import requester_from_group, requester_from_scope
from service.execution.work_limits import WorkAccount
from service.telemetry.http import REQUEST_CONTEXT_KEY, LoggedCaller, RequestContext

ACCOUNT_KEY: Final = "work_account"
"""Key of the account in the state of an ASGI scope."""


@final
class CallerContext:
    """Middleware that enters the caller into the `RequestContext`, the facts about a request for logs and quotas.

    The requester becomes the group of the caller. With a limit on work, responses below `/v1/` have the headers
    `RateLimit` and `RateLimit-Policy`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Enter the caller into the `RequestContext` of a request, and pass the request to the application inside."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context: RequestContext | None = scope.get(REQUEST_CONTEXT_KEY)
        caller = caller_of(scope)
        requester = None
        if context is not None and caller.kind != "anonymous":
            context.requester = requester = requester_from_group(caller.group)
            context.caller = logged_caller(caller)
        services: AppServices | None = scope["state"].get("services")
        limits = None if services is None else services.work_limits
        if limits is None or not scope["path"].startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        account = scope["state"][ACCOUNT_KEY] = limits.account(requester or requester_of(scope, caller))

        async def send_limits(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += account.headers()
            await send(message)

        await self._app(scope, receive, send_limits)


def requester_of(scope: Scope, caller: Caller) -> str:
    """Return the requester key of a request: the group of its caller, or the address of an anonymous caller.

    The key is the name to which work, stored results and quotas are accounted.
    """
    return requester_from_scope(scope) if caller.kind == "anonymous" else requester_from_group(caller.group)


@lru_cache(maxsize=1024)  # most callers send several requests
def logged_caller(caller: Caller) -> LoggedCaller | None:
    """Return what logs say about a caller, without any secret; None for an anonymous caller."""
    if caller.kind == "anonymous":
        return None
    return LoggedCaller(id=caller.identifier, kind=caller.kind, name=caller.name, group=caller.group)


def work_account_of(request: Request) -> WorkAccount | None:
    """Return the account to which the work of a request is charged.

    The result is None if the work has no limit, and for paths that are not below `/v1/`.
    """
    state: dict[str, Any] = request.scope.get("state") or {}
    account: WorkAccount | None = state.get(ACCOUNT_KEY)
    return account
