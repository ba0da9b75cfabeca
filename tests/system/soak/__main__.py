"""Run mixed load against a served process, and report what grows: `make soak MINUTES=30`.

Before the warm-up, distinct requests fill the bounded caches. In the warm-up modules are imported, and the memory of
the allocator reaches its level. The service uses the allocator of the C library, because that of Python takes 1 MiB at
a time, and one such step looks like 3 to 5 MB an hour.

Before and after the measured part the load pauses until the service is quiet, and both pauses are compared: every
process, descriptor and file that is more after the load has leaked. The last lines say what failed and what was not
judged. Exit code 1: something failed, or an answer was not expected.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2
import psutil

from service.jobs.local.scheduler import IDLE_SECONDS
from tests.system.jobs import wait_for
from tests.system.running_server import running_server
from tests.system.soak.footprint import MEGABYTE, Footprint, footprint, slope
from tests.system.soak.load import fill_caches, mixed_load

LARGEST_SLOPE_MB: Final = 1.0
"""Tolerated growth of the service process after warm-up, in megabytes per hour."""
SHORTEST_TEST_MINUTES: Final = 20.0
"""A shorter run reports its slope, but does not judge the slope: noise of single megabytes exceeds the limit."""
NOT_JUDGED: Final = (
    f"NOT JUDGED: growth of memory. Runs below {SHORTEST_TEST_MINUTES:g} minutes are too short for that: "
    f"make soak MINUTES={SHORTEST_TEST_MINUTES:g}"
)
SAMPLE_SECONDS: Final = 2.0
CACHE_ENTRIES, CACHE_BYTES = "1024", str(2**21)
"""Few enough that the memory cache is full at the beginning of the warm-up.

The bytes are the narrower limit: bodies have 1 to 100 kB, so that the bytes of 256 entries vary by a megabyte.
"""
QUIET_SECONDS: Final = int(IDLE_SECONDS) + 5
"""Time without any change after which a service is quiet. Processes of jobs end after `IDLE_SECONDS`."""
COUNTED: Final = ("processes", "threads", "descriptors", "files")


class Run:
    """One service under load, and what it held over time."""

    def __init__(self, client: httpx2.Client, folders: tuple[Path, ...], clients: int) -> None:
        self._client = client
        self._service = psutil.Process(client.process_id)  # type: ignore[attr-defined]
        self._folders, self._clients = folders, clients
        self._numbers = itertools.count()
        self._began = time.monotonic()
        self.failures: list[str] = []
        """Phrases about unexpected responses."""

    def fill_caches(self) -> None:
        """Fill the bounded caches of the service."""
        fill_caches(self._client, self._numbers)
        show("full", self.now())

    def now(self) -> Footprint:
        """Return the current footprint of the service."""
        return footprint(self._service, self._folders, time.monotonic() - self._began)

    def under_load(self, seconds: float) -> list[Footprint]:
        """Run the load, and return a footprint every two seconds."""
        found: list[Footprint] = []
        until = time.monotonic() + seconds
        with mixed_load(self._client, self._clients, self._numbers) as received:
            while time.monotonic() < until:
                time.sleep(SAMPLE_SECONDS)
                found.append(self.now())
                if len(found) % 15 == 0:
                    show("load", found[-1])
        write(f"  statuses {dict(sorted(received.statuses.items()))}")
        self.failures += received.failures()
        return found

    def quiet(self) -> Footprint:
        """Wait until processes of jobs and idle connections have ended, and measure the service."""
        counts: list[tuple[int, ...]] = []

        def is_settled() -> bool:
            time.sleep(1)
            counts.append(tuple(getattr(self.now(), name) for name in COUNTED))
            return len(counts) > QUIET_SECONDS and len(set(counts[-QUIET_SECONDS:])) == 1

        wait_for(is_settled)
        show("quiet", found := self.now())
        return found


def write(text: str) -> None:
    """Write one line of the report."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show(when: str, found: Footprint) -> None:
    """Write one footprint as a line."""
    write(
        f"{found.seconds / 60:6.1f} min {when:>5}: service {found.service_bytes / MEGABYTE:7.1f} MB, "
        f"workers {found.workers_bytes / MEGABYTE:7.1f} MB (largest {found.largest_worker_bytes / MEGABYTE:.1f}), "
        f"{found.processes} processes, {found.threads} threads, {found.descriptors} descriptors, "
        f"{found.files} files of {found.file_bytes / MEGABYTE:.2f} MB"
    )


