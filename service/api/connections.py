"""Limits on connections: how many may be open, and which connection is closed to admit a new one.

uvicorn reads whatever a client sends for as long as it sends, and buffers responses that a client does not read.
`LimitedProtocol` counts and times connections instead. A periodic sweep checks all connections, so that connections
need no timers. A new connection beyond the limits replaces a connection that waits for its client. A requester (client
address) with the most connections loses one first, and idle connections are closed before active ones. A client that
opens many connections therefore only closes its own. A connection of a trusted proxy counts for the requester of its
last request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final, cast, final

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from service.api.limited_protocol import LimitedProtocol
from service.execution.client import requester_from_address
from service.settings import Settings
from service.telemetry.metrics import Metrics

SWEEP_SECONDS: Final = 0.5


@final
class Connections:
    """Open connections of one server."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self._proxies = ProxyHeadersMiddleware(cast("Any", None), settings.trusted_proxies).trusted_hosts
        self._open: dict[LimitedProtocol, str | None] = {}
        """Requester of each connection. None: a proxy has not yet named the requester."""
        self._per_client: Counter[str] = Counter()
        self._sweeping = False

    def protocol(self, **given: Any) -> LimitedProtocol:
        """Return a protocol object that serves one new connection, for `uvicorn.Config(http=...)`.

        `given` are the arguments of uvicorn for a protocol.
        """
        return LimitedProtocol(self, **given)

    def add(self, connection: LimitedProtocol) -> None:
        """Add a connection. Above a limit of connections, close another one or reject the new one.

        The limits are on all connections and on those of one client. A connection on which the server waits for its
        client is closed. If there is no such connection, the new one is rejected. Above the limit of one client, only
        connections of this client are closed.
        """
        client = None if self._is_proxy(connection) else requester_from_address(_peer(connection))
        self._count(connection, client)
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(SWEEP_SECONDS, self._sweep, connection.loop)
        limits = self.settings
        if client is not None and self._per_client[client] > limits.max_connections_per_client:
            self._evict_for(connection, client)
        elif len(self._open) > limits.max_connections:
            self._evict_for(connection, None)

    def remove(self, connection: LimitedProtocol) -> None:
        """Remove a connection. Repeated calls have no effect."""
        client = self._open.pop(connection, None)
        if client is not None:
            self._per_client[client] -= 1
            if not self._per_client[client]:
                del self._per_client[client]

    def assign_requester(self, connection: LimitedProtocol) -> None:
        """Assign the connection of a trusted proxy to the client address for which the proxy forwards a request.

        Do nothing for a connection that is not of a trusted proxy.
        """
        if connection not in self._open or not self._is_proxy(connection):
            return
        lines = [value for name, value in connection.headers if name == b"x-forwarded-for"]
        address, _ = self._proxies.get_trusted_client_address(b", ".join(lines).decode("latin-1"))
        self.remove(connection)
        self._count(connection, requester_from_address(address) if address else None)

    def _count(self, connection: LimitedProtocol, client: str | None) -> None:
        self._open[connection] = client
        if client is not None:
            self._per_client[client] += 1

    def _is_proxy(self, connection: LimitedProtocol) -> bool:
        return _peer(connection) in self._proxies

    def _evict_for(self, newcomer: LimitedProtocol, client: str | None) -> None:
        waiting = (
            connection
            for connection, of in self._open.items()
            if connection.idle_since is not None and connection is not newcomer and client in (None, of)
        )
        displaced = min(waiting, key=self._eviction_key, default=newcomer)
        displaced.reject("too-many-connections")
        self.remove(displaced)  # its place is free now, though its last bytes are still on their way

    def _eviction_key(self, connection: LimitedProtocol) -> tuple[int, bool, float]:
        client = self._open[connection]
        held = 1 if client is None else self._per_client[client]
        return -held, not connection.is_idle, connection.idle_since or 0.0

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._open):
            connection.enforce_timeouts(now)
        self._sweeping = bool(self._open)
        if self._sweeping:
            loop.call_later(SWEEP_SECONDS, self._sweep, loop)


def _peer(connection: LimitedProtocol) -> str | None:
    return connection.client[0] if connection.client else None
