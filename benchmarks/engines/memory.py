"""Peak memory of certified answers. Each run uses a new process with all imports done."""

from __future__ import annotations

from typing import Final

from benchmarks.cases import C1, C5, C6, L1, S1, S2, Run
from benchmarks.peers.process import PeerAnswer, peer
from benchmarks.report import Reach, Section, Table

MOST_MEGABYTES: Final = 120.0
HARD_SECONDS: Final = 0.5
S2_MEGABYTES: Final = 60.0
HARD: Final = (
    Run("few steps", 0.7, 0.37, 2),
    Run("rare, little noise", 0.4, 2e-5, 4_000),
    Run("little noise", 0.45, 3e-4, 30),
    Run("saturated", 0.43, 0.17, 6_600),
)
"""Runs for which contour inversion alone is wide or losses are large, so that the lattice engine runs too."""
RUNS: Final = (L1, S1, S2, C1, C5, C6, *HARD)
QUESTIONS: Final = ("gamma-1e-6", "eps-1e-5", "delta-1")


def measure() -> Section:
    section = Section("Memory")
    found = {run: _alone(run) for run in RUNS}
    dearest = max(RUNS, key=lambda run: found[run].megabytes)
    most = found[dearest].megabytes
    section.reaches.append(
        Reach(
            "peak memory of certified answers",
            f"<= {MOST_MEGABYTES:g} MB above idle, S2 <= {S2_MEGABYTES:g} MB",
            f"most {most:.0f} MB, {dearest}, of {len(RUNS)} runs; S2 {found[S2].megabytes:.0f} MB",
            most <= MOST_MEGABYTES and found[S2].megabytes <= S2_MEGABYTES,
        )
    )
    longest = max(HARD, key=lambda run: _seconds(found[run]))
    section.reaches.append(
        Reach(
            "three questions about a run with few or rare steps, or little noise",
            f"<= {HARD_SECONDS:g} s CPU",
            f"longest {_seconds(found[longest]):.2f} s, {longest}",
            _seconds(found[longest]) <= HARD_SECONDS,
        )
    )
    rows = [(run, f"{answer.megabytes:.0f}", f"{_seconds(answer):.2f}") for run, answer in found.items()]
    columns = ("run (noise multiplier, rate, steps)", "MB", "CPU s")
    note = f"Asked in turn on the same curves: {', '.join(QUESTIONS)}. S and L are runs with Laplace noise."
    section.tables.append(Table("Peak memory above idle, a new process each", columns, rows, (note,)))
    return section


def _alone(run: Run) -> PeerAnswer:
    with peer("our_answers") as asked:
        return asked.ask(run, QUESTIONS)


def _seconds(answer: PeerAnswer) -> float:
    """Return the CPU seconds of all questions in the answer of a peer library."""
    return answer.first + answer.further * (len(QUESTIONS) - 1)
