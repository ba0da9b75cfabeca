"""Random cases: sampled Gaussian runs and mechanisms of every kind by two engines, runs of mixed parts, miss rates of
Monte Carlo intervals, and calibrations with a known solution.

`python -m benchmarks.sweeps 20 25 30 10 5` takes 20 points of the box (ranges in `box.py`), 25 mechanisms, 30 mixed
runs, 10 seeds and 5 calibrations for every question, and only prints.
"""

from __future__ import annotations

from benchmarks.report import Section
from benchmarks.sweeps import agreement, box, calibrations, coverage, mixed


def measure(
    points: int = box.POINTS,
    mechanisms: int = agreement.MECHANISMS,
    runs: int = mixed.POINTS,
    seeds: int = coverage.SEEDS,
    cases: int = calibrations.CASES,
) -> Section:
    section = Section("Sweeps")
    for part in (
        box.measure(points),
        agreement.measure(mechanisms),
        mixed.measure(runs),
        coverage.measure(seeds),
        calibrations.measure(cases),
    ):
        section.reaches += part.reaches
        section.tables += part.tables
    return section
