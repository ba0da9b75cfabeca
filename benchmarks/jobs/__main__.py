"""The parts, one after another, printed as they come."""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from benchmarks.jobs.requests import ADVANTAGE, closed_forms, grid
from benchmarks.jobs.setting import Setting, clustered, embedded

GRID_POINTS = 100_000
LARGE = 1_000_000


def pieces() -> None:
    """What a piece costs beside its computation: empty pieces through the very task, store and queue, one worker."""
    from benchmarks.jobs.overhead import seconds_for_a_piece

    given_out, beside = seconds_for_a_piece()
    parts = f"{1e3 * given_out:.1f} for its message, {1e3 * beside:.1f} for its lease, results and the next message"
    print(f"a piece through Celery, beside its computation: {1e3 * (given_out + beside):.1f} ms ({parts})")


def scaling() -> None:
    """One long enough job on one worker, and on two."""
    rates: list[float] = []
    for workers in (1, 2):
        with clustered(workers) as setting:
            setting.wait(setting.submit(grid(400)))  # what a first piece makes, is made
            rates.append(2_000 / setting.wait(setting.submit(grid(2_000))))
    print(f"2 workers against 1: {rates[1] / rates[0]:.2f} x ({rates[0]:.0f} and {rates[1]:.0f} points/s)")


def product_grid() -> None:
    """1e5 points of a product grid on two workers."""
    for name, setting_of in (("embedded", embedded), ("celery", clustered)):
        with setting_of(2) as setting:
            seconds = setting.wait(setting.submit(grid(GRID_POINTS)))
            print(f"product grid of 1e5 points, {name}, 2 workers: {GRID_POINTS / seconds:.0f} points/s")


def large() -> None:
    """1e6 points: whether it completes, memory of the service, events, and closed forms beside it."""
    large_embedded()
    with clustered(2) as setting:
        print(f"1e6 points, celery: {large_job(setting)}")


def large_embedded() -> None:
    """The same without a cluster."""
    with embedded(2) as setting:
        print(f"1e6 points, embedded: {large_job(setting)}")


def large_job(setting: Setting) -> str:
    """What is seen of it."""
    alone = waits(setting, 0)
    job = setting.submit(closed_forms(LARGE))
    started = time.monotonic()
    done, gaps, memory = threading.Event(), list[float](), [setting.resident_megabytes()]
    reader = threading.Thread(target=lambda: gaps.extend(setting.gaps(job, done)))
    reader.start()
    time.sleep(3)
    beside = waits(setting, 1_000)
    while (told := setting.ask(job))["state"] == "running":
        memory.append(setting.resident_megabytes())
        time.sleep(0.5)
    seconds = time.monotonic() - started
    reader.join()
    read = follow(setting, job, memory)
    return (
        f"{told['state']}, {told['progress']['done']} points in {seconds:.0f} s; all lines read once: {read}; service "
        f"at most {max(memory):.0f} MB; events {max(gaps):.2f} s apart at most; p99 of a closed form beside it "
        f"{1e3 * beside:.2f} ms, alone {1e3 * alone:.2f} ms ({beside / alone:.1f} x)"
    )


def cancelling() -> None:
    """How soon a worker does something else after its job was cancelled."""
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
    """The 99th percentile of 400 closed forms, one after another."""
    found: list[float] = []
    for number in range(first, first + 400):
        body = {"mechanism": {"type": "gaussian", "noise_multiplier": 1 + number / 1e5}, "questions": [ADVANTAGE]}
        started = time.perf_counter()
        setting.ask("/v1/bounds", body)
        found.append(time.perf_counter() - started)
    return statistics.quantiles(found, n=100)[98]


def follow(setting: Setting, job: str, memory: list[float]) -> bool:
    """Whether every point has one line, in their order."""
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


PARTS: dict[str, Callable[[], None]] = {
    "pieces": pieces,
    "scaling": scaling,
    "product_grid": product_grid,
    "cancelling": cancelling,
    "large": large,
    "large_embedded": large_embedded,
}


def main(chosen: list[str]) -> None:
    for name in chosen or [name for name in PARTS if name != "large_embedded"]:
        part: Any = PARTS[name]
        part()
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
