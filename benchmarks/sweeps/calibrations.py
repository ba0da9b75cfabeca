"""Round trips of calibrations: random cases of every question, whose solution is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.report import Reach, Section, Table
from benchmarks.sweeps.processes import spread
from benchmarks.timing import cpu_seconds
from service.resources.calibration.resource import NOT_SERVED, TOO_WIDE, WORK_EXHAUSTED
from tests.resources.calibration_cases import QUESTIONS, calibrated, case, wrong

CASES: Final = 100
"""Cases for each question."""
SEED: Final = 16
OPEN: Final = tuple(f"has no witness: {reason}" for reason in (TOO_WIDE, NOT_SERVED.format(why=WORK_EXHAUSTED)))
"""Ranges in which values are certified, and in which their distance to a limit exceeds the width of the enclosures."""


@dataclass(frozen=True)
class Outcome:
    """Result of one case of the calibrations that a benchmark checks."""

    kind: str
    name: str
    wrong: str
    readings: int
    seconds: float


def measure(cases: int = CASES) -> Section:
    section = Section("Calibrations")
    found = spread(_outcome, [(kind, index) for index in range(cases) for kind in QUESTIONS])
    violations = [one for one in found if one.wrong and one.wrong not in OPEN]
    left = [one for one in found if one.wrong in OPEN]
    section.reaches.append(
        Reach(
            f"calibrate, then ask: {cases} random cases of every question",
            "0 violations",
            f"{len(violations)}; {len(left)} of {len(found)} certified without a near witness",
            not violations,
            required=True,
        )
    )
    section.tables.append(_table(found))
    if violations or left:
        rows = [(one.name, one.wrong) for one in (*violations, *left)]
        section.tables.append(Table("Calibrations that are wrong, or wide", ("case", "what"), rows))
    return section


def _outcome(what: tuple[str, int]) -> Outcome:
    kind, index = what
    known = case(kind, SEED, index)
    answers: list[dict[str, object]] = []
    seconds = cpu_seconds(lambda: answers.append(calibrated(known.body)))
    readings = answers[0]["readings"]
    return Outcome(kind, f"{known.name}, {index}", wrong(known, answers[0]), int(str(readings)), seconds)


def _table(found: Sequence[Outcome]) -> Table:
    rows: list[tuple[object, ...]] = []
    for kind in QUESTIONS:
        of_kind = [one for one in found if one.kind == kind]
        readings, seconds = [one.readings for one in of_kind], [one.seconds for one in of_kind]
        bad = sum(bool(one.wrong) for one in of_kind)
        rows.append(
            (
                kind,
                len(of_kind),
                bad,
                median(readings),
                max(readings),
                f"{median(seconds) * 1e3:.3g} ms",
                f"{max(seconds):.3g} s",
            )
        )
    columns = ("question", "cases", "wrong or wide", "readings, median", "most", "CPU, median", "most")
    return Table("Calibrations with a known answer", columns, rows)
