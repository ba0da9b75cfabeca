"""Composed delta(epsilon) far out, close to the smallest double."""

from __future__ import annotations

from typing import Final

from benchmarks.cases import COMPOSED, Run
from benchmarks.report import Reach, Section, Table
from benchmarks.timing import cpu_seconds
from service.privacy.enclosure import Enclosure
from service.privacy.questions import profile

DELTAS: Final = (1e-100, 1e-290)
LARGEST_WIDTH: Final = 1e-6


def measure() -> Section:
    section = Section("Far tails")
    rows: list[tuple[object, ...]] = []
    widths: list[float] = []
    for run in COMPOSED:
        for delta in DELTAS:
            epsilon, read, seconds = _tail(run, delta)
            widths.append(read.relative_width())
            rows.append((run.name, f"{delta:g}", f"{epsilon!r}", f"{read.upper!r}", widths[-1], seconds * 1e3))
    section.tables.append(
        Table(
            "delta(epsilon) where it is about 1e-100 and 1e-290",
            ("run", "delta", "epsilon asked", "upper end", "relative width", "CPU ms, once, cold"),
            rows,
        )
    )
    section.reaches.append(
        Reach(
            "composed delta(epsilon) at 1e-100 and 1e-290",
            "relative width <= 1e-6",
            f"largest {max(widths):.2g} over C1, C2, C3, C5, C6",
            max(widths) <= LARGEST_WIDTH,
        )
    )
    return section


def _tail(run: Run, delta: float) -> tuple[float, Enclosure, float]:
    epsilon = profile.epsilon(run.curves().both, delta).value.upper
    fresh = run.curves()
    read: list[Enclosure] = []
    seconds = cpu_seconds(lambda: read.append(profile.delta(fresh.both, epsilon).value))
    return epsilon, read[0], seconds
