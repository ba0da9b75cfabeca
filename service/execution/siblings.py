"""Results of the other processes of one supervisor (`serve --workers N`), found without Redis.

Each process answers the others on a socket in the folder of their supervisor, which only this user can enter. A result
is asked for by its digest where this process does not have it; nothing is written, and nothing is kept twice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, final

FOLDER_VARIABLE: Final = "PROCESSES_OF_ONE_SUPERVISOR"
"""The environment variable by which a supervisor tells its processes their folder."""
LONGEST_QUESTION_BYTES: Final = 4_096
LENGTH_BYTES: Final = 8
TIMEOUT_SECONDS: Final = 1.0

Lookup = Callable[[str, str], bytes | None]


def supervised_folder() -> Path | None:
    """Return the folder that the processes of a supervisor share; None for a process without one."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) if folder else None


@final
class Siblings:
    """The other processes. `lookup` finds a body in the memory of this one, by computation and digest."""

    def __init__(self, folder: Path, lookup: Lookup) -> None:
        self._own = folder / f"{os.getpid()}.sock"
        self._lookup = lookup

    @asynccontextmanager
    async def answered(self) -> AsyncGenerator[None]:
        """Answer the others while the block runs."""
        server = await asyncio.start_unix_server(self._answer, self._own, limit=LONGEST_QUESTION_BYTES)
        try:
            yield
        finally:
            server.close()
            self._own.unlink(missing_ok=True)

    async def find(self, names: Sequence[str], digest: str) -> bytes | None:
        """Return the result of one of these computations from the first sibling that has it, else None."""
        question = " ".join((digest, *names)).encode() + b"\n"
        for socket in self._own.parent.glob("*.sock"):
            if socket != self._own:
                with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                    async with asyncio.timeout(TIMEOUT_SECONDS):
                        body = await _ask(socket, question)
                    if body:
                        return body
        return None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError, TimeoutError):  # it went away, or is none of us
            async with asyncio.timeout(TIMEOUT_SECONDS):
                digest, *names = (await reader.readline()).decode().split()
                found = (self._lookup(name, digest) for name in names)
                body = next((each for each in found if each is not None), b"")
                writer.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)
                await writer.drain()
        writer.close()


async def _ask(socket: Path, question: bytes) -> bytes:
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
