"""Every peer on every run that it supports: time, memory, distance from the truth, and its sign.

Each run uses a new process, for peers and for this project, so that peak memory of one run does not hide that of the
next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.cases import BESIDE_PEERS, C5, C6, README_OF_RISKCAL, S1, S2, Run, read, truths
from benchmarks.numbers.enclosures import PUBLISHED, PUBLISHED_TOLERANCE
from benchmarks.peers.process import PeerAnswer, peer
from benchmarks.report import Section, Table, times
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure

ROUNDS: Final = 3
EPSILONS: Final = ("eps-1e-5", "eps-1e-10", "delta-1")
GAMMAS: Final = ("gamma-0.001", "gamma-0.1", "gamma-1e-6")
README_NAME: Final = "gamma-1e-4"
TOLERANCE: Final = 1e-6
"""Relative accuracy requested from this project: a hundredth of the best accuracy of the peers."""
TRUTH_TOLERANCE: Final = 1e-9
STEP_LOSSES: Final = 20_000_000
MOST_SAMPLES: Final = 1_000_000
LEAST_UNCERTAINTY: Final = 1e-9
"""Relative uncertainty of a reference value: some are printed with ten digits."""


@dataclass(frozen=True)
class Contender:
    """Peer library of a comparison: its module, its questions, the runs it does not support, and its options."""

    name: str
    module: str
    names: Sequence[str]
    unsupported: Sequence[Run] = ()
    options: Callable[[Run], dict[str, Any]] = lambda _: {}


@dataclass(frozen=True)
class Outcome:
    """Answers of a peer library and of this project to the questions about one run."""

    contender: Contender
    run: Run
    theirs: PeerAnswer
    ours: PeerAnswer


# An accountant with a fixed error of 1e-8 in delta cannot answer for a delta of 1e-10.
CONTENDERS: Final = (
    Contender("dp-accounting", "dp_accounting_answers", EPSILONS),
    Contender("riskcal", "riskcal_answers", GAMMAS),
    Contender(
        "prv-accountant",
        "prv_answers",
        ("eps-1e-5", "delta-1"),
        (S1, S2),
        lambda run: {"epsilon_error": 0.1} if run in (C5, C6) else {},
    ),
    Contender("plain Monte Carlo", "monte_carlo_answers", GAMMAS, options=lambda run: {"samples": _samples(run)}),
)


def measure() -> Section:
    section = Section("Beside")
    ours = {
        (run, names): _alone("our_answers", run, names, {"relative_tolerance": TOLERANCE})
        for run in BESIDE_PEERS
        for names in (EPSILONS, GAMMAS)
    }
    found = [
        Outcome(
            contender,
            run,
            _alone(contender.module, run, contender.names, contender.options(run)),
            ours[run, GAMMAS if contender.names == GAMMAS else EPSILONS],
        )
        for contender in CONTENDERS
        for run in BESIDE_PEERS
        if run not in contender.unsupported
    ]
    readme = _alone("riskcal_answers", README_OF_RISKCAL, (README_NAME,), {})
    section.tables += [_costs(found), _errors(found, readme.values[README_NAME])]
    return section


def _alone(module: str, run: Run, names: Sequence[str], options: dict[str, Any]) -> PeerAnswer:
    """Return times and values of a peer library for the named numbers of a run, measured in a new process."""
    with peer(module) as asked:
        return asked.ask(run, names, ROUNDS, **options)


def _samples(run: Run) -> int:
    """Return the number of Monte Carlo samples for a run: a million, or fewer if a million would take minutes."""
    return min(MOST_SAMPLES, STEP_LOSSES // run.steps)


def _costs(found: Sequence[Outcome]) -> Table:
    rows: list[Sequence[Any]] = []
    for one in found:
        theirs = (one.theirs.build * 1e3, one.theirs.first * 1e3, one.theirs.further * 1e3, _megabytes(one.theirs))
        ours = (one.ours.first * 1e3, one.ours.further * 1e3, _megabytes(one.ours))
        ratio = times(one.theirs.first / one.ours.first)
        rows.append((one.contender.name, one.run, *theirs, *ours, ratio))
    lacking = "; ".join(
        f"{one.name} does not support {', '.join(run.name for run in one.unsupported)}"
        for one in CONTENDERS
        if one.unsupported
    )
    return Table(
        "Time and memory of peers (CPU ms; MB above a process that has imported everything; new process each)",
        (
            *("peer", "run (noise multiplier, rate, steps)"),
            *("build", "first answer", "further answer", "MB"),
            *("ours: first answer", "further answer", "MB", "ratio"),
        ),
        rows,
        (
            "First answer: build and first question; of the rounds that fit into 2 s, the median. Asked of "
            f"dp-accounting {', '.join(EPSILONS)}, of prv-accountant the first and the last of these, of the others "
            f"{', '.join(GAMMAS)}; of ours the same, to a relative width of {TOLERANCE:g}. dp-accounting and riskcal "
            "on a grid of 1e-4, prv-accountant with errors 0.01 and 1e-8 (0.1 on C5 and C6, where 0.01 takes nearly "
            f"a gigabyte or does not finish). Plain Monte Carlo with a million samples as published, or as many as "
            f"draw {STEP_LOSSES:g} losses of single steps under each hypothesis. S and L are runs with Laplace noise. "
            f"{lacking}.",
        ),
    )


def _megabytes(answer: PeerAnswer) -> str:
    return f"{answer.megabytes:.0f}"


def _errors(found: Sequence[Outcome], readme: float) -> Table:
    rows: list[Sequence[Any]] = []
    for one in found:
        for name, value in one.theirs.values.items():
            truth, uncertainty = _truth(one.run, name)
            row = _error_row(value, truth, uncertainty, one.ours.values[name])
            rows.append((one.contender.name, one.run.name, name, *row))
    ours = _enclosure(README_OF_RISKCAL, README_NAME).upper
    row = _error_row(readme, PUBLISHED, PUBLISHED_TOLERANCE / PUBLISHED, ours)
    rows.append(("riskcal", README_OF_RISKCAL.name, README_NAME, *row))
    return Table(
        "Error against the truth: the value served as a bound, minus the truth, over the truth",
        ("peer", "run", "asked", "theirs", "truth", "their error", "side", "our error"),
        rows,
        (
            "Side: below the truth is unsafe, for it promises more privacy than there is. Differences within what is "
            "uncertain about the truth (1e-9; riskcal's README: six digits) are not called a side. Of S2 no reference "
            "is known to so many digits: its truth is the middle of our certified enclosure, whose width is the "
            "uncertainty. Plain Monte Carlo estimates and does not bound: it errs on either side.",
        ),
    )


def _truth(run: Run, name: str) -> tuple[float, float]:
    """Return the true value of a named number of a run, and its relative uncertainty."""
    known = truths(run)
    if name in known:
        return float(known[name]), LEAST_UNCERTAINTY
    found = _enclosure(run, name)
    return (found.lower + found.upper) / 2, found.relative_width()


def _enclosure(run: Run, name: str) -> Enclosure:
    return read(run.curves(options=EngineOptions(relative_tolerance=TRUTH_TOLERANCE)), name)


def _error_row(value: float, truth: float, uncertainty: float, ours: float) -> Sequence[str]:
    error = value / truth - 1
    side = "-" if math.fabs(error) <= uncertainty else ("safe" if error > 0 else "**unsafe**")
    return f"{value:.10g}", f"{truth:.10g}", f"{error:+.1e}", side, f"{ours / truth - 1:+.1e}"
