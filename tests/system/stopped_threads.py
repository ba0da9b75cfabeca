"""One thread of another process that goes on no more, as if its disk were busy, or as if it had missed its call."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


def thread_named(process: int, begin: str) -> int:
    """A thread of a process, by the begin of its name. Raises LookupError."""
    tasks = Path(f"/proc/{process}/task")
    threads = [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text("utf-8").startswith(begin)]
    if not threads:
        raise LookupError(f"no thread {begin}")
    [thread] = threads
    return thread


@contextmanager
def stopped_thread(process: int, thread: int) -> Generator[None]:
    """Stop one thread of a child process; the others go on. In the block the process may be sent a signal that kills
    it, and ends after the block; or another thread may put another program in its place. Raises OSError, LookupError.
    """
    if sys.platform != "linux":
        raise LookupError("threads of other processes are stopped on Linux only")
    libc = ctypes.CDLL(None, use_errno=True)

    def trace(request: int, thread: int) -> None:
        if libc.ptrace(request, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    trace(SEIZE, thread)
    trace(INTERRUPT, thread)
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        try:
            trace(DETACH, thread)
        except OSError:  # its process was killed: who traces a thread has to take note of its end before that ends
            if thread != process:
                os.waitpid(thread, WALL)
