"""Lookup of results in the other processes of one supervisor (`serve --workers N`), without Redis.

Each process serves the bodies in its memory on a Unix socket in the folder of the supervisor, which only the user of
the service can enter. A process that lacks a result requests the result by digest. Requests change nothing in either
process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, final

FOLDER_VARIABLE: Final = "PROCESSES_OF_ONE_SUPERVISOR"
"""Environment variable with the folder of the sockets, set by the supervisor."""
MAX_REQUEST_BYTES: Final = 4_096
LENGTH_BYTES: Final = 8
TIMEOUT_SECONDS: Final = 1.0

Lookup = Callable[[str, str], bytes | None]


def supervised_folder() -> Path | None:
    """Return the folder that the processes of a supervisor share, or None for a process without a supervisor."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) if folder else None


@final
class SiblingProcesses:
    """Client and server of the sockets through which the processes of one supervisor exchange results.

    `folder` is the folder of the supervisor. `lookup` finds a response body in this process by computation and digest.
    """

    def __init__(self, folder: Path, lookup: Lookup) -> None:
        self._own = folder / f"{os.getpid()}.sock"
        self._lookup = lookup

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[None]:
        """Serve requests for stored results from the other processes of the supervisor while the block runs."""
        server = await asyncio.start_unix_server(self._answer, self._own, limit=MAX_REQUEST_BYTES)
        try:
            yield
        finally:
            server.close()
            self._own.unlink(missing_ok=True)

    async def find(self, names: Sequence[str], digest: str) -> bytes | None:
        """Return the first result with this digest among the other processes, or None.

        `names` are the computations that the digest may belong to. The processes are asked one after the other. A
        process that does not respond within one second counts as without the result.
        """
        question = " ".join((digest, *names)).encode() + b"\n"
        for socket in self._own.parent.glob("*.sock"):
            if socket != self._own:
                with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                    async with asyncio.timeout(TIMEOUT_SECONDS):
                        body = await _request(socket, question)
                    if body:
                        return body
        return None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, TimeoutError):  # the client disconnected, or does not know the protocol
            async with asyncio.timeout(TIMEOUT_SECONDS):
                digest, *names = (await reader.readline()).decode().split()
                found = (self._lookup(name, digest) for name in names)
                body = next((each for each in found if each is not None), b"")
                writer.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
                await writer.drain()
        writer.close()


async def _request(socket: Path, question: bytes) -> bytes:
    try:
        reader, writer = await asyncio.open_unix_connection(socket)
    except ConnectionRefusedError:  # its process was killed
        socket.unlink(missing_ok=True)  # noqa: ASYNC240 - nothing that waits
        raise
    try:
        writer.write(question)
        return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big"))
    finally:
        writer.close()
