"""Whether a worker still hears of messages.

A consumer of Celery may be deaf once Redis was away: connected, in its loop, and asking for nothing, with no end. That
is seen from outside: messages wait, and no process of the worker does anything. Then it begins anew.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from billiard import active_children

DEAF_SECONDS: Final = 12.0
"""A worker that hears takes what waits at once; Celery takes some seconds to connect anew."""
_TIME: Final = struct.Struct("d")


@final
class Hearing:
    """Made before the processes of a worker are forked, which share its memory."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        """`waiting`: how many messages nobody has taken."""
        self._waiting = waiting
        self._shared = mmap.mmap(-1, _TIME.size)
        self._waits_since: float | None = None
        self.heard()

    def heard(self) -> None:
        """Said by a process that has a message, and again while it has."""
        _TIME.pack_into(self._shared, 0, time.monotonic())

    def is_deaf(self) -> bool:
        """Asked every few seconds, by one thread. Raises what `waiting` raises."""
        now, since = time.monotonic(), self._waits_since
        self._waits_since = None
        if self._waiting() == 0:
            return False
        self._waits_since = now if since is None else since
        [heard] = _TIME.unpack_from(self._shared)
        return now - max(heard, self._waits_since) > DEAF_SECONDS


def begin_anew() -> None:
    """In place of this process, the same command from its beginning, under the same number."""
    for child in active_children():
        with suppress(OSError):  # it has ended
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - its own command
