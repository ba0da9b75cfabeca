"""dp-accounting and this project in turn: build and first question, cold on both sides.

A build of dp-accounting is long enough to fill the processor caches with its own data. This project is evaluated once
before each timing.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.cases import C1, C2, C3, C6, REPLACED, UNRELATED, Run
from benchmarks.numbers.cold import ask_epsilon
from benchmarks.peers.process import Peer, PeerAnswer, peer
from benchmarks.report import Reach, Section, Table, times
from benchmarks.timing import cpu_seconds

ROUNDS: Final = 7
DEAR_ROUNDS: Final = 3
DEAR_SECONDS: Final = 1.0
EPSILON: Final = ("eps-1e-5",)
RATIOS: Final = {C1: 60.0, C2: 60.0, C3: 50.0, C6: 500.0, **dict.fromkeys(REPLACED, 50.0)}


@dataclass(frozen=True)
class Duel:
    """CPU seconds of dp-accounting and of this project for one run, as medians of several rounds."""

    run: Run
    build: float
    query: float
    ours: float

    @property
    def ratio(self) -> float:
        return (self.build + self.query) / self.ours


def measure() -> Section:
    section = Section("In turn")
    ask_epsilon(UNRELATED.curves())
    with peer("dp_accounting_answers") as asked:
        duels = [_duel(asked, run) for run in RATIOS]
    section.reaches += [_ratio_reach(duel) for duel in duels]
    section.tables.append(
        Table(
            "dp-accounting and ours in turn (CPU ms, medians, both cold): epsilon(1e-5)",
            ("run (noise multiplier, rate, steps)", "their build", "their question", "ours, both", "ratio"),
            [(duel.run, duel.build * 1e3, duel.query * 1e3, duel.ours * 1e3, times(duel.ratio)) for duel in duels],
        )
    )
    return section


def _duel(asked: Peer, run: Run) -> Duel:
    asked.ask(UNRELATED, EPSILON)  # First calls of dp-accounting are not counted either.
    theirs: list[PeerAnswer] = []
    found: list[float] = []
    rounds = ROUNDS
    while len(theirs) < rounds:
        theirs.append(asked.ask(run, EPSILON, neighboring_relation=run.neighboring_relation))
        ask_epsilon(run.curves())
        found += [cpu_seconds(lambda: ask_epsilon(run.curves())) for _ in range(2)]
        if theirs[0].first > DEAR_SECONDS:
            rounds = DEAR_ROUNDS
    return Duel(run, median(one.build for one in theirs), median(one.query for one in theirs), median(found))


def _ratio_reach(duel: Duel) -> Reach:
    least = RATIOS[duel.run]
    return Reach(
        f"dp-accounting build + epsilon(1e-5) over ours, {duel.run.name}",
        f">= {least:g}x",
        f"{times(duel.ratio)} ({duel.build + duel.query:.3g} s against {duel.ours * 1e3:.3g} ms)",
        duel.ratio >= least,
    )
