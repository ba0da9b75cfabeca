"""A stopped thread of another process, as if its disk were busy or its wake-up were lost."""

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
    """Return a thread of a process whose name starts with `begin`. Raise LookupError if there is none."""
    tasks = Path(f"/proc/{process}/task")
    threads = [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text("utf-8").startswith(begin)]
    if not threads:
        raise LookupError(f"no thread {begin}")
    [thread] = threads
    return thread


@contextmanager
def stopped_thread(process: int, thread: int) -> Generator[None]:
    """Stop one thread of a child process while the others run.

    Within the block the process may get a signal that kills it, which takes effect after the block; or another thread
    may replace the program. Raise OSError or LookupError.
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
        except OSError:
            # The process was killed: the tracer has to notice the end of the thread before the process can end.
            if thread != process:
                os.waitpid(thread, WALL)
