"""CPU of the benchmark cases, and estimated against measured costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import numpy as np

from api_schemas.bounds import BoundsRequest
from benchmarks.cases import C1, C2, C3, C4, C5, C6, L1, S1, S2, UNRELATED
from benchmarks.numbers.cold import ask_epsilon, ask_gamma
from benchmarks.numbers.many import COUNTS, NOISE, NOISES, RATE, RATES, STEPS, sweep_request, unrelated, value_range
from benchmarks.numbers.scale import parts
from benchmarks.timing import cpu_seconds
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair
from service.resources.bounds import BOUNDS
from service.resources.sweeps.sweeping import SWEEPS
from tests.frozen.answers import DIGEST, ENGINE
from tests.privacy.cases import built

ROUNDS: Final = 5
FACTOR: Final = 4.0
PHASES: Final = 100
RUN: Final[dict[str, Any]] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
SIZES: Final[dict[str, Any]] = {"type": "dpsgd", "noise_multiplier": 1.1, "dataset_size": 60_000, "batch_size": 256}
EPSILON: Final[dict[str, Any]] = {"type": "epsilon", "delta": 1e-5}
GAMMA: Final[dict[str, Any]] = {"type": "reconstruction", "baseline_success": 1e-3}
EIGHT: Final = (
    EPSILON,
    GAMMA,
    {"type": "delta", "epsilon": 1.0},
    {"type": "advantage"},
    {"type": "attack_accuracy", "prior": 0.5},
    {"type": "positive_predictive_value", "prior": 0.1, "false_positive_rate": 1e-3},
    {"type": "negative_predictive_value", "prior": 0.1, "false_positive_rate": 1e-3},
    {"type": "trade_off", "false_positive_rates": [1e-4, 1e-3, 1e-2]},
)
SCHEDULE: Final = RUN | {"noise_multiplier": [1.4, 1.2, 1.0], "steps": [2000, 1000, 500]}
GROUP: Final = {"type": "worst_case", "records": 4}
REPLACED: Final = {"type": "worst_case", "neighboring_relation": "replace_one"}
FIXED: Final = SIZES | {"sampling": "fixed_without_replacement", "steps": 2000}

PORTFOLIO: Final[dict[str, dict[str, Any]]] = {
    "one epoch": {"mechanism": SIZES | {"epochs": 1}, "questions": [EPSILON]},
    "three epochs": {"mechanism": SIZES | {"epochs": 3}, "questions": [EPSILON, GAMMA]},
    "five epochs, large batches": {"mechanism": SIZES | {"batch_size": 4096, "epochs": 5}, "questions": [EPSILON]},
    "one epoch, eight questions": {"mechanism": SIZES | {"epochs": 1}, "questions": EIGHT},
    "a thousand steps": {"mechanism": RUN, "questions": [EPSILON]},
    "a thousand steps, eight questions": {"mechanism": RUN, "questions": EIGHT},
    "long run": {"mechanism": RUN | {"noise_multiplier": 2.0, "steps": 50_000}, "questions": [EPSILON, GAMMA]},
    "replaced record": {"mechanism": RUN, "threat_model": REPLACED, "questions": [EPSILON]},
    "fixed batches": {"mechanism": FIXED, "threat_model": REPLACED, "questions": [EPSILON]},
    "fixed batches, eight questions": {"mechanism": FIXED, "threat_model": REPLACED, "questions": EIGHT},
    "group": {"mechanism": RUN | {"noise_multiplier": 4.0}, "threat_model": GROUP, "questions": [EPSILON]},
    "group, eight questions": {
        "mechanism": RUN | {"noise_multiplier": 4.0},
        "threat_model": GROUP,
        "questions": EIGHT,
    },
    "schedule": {"mechanism": SCHEDULE, "questions": [EPSILON]},
    "schedule, eight questions": {"mechanism": SCHEDULE, "questions": EIGHT},
    "run and a release": {
        "mechanism": {"type": "composed", "mechanisms": [RUN, {"type": "laplace", "noise_multiplier": 5.0}]},
        "questions": [EPSILON, GAMMA],
    },
    "ten Laplace releases": {
        "mechanism": {
            "type": "repeated",
            "steps": 10,
            "mechanism": {"type": "laplace", "noise_multiplier": 5.0},
        },
        "questions": EIGHT,
    },
}


def _phases() -> TradeOffPair:
    """Return a schedule of phases that all differ, as in the benchmark."""
    noises, rates = np.geomspace(0.8, 2.0, PHASES).tolist(), np.linspace(0.005, 0.02, PHASES).tolist()
    run = {"type": "dpsgd", "noise_multiplier": noises, "sample_rate": rates, "steps": [100] * PHASES}
    return WorstCase().curves(built(run))


def _sweep(vary: dict[str, Any], combine: str) -> Callable[[], object]:
    request = sweep_request(vary, combine)
    return lambda: SWEEPS.body(request, DIGEST, ENGINE)


def cases() -> dict[str, Callable[[], object]]:
    """Return the benchmark cases. Each is cold: curves are built again."""
    found: dict[str, Callable[[], object]] = {}
    for run in (C1, C2, C3, C4, C5, C6, S1, S2, L1):
        found[f"{run.name} epsilon"] = lambda run=run: ask_epsilon(run.curves())
        found[f"{run.name} gamma"] = lambda run=run: ask_gamma(run.curves())
    found["256 kinds epsilon"] = lambda: ask_epsilon(parts())
    found["256 kinds gamma"] = lambda: ask_gamma(parts())
    found["100 phases epsilon"] = lambda: ask_epsilon(_phases())
    grid = {NOISE: value_range(NOISES, 50), RATE: value_range(RATES, 20), STEPS: value_range(COUNTS, 2)}
    found["sweep, 2 000 points of a grid"] = _sweep(grid, "product")
    found["sweep, 1 000 unrelated points"] = _sweep(unrelated(1000, 7, (NOISES, RATES, COUNTS)), "zip")
    return found


def print_cpu() -> int:
    """Print the CPU of every benchmark case in milliseconds: median and minimum of some rounds."""
    ask_gamma(UNRELATED.curves())
    ask_epsilon(UNRELATED.curves())
    measured: dict[str, list[float]] = {name: [] for name in cases()}
    for _ in range(ROUNDS):  # Cases take turns, so that other load of the machine does not slow a single case.
        for name, work in cases().items():
            measured[name].append(cpu_seconds(work) * 1e3)
    for name, found in measured.items():
        print(f"{name:32} {median(found):10.2f} ms, least {min(found):10.2f}")
    return 0


def print_prices() -> int:
    """Print estimated over measured CPU time of the portfolio of requests, and how many are within the factor."""
    good = 0
    for name, body in PORTFOLIO.items():
        request = BoundsRequest.model_validate_json(json.dumps(body))
        seconds = sorted(cpu_seconds(lambda request=request: BOUNDS.body(request, DIGEST, ENGINE)) for _ in range(3))[1]
        estimated = BOUNDS.quote(request).cost * 1e-6
        ratio = estimated / seconds
        good += 1 / FACTOR <= ratio <= FACTOR
        print(f"{name:36} {estimated * 1e3:9.1f} ms estimated, {seconds * 1e3:9.1f} ms, ratio {ratio:.3g}")
    print(f"{good} of {len(PORTFOLIO)} within a factor of {FACTOR:g}")
    return 0
