"""A light load generator: keep-alive connections, each with one open request, for a given time.

With `period_seconds` a connection sends on a schedule. Latency then counts from the scheduled time, so that a server
cannot hide a stall by receiving fewer requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import uvloop

LATE_SECONDS: Final = 30.0
LENGTH: Final = b"content-length: "


@dataclass
class Load:
    """Measured load: latencies in seconds of all requests that were answered within `seconds`."""

    seconds: float
    latencies: list[float] = field(default_factory=list[float])

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def median(self) -> float:
        return median(self.latencies)

    @property
    def p90(self) -> float:
        return sorted(self.latencies)[int(0.9 * len(self.latencies))]


def load(
    port: int,
    bodies: Iterator[bytes],
    *,
    connections: int,
    seconds: float,
    period_seconds: float = 0.0,
    header: bytes = b"",
) -> Load:
    """Post request bodies to /v1/bounds from several connections for some seconds, and return the latencies.

    `header` is a further header line of each request, and `period_seconds` the time between two requests of a
    connection. Raise RuntimeError if a response is not a 200.
    """
    return uvloop.run(
        load_in_loop(port, bodies, connections=connections, seconds=seconds, period=period_seconds, header=header)
    )


async def load_in_loop(
    port: int,
    bodies: Iterator[bytes],
    *,
    connections: int,
    seconds: float,
    period: float = 0.0,
    header: bytes = b"",
) -> Load:
    loop = asyncio.get_running_loop()
    found = Load(seconds)
    start = time.perf_counter()
    opened: list[_Connection] = []
    for index in range(connections):
        first = start + period * index / connections
        connection = _Connection(found, bodies, first, start + seconds, period, header)
        await loop.create_connection(lambda made=connection: made, "127.0.0.1", port)
        opened.append(connection)
    await asyncio.wait_for(asyncio.gather(*(one.done for one in opened)), seconds + LATE_SECONDS)
    return found


class _Connection(asyncio.Protocol):
    """HTTP connection that sends a request, waits for the whole response, and repeats both until the end."""

    def __init__(
        self, found: Load, bodies: Iterator[bytes], first: float, end: float, period: float, header: bytes
    ) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._found = found
        self._bodies = bodies
        self._due = first
        self._end = end
        self._period = period
        self._header = header
        self._buffer = b""
        self._missing = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.WriteTransport = transport  # type: ignore[assignment]
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._missing < 0:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._missing = _length(self._buffer[:end]) - (len(self._buffer) - end - 4)
        else:
            self._missing -= len(data)
        if self._missing == 0:
            self._answered()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or RuntimeError("the server closed the connection"))

    def _answered(self) -> None:
        self._buffer, self._missing = b"", -1
        now = time.perf_counter()
        if now <= self._end:
            self._found.latencies.append(now - self._sent)
        self._due = self._due + self._period if self._period else now
        if max(self._due, now) >= self._end:
            self.done.set_result(None)
            self._transport.close()
        elif self._due > now:
            asyncio.get_running_loop().call_later(self._due - now, self._send)
        else:
            self._send()

    def _send(self) -> None:
        body = next(self._bodies)
        self._sent = self._due if self._period else time.perf_counter()
        self._transport.write(
            b"POST /v1/bounds HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"%sContent-Length: %d\r\n\r\n%s" % (self._header, len(body), body)
        )


def _length(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    start = head.lower().index(LENGTH) + len(LENGTH)
    return int(head[start:].partition(b"\r\n")[0])
