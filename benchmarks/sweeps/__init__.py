"""Random cases by two engines: the box of sampled Gaussian runs, and mechanisms of every kind; how often samples miss.

`python -m benchmarks.sweeps 20 25 10` takes 20 points of the box, 25 mechanisms and 10 seeds, and only prints.
"""

from __future__ import annotations

from benchmarks.report import Section
from benchmarks.sweeps import agreement, box, coverage


def measure(points: int = box.POINTS, mechanisms: int = agreement.MECHANISMS, seeds: int = coverage.SEEDS) -> Section:
    section = Section("Sweeps")
    for part in (box.measure(points), agreement.measure(mechanisms), coverage.measure(seeds)):
        section.reaches += part.reaches
        section.tables += part.tables
    return section
