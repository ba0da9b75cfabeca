"""Engines by name: time of certified answers to Laplace runs, time of the other engines, and memory."""

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
