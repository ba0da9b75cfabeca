"""The numeric core: time and relative width of answers, and time to start."""

from __future__ import annotations

from benchmarks.numbers import (
    cold,
    comparisons,
    curves,
    enclosures,
    many,
    membership,
    pictures,
    pmp,
    relations,
    responses,
    samplers,
    scale,
    start,
    tails,
)
from benchmarks.report import Section


def measure() -> Section:
    section = Section("Numbers")
    for subject in (
        cold,
        scale,
        curves,
        comparisons,
        many,
        responses,
        enclosures,
        tails,
        membership,
        relations,
        samplers,
        pmp,
        pictures,
        start,
    ):
        part = subject.measure()
        section.reaches += part.reaches
        section.tables += part.tables
    return section
