"""Random sampled Gaussian runs: width and cost of `auto` answers, and agreement of the engines.

The box is log-uniform in sampling rate 1e-6 to 1, steps 1 to 1e6, noise multiplier 0.3 to 100 and baseline 1e-12 to
1/2, in both directions, each run cold. Every answer is compared with that of another engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.report import Reach, Section, Table
from benchmarks.sweeps.processes import spread
from benchmarks.timing import cpu_seconds
from service.privacy.enclosure import Enclosure
from tests.privacy.agreement import Comparison, box_answer, box_comparison
from tests.privacy.random_cases import BoxPoint, box_points

POINTS: Final = 500
SEED: Final = 1
LARGEST_WIDTH: Final = 1e-6
MOST_SECONDS: Final = 0.5
LEAST_SHARE: Final = 0.99
LISTED: Final = 40


@dataclass(frozen=True)
class BoxReading:
    """Answer to one question with its CPU seconds, and its comparison with the answer of another engine."""

    seconds: float
    comparison: Comparison

    @property
    def width(self) -> float:
        """Relative width of the answer's enclosure, or infinity without an answer."""
        found = self.comparison.enclosures
        return found[0].relative_width() if found else math.inf

    @property
    def is_within_reach(self) -> bool:
        return self.width <= LARGEST_WIDTH and self.seconds <= MOST_SECONDS


def measure(points: int = POINTS) -> Section:
    section = Section("Box")
    found = [reading for readings in spread(_readings, box_points(points, SEED)) for reading in readings]
    violations = [str(one.comparison) for one in found if not one.comparison.agrees]
    share = sum(one.is_within_reach for one in found) / len(found)
    narrow = sum(one.width <= LARGEST_WIDTH for one in found) / len(found)
    section.reaches += [
        Reach(
            f"{points} random points of the box, both directions: relative width <= 1e-6 within 0.5 s CPU",
            ">= 99 %",
            f"{share:.1%} of {len(found)} (at any cost {narrow:.1%})",
            share >= LEAST_SHARE,
        ),
        Reach(
            "the same points by a second engine",
            "0 violations",
            f"{len(violations)} of {len(found)} enclosures do not meet",
            not violations,
            required=True,
        ),
    ]
    section.tables += [_summary(found), _beyond(found)]
    if violations:
        section.tables.append(Table("Violations in the box", ("what",), [(one,) for one in violations]))
    return section


def _readings(point: BoxPoint) -> list[BoxReading]:
    return [_reading(point, direction) for direction in ("add", "remove")]


def _reading(point: BoxPoint, direction: str) -> BoxReading:
    seconds: list[float] = []

    def answer() -> Enclosure:
        read: list[Enclosure] = []
        seconds.append(cpu_seconds(lambda: read.append(box_answer(point, direction))))
        return read[0]

    comparison = box_comparison(point, direction, answer)
    return BoxReading(seconds[0] if seconds else math.inf, comparison)


def _summary(found: Sequence[BoxReading]) -> Table:
    seconds, widths = sorted(one.seconds for one in found), sorted(one.width for one in found)
    late = math.ceil(0.95 * len(found)) - 1
    seconds_row, widths_row = ((median(values), values[late], values[-1]) for values in (seconds, widths))
    engines = [one.comparison.engines[-1] for one in found]
    counts = ", ".join(f"{name} {engines.count(name)}" for name in sorted(set(engines)))
    return Table(
        "Power at random points of the box",
        ("what", "median", "95 %", "most"),
        [("CPU s, cold", *seconds_row), ("relative width", *widths_row)],
        (f"Second engines: {counts}.",),
    )


def _beyond(found: Sequence[BoxReading]) -> Table:
    beyond = sorted((one for one in found if not one.is_within_reach), key=lambda one: (-one.width, -one.seconds))
    rows = [(one.comparison.what, f"{one.width:.1e}", f"{one.seconds:.2f}") for one in beyond[:LISTED]]
    left = f" {len(beyond) - LISTED} more are not shown." if len(beyond) > LISTED else ""
    return Table(
        "Points of the box that are wider or dearer, widest first",
        ("point", "relative width", "CPU s"),
        rows,
        (f"{len(beyond)} of {len(found)}.{left}",),
    )
