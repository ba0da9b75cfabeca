"""Random cases: the box of sampled Gaussian runs and mechanisms of every kind by two engines, runs of mixed parts, and
how often samples miss.

`python -m benchmarks.sweeps 20 25 30 10` takes 20 points of the box, 25 mechanisms, 30 mixed runs and 10 seeds, and
only prints.
"""

from __future__ import annotations

from benchmarks.report import Section
from benchmarks.sweeps import agreement, box, coverage, mixed


def measure(
    points: int = box.POINTS,
    mechanisms: int = agreement.MECHANISMS,
    runs: int = mixed.POINTS,
    seeds: int = coverage.SEEDS,
) -> Section:
    section = Section("Sweeps")
    for part in (box.measure(points), agreement.measure(mechanisms), mixed.measure(runs), coverage.measure(seeds)):
        section.reaches += part.reaches
        section.tables += part.tables
    return section
