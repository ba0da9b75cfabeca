"""Random cases by two engines: the box of sampled Gaussian runs, and mechanisms of every kind.

`python -m benchmarks.sweeps 20 25` takes 20 points of the box and 25 mechanisms, and only prints.
"""

from __future__ import annotations

from benchmarks.report import Section
from benchmarks.sweeps import agreement, box


def measure(points: int = box.POINTS, mechanisms: int = agreement.MECHANISMS) -> Section:
    section = Section("Sweeps")
    for part in (box.measure(points), agreement.measure(mechanisms)):
        section.reaches += part.reaches
        section.tables += part.tables
    return section
