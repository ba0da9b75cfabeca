"""Time and memory of single engines.

The parts measure certified answers for runs with Laplace noise, the Edgeworth series and the Monte Carlo estimate,
ground truth (evaluation in ball arithmetic), and the peak memory of certified answers.
"""

from __future__ import annotations

from benchmarks.engines import ground_truth, laplace_runs, memory, named
from benchmarks.report import Section


def measure() -> Section:
    section = Section("Engines")
    for subject in (laplace_runs, named, ground_truth, memory):
        part = subject.measure()
        section.reaches += part.reaches
        section.tables += part.tables
    return section
