"""Replaced records, groups of records and batches of fixed size: cold epsilon on the runs of the benchmark."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from benchmarks.cases import COMPOSED, UNRELATED, Run
from benchmarks.numbers.cold import ask_epsilon
from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import cpu_seconds
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.threat_models.worst_case import WorstCase

ROUNDS: Final = 5
COLD_SECONDS: Final = 0.015
LONG_SECONDS: Final = 5.0
"""Seconds above which a measurement is not repeated."""
DATASET_SIZE: Final = 1_000_000
REPLACED: Final = WorstCase("replace_one")
KINDS: Final[dict[str, tuple[dict[str, Any], WorstCase]]] = {
    "replace_one": ({}, REPLACED),
    **{f"{records} records": ({}, WorstCase(records=records)) for records in (2, 8, 64)},
    "fixed batches": ({"sampling": "fixed_without_replacement"}, WorstCase()),
    "fixed batches, with replacement": ({"sampling": "fixed_with_replacement"}, WorstCase()),
}


def measure() -> Section:
    section = Section("Relations and samplers")
    ask_epsilon(UNRELATED.curves())
    found = {kind: [_cold(run, *asked) for run in COMPOSED] for kind, asked in KINDS.items()}
    columns = ("epsilon(1e-5), both directions, cold", *(str(run) for run in COMPOSED))
    rows = [(kind, *(f"{seconds * 1e3:.3g}" for seconds in times)) for kind, times in found.items()]
    section.tables.append(Table(f"Relations and samplers (CPU ms, medians of {ROUNDS})", columns, rows))
    times = [seconds for each in found.values() for seconds in each]
    within = sum(seconds <= COLD_SECONDS for seconds in times)
    measured = (
        f"{within} of {len(times)} within; median {milliseconds(median(times))}, longest {milliseconds(max(times))}"
    )
    name = "epsilon(1e-5) of replaced records, groups and fixed batches, cold"
    section.reaches.append(Reach(name, "<= 15 ms each", measured, within == len(times)))
    return section


def _cold(run: Run, drawn: dict[str, Any], attacker: WorstCase) -> float:
    sizes: dict[str, Any] = {}
    if drawn:
        sizes = {"batch_size": round(run.sample_rate * DATASET_SIZE), "dataset_size": DATASET_SIZE}
    mechanism = DpSgd(
        noise_multiplier=run.noise_multiplier, sample_rate=run.sample_rate, steps=run.steps, **sizes, **drawn
    )
    found: list[float] = []
    while len(found) < ROUNDS and sum(found) < LONG_SECONDS:
        found.append(cpu_seconds(lambda: ask_epsilon(attacker.curves(mechanism))))
    return median(found)
