"""Protocol of one connection, with limits on the size of requests and on transfer times.

uvicorn does everything else. A rejection is a problem document like any other, unless an earlier response on the
connection is still pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast, final

import httptools
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.api.rejections import rejection_bytes
from service.api.write_progress import WriteProgress, peer_closed
from service.problems import ServerRejection

if TYPE_CHECKING:
    from service.api.connections import Connections

LINGER_SECONDS: Final = 1.0
"""Time that a rejected client may continue to send, unread, before the connection is closed."""
LARGEST_DROPPED_BYTES: Final = 2**26
"""Bytes of one request body that are read and dropped after its response, for example after a refusal (401 or 413).

A client that sends a body of usual length then receives the response. Above this length the connection is closed.
"""
LARGEST_PIPELINE: Final = 16
VERSIONS: Final = frozenset({"1.0", "1.1"})
VERSION_ERRORS: Final = frozenset({"Invalid HTTP version", "Pause on PRI/Upgrade"})
"""Messages of the parser about an unknown HTTP version, and about the connection preface of HTTP/2."""
CONNECTION: Final = "privacy_bounds.connection"
"""Name of the ASGI extension that gives a response access to its `LimitedProtocol`."""


class _Rejected(Exception):
    """Raised in a callback of the HTTP parser. It stops the parser after the connection was rejected."""


@final
class LimitedProtocol(HttpToolsProtocol):
    """Protocol of one HTTP connection, with limits on sizes and transfer times.

    Times are seconds of the clock of the event loop. `waiting_since` is the time when the client became due to send, or
    None while the server owes a response.
    """

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._connections = connections
        self._limits = connections.settings
        self.waiting_since: float | None = None
        self._running: RequestResponseCycle | None = None
        """Request that is being answered. The `cycle` of uvicorn is the last one received, which may be a later one."""
        self._is_used = False
        """Whether a response was sent on this connection."""
        self._begun = False
        """Whether a request has arrived partially."""
        self._in_head = False
        self._head_read = self._header_bytes = 0
        """Bytes of the request head so far: raw bytes, and bytes of parsed headers."""
        self._dropped_bytes = 0
        """Bytes of the current request body that arrived after its response."""
        self._is_rejected = False
        self._progress: WriteProgress | None = None
        self._rejection: ServerRejection = "malformed-http"
        self.at_shutdown: Callable[[], None] | None = None
        """Callback that ends a streaming response when the server stops."""

    @property
    def idle_since(self) -> float | None:
        """Time (event loop, seconds) since which the server waits for the client, or None while it does not wait.

        The client has to send a request, or to receive bytes that were sent. The server does not wait while it computes
        a response and all bytes so far were received.
        """
        if self.waiting_since is not None:
            return self.waiting_since
        return None if self._progress is None else self._progress.since

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered on this connection, and no part of a new one has arrived."""
        return self._running is None and not self._begun

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self._progress = WriteProgress(transport, self._limits.send_timeout_seconds)
        self._connections.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        super().connection_lost(exc)
        self._mark_disconnected()

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_rejected:
            return
        self._unset_keepalive_if_required()
        try:
            cast("Any", self.parser).feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # the request is answered as what it is without its wish
        except httptools.HttpParserError as error:
            self.reject("http-version-not-supported" if str(error) in VERSION_ERRORS else self._rejection)
            return
        if self._in_head:
            self._head_read += len(data)
            if self._head_read > self._limits.max_url_bytes + self._limits.max_header_bytes:
                self.reject("headers-too-large")
        if self._dropped_bytes > LARGEST_DROPPED_BYTES and not self.transport.is_closing():
            self._connections.metrics.count_refused_connection("body-after-response")
            self.transport.close()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("Any", self.scope)["extensions"] = {CONNECTION: self}
        if len(self.pipeline) >= LARGEST_PIPELINE:
            self._reject_in_parser("malformed-http")
        self._head_read = self._header_bytes = self._dropped_bytes = 0
        self._in_head = self._begun = True
        if self._running is None:
            self.waiting_since = self.loop.time()

    @override
    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.max_url_bytes:
            self._reject_in_parser("uri-too-long")

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._limits.max_header_bytes:
            self._reject_in_parser("headers-too-large")

    @override
    def on_headers_complete(self) -> None:
        if cast("Any", self.parser).get_http_version() not in VERSIONS:
            self._reject_in_parser("http-version-not-supported")
        self._in_head = False
        self._connections.assign_requester(self)
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._dropped_bytes += len(body)
        super().on_body(body)

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
        self._running = self.at_shutdown = None
        self._is_used = True
        if self.waiting_since is None:  # else the answer came before the end of its request
            self.waiting_since = self.loop.time()
        super().on_response_complete()  # goes on to the next request that has come

    @override
    def shutdown(self) -> None:
        if self._begun:
            self.reject("shutting-down")
        else:
            super().shutdown()
            if self.at_shutdown is not None:
                self.at_shutdown()

    @override
    def resume_writing(self) -> None:
        if self._progress is not None:
            self._progress.resumed()
        super().resume_writing()

    def cut(self) -> None:
        """Abort the connection immediately, before the response is complete.

        The missing rest of the body shows the client that the response is truncated.
        """
        self._mark_disconnected()
        self.transport.abort()

    @property
    def is_read(self) -> bool:
        """Whether the client has received everything that was sent to the transport of the connection."""
        return self.transport.get_write_buffer_size() == 0

    def enforce_timeouts(self, now: float) -> None:
        """Close the connection if a transfer or an idle time was too long, or if the client disconnected.

        `now` is the time of the event loop in seconds.
        """
        if self.flow.read_paused and peer_closed(self.transport):  # where nothing is read, nothing tells
            self.transport.abort()
            return
        is_sent = self._running is not None or not self.is_read
        if is_sent and self._progress is not None and self._progress.is_behind(now):
            self._connections.metrics.count_refused_connection("response-not-taken")
            self.transport.abort()
            return
        since = self.waiting_since
        if since is None or self._is_rejected:
            return
        if self.is_idle and self._is_used:
            if now - since > self._limits.keep_alive_seconds:
                self.transport.close()
        elif now - since > self._limits.receive_timeout_seconds:
            self.reject("request-timeout")

    def reject(self, reason: ServerRejection) -> None:
        """Close the connection for `reason`.

        Send a problem document first, unless an earlier response is still pending or the client waits for none. The
        connection is cut after one second. Do nothing for a connection that was rejected before.
        """
        if self._is_rejected:
            return
        self._is_rejected = True
        self.waiting_since = None
        self._connections.metrics.count_refused_connection(reason)
        running = self._running
        is_own = self._begun and not self._in_head and running is self.cycle
        is_other_answer_due = running is not None and (not is_own or running.response_started)
        self._mark_disconnected()
        self.pipeline.clear()
        if is_other_answer_due or self.transport.is_closing():
            self.transport.abort()
            return
        is_new = self.is_idle and not self._is_used  # of an idle one, the client would take it for its next answer
        if is_own or self._in_head or (reason == "too-many-connections" and is_new):
            self.transport.write(rejection_bytes(reason))
            self.flow.resume_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
        else:  # it waits for a request, or for the rest of one that has its answer
            self.transport.close()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _mark_disconnected(self) -> None:
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()

    def _reject_in_parser(self, reason: ServerRejection) -> None:
        self._rejection = reason
        raise _Rejected
