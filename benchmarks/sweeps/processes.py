"""Work spread over two processes: their CPU seconds are each their own."""

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
    """In the order given; `work` and what it takes and gives go from process to process."""
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(work, over, chunksize=AT_ONCE))
