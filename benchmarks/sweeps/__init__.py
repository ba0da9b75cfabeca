"""Random cases: the box of sampled Gaussian runs and mechanisms of every kind by two engines, and runs of mixed parts.

`python -m benchmarks.sweeps 20 25 30` takes 20 points of the box, 25 mechanisms and 30 mixed runs, and only prints.
"""

from __future__ import annotations

from benchmarks.report import Section
from benchmarks.sweeps import agreement, box, mixed


def measure(points: int = box.POINTS, mechanisms: int = agreement.MECHANISMS, runs: int = mixed.POINTS) -> Section:
    section = Section("Sweeps")
    for part in (box.measure(points), agreement.measure(mechanisms), mixed.measure(runs)):
        section.reaches += part.reaches
        section.tables += part.tables
    return section
