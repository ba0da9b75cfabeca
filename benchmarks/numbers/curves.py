"""A whole trade-off curve: 1000 false positive rates from 1e-12 to 1/2, cold, in both directions."""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.cases import COMPOSED, Run
from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import median_cpu_seconds
from service.privacy.enclosure import EnclosureArray

RATES: Final = np.geomspace(1e-12, 0.5, 1000)
LARGEST_SECONDS: Final = 0.020


def measure() -> Section:
    section = Section("Curves")
    found = {run: median_cpu_seconds(lambda run=run: run.curves().add.points(RATES)) for run in COMPOSED}
    measured = ", ".join(f"{run.name} {milliseconds(seconds)}" for run, seconds in found.items())
    met = max(found.values()) <= LARGEST_SECONDS
    section.reaches.append(Reach("a certified curve of 1000 points, 1e-12 to 1/2, cold", "<= 20 ms", measured, met))
    section.tables.append(
        Table(
            "1000 points from 1e-12 to 1/2",
            ("run (noise multiplier, rate, steps)", "CPU ms", "power: relative width, median", "largest"),
            [(run, seconds * 1e3, *_widths(run)) for run, seconds in found.items()],
        )
    )
    return section


def _widths(run: Run) -> tuple[float, float]:
    power: EnclosureArray = run.curves().add.power(RATES)
    widths = (power.upper - power.lower) / power.upper
    return float(np.median(widths)), float(widths.max())
