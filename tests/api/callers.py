"""An application whose callers have credentials, and clients of its groups."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from service.access.caller import SCOPES, STATE_KEY, Caller
from service.main import create_app
from service.settings import Settings


class Recognised:
    """Middleware that takes the group of a caller from a header."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            group = dict(scope["headers"]).get(b"x-group", b"").decode()
            if group:
                caller = Caller(f"{group} robot", group, frozenset(SCOPES), "key", f"id-of-{group}")
                scope.setdefault("state", {})[STATE_KEY] = caller
        await self._app(scope, receive, send)


@contextmanager
def closed_application(**values: Any) -> Generator[TestClient]:
    """Run an application with authentication, and yield a client without credentials."""
    settings = Settings.model_validate({"redis_url": None, "log_level": "error", **values})
    app: Any = create_app(settings, are_results_private=True)
    app.wrap(Recognised)
    with TestClient(app) as client:
        yield client


def credentials(group: str) -> dict[str, str]:
    """Return the headers of a caller of a group."""
    return {"X-Group": group}
