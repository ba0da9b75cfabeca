"""Other packages (peers) in the same session: time to build and to evaluate, distance from the truth, and its sign.

Each peer runs in its own process, so that imports and memory do not affect the others.
"""

from __future__ import annotations

from benchmarks.peers import beside, calibrations, intake, laws, ratios
from benchmarks.report import Section


def measure() -> Section:
    section = Section("Peers")
    for subject in (ratios, beside, laws, calibrations, intake):
        part = subject.measure()
        section.reaches += part.reaches
        section.tables += part.tables
    return section
