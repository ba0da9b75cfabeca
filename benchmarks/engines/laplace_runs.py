"""Laplace runs S1 and L1, whose loss distribution has atoms: cold certified answers."""

from __future__ import annotations

from typing import Final

from benchmarks.cases import L1, S1, Run, read, truths
from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import median_cpu_seconds
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure

MOST_SECONDS: Final = 0.020
WIDTHS: Final = {S1: 1e-6, L1: 1e-9}


def measure() -> Section:
    section = Section("Laplace runs")
    rows: list[tuple[object, ...]] = []
    for run, width in WIDTHS.items():
        found = {name: _cold(run, name, width) for name in truths(run)}
        dearest, widest = (max(found, key=lambda name, which=which: found[name][which]) for which in (0, 1))
        measured = (
            f"dearest of {len(found)} questions {milliseconds(found[dearest][0])} ({dearest}), widest "
            f"{found[widest][1]:.1e} ({widest})"
        )
        met = found[dearest][0] <= MOST_SECONDS and found[widest][1] <= width
        reach = f"<= 20 ms CPU, relative width <= {width:g}"
        section.reaches.append(Reach(f"{run.name}, certified, cold", reach, measured, met))
        rows += [(run, name, seconds * 1e3, f"{reached:.1e}") for name, (seconds, reached) in found.items()]
    section.tables.append(
        Table(
            "Runs with Laplace noise, certified (CPU ms, cold, median)",
            ("run (noise multiplier, rate, steps)", "asked", "CPU ms", "relative width"),
            rows,
            ("Asked for " + ", ".join(f"{width:g} ({run.name})" for run, width in WIDTHS.items()) + ".",),
        )
    )
    return section


def _cold(run: Run, name: str, width: float) -> tuple[float, float]:
    """Evaluate a named number of a run to the relative `width` in a new process: return its CPU seconds and width."""
    options = EngineOptions(relative_tolerance=width)
    found: list[Enclosure] = []
    seconds = median_cpu_seconds(lambda: found.append(read(run.curves(options=options), name)))
    return seconds, found[0].relative_width()
