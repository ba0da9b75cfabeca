"""The load that is reckoned with, and the prices that were measured (`benchmarks/RESULTS.md`, `benchmarks.jobs`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Kind:
    """A kind of job. `an_hour`: how many come in the busiest hour of a day; `seconds`: CPU of one point."""

    name: str
    an_hour: float
    points: int
    seconds: float
    bytes_a_point: int

    @property
    def work(self) -> float:
        """CPU seconds of one job."""
        return self.points * self.seconds


TODAY: Final = (
    Kind("an answer that is fetched later", 200, 1, 0.05, 3_000),
    Kind("assessment of a model at night", 60, 1, 1.5, 12_000),
    Kind("calibration or fifty digits", 20, 1, 20.0, 4_000),
    Kind("grid of a planner", 6, 10_000, 0.004, 100),
    Kind("grid of a million points", 0.25, 1_000_000, 0.001, 100),
)
"""One team that plans runs and re-assesses its models: about half a core in its busiest hour."""

REQUESTS_A_SECOND: Final = 5.0
"""Closed forms and lines that somebody waits for, in the same hour."""
REQUEST_SECONDS: Final = {"event loop": 0.0004, "worker": 0.003}
"""CPU of one such request: where it is answered, and in a worker, of those that are not known yet."""

PIECE_SECONDS: Final = 0.5
PIECE_OVERHEAD_SECONDS: Final = 0.006
PIECE_REDIS_COMMANDS: Final = 12
"""Of a piece: two scripts, a beat or two, a message in and out, its acknowledgement."""
BEATS_A_SECOND: Final = 2.0
REDIS_COMMANDS_A_SECOND: Final = 40_000
"""What one Redis does on one core, half of it scripts: less than half of what a pipeline of single commands reaches."""
AT_ONCE: Final = 64
"""Pieces of one job that are on their way."""
KEPT_SECONDS: Final = 7 * 86_400
BUSY_HOURS_A_DAY: Final = 8
CORES_OF_A_MACHINE: Final = 16
USED: Final = 0.7
"""Share of the cores that is planned with: the rest is for what comes in bunches."""
EVENT_LOOP_REQUESTS_A_SECOND: Final = 1_500
"""Of one process of the service, with what HTTP costs."""
