"""Headers of deprecated routes: since when, until when, and what to use instead (RFC 9745, RFC 8594)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Final, final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SHORTEST_NOTICE: Final = timedelta(days=183)
"""Least time between the deprecation of a route and its end."""


@dataclass(frozen=True, slots=True)
class Deprecation:
    """Deprecation of a route at the time `since`.

    `page` is the address of a page that names the replacement. The route ends at the time `sunset`.
    """

    since: datetime
    sunset: datetime
    page: str

    def __post_init__(self) -> None:
        if self.since.tzinfo is None or self.sunset.tzinfo is None:
            raise ValueError("give both times with a time zone, for example UTC")
        if self.sunset - self.since < SHORTEST_NOTICE:
            raise ValueError(f"a route stays at least {SHORTEST_NOTICE.days} days after it was deprecated")

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers `Deprecation`, `Sunset` and `Link` of every response of the deprecated route."""
        return {
            "Deprecation": f"@{int(self.since.timestamp())}",
            "Sunset": format_datetime(self.sunset.astimezone(UTC), usegmt=True),
            "Link": f'<{self.page}>; rel="deprecation"; type="text/html"',
        }


DEPRECATED: Final[Mapping[str, Deprecation]] = {}
"""Deprecated routes by their path, with parameters as in the published document."""


@final
class DeprecationHeaders:
    """Middleware that adds the headers of deprecated routes to their responses, problems included."""

    def __init__(self, app: ASGIApp, routes: Mapping[str, Deprecation]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application inside, and add the headers of a deprecated route to its response."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = scope.get("route")
                found = self._routes.get(getattr(route, "path", scope.get("path", "")))
                if found is not None:
                    headers = MutableHeaders(scope=message)
                    for name, value in found.headers.items():
                        headers.append(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