@dataclass(frozen=True)
class Outcome:
    """Result of a run of `minutes`: growth under load in megabytes per hour, and what the service left behind."""

    minutes: float
    growth: float
    leaked: Mapping[str, int]
    alive: int
    files: Sequence[str]
    responses: Sequence[str] = ()
    """Phrases about unexpected responses."""

    @property
    def is_growth_judged(self) -> bool:
        """Whether the run was long enough to compare `growth` with its limit."""
        return self.minutes >= SHORTEST_TEST_MINUTES

    def failures(self) -> list[str]:
        """Return a sentence for each failure."""
        found = [f"{more} more {name} in the second quiet time" for name, more in self.leaked.items() if more > 0]
        if self.is_growth_judged and self.growth > LARGEST_SLOPE_MB:
            found.append(f"memory grows by {self.growth:.2f} MB per hour, at most {LARGEST_SLOPE_MB:g} is tolerated")
        found += self.responses
        if self.alive:
            found.append(f"{self.alive} processes are alive after the end")
        if self.files:
            found.append(f"left in the temporary folder: {', '.join(self.files)}")
        return [f"FAILED: {each}." for each in found]

    def verdict(self) -> list[str]:
        """Return the last lines of the report: failures, what was not judged, and what passed."""
        lines = self.failures()
        if not self.is_growth_judged:
            lines.append(NOT_JUDGED)
        if not self.failures():
            memory = "growth of memory, " if self.is_growth_judged else ""
            lines.append(f"Passed: {memory}{', '.join(COUNTED)}, the end of all processes, the temporary folder.")
        return lines


def soak(minutes: float, clients: int, folder: Path) -> bool:
    """Run the load, write the report, and return whether nothing failed."""
    folders = folder / "data", folder / "temporary"
    for each in folders:
        each.mkdir()
    os.environ |= {"TMPDIR": str(folders[1]), "PYTHONMALLOC": "malloc"}
    settings = {"memory_cache_entries": CACHE_ENTRIES, "memory_cache_bytes": CACHE_BYTES, "worker_niceness": "0"}
    settings |= {"log_level": "critical", "keep_alive_seconds": "5"}
    with running_server(folder, **settings) as client:
        run = Run(client, folders, clients)
        run.fill_caches()
        run.under_load(20 * minutes)
        first = run.quiet()
        measured = run.under_load(40 * minutes)
        last = run.quiet()
        tree = psutil.Process(client.process_id).children(recursive=True)  # type: ignore[attr-defined]
    _, alive = psutil.wait_procs(tree, timeout=10)
    outcome = Outcome(
        minutes,
        slope(measured, "service_bytes") / MEGABYTE,
        {name: getattr(last, name) - getattr(first, name) for name in COUNTED},
        len(alive),
        sorted(path.name for path in folders[1].iterdir()),
        run.failures,
    )
    write(f"service: {outcome.growth:+.2f} MB per hour under load after warm-up")
    half = measured[len(measured) // 2 :]
    write(f"service: {slope(half, 'service_bytes') / MEGABYTE:+.2f} MB per hour in the last half of it")
    write(f"service: {(last.service_bytes - first.service_bytes) / MEGABYTE:+.2f} MB between the two quiet times")
    write(f"largest worker: {slope(measured, 'largest_worker_bytes') / MEGABYTE:+.2f} MB per hour")
    write("\n".join(outcome.verdict()))
    return not outcome.failures()


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=4)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if soak(chosen.minutes, chosen.clients, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
