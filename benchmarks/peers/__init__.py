"""Peers, in the same run: how long building and asking takes them, how far from the truth they are, and on which side.

Each peer lives in a process of its own, so that neither imports nor memory of one touch another.
"""

from __future__ import annotations

from benchmarks.peers import beside, calibrations, intake, ratios
from benchmarks.report import Section


def measure() -> Section:
    section = Section("Peers")
    for subject in (ratios, beside, calibrations, intake):
        part = subject.measure()
        section.reaches += part.reaches
        section.tables += part.tables
    return section
