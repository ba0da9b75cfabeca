"""The most memory that certified answers take, each run in a new process that has imported everything."""

from __future__ import annotations

from typing import Final

from benchmarks.cases import C1, C5, C6, L1, S1, S2, Run
from benchmarks.peers.process import PeerAnswer, peer
from benchmarks.report import Reach, Section, Table

MOST_MEGABYTES: Final = 150.0
HARD: Final = (
    Run("few steps", 0.7, 0.37, 2),
    Run("rare, little noise", 0.4, 2e-5, 4_000),
    Run("rare, short", 0.72, 2.3e-6, 86),
    Run("little noise", 0.45, 3e-4, 30),
    Run("saturated", 0.43, 0.17, 6_600),
)
"""Where line integrals alone are wide, or losses large, and lattices are asked as well."""
RUNS: Final = (L1, S1, S2, C1, C5, C6, *HARD)
QUESTIONS: Final = ("gamma-0.001", "gamma-1e-6", "gamma-1e-10", "eps-1e-5", "delta-1")
TOLERANCES: Final = (1e-6, 1e-9)


def measure() -> Section:
    section = Section("Memory")
    found = {(run, width): _alone(run, width) for run in RUNS for width in TOLERANCES}
    (dearest, width), most = max(found.items(), key=lambda one: one[1].megabytes)
    section.reaches.append(
        Reach(
            "peak memory of certified answers",
            "<= 150 MB above idle",
            f"most {most.megabytes:.0f} MB, {dearest} asked to {width:g}, over {len(RUNS)} runs",
            most.megabytes <= MOST_MEGABYTES,
        )
    )
    rows = [
        (run, *(f"{found[run, width].megabytes:.0f}" for width in TOLERANCES), _seconds(found[run, TOLERANCES[-1]]))
        for run in RUNS
    ]
    columns = ("run (noise multiplier, rate, steps)", "MB, asked to 1e-6", "MB, asked to 1e-9", "CPU s of the latter")
    note = f"Asked in turn on the same curves: {', '.join(QUESTIONS)}. S and L are runs with Laplace noise."
    section.tables.append(Table("Peak memory above idle, a new process each", columns, rows, (note,)))
    return section


def _alone(run: Run, width: float) -> PeerAnswer:
    with peer("our_answers") as asked:
        return asked.ask(run, QUESTIONS, relative_tolerance=width)


def _seconds(answer: PeerAnswer) -> str:
    return f"{answer.first + answer.further * (len(QUESTIONS) - 1):.2f}"
