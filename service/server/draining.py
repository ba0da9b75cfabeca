"""Servers of one process: the public server, which drains before it stops, and the server for operators."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Final, final

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

if TYPE_CHECKING:
    import socket

CLOSING_SECONDS: Final = 1
KEEP_ALIVE_SECONDS: Final = 75
"""Keep-alive time. It exceeds the time between two scrapes of Prometheus."""


@final
class DrainingServer(uvicorn.Server):
    """Server that continues for `drain_seconds` after a signal.

    Meanwhile the event `draining` is set, and `/readyz` reports that the service is not ready.

    A second signal ends the wait.
    """

    def __init__(self, configuration: uvicorn.Config, drain_seconds: float, draining: Event) -> None:
        super().__init__(configuration)
        self._drain_seconds = drain_seconds
        self._draining = draining
        self._signal: tuple[int, FrameType | None, float] | None = None

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        is_first = not self._draining.is_set()
        self._draining.set()
        if is_first and self._drain_seconds:
            self._signal = sig, frame, time.monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)

    @override
    async def on_tick(self, counter: int) -> bool:
        if self._signal is not None and not self.should_exit and time.monotonic() >= self._signal[2]:
            super().handle_exit(*self._signal[:2])
        return await super().on_tick(counter)


@final
class _SecondaryServer(uvicorn.Server):
    # another server of the same process stops this one
    def __init__(self, configuration: uvicorn.Config) -> None:
        super().__init__(configuration)
        self.is_listening = asyncio.Event()

    @override
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_listening.set()


@asynccontextmanager
async def serve_on_socket(app: ASGIApp, listener: socket.socket | None) -> AsyncGenerator[None]:
    """Serve an application on the socket `listener` while the block runs, in the event loop of another server.

    Do nothing without a socket (None).
    """
    if listener is None:
        yield
        return
    configuration = uvicorn.Config(
        app,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    server = _SecondaryServer(configuration)
    running = asyncio.create_task(server.serve([listener]))
    try:
        await server.is_listening.wait()
        yield
    finally:
        server.should_exit = True
        await running
