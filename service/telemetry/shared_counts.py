"""Counts of processes that share a folder (the multi-process mode of prometheus_client), added up.

prometheus_client leaves files of every process in the folder. Here the counts of processes that have ended are moved to
one file for each kind of metric, so that the folder does not grow with every restart and no count is lost.
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
ENDED: Final = "0"
"""Stands for the processes that have ended where a file is named after a process."""
LOCK_NAME: Final = "lock"
LOCK_SECONDS: Final = 0.05
"""The longest wait for another process that adds up: the event loop stands still meanwhile."""
ATTEMPTS: Final = 3


def exposition_of(folder: Path) -> bytes:
    """Return the metrics of all processes of a folder in the Prometheus text format."""
    with _locked(folder) as is_ours:
        if is_ours:
            _move_counts_of_ended(folder)
        for _ in range(ATTEMPTS - 1):
            try:
                return _together(folder)
            except FileNotFoundError:  # another process moves counts just now
                continue
        return _together(folder)


def _together(folder: Path) -> bytes:
    together = CollectorRegistry()
    MultiProcessCollector(together, str(folder))
    return generate_latest(together)


def _move_counts_of_ended(folder: Path) -> None:
    """Add counts of processes that have ended to one file of each kind. Their gauges describe nothing any more."""
    for file in sorted(folder.glob("*_*.db")):
        kind, _, number = file.stem.rpartition("_")
        if number == ENDED or not number.isdigit() or _is_running(int(number)):
            continue
        if not kind.startswith(GAUGE):
            _add(file, folder / f"{kind}_{ENDED}.db")
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
def _locked(folder: Path) -> Generator[bool]:
    """Whether no other process moves counts while the block runs."""
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
