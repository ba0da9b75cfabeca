"""Edgeworth series and Monte Carlo compared with published results."""

from __future__ import annotations

from typing import Final

from benchmarks.cases import C1, C3, C5, L1, S1, Run, read
from benchmarks.peers.process import PeerAnswer, peer
from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import median_cpu_seconds
from service.privacy.composition.planning.options import EngineOptions

GAMMA: Final = "gamma-0.001"
EDGEWORTH_SECONDS: Final = 0.005
SERIES: Final = (C1, C3, C5, S1, L1)

HAYES: Final = Run("100 steps", 1.0, 0.01, 100)
SAMPLES: Final = 1_000_000
MONTE_CARLO_SECONDS: Final = 1.0
MONTE_CARLO_MEGABYTES: Final = 60.0


def measure() -> Section:
    section = Section("Named engines")
    for part in (_edgeworth(), _monte_carlo()):
        section.reaches += part.reaches
        section.tables += part.tables
    return section


def _edgeworth() -> Section:
    options = EngineOptions(order=4)
    found = {run: median_cpu_seconds(lambda run=run: read(run.curves("edgeworth", options), GAMMA)) for run in SERIES}
    measured = ", ".join(f"{run.name} {milliseconds(seconds)}" for run, seconds in found.items())
    what = "Edgeworth series of order 4, gamma(1e-3), cold (paper: 1.5 s)"
    met = max(found.values()) <= EDGEWORTH_SECONDS
    return Section("Edgeworth", [Reach(what, "<= 5 ms CPU", measured, met)])


def _monte_carlo() -> Section:
    """Measure both implementations in new processes, so that their memory holds only their own samples."""
    with peer("our_answers") as asked:
        ours = asked.ask(HAYES, [GAMMA], method="monte_carlo", samples=SAMPLES)
    with peer("monte_carlo_answers") as asked:
        plain = asked.ask(HAYES, [GAMMA], samples=SAMPLES)
    truth = read(HAYES.curves(), GAMMA)
    reach = Reach(
        "Monte Carlo of 1e6 samples, 100 steps of DP-SGD",
        "<= 1 s CPU, <= 60 MB above idle",
        f"{ours.first:.2f} s, {ours.megabytes:.0f} MB (plain numpy {plain.first:.2f} s, {plain.megabytes:.0f} MB)",
        ours.first <= MONTE_CARLO_SECONDS and ours.megabytes <= MONTE_CARLO_MEGABYTES,
    )
    rows = [_row("ours, upper end", ours), _row("plain numpy, estimate", plain)]
    columns = ("which", "CPU s", "MB", "gamma(1e-3)")
    note = f"Certified: [{truth.lower!r}, {truth.upper!r}]. The run is {HAYES}."
    return Section("Monte Carlo", [reach], [Table("Monte Carlo of 1e6 samples, cold", columns, rows, (note,))])


def _row(which: str, answer: PeerAnswer) -> tuple[str, str, str, str]:
    return which, f"{answer.first:.2f}", f"{answer.megabytes:.0f}", f"{answer.values[GAMMA]:.6g}"
