"""Limit on the memory that the allocator of the C library keeps for the threads of a server process."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

M_ARENA_MAX: Final = -8
"""Parameter of `mallopt` in the GNU C library: the largest number of arenas."""
ARENAS: Final = 1


def share_one_arena() -> None:
    """Make all threads of this process allocate from one arena. Call this function before threads start.

    The GNU C library otherwise gives each thread an arena of its own, up to eight for each core. Memory that one thread
    frees there stays with its arena, so that the process grows for hours. Threads of this process rarely allocate at
    the same time, because the interpreter lock serialises them. Other C libraries have no arenas, and nothing happens.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, ARENAS)
