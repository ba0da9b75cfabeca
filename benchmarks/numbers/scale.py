"""A billion steps, and 256 different steps: cost of the size of a run."""

from __future__ import annotations

import math
from typing import Final

from benchmarks.cases import Run
from benchmarks.numbers.cold import ask_epsilon, ask_gamma
from benchmarks.report import Reach, Section, Table, milliseconds, times
from benchmarks.timing import median_cpu_seconds
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd

FEW: Final = Run("1e4 steps", 3.0, 0.02, 10**4)
# Noise grows with the square root of the steps, so that the total privacy loss stays the same.
MANY: Final = Run("1e9 steps", 3.0 * math.sqrt(1e5), 0.02, 10**9)
LARGEST_RATIO: Final = 1.5

PARTS: Final = built(
    {
        "type": "composed",
        "mechanisms": [dpsgd(0.8 + 0.008 * part, 0.005 + 0.00005 * part, 10 + part) for part in range(256)],
    }
)
PARTS_SECONDS: Final = 0.040


def parts() -> TradeOffPair:
    return WorstCase().curves(PARTS)


def measure() -> Section:
    section = Section("Scale")
    few_gamma, many_gamma = (median_cpu_seconds(lambda run=run: ask_gamma(run.curves())) for run in (FEW, MANY))
    few_epsilon, many_epsilon = (median_cpu_seconds(lambda run=run: ask_epsilon(run.curves())) for run in (FEW, MANY))
    ratios = many_gamma / few_gamma, many_epsilon / few_epsilon
    section.reaches.append(
        Reach(
            "steps = 1e9 over 1e4, noise scaled by the root",
            "<= 1.5x",
            f"gamma(1e-3) {times(ratios[0])}, epsilon(1e-5) {times(ratios[1])}",
            max(ratios) <= LARGEST_RATIO,
        )
    )
    gamma = median_cpu_seconds(lambda: ask_gamma(parts()))
    epsilon = median_cpu_seconds(lambda: ask_epsilon(parts()))
    section.reaches.append(
        Reach(
            "256 different sampled Gaussian parts, cold",
            "<= 40 ms",
            f"gamma(1e-3) {milliseconds(gamma)}, epsilon(1e-5) {milliseconds(epsilon)}",
            max(gamma, epsilon) <= PARTS_SECONDS,
        )
    )
    rows = [
        (FEW, few_gamma * 1e3, few_epsilon * 1e3),
        (MANY, many_gamma * 1e3, many_epsilon * 1e3),
        ("256 different parts", gamma * 1e3, epsilon * 1e3),
    ]
    columns = ("run (noise multiplier, rate, steps)", "gamma(1e-3)", "epsilon(1e-5), both directions")
    section.tables.append(Table("Size of a run (cold, CPU ms, median)", columns, rows))
    return section
