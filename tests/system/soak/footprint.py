"""Memory, processes, descriptors and files of a running service."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import psutil

MEGABYTE: Final = 1e6
SECONDS_PER_HOUR: Final = 3_600.0


@dataclass(frozen=True)
class Footprint:
    """Memory, processes, descriptors and files of a service at one time. Sizes are in bytes."""

    seconds: float
    service_bytes: int
    largest_worker_bytes: int
    workers_bytes: int
    processes: int
    threads: int
    descriptors: int
    files: int
    file_bytes: int


def footprint(service: psutil.Process, folders: tuple[Path, ...], seconds: float) -> Footprint:
    """Measure the processes of a service and the files below its folders."""
    workers: list[int] = []
    descriptors, threads = service.num_fds(), service.num_threads()
    for process in service.children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            workers.append(process.memory_info().rss)
            descriptors += process.num_fds()
            threads += process.num_threads()
    sizes: list[int] = []
    for folder in folders:
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
    return Footprint(
        seconds=seconds,
        service_bytes=service.memory_info().rss,
        largest_worker_bytes=max(workers, default=0),
        workers_bytes=sum(workers),
        processes=1 + len(workers),
        threads=threads,
        descriptors=descriptors,
        files=len(sizes),
        file_bytes=sum(sizes),
    )


def slope(found: list[Footprint], name: str) -> float:
    """Return the least-squares slope of the field `name` over time, per hour."""
    hours = np.array([each.seconds for each in found]) / SECONDS_PER_HOUR
    values = np.array([getattr(each, name) for each in found], dtype=np.float64)
    return float(np.polyfit(hours, values, 1)[0])
