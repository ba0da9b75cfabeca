"""Middleware that answers HEAD like GET, without a body."""

from __future__ import annotations

from typing import final

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@final
class HeadAsGet:
    """Middleware that passes HEAD to the application as GET, and discards the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application inside: HEAD as GET, without the body of the response."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        got = dict(scope, method="GET", head=True)  # told to streams, which would go on without a reader

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._app(got, receive, send_head)
        finally:
            for name in ("route", "path_params"):  # for metrics, log and audit stream
                if name in got:
                    scope[name] = got[name]
