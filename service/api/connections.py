"""Connections: how many, how long requests may take to arrive and responses to be taken, how long a head may be.

uvicorn reads whatever a client sends for as long as it sends, and keeps what a client does not read. This subclass of
its protocol counts and times instead; everything else is uvicorn's. One sweep a second looks at all connections, so
that none has timers of its own. A connection beyond the limits takes the place of the one that has waited longest for
its client, of the client that has most: whoever opens many and sends little only drives out itself. What is refused
here is a problem document like any other, unless an earlier response on the connection is still to come.
"""

from __future__ import annotations

import asyncio
import ipaddress
import select
from collections import Counter
from typing import Any, Final, cast, final

import httptools
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api.problems import ServerRefusal
from service.api.refusals import refusal
from service.execution.client import requester_at
from service.settings import Settings
from service.telemetry.metrics import Metrics

SWEEP_SECONDS: Final = 0.5
LINGER_SECONDS: Final = 1.0
"""How long a refused client may go on sending, unread, before the connection is closed under its hands."""
LARGEST_PIPELINE: Final = 16


class _Refused(Exception):
    """Raised in a callback of the parser, which stops there."""


@final
class Connections:
    """All connections of one server."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self._trusted = [
            ipaddress.ip_network(name, strict=False) for name in settings.trusted_proxies.split(",") if name
        ]
        self._open: dict[LimitedProtocol, str] = {}
        self._per_client: Counter[str] = Counter()
        self._sweeping = False

    def protocol(self, **given: Any) -> LimitedProtocol:
        """A protocol for one connection; `uvicorn.Config(http=...)` calls it like a class."""
        return LimitedProtocol(self, **given)

    def add(self, connection: LimitedProtocol) -> None:
        """Take a new connection, in place of another one where there are too many; or refuse it."""
        client = requester_at(connection.client[0] if connection.client else None)
        self._open[connection] = client
        self._per_client[client] += 1
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(SWEEP_SECONDS, self._sweep, connection.loop)
        limits = self.settings
        if self._per_client[client] > limits.max_connections_per_client and not self._is_proxy(client):
            self._make_room(connection, client)
        elif len(self._open) > limits.max_connections:
            self._make_room(connection, None)

    def remove(self, connection: LimitedProtocol) -> None:
        """Forget a connection, however often it is told."""
        client = self._open.pop(connection, None)
        if client is not None:
            self._per_client[client] -= 1
            if not self._per_client[client]:
                del self._per_client[client]

    def _is_proxy(self, client: str) -> bool:
        try:
            address = ipaddress.ip_address(client.partition("/")[0])
        except ValueError:
            return False
        return any(address in network for network in self._trusted)

    def _make_room(self, newcomer: LimitedProtocol, client: str | None) -> None:
        waiting = (
            connection
            for connection, of in self._open.items()
            if connection.waits_since is not None and connection is not newcomer and client in (None, of)
        )
        displaced = min(waiting, key=self._order, default=newcomer)
        displaced.refuse("too-many-connections")
        self.remove(displaced)  # its place is free now, though its last bytes are still on their way

    def _order(self, connection: LimitedProtocol) -> tuple[int, float]:
        return -self._per_client[self._open[connection]], connection.waits_since or 0.0

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._open):
            connection.look_at_clock(now)
        self._sweeping = bool(self._open)
        if self._sweeping:
            loop.call_later(SWEEP_SECONDS, self._sweep, loop)


@final
class LimitedProtocol(HttpToolsProtocol):
    """One connection. `waiting_since`: since when its client has to send; None while an answer is due."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._connections = connections
        self._limits = connections.settings
        self.waiting_since: float | None = None
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; the `cycle` of uvicorn is the last that came, perhaps too soon."""
        self._begun = False
        """Whether a part of a request has come, and not yet all of it."""
        self._in_head = False
        self._head_read = self._header_bytes = 0
        """Bytes of the head of a request that came so far: as read, and of headers as understood."""
        self._refused = False
        self._untaken_since: float | None = None
        self._refusal: ServerRefusal = "malformed-http"

    @property
    def waits_since(self) -> float | None:
        """Since when it waits for its client, to send or to take; None while the client waits."""
        return self._untaken_since if self.waiting_since is None else self.waiting_since

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self._connections.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)
        self._tell_that_client_is_gone()

    @override
    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unset_keepalive_if_required()
        try:
            cast("Any", self.parser).feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # the request is answered as what it is without its wish
        except httptools.HttpParserError:
            self.refuse(self._refusal)
            return
        if self._in_head:
            self._head_read += len(data)
            if self._head_read > self._limits.max_url_bytes + self._limits.max_header_bytes:
                self.refuse("headers-too-large")

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        if len(self.pipeline) >= LARGEST_PIPELINE:
            self._stop("malformed-http")
        self._head_read = self._header_bytes = 0
        self._in_head = self._begun = True
        if self._running is None:
            self.waiting_since = self.loop.time()

    @override
    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.max_url_bytes:
            self._stop("uri-too-long")

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._limits.max_header_bytes:
            self._stop("headers-too-large")

    @override
    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        self._begun = False
        super().on_message_complete()
        self.waiting_since = self.loop.time() if self._running is None else None

    @override
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if not cycle.more_body:
            self.waiting_since = None
        super()._start_asgi_task(cycle, app)

    @override
    def on_response_complete(self) -> None:
        self._running = None
        if self.waiting_since is None:  # else the answer came before the end of its request
            self.waiting_since = self.loop.time()
        super().on_response_complete()  # goes on to the next request that has come

    @override
    def shutdown(self) -> None:
        if self._begun:
            self.refuse("shutting-down")
        else:
            super().shutdown()

    def look_at_clock(self, now: float) -> None:
        """End what has taken too long, and what nobody waits for."""
        if self.flow.read_paused and _has_hung_up(self.transport):  # where nothing is read, nothing tells
            self.transport.abort()
            return
        if self.transport.get_write_buffer_size() == 0:
            self._untaken_since = None
        elif self._untaken_since is None:
            self._untaken_since = now
        elif now - self._untaken_since > self._limits.send_timeout_seconds:
            self._connections.metrics.refused("response-not-taken")
            self.transport.abort()
            return
        since = self.waiting_since
        if since is not None and not self._refused and now - since > self._limits.receive_timeout_seconds:
            self.refuse("request-timeout")

    def refuse(self, reason: ServerRefusal) -> None:
        """Answer with a problem where that can be told from other answers, and close."""
        if self._refused:
            return
        self._refused = True
        self.waiting_since = None
        self._connections.metrics.refused(reason)
        running = self._running
        is_own = self._begun and not self._in_head and running is self.cycle
        is_other_answer_due = running is not None and (not is_own or running.response_started)
        self._tell_that_client_is_gone()
        self.pipeline.clear()
        if is_other_answer_due or self.transport.is_closing():
            self.transport.abort()
            return
        if is_own or self._in_head or (reason == "too-many-connections" and not self._begun):
            self.transport.write(refusal(reason))
            self.flow.resume_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
        else:  # it waits for a request, or for the rest of one that has its answer
            self.transport.close()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _tell_that_client_is_gone(self) -> None:
        """Nobody reads the answer that is due."""
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()

    def _stop(self, reason: ServerRefusal) -> None:
        self._refusal = reason
        raise _Refused


def _has_hung_up(transport: asyncio.Transport) -> bool:
    """Whether the client has closed its end, after whatever it sent (Linux; elsewhere not known)."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0 or not hasattr(select, "POLLRDHUP"):
        return False
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))
