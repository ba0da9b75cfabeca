"""What a connection waits for, over requests that come in any pieces and answers that come at any time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry
from uvicorn.server import ServerState

from service.api.connections import Connections, LimitedProtocol
from service.settings import Settings
from service.telemetry.metrics import Metrics

SEED = 20260
CASES = 100
LATER = 10_000.0
"""Seconds, beyond every limit."""
Receive = Callable[[], Coroutine[Any, Any, dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Wire(asyncio.Transport):
    """A transport that keeps what is written, and knows whether it is read."""

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
    """Answers when it is allowed to: `/early` without reading the body, `/late` when it has read it all."""

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


async def test_a_connection_waits_for_its_client_only_while_no_answer_is_due() -> None:
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
            protocol.look_at_clock(asyncio.get_running_loop().time() + (LATER if is_due else 0))
            assert wire.is_open, "no limit is for a client that waits for us"
        protocol.connection_lost(None)


async def test_whoever_keeps_a_connection_waiting_loses_it() -> None:
    source = random.Random(SEED)
    for _ in range(CASES):
        application = Application()
        protocol, wire = opened(application)
        requests = b"".join(request("/early", source.choice((1, 9))) for _ in range(3))
        for place in range(0, source.randint(0, len(requests)), 40):
            protocol.data_received(requests[place : place + 40])
            application.allowed.set()
            await settle()
        protocol.look_at_clock(asyncio.get_running_loop().time() + LATER)
        assert not wire.is_open or b"408 Request Timeout" in wire.written, "closed, or as soon as that is taken"
        protocol.connection_lost(None)


async def test_the_request_that_is_answered_learns_that_its_client_has_gone() -> None:
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


async def test_one_connection_too_many() -> None:
    """It takes the place of one that waits for its client; where all clients wait, it is told so, and they go on."""
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
    opens[2][1].untaken = 1  # of an answer, by a client that does not read
    opens[2][0].look_at_clock(asyncio.get_running_loop().time())
    for displaced in opens:  # who has waited longest for its client
        assert displaced[1].is_open
        _, wire = opened(application, connections, f"127.0.1.{opens.index(displaced)}")
        assert wire.written == b""
        assert displaced[1].written.endswith(b"}") or not displaced[1].is_open
