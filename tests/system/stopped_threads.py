"""A disk that is busy, as a process sees it: the thread that waits for the disk goes on no more."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


@contextmanager
def stopped_thread(process: int, named: str) -> Generator[None]:
    """Stop one thread of a child process, by the begin of its name; the others go on. In the block the process may be
    sent a signal that kills it, and ends after the block. Raises OSError, LookupError.
    """
    if sys.platform != "linux":
        raise LookupError("threads of other processes are stopped on Linux only")
    libc = ctypes.CDLL(None, use_errno=True)

    def trace(request: int, thread: int) -> None:
        if libc.ptrace(request, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")

    tasks = Path(f"/proc/{process}/task")
    threads = [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text("utf-8").startswith(named)]
    if not threads:
        raise LookupError(f"no thread {named}")
    [thread] = threads
    trace(SEIZE, thread)
    trace(INTERRUPT, thread)
    os.waitpid(thread, WALL)
    yield
    try:
        trace(DETACH, thread)
    except OSError:  # its process was killed: who traces a thread has to take note of its end before that ends
        os.waitpid(thread, WALL)
