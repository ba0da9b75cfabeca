"""Benchmarks of jobs, run one after another and printed as they finish."""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from benchmarks.jobs.requests import ADVANTAGE, GRIDS, closed_forms, training_runs
from benchmarks.jobs.setting import Setting, Watched, clustered, embedded, watched

GRID_POINTS = 100_000
LARGE = 1_000_000
SAMPLES = 2_000
"""Number of closed-form requests, alone and beside a large job, so that they span several of its chunks."""


def pieces() -> None:
    """Print the cost of a chunk of a job (claim, transport and storage) beside its computation."""
    from benchmarks.jobs.overhead import seconds_for_a_piece

    print(f"a piece in a cluster, beside its computation: {1e3 * seconds_for_a_piece():.1f} ms")


def scaling() -> None:
    """Print how much faster two processes compute a sufficiently long job than one process."""
    for name, setting_of in SETTINGS.items():
        seen: list[Watched] = []
        for processes in (1, 2):
            with setting_of(processes) as setting:
                setting.wait(setting.submit(training_runs(5, 5, 10)))  # The first chunk builds what later chunks reuse.
                seen.append(watched(setting, training_runs(40, 40, 10), 16_000, processes))
            print(f"{name}, {processes}: {seen[-1]}")
        one, two = seen
        by_clock = (two.points / two.seconds) / (one.points / one.seconds)
        print(f"2 against 1, {name}: {by_clock:.2f} x by the clock, {two.rate / one.rate:.2f} x on cores of their own")


def product_grid() -> None:
    """Print the time of a job with 1e5 points of product grids on two processes."""
    for name, setting_of in SETTINGS.items():
        with setting_of(2) as setting:
            for grid, request in GRIDS.items():
                print(f"{grid}, {name}: {watched(setting, request, GRID_POINTS, 2)}", flush=True)


def large() -> None:
    """Run a job of 1e6 points on both backends, and check that it completes.

    The output has memory of the service, seconds between events, and closed-form requests sent meanwhile.
    """
    large_embedded()
    large_celery()


def large_celery() -> None:
    """Run the job of 1e6 points on a cluster of workers (Celery backend)."""
    with clustered(2) as setting:
        print(f"1e6 points, celery: {large_job(setting)}")


def large_embedded() -> None:
    """Run the job of 1e6 points inside the service (embedded backend)."""
    with embedded(2) as setting:
        print(f"1e6 points, embedded: {large_job(setting)}")


def large_job(setting: Setting) -> str:
    """Run the job of 1e6 points on a service, and return the measurements as text."""
    alone = waits(setting, 0)
    redis_before = setting.redis_megabytes()
    job = setting.submit(closed_forms(LARGE))
    started = time.monotonic()
    done, gaps, memory = threading.Event(), list[float](), [setting.resident_megabytes()]
    reader = threading.Thread(target=lambda: gaps.extend(setting.gaps(job, done)))
    reader.start()
    time.sleep(3)
    beside = waits(setting, SAMPLES)
    while (told := setting.ask(job))["state"] == "running":
        memory.append(setting.resident_megabytes())
        time.sleep(0.5)
    seconds = time.monotonic() - started
    reader.join()
    redis_after = setting.redis_megabytes()
    read = follow(setting, job, memory)
    kept = ""
    if redis_before is not None and redis_after is not None:
        held, file = (after - before for after, before in zip(redis_after, redis_before, strict=True))
        kept = f"; Redis {held:.1f} MB of memory, {file:.1f} MB of its file"
    return (
        f"{told['state']}, {told['progress']['done']} points in {seconds:.0f} s; all lines read once: {read}; service "
        f"at most {max(memory):.0f} MB; events {max(gaps):.2f} s apart at most; p99 of a closed form beside it "
        f"{1e3 * beside:.2f} ms, alone {1e3 * alone:.2f} ms ({beside / alone:.1f} x){kept}"
    )


def cancelling() -> None:
    """Print how soon a worker starts other work after its job is cancelled."""
    from benchmarks.jobs.requests import TRUTH

    long = {**TRUTH, "method": "ground_truth", "digits": 50}
    long["questions"] = [{"type": "delta", "epsilon": 1 + n / 300} for n in range(256)]
    for name, setting_of in (("embedded", embedded), ("celery", clustered)):
        with setting_of(1) as setting:
            quick = {"mechanism": {"type": "gdp", "mu": 1.0}, "questions": [ADVANTAGE]}
            setting.wait(setting.submit(quick, "bounds"))
            job = setting.submit(long, "bounds")
            while setting.ask(job)["state"] == "queued":
                time.sleep(0.05)
            time.sleep(3)
            started = time.monotonic()
            setting.ask(job, method="DELETE")
            setting.wait(setting.submit(quick, "bounds"))
            print(f"cancelled, {name}: another job was answered {time.monotonic() - started:.2f} s later")


def waits(setting: Setting, first: int) -> float:
    """Return the 99th percentile of the seconds of closed-form requests to a service, sent one by one.

    `first` makes their numbers new.
    """
    found: list[float] = []
    for number in range(first, first + SAMPLES):
        body = {"mechanism": {"type": "gaussian", "noise_multiplier": 1 + number / 1e5}, "questions": [ADVANTAGE]}
        started = time.perf_counter()
        setting.ask("/v1/bounds", body)
        found.append(time.perf_counter() - started)
    return statistics.quantiles(found, n=100)[98]


def follow(setting: Setting, job: str, memory: list[float]) -> bool:
    """Read the result stream of a job, and return whether it has one line for each point, in order.

    `memory` receives the memory of the service meanwhile.
    """
    request = urllib.request.Request(
        f"http://127.0.0.1:{setting.port}{job}/results", headers={"Accept": "application/x-ndjson"}
    )
    expected = 0
    with urllib.request.urlopen(request, timeout=150) as answer:
        for line in answer:
            if json.loads(line)["point"] != expected:
                return False
            expected += 1
            if expected % 50_000 == 0:
                memory.append(setting.resident_megabytes())
    return expected == LARGE


SETTINGS = {"embedded": embedded, "celery": clustered}
PARTS: dict[str, Callable[[], None]] = {
    "pieces": pieces,
    "scaling": scaling,
    "product_grid": product_grid,
    "cancelling": cancelling,
    "large": large,
    "large_embedded": large_embedded,
    "large_celery": large_celery,
}


def main(chosen: list[str]) -> None:
    for name in chosen or [name for name in PARTS if not name.startswith("large_")]:
        part: Any = PARTS[name]
        part()
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
