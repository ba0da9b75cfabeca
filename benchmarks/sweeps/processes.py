"""Work distributed over two processes, each of which measures its own CPU seconds."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")

PROCESSES: Final = 2
AT_ONCE: Final = 4


def spread(work: Callable[[Given], Found], over: Sequence[Given]) -> list[Found]:
    """Map `work` over the items of `over` in several processes, in order.

    Work, arguments and results are pickled between processes.
    """
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(work, over, chunksize=AT_ONCE))
