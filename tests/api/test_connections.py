"""Timeouts and limits of connections, for requests that arrive in any pieces and responses that come at any time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.server import ServerState

from service.api import limited_protocol as module
from service.api.connections import Connections
from service.api.limited_protocol import LimitedProtocol
from service.settings import Settings
from service.telemetry.metrics import Metrics
from tests.execution.fakes import counted

SEED = 20260
CASES = 100
LATER = 10_000.0
"""Seconds, longer than every time limit."""
Receive = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Wire(asyncio.Transport):
    """Stub of a transport that keeps what is written and can pause reading."""

    def __init__(self, client: str) -> None:
        super().__init__({"peername": (client, 1)})
        self.written = b""
        self.untaken = 0
        self.is_read, self.is_open = True, True

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return not self.is_open

    def close(self) -> None:
        self.is_open = False

    abort = close

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.untaken


class Application:
    """An application that answers on demand: `/early` without reading the body, `/late` after the whole body."""

    def __init__(self) -> None:
        self.allowed = asyncio.Event()
        self.answered = self.left = 0

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        reads = scope["path"] == "/late"
        while reads and (await receive()).get("more_body"):
            pass
        gone = asyncio.create_task(receive() if reads else asyncio.Event().wait())
        allowed = asyncio.create_task(self.allowed.wait())
        await asyncio.wait((gone, allowed), return_when=asyncio.FIRST_COMPLETED)
        is_gone = gone.done()
        gone.cancel()
        allowed.cancel()
        if is_gone:
            self.left += 1
            return
        self.allowed.clear()
        self.answered += 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


def opened(
    application: Application, connections: Connections | None = None, client: str = "127.0.0.1"
) -> tuple[LimitedProtocol, Wire]:
    connections = connections or Connections(Settings(), Metrics(CollectorRegistry(), "1"))
    configuration = uvicorn.Config(application, log_config=None, lifespan="off")
    configuration.load()
    protocol = connections.protocol(config=configuration, server_state=ServerState(), app_state={})
    wire = Wire(client)
    protocol.connection_made(wire)
    return protocol, wire


def request(path: str, size: int) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (path.encode(), size) + b"x" * size


async def settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


async def test_connection_counts_as_waiting_only_while_no_answer_is_due() -> None:
    source = random.Random(SEED)
    for _ in range(CASES):
        application = Application()
        protocol, wire = opened(application)
        requests = [request(source.choice(("/early", "/late")), source.choice((0, 1, 9))) for _ in range(4)]
        ends = [len(b"".join(requests[: index + 1])) for index in range(len(requests))]
        unsent, sent = b"".join(requests), 0
        while application.answered < len(requests):
            if unsent and wire.is_read and source.random() < 0.7:
                size = min(source.randint(1, 80), len(unsent))
                protocol.data_received(unsent[:size])
                unsent, sent = unsent[size:], sent + size
            elif source.random() < 0.5:
                application.allowed.set()
            await settle()
            is_due = application.answered < len(requests) and sent >= ends[application.answered]
            assert (protocol.waiting_since is None) == is_due
            protocol.enforce_timeouts(asyncio.get_running_loop().time() + (LATER if is_due else 0))
            assert wire.is_open, "no limit is for a client that waits for us"
        protocol.connection_lost(None)


async def test_client_that_keeps_connection_waiting_is_disconnected() -> None:
    source = random.Random(SEED)
    for _ in range(CASES):
        application = Application()
        protocol, wire = opened(application)
        requests = b"".join(request("/early", source.choice((1, 9))) for _ in range(3))
        for place in range(0, source.randint(0, len(requests)), 40):
            protocol.data_received(requests[place : place + 40])
            application.allowed.set()
            await settle()
        protocol.enforce_timeouts(asyncio.get_running_loop().time() + LATER)
        assert not wire.is_open or b"408 Request Timeout" in wire.written, "closed, or as soon as that is taken"
        protocol.connection_lost(None)


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_body_after_its_response_is_dropped_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, is_chunked: bool
) -> None:
    """A body that arrives after its response is dropped, up to a limit.

    The client of a refused request can send a body of common size to its end, but no endless body.
    """
    monkeypatch.setattr(module, "LARGEST_DROPPED_BYTES", 1_000)
    metrics = Metrics(CollectorRegistry(), "1")
    application = Application()
    protocol, wire = opened(application, Connections(Settings(), metrics))
    for _ in range(2):  # the limit is for each body
        protocol.data_received(request("/early", 900)[:-900])
        application.allowed.set()
        await settle()
        protocol.data_received(b"x" * 900)
        await settle()
        assert wire.is_open
    assert application.answered == 2
    head = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: 10000000000"
    protocol.data_received(b"POST /early HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % head)
    application.allowed.set()
    await settle()
    sent = 0
    while wire.is_open and sent < 10_000:
        protocol.data_received(b"64\r\n" + b"x" * 100 + b"\r\n" if is_chunked else b"x" * 100)
        sent += 100
    assert sent == 1_100
    assert counted(metrics, 'privacy_bounds_server_refusals_total{reason="body-after-response"}') == 1
    protocol.connection_lost(None)


async def test_answered_request_gets_disconnect_event() -> None:
    for behind in (0, 1, 3):
        application = Application()
        protocol, _ = opened(application)
        protocol.data_received(request("/late", 9))
        await settle()
        protocol.data_received(request("/late", 9) * behind)
        await settle()
        assert application.left == 0
        protocol.connection_lost(None)
        await settle()
        assert application.left == 1


async def test_connection_above_limit_replaces_a_waiting_one() -> None:
    """A connection above the limit replaces one that waits for its client.

    If every connection has a running request, the new connection gets 503 and the others continue.
    """
    application = Application()
    connections = Connections(Settings(max_connections=3), Metrics(CollectorRegistry(), "1"))
    opens = [opened(application, connections, f"127.0.0.{number}") for number in range(3)]
    for protocol, _ in opens:
        protocol.data_received(request("/late", 9))
    await settle()
    _, refused = opened(application, connections, "127.0.0.9")
    assert refused.written.startswith(b"HTTP/1.1 503")
    assert b"/problems/too-many-connections" in refused.written
    for _, wire in opens[:2]:
        application.allowed.set()
        await settle()
        assert wire.written.startswith(b"HTTP/1.1 200")
    opens[2][1].untaken = 1  # The client does not read the answer.
    opens[2][0].enforce_timeouts(asyncio.get_running_loop().time())
    for displaced in opens:  # The connection that has waited longest for its client.
        assert displaced[1].is_open
        _, wire = opened(application, connections, f"127.0.1.{opens.index(displaced)}")
        assert wire.written == b""
        assert displaced[1].written.endswith(b"}") or not displaced[1].is_open


@pytest.mark.parametrize(
    "line",
    [
        b"GET /late HTTP/0.9\r\n",
        b"GET /late\r\n",
        b"GET /late HTTP/2.0\r\n",
        b"GET /late HTTP/1.2\r\n",
        b"GET /late HTTP/3.0\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
    ],
)
async def test_other_http_versions_are_rejected(line: bytes) -> None:
    for size in (len(line) + 2, 1):
        application = Application()
        protocol, wire = opened(application)
        sent = line + b"\r\n"
        for start in range(0, len(sent), size):
            protocol.data_received(sent[start : start + size])
        protocol.data_received(request("/early", 1))
        await settle()
        assert wire.written.startswith(b"HTTP/1.1 505 "), wire.written
        assert wire.written.count(b"content-type") == 1
        assert b"connection: close" in wire.written
        assert b"/problems/http-version-not-supported" in wire.written
        protocol.connection_lost(None)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 99999999999999999999999\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 1,1\r\n",
        b"Content-Length: 0x10\r\n",
        b"Content-Length:\r\n",
        b"Content-Length: 1\r\nContent-Length: 2\r\n",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
    ],
)
async def test_invalid_content_length_returns_400(head: bytes) -> None:
    protocol, wire = opened(Application())
    protocol.data_received(b"POST /late HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n")
    assert wire.written.startswith(b"HTTP/1.1 400 ")
    assert b"/problems/malformed-http" in wire.written
    protocol.connection_lost(None)


async def test_idle_connection_outlives_load_balancer_timeout() -> None:
    limits = Settings()
    assert limits.keep_alive_seconds > 60 > limits.receive_timeout_seconds
    application = Application()
    protocol, wire = opened(application)
    for start in (0.0, 100.0):
        protocol.data_received(request("/early", 1))
        application.allowed.set()
        await settle()
        now = asyncio.get_running_loop().time()
        protocol.data_received(b"\r\n")  # An incomplete request, which stops the timer of uvicorn.
        protocol.enforce_timeouts(now + limits.keep_alive_seconds - 1)
        assert wire.is_open, start
    written = wire.written
    protocol.enforce_timeouts(now + limits.keep_alive_seconds + 1)
    assert (wire.is_open, wire.written) == (False, written), "closed without a word"
    protocol.connection_lost(None)


async def test_idle_connection_is_closed_first_and_silently() -> None:
    application = Application()
    connections = Connections(Settings(max_connections=3), Metrics(CollectorRegistry(), "1"))
    opens = [opened(application, connections, "127.0.0.1") for _ in range(3)]
    opens[0][0].data_received(b"POST /late HT")
    for protocol, _ in opens[1:2]:
        protocol.data_received(request("/early", 1))
        application.allowed.set()
        await settle()
    opens[2][0].data_received(b"POST /late HT")
    answered = opens[1][1].written
    opened(application, connections, "127.0.0.2")
    assert [wire.is_open for _, wire in opens] == [True, False, True]
    assert opens[1][1].written == answered
    for protocol, _ in opens:
        protocol.connection_lost(None)


async def test_connections_behind_proxy_are_counted_by_client() -> None:
    """Connections through a proxy are counted by the client that it forwards.

    One client behind a proxy stalls many requests, and other clients stall one each. The client with most connections
    loses one.
    """
    head = b"POST /late HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\nContent-Length: 9\r\n\r\n"
    settings = Settings(max_connections=12, max_connections_per_client=3, trusted_proxies="10.0.0.0/8")
    connections = Connections(settings, Metrics(CollectorRegistry(), "1"))
    names = [b"192.0.2.1", b"192.0.2.2", b"203.0.113.5, 10.0.0.2"] + [b"198.51.100.7"] * 4
    source = random.Random(SEED)
    source.shuffle(names)
    opens = [opened(Application(), connections, f"10.0.0.{1 + number % 2}") for number in range(len(names))]
    for (protocol, _), name in zip(opens, names, strict=True):
        protocol.data_received(head % name)
    direct = [opened(Application(), connections, f"203.0.113.{number}") for number in range(5)]
    assert all(wire.is_open and not wire.written for _, wire in opens + direct)
    for number in range(3):
        opened(Application(), connections, f"203.0.114.{number}")
    ended = [name for (_, wire), name in zip(opens, names, strict=True) if wire.written]
    assert ended == [b"198.51.100.7"] * 3
    assert not any(wire.written for _, wire in direct)
    for protocol, _ in opens + direct:
        protocol.connection_lost(None)


@pytest.mark.parametrize(("rate", "is_kept"), [(1_000_000, True), (6_000, True), (500, False), (1 / 60, False)])
async def test_slow_but_steady_reader_gets_whole_response(rate: float, is_kept: bool) -> None:
    """A slow but steady reader gets the whole response, and one that is too slow loses its connection.

    The transport drains 200 MB at the given rate, and the application writes whenever it may. Timeouts are checked at
    the interval of the sweep over connections.
    """
    protocol, wire = opened(Application())
    protocol.data_received(request("/late", 1))
    await settle()
    now, left, credit = asyncio.get_running_loop().time(), 200_000_000, 0.0
    while left and wire.is_open and now < asyncio.get_running_loop().time() + 300:
        now += 0.5
        credit += rate / 2
        while credit >= 1 and left:
            taken = min(int(credit), wire.untaken or 1)
            credit, wire.untaken, left = credit - taken, max(wire.untaken - taken, 0), left - taken
            if wire.untaken < 16 * 1024:
                protocol.resume_writing()
                wire.untaken += 65_536
        wire.untaken = wire.untaken or 65_536
        protocol.enforce_timeouts(now)
    assert wire.is_open == is_kept
    protocol.connection_lost(None)


async def test_open_response_is_told_of_shutdown() -> None:
    application = Application()
    protocol, _ = opened(application)
    protocol.data_received(request("/late", 1))
    await settle()
    told: list[bool] = []
    protocol.at_shutdown = lambda: told.append(True)
    protocol.shutdown()
    assert told == [True]
    protocol.connection_lost(None)
