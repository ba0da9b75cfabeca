"""Runs of pure DP steps: equal steps by binomial laws, different steps by two lists of losses; cold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import median_cpu_seconds
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built

EQUAL_SECONDS: Final = 0.005
DIFFERENT_SECONDS: Final = 0.050
EQUAL: Final = ((1_000, 0.03), (1_000_000, 1e-3))
RATES: Final = np.geomspace(1e-12, 0.5, 100)
QUESTIONS: Final[dict[str, Callable[[AbstractTradeOff], object]]] = {
    "power(1e-6)": lambda curve: curve.power_at(1e-6),
    "delta(0.5)": lambda curve: curve.profile_at(0.5),
    "epsilon(1e-5)": lambda curve: curve.epsilon(1e-5),
    "100 points": lambda curve: curve.points(RATES),
}


def measure() -> Section:
    section = Section("Pure DP steps")
    runs = {f"{steps:g} steps of {epsilon:g}": _equal(steps, epsilon) for steps, epsilon in EQUAL}
    runs["24 different steps"] = {
        "type": "composed",
        "mechanisms": [{"type": "pure_dp", "epsilon": 0.05 + 0.01 * part} for part in range(24)],
    }
    found = {name: [_seconds(spec, ask) for ask in QUESTIONS.values()] for name, spec in runs.items()}
    *equal, different = found.values()
    slowest = max(max(row) for row in equal)
    section.reaches.append(
        Reach("up to 1e6 equal pure DP steps, cold", "<= 5 ms", milliseconds(slowest), slowest <= EQUAL_SECONDS)
    )
    single = max(different[:-1])
    section.reaches.append(
        Reach("24 different pure DP steps, cold", "<= 50 ms", milliseconds(single), single <= DIFFERENT_SECONDS)
    )
    rows = [(name, *(seconds * 1e3 for seconds in row)) for name, row in found.items()]
    section.tables.append(Table("Runs of pure DP steps (cold, CPU ms, median)", ("run", *QUESTIONS), rows))
    return section


def _equal(steps: int, epsilon: float) -> dict[str, Any]:
    return {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": epsilon}, "steps": steps}


def _seconds(spec: dict[str, Any], ask: Callable[[AbstractTradeOff], object]) -> float:
    return median_cpu_seconds(lambda: ask(WorstCase().curves(built(spec)).add))
