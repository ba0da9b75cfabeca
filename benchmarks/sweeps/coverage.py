"""Monte Carlo intervals against known values: how often they miss, for every question of the API."""

from __future__ import annotations

from collections import Counter
from typing import Final

from benchmarks.report import Reach, Section, Table
from benchmarks.sweeps.processes import spread
from benchmarks.timing import cpu_seconds
from tests.privacy.monte_carlo_coverage import CONFIDENCES, SAMPLES, SEEDS, CoverageRow, allowed, misses, rows

AT_ONCE: Final = 50
"""Seeds of one work item."""
Piece = tuple[tuple[CoverageRow, ...], range]


def measure(seeds: int = SEEDS) -> Section:
    section = Section("Coverage of Monte Carlo intervals")
    found, asked_of = Counter[CoverageRow](), Counter[CoverageRow]()
    seconds = 0.0
    for missed, of, took in spread(_missed, _pieces(seeds)):
        found.update(missed)
        asked_of.update(of)
        seconds += took
    kinds: Counter[tuple[str, str, float]] = Counter()
    of_kinds: Counter[tuple[str, str, float]] = Counter()
    for row, count in asked_of.items():
        kinds[row.question, row.direction, row.confidence] += found[row]
        of_kinds[row.question, row.direction, row.confidence] += count
    for confidence in CONFIDENCES:
        section.reaches.append(_reach(confidence, kinds, of_kinds, seconds))
    section.tables.append(
        Table(
            "Misses of Monte Carlo intervals",
            ("question", "direction", "confidence", "seeds", "misses", "allowed"),
            [(*kind, count, kinds[kind], allowed(count, kind[2])) for kind, count in of_kinds.items()],
            (
                f"{SAMPLES} samples for each seed; an answer misses where any of its numbers lies beside the truth. "
                "`allowed`: the binomial quantile that an answer of exactly this confidence exceeds once in a million "
                "times. Truths are closed forms, and certified enclosures of the runs.",
            ),
        )
    )
    return section


def _pieces(seeds: int) -> list[Piece]:
    """Group rows of statistical checks that share their random draws, a few seeds at a time."""
    together: dict[tuple[str, float, int], list[CoverageRow]] = {}
    for row, count in rows(seeds):
        together.setdefault((row.mechanism, row.confidence, count), []).append(row)
    return [
        (tuple(listed), range(start, min(start + AT_ONCE, count)))
        for (_, _, count), listed in together.items()
        for start in range(0, count, AT_ONCE)
    ]


def _missed(piece: Piece) -> tuple[Counter[CoverageRow], Counter[CoverageRow], float]:
    """Return the misses and seeds of every row of statistical checks in `piece`, and the CPU seconds."""
    listed, seeds = piece
    found: Counter[CoverageRow] = Counter()
    seconds = cpu_seconds(lambda: found.update(misses(listed, seeds)))
    return found, Counter(dict.fromkeys(listed, len(seeds))), seconds


def _reach(
    confidence: float,
    kinds: Counter[tuple[str, str, float]],
    of_kinds: Counter[tuple[str, str, float]],
    seconds: float,
) -> Reach:
    shares = {kind: kinds[kind] / count for kind, count in of_kinds.items() if kind[2] == confidence}
    worst = max(shares, key=lambda kind: shares[kind])
    within = all(kinds[kind] <= allowed(of_kinds[kind], confidence) for kind in shares)
    return Reach(
        f"Monte Carlo intervals of confidence {confidence:g}: misses of every kind of question, {SEEDS} seeds each",
        f"a share of {1 - confidence:.2g}, up to chance",
        f"at most {shares[worst]:.3f} ({worst[0]}, {worst[1]}); {seconds:.0f} s of CPU for all confidences",
        within,
        required=True,
    )
