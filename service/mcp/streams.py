"""Standard streams of the protocol, for which a stop of the process does not have to wait.

Reading from a client that sends nothing blocks, and so does writing to a client that reads nothing. A thread of a pool
would keep the process alive until the client reads or writes. Each transfer therefore runs in a daemon thread that a
cancellation abandons.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from threading import Thread
from typing import Final, TypeVar

Result = TypeVar("Result")
READ_BYTES: Final = 65_536


async def read_lines(descriptor: int, longest: int) -> AsyncGenerator[str]:
    """Yield the lines that arrive at a descriptor until its end.

    A line of more than `longest` bytes is cut there, so that memory stays bounded. A cut line is no message. Bytes that
    are not UTF-8 are replaced. Raise OSError.
    """
    os.set_blocking(descriptor, True)
    line = bytearray()
    while part := await _in_daemon_thread(lambda: os.read(descriptor, READ_BYTES)):
        *ended, rest = part.split(b"\n")
        for each in ended:
            yield (line + each)[:longest].decode(errors="replace")
            line.clear()
        line += rest[: max(0, longest - len(line))]
    if line:
        yield line.decode(errors="replace")


class LineWriter:
    """Text stream that writes to a descriptor, with the two methods that the protocol uses."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, True)
        self._descriptor = descriptor
        self._turn = asyncio.Lock()

    async def write(self, text: str) -> None:
        """Write a text completely. Raise OSError, for example if the client has closed the stream."""
        async with self._turn:
            await _in_daemon_thread(lambda: self._write(text.encode(errors="backslashreplace")))

    async def flush(self) -> None:
        """Do nothing, because `write` buffers nothing."""

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[os.write(self._descriptor, left) :]


async def _in_daemon_thread(function: Callable[[], Result]) -> Result:
    # `function` raises no other error than OSError. After a cancellation the thread continues without effect until the
    # process ends.
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def deliver(result: Result | None, error: OSError | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type] - there is a result without an error

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except OSError as raised:
            error = raised
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(deliver, result, error)

    Thread(target=run, daemon=True).start()
    return await done
