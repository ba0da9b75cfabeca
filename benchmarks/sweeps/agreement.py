"""Certified answers against a second engine: random mechanisms of every kind, random questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from benchmarks.report import Reach, Section, Table
from benchmarks.sweeps.processes import spread
from benchmarks.timing import cpu_seconds
from tests.privacy.agreement import Comparison, comparisons
from tests.privacy.random_cases import RandomCase, random_cases
from tests.privacy.relaxed_cases import relaxed_cases, relaxed_comparisons

MECHANISMS: Final = 625
QUESTIONS: Final = 16
"""Questions about each mechanism, so that values cached for follow-up questions are compared too."""
SEED: Final = 3
MECHANISMS_FOR_A_RELAXED: Final = 4
"""Number of other mechanisms for each mechanism with a relaxed adversary."""
RELAXED_QUESTIONS: Final = 8
PIECES: Final = 16


def measure(mechanisms: int = MECHANISMS) -> Section:
    section = Section("Agreement")
    answers = spread(_compared, random_cases(mechanisms, QUESTIONS, SEED))
    # Second opinions cannot be sent to another process, so every part builds its own cases.
    relaxed = spread(_relaxed, [(start, mechanisms) for start in range(PIECES)])
    found = [comparison for comparisons_of_one, _ in (*answers, *relaxed) for comparison in comparisons_of_one]
    violations = [str(one) for one in found if not one.agrees]
    section.reaches.append(
        Reach(
            f"certified answers against a second engine, {len(found)} random cases",
            "0 violations",
            f"{len(violations)}; {sum(seconds for _, seconds in (*answers, *relaxed)):.0f} s of CPU",
            not violations,
            required=True,
        )
    )
    section.tables.append(_table(found))
    if violations:
        section.tables.append(Table("Enclosures that do not meet", ("what",), [(one,) for one in violations]))
    return section


def _relaxed(piece: tuple[int, int]) -> tuple[list[Comparison], float]:
    """Compare two engines on one of PIECES parts of the relaxed cases, and return comparisons and CPU seconds."""
    start, mechanisms = piece
    found: list[Comparison] = []
    cases = relaxed_cases(mechanisms // MECHANISMS_FOR_A_RELAXED // PIECES + 1, RELAXED_QUESTIONS, SEED + start)
    seconds = cpu_seconds(lambda: found.extend(one for case in cases for one in relaxed_comparisons(case)))
    return found, seconds


def _compared(case: RandomCase) -> tuple[list[Comparison], float]:
    """Compare two engines on one random case, and return comparisons and CPU seconds."""
    found: list[Comparison] = []
    seconds = cpu_seconds(lambda: found.extend(comparisons(case)))
    return found, seconds


def _table(found: Sequence[Comparison]) -> Table:
    counts = Counter((one.family, " and ".join(one.engines)) for one in found)
    missed = Counter((one.family, " and ".join(one.engines)) for one in found if not one.agrees)
    return Table(
        "Random cases by two engines",
        ("mechanism", "engines", "cases", "violations"),
        [(*key, count, missed[key]) for key, count in sorted(counts.items())],
        (
            f"{QUESTIONS} readings of each mechanism: power, type II error, delta and epsilon at random arguments, in "
            "random directions. To be many they are cheap: lattices are asked for a relative width of 1e-3 only, ball "
            "arithmetic for 15 digits, sampled runs have hundreds of steps and no tiny rates (those are in the box). "
            "Where only one engine encloses with certainty, it is held against intervals of 20000 samples that fail "
            "once in 1e9 readings. Relaxed adversaries are held against 20000 draws of their statistic (bands that "
            "fail once in 1e9), other engines, the parts of a mixture, and the worst case of the same run.",
        ),
    )
