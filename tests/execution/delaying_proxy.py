"""A TCP proxy that delivers every piece some milliseconds late in both directions, like a distant server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


@asynccontextmanager
async def distant(url: str, round_trip_seconds: float) -> AsyncGenerator[str]:
    """Yield the address of a proxy for the Redis at `url`. Opening a connection also takes one round trip."""
    address = urlsplit(url)
    delay = round_trip_seconds / 2

    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        task.add_done_callback(connections.discard)
        with suppress(asyncio.CancelledError):  # At the end.
            await carry_between(reader, writer)

    async def carry_between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _closed_at_end(writer):
            await asyncio.sleep(round_trip_seconds)
            opening = (
                asyncio.open_unix_connection(address.path)
                if address.scheme == "unix"
                else asyncio.open_connection(address.hostname, address.port)
            )
            there, back = await opening
            async with _closed_at_end(back):
                with suppress(ExceptionGroup):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(_carry(reader, back, delay))
                        group.create_task(_carry(there, writer, delay))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        credentials, at, _ = address.netloc.rpartition("@")
        yield address._replace(scheme="redis", netloc=f"{credentials}{at}127.0.0.1:{port}").geturl()
    finally:
        server.close()
        for task in tuple(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


@asynccontextmanager
async def _closed_at_end(writer: asyncio.StreamWriter) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay: float) -> None:
    """Forward all data from `source` to `target`, each piece `delay` seconds after it arrived.

    Latency is added, bandwidth is not limited.
    """
    loop = asyncio.get_running_loop()
    while piece := await source.read(2**16):
        loop.call_later(delay, target.write, piece)
    await asyncio.sleep(2 * delay)
    with suppress(OSError):
        target.close()
