"""The assumed load, and the costs as `benchmarks.jobs` and `benchmarks.http` measured them on MEASURED.

The costs are older than credentials, limits on work, the audit stream and traces, and have no part of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEASURED: Final = "2026-11-23"
"""Day of the measurements, on two cores. Change it together with the costs."""


@dataclass(frozen=True)
class Kind:
    """Kind of job in the assumed load.

    `an_hour` is the number of jobs in the busiest hour of a day. `points` is the number of points of a job, and
    `seconds` the CPU time of one point.
    """

    name: str
    an_hour: float
    points: int
    seconds: float
    bytes_a_point: int

    @property
    def work(self) -> float:
        """CPU seconds of one job of this kind."""
        return self.points * self.seconds


TODAY: Final = (
    Kind("an answer that is fetched later", 200, 1, 0.05, 3_000),
    Kind("assessment of a model at night", 60, 1, 1.5, 12_000),
    Kind("calibration or fifty digits", 20, 1, 20.0, 4_000),
    Kind("grid of a planner", 6, 10_000, 0.004, 100),
    Kind("grid of a million points", 0.25, 1_000_000, 0.001, 100),
)
"""One team that plans runs and assesses its models again: about half a core in the team's busiest hour."""

REQUESTS_A_SECOND: Final = 5.0
"""Interactive requests (closed forms and inversion contours) in the busiest hour."""
REQUEST_SECONDS: Final = {"event loop": 0.0004, "worker": 0.003}
"""CPU seconds of one such request: in the service process, and in a worker for results that are not cached."""

PIECE_SECONDS: Final = 0.5
PIECE_OVERHEAD_SECONDS: Final = 0.006
PIECE_REDIS_COMMANDS: Final = 12
"""Redis commands of one chunk: two scripts, one or two renewals, a message in and out, its acknowledgement."""
BEATS_A_SECOND: Final = 2.0
REDIS_COMMANDS_A_SECOND: Final = 40_000
"""Commands per second of one Redis on one core, half of them scripts.

A pipeline of single commands reaches twice as many.
"""
AT_ONCE: Final = 64
"""Chunks of one job that are queued or running at the same time."""
KEPT_SECONDS: Final = 7 * 86_400
BUSY_HOURS_A_DAY: Final = 8
CORES_OF_A_MACHINE: Final = 16
USED: Final = 0.7
"""Planned share of the cores. The rest absorbs bursts."""
EVENT_LOOP_REQUESTS_A_SECOND: Final = 1_500
"""Requests per second of one process of the service, including the cost of HTTP."""
