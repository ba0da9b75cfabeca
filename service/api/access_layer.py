"""Middleware that recognises the caller of a request, and refuses a request without the scope of its path."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from starlette.types import ASGIApp, Receive, Scope, Send

from service.access.authenticator import Authenticator
from service.access.caller import STATE_KEY, UNKNOWN_CALLER, AccessScope, caller_of
from service.access.errors import AccessError, MissingScope, Unauthenticated
from service.api.route_scopes import NeededScope


@final
class AccessLayer:
    """ASGI middleware that puts the caller into the state of each request.

    `needed_scope` returns the scope that a request needs. `refuse` responds to a request with an AccessError.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        needed_scope: Callable[[Scope], NeededScope],
        refuse: Callable[[AccessError, Scope], ASGIApp],
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._needed_scope = needed_scope
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the credentials of a request, and pass it to the application inside.

        A route that needs no credentials receives every request, with `UNKNOWN_CALLER` for missing or invalid
        credentials.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        needed = self._needed_scope(scope)
        caller = UNKNOWN_CALLER
        try:
            caller = await self._authenticator.caller(scope["headers"])
            if needed not in caller.scopes and needed not in ("open", "authenticated"):
                raise MissingScope(needed)
        except AccessError as error:
            if needed != "open":
                await self._refuse(error, scope)(scope, receive, send)
                return
        scope.setdefault("state", {})[STATE_KEY] = caller
        await self._app(scope, receive, send)


def require_scope(scope: Scope, needed: AccessScope) -> None:
    """Raise an AccessError unless the caller of a request has the scope `needed`. Routes call this function.

    The error is Unauthenticated for a caller without credentials, and MissingScope for any other.
    """
    caller = caller_of(scope)
    if caller is UNKNOWN_CALLER:
        raise Unauthenticated
    if needed not in caller.scopes:
        raise MissingScope(needed)
