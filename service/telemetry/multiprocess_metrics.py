"""Aggregation of the metrics of several processes that share a folder (multiprocess mode of prometheus_client).

prometheus_client keeps files of every process in the folder. This module moves the counts of ended processes to one
file for each kind of metric, so that the folder does not grow with every restart and no count is lost.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector

GAUGE: Final = "gauge"
ENDED_PROCESSES: Final = "0"
"""Process number in the names of the files that hold the counts of ended processes."""
LOCK_NAME: Final = "lock"
LOCK_SECONDS: Final = 0.05
"""Longest wait for the lock of another process in seconds."""
ATTEMPTS: Final = 3


def aggregated_exposition(folder: Path) -> bytes:
    """Return the aggregated metrics of all processes of a folder in the Prometheus text format.

    The counts of ended processes are moved first, unless another process holds the lock of the folder.
    """
    with _try_lock(folder) as is_ours:
        if is_ours:
            _collect_ended_processes(folder)
        for _ in range(ATTEMPTS - 1):
            try:
                return _merge_registries(folder)
            except FileNotFoundError:  # another process is moving counts
                continue
        return _merge_registries(folder)


def _merge_registries(folder: Path) -> bytes:
    together = CollectorRegistry()
    MultiProcessCollector(together, str(folder))
    return generate_latest(together)


def _collect_ended_processes(folder: Path) -> None:
    for file in sorted(folder.glob("*_*.db")):
        kind, _, number = file.stem.rpartition("_")
        if number == ENDED_PROCESSES or not number.isdigit() or _is_running(int(number)):
            continue
        if not kind.startswith(GAUGE):
            _add(file, folder / f"{kind}_{ENDED_PROCESSES}.db")
        file.unlink(missing_ok=True)


def _add(file: Path, total: Path) -> None:
    untyped: Any = MmapedDict
    sums = untyped(str(total))
    try:
        for key, value, timestamp, _ in untyped.read_all_values_from_file(str(file)):
            sums.write_value(key, sums.read_value(key)[0] + value, timestamp)
    finally:
        sums.close()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


@contextmanager
def _try_lock(folder: Path) -> Generator[bool]:
    with (folder / LOCK_NAME).open("w") as file:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    yield False
                    return
                time.sleep(LOCK_SECONDS / 20)
            else:
                yield True  # closing the file unlocks it
                return
