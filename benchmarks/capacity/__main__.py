"""`python -m benchmarks.capacity`: print the table of README.md in this folder."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.capacity.load import (
    AT_ONCE,
    BEATS_A_SECOND,
    BUSY_HOURS_A_DAY,
    CORES_OF_A_MACHINE,
    EVENT_LOOP_REQUESTS_A_SECOND,
    KEPT_SECONDS,
    PIECE_REDIS_COMMANDS,
    PIECE_SECONDS,
    REDIS_COMMANDS_A_SECOND,
    REQUEST_SECONDS,
    REQUESTS_A_SECOND,
    TODAY,
    USED,
)
from benchmarks.capacity.simulation import simulate

FACTORS = (1, 10, 100, 1000)
SEED = 20261


def main() -> None:
    heads = ["times today", "cores for jobs", "machines", "service processes", "Redis commands/s (share of one)"]
    heads += ["results kept", "longest queue", *(f"p95 s: {kind.name}" for kind in TODAY)]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for factor in FACTORS:
        print("| " + " | ".join(row(factor)) + " |")


@dataclass(frozen=True)
class Needs:
    """Needs of the service at a multiple of the load in `load.py`.

    `cores` compute jobs, `instances` serve requests, and `machines` hold both. `commands` are Redis commands a second.
    `gigabytes` are results kept for a week.
    """

    cores: int
    machines: int
    instances: int
    commands: float
    gigabytes: float


def needs(factor: int) -> Needs:
    """Return the machines and the storage that the service needs at `factor` times the load in `load.py`."""
    load = factor * sum(kind.an_hour * kind.work for kind in TODAY) / 3600
    cores = max(2, math.ceil(load / USED))
    waiting = factor * REQUESTS_A_SECOND
    front = max(1, math.ceil(waiting / EVENT_LOOP_REQUESTS_A_SECOND / USED))
    behind = math.ceil(waiting * REQUEST_SECONDS["worker"] / USED)
    kept = factor * sum(kind.an_hour * kind.points * kind.bytes_a_point for kind in TODAY)
    return Needs(
        cores=cores,
        machines=math.ceil((cores + front + behind) / CORES_OF_A_MACHINE),
        instances=front,
        commands=PIECE_REDIS_COMMANDS * load / PIECE_SECONDS + BEATS_A_SECOND * cores + 4 * waiting,
        gigabytes=kept * BUSY_HOURS_A_DAY * KEPT_SECONDS / 86_400 / 1e9,
    )


def row(factor: int) -> list[str]:
    found = needs(factor)
    hours = max(2.0, min(24.0, 240.0 / factor))
    seen = simulate(TODAY, factor, found.cores, hours, SEED)
    times = [f"{percentile(each):.3g}" for each in seen.times]
    share = f"{found.commands:.0f} ({100 * found.commands / REDIS_COMMANDS_A_SECOND:.0f} %)"
    first = [str(factor), str(found.cores), str(found.machines), str(found.instances), share]
    return [*first, f"{found.gigabytes:.1f} GB", f"{seen.longest} (at most {AT_ONCE} a job)", *times]


def percentile(times: list[float]) -> float:
    ordered = sorted(times)
    return ordered[int(0.95 * (len(ordered) - 1))] if ordered else math.nan


if __name__ == "__main__":
    main()
