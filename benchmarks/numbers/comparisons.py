"""Comparisons of four runs, and claims about one run: the whole resource, from a validated request to the body."""

from __future__ import annotations

import json
from typing import Any, Final

from benchmarks.cases import C1, C2, C3, C5, UNRELATED, Run
from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import cpu_seconds
from service.resources.abstract import Computation
from service.resources.claims.checking import CLAIMS
from service.resources.comparisons.comparing import COMPARISONS

ROUNDS: Final = 15
REACH_SECONDS: Final = 0.1
LIKE_C1: Final = {
    "four runs like C1, ordered by their parameters": (
        (1.0, 0.01, 1000),
        (1.2, 0.01, 1000),
        (1.5, 0.008, 900),
        (0.9, 0.01, 1200),
    ),
    "four runs like C1, not ordered": ((1.0, 0.01, 1000), (1.2, 0.012, 1000), (1.0, 0.008, 1500), (0.9, 0.01, 800)),
}
QUESTIONS: Final = (
    {"type": "epsilon", "delta": 1e-5},
    {"type": "reconstruction", "baseline_success": 1e-3},
    {"type": "advantage"},
)
CLAIMED: Final = (
    ("a consistent epsilon of C1", {"type": "epsilon", "delta": 1e-5}, 1.8282366665165776),
    ("an unsafe epsilon of C1", {"type": "epsilon", "delta": 1e-5}, 1.7),
    ("an unsafe power of C1", {"type": "trade_off", "false_positive_rates": [1e-6]}, 8e-14),
    ("an unsafe accuracy of C1", {"type": "attack_accuracy", "prior": 0.5}, 0.55),
)


def measure() -> Section:
    section = Section("Comparisons and claims")
    compared = {name: _comparison(*(_dpsgd(*run) for run in runs)) for name, runs in LIKE_C1.items()}
    compared["C1, C2, C3, C5"] = _comparison(*map(_run, (C1, C2, C3, C5)))
    claimed = {
        name: {"mechanism": _run(C1), "claims": [{"question": question, "value": value}]}
        for name, question, value in CLAIMED
    }
    bodies = [(name, COMPARISONS, body) for name, body in compared.items()]
    bodies += [(name, CLAIMS, body) for name, body in claimed.items()]
    _seconds(COMPARISONS, _comparison(_run(UNRELATED), _dpsgd(0.9, 0.02, 300)))
    found: dict[str, list[float]] = {name: [] for name, _, _ in bodies}
    for _ in range(ROUNDS):
        for name, computation, body in bodies:
            found[name].append(_seconds(computation, body))
    rows = [(name, f"{_middle(each) * 1e3:.3g}", f"{min(each) * 1e3:.3g}") for name, each in found.items()]
    section.tables.append(Table("From a request to the body (CPU ms)", ("what", "median", "least"), rows))
    for name in compared:
        seconds = _middle(found[name])
        section.reaches.append(
            Reach(f"comparison: {name}", "<= 100 ms", milliseconds(seconds), met=seconds <= REACH_SECONDS)
        )
    return section


def _middle(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2]


def _dpsgd(noise: float, rate: float, steps: int) -> dict[str, Any]:
    return {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": steps}


def _run(run: Run) -> dict[str, Any]:
    return _dpsgd(run.noise_multiplier, run.sample_rate, run.steps)


def _comparison(*mechanisms: dict[str, Any]) -> dict[str, Any]:
    runs = [{"name": str(place), "mechanism": mechanism} for place, mechanism in enumerate(mechanisms)]
    return {"runs": runs, "questions": QUESTIONS}


def _seconds(computation: Computation[Any, Any], body: dict[str, Any]) -> float:
    request = computation.request_type.model_validate_json(json.dumps(body))
    return cpu_seconds(lambda: computation.body(request, "sha256:" + "0" * 64, "any"))
