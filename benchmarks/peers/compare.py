"""Ours and theirs in turn: build and first question, cold on both sides; then their values beside the truth.

Their builds are long enough to fill the processor's caches with what they need; before ours is timed, it is asked once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from benchmarks.cases import C1, C2, C3, C5, C6, README_OF_RISKCAL, UNRELATED, Run, argument, truths
from benchmarks.numbers.cold import ask_epsilon, ask_gamma
from benchmarks.numbers.enclosures import PUBLISHED
from benchmarks.peers.process import Peer, PeerAnswer, peer
from benchmarks.report import Reach, Section, Table, times
from benchmarks.timing import cpu_seconds
from service.privacy.questions import profile, reconstruction
from service.privacy.trade_off.pair import TradeOffPair

ROUNDS: Final = 7
DEAR_ROUNDS: Final = 3
DEAR_SECONDS: Final = 1.0
EPSILON_FIRST: Final = ("eps-1e-5", "eps-1e-10", "delta-1")
GAMMA_FIRST: Final = ("gamma-0.001", "gamma-0.1", "gamma-1e-6")
RATIOS: Final = {C1: 50.0, C2: 50.0, C3: 25.0, C6: 300.0}
README_NAME: Final = "gamma-1e-4"


@dataclass(frozen=True)
class Duel:
    """Medians of CPU seconds, theirs and ours, for one run; and their values."""

    peer: str
    run: Run
    build: float
    query: float
    ours: float
    values: dict[str, float]

    @property
    def ratio(self) -> float:
        return (self.build + self.query) / self.ours


def measure() -> Section:
    section = Section("Peers")
    ask_gamma(UNRELATED.curves())
    ask_epsilon(UNRELATED.curves())
    with peer("dp_accounting_answers") as asked:
        accounting = [_duel("dp-accounting", asked, run, EPSILON_FIRST, ask_epsilon) for run in (C1, C2, C3, C5, C6)]
    with peer("riskcal_answers") as asked:
        riskcal = [_duel("riskcal", asked, run, GAMMA_FIRST, ask_gamma) for run in (C1, C2, C3, C5)]
        readme = asked.ask(README_OF_RISKCAL, (README_NAME,)).values
    with peer("prv_answers") as asked:
        # An accountant fixed to 1e-8 of delta cannot be asked for 1e-10.
        prv = [_duel("prv-accountant", asked, run, ("eps-1e-5", "delta-1"), ask_epsilon) for run in (C1, C2, C3)]
    duels = accounting + riskcal + prv
    section.reaches += [_ratio_reach(duel) for duel in accounting if duel.run in RATIOS]
    section.tables += [_times(duels), _errors(duels, readme[README_NAME])]
    return section


def _duel(name: str, asked: Peer, run: Run, names: Sequence[str], ours: Callable[[TradeOffPair], object]) -> Duel:
    asked.ask(UNRELATED, names[:1])  # their first calls are not counted either
    theirs: list[PeerAnswer] = []
    found: list[float] = []
    rounds = ROUNDS
    while len(theirs) < rounds:
        theirs.append(asked.ask(run, names if not theirs else names[:1]))
        ours(run.curves())
        found += [cpu_seconds(lambda: ours(run.curves())) for _ in range(2)]
        if theirs[0].build + theirs[0].query > DEAR_SECONDS:
            rounds = DEAR_ROUNDS
    build, query = median(one.build for one in theirs), median(one.query for one in theirs)
    return Duel(name, run, build, query, median(found), theirs[0].values)


def _ratio_reach(duel: Duel) -> Reach:
    least = RATIOS[duel.run]
    return Reach(
        f"dp-accounting build + epsilon(1e-5) over ours, {duel.run.name}",
        f">= {least:g}x",
        f"{times(duel.ratio)} ({duel.build + duel.query:.3g} s against {duel.ours * 1e3:.3g} ms)",
        duel.ratio >= least,
    )


def _times(duels: Sequence[Duel]) -> Table:
    rows: list[Sequence[Any]] = [
        (duel.peer, duel.run, duel.build * 1e3, duel.query * 1e3, duel.ours * 1e3, times(duel.ratio)) for duel in duels
    ]
    return Table(
        "Time (CPU ms, medians; theirs and ours in turn, both cold)",
        ("peer", "run (noise multiplier, rate, steps)", "their build", "their question", "ours, both", "ratio"),
        rows,
        (
            "The question is epsilon(1e-5), for riskcal gamma(1e-3). dp-accounting and riskcal on a grid of 1e-4, "
            "prv-accountant with errors 0.01 and 1e-8.",
        ),
    )


def _errors(duels: Sequence[Duel], readme: float) -> Table:
    rows: list[Sequence[Any]] = []
    for duel in duels:
        truth = truths(duel.run)
        for name, value in duel.values.items():
            rows.append(_error_row(duel.peer, duel.run.name, name, value, float(truth[name]), _ours(duel.run, name)))
    ours = _ours(README_OF_RISKCAL, README_NAME)
    rows.append(_error_row("riskcal", README_OF_RISKCAL.name, README_NAME, readme, PUBLISHED, ours))
    return Table(
        "Error against the truth: the value served as a bound, minus the truth, over the truth",
        ("peer", "run", "asked", "theirs", "truth", "their error", "side", "our error"),
        rows,
        (
            "Side: below the truth is unsafe, for it promises more privacy than there is. Differences below 1e-9 of "
            "the truth are not called a side: the truth is known no better for some (riskcal's README: six digits).",
        ),
    )


def _ours(run: Run, name: str) -> float:
    pair, at = run.curves(), argument(name)
    kind = name.partition("-")[0]
    if kind == "gamma":
        return reconstruction.gamma(pair.add, at).safe_value
    read = profile.epsilon if kind == "eps" else profile.delta
    return read(pair.both, at).safe_value


def _error_row(peer_name: str, run: str, name: str, value: float, truth: float, ours: float) -> Sequence[Any]:
    error = value / truth - 1
    side = "-" if math.fabs(error) < 1e-9 else ("safe" if error > 0 else "**unsafe**")
    return peer_name, run, name, f"{value:.10g}", f"{truth:.10g}", f"{error:+.1e}", side, f"{ours / truth - 1:+.1e}"
