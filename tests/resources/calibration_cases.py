"""Random calibrations with a known solution: the target is the answer of a question at a random number.

The checks use only `/v1/bounds`, with the number written into the JSON by this module.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from api_schemas.bounds import BoundsRequest
from api_schemas.calibrations import CalibrationsRequest
from api_schemas.targets import CalibrationTarget, value_range
from service.resources.bounds import compute_bounds
from service.resources.calibration.resource import CALIBRATIONS

Spec = dict[str, Any]
PROTECTING: Final = ("deletion_capacity", "unlearning_guarantee")


def log_uniform(random: Generator, low: float, high: float) -> float:
    return float(math.exp(random.uniform(math.log(low), math.log(high))))


@dataclass(frozen=True)
class Free:
    """Mechanism with a free number for a calibration: its pointer, its range, and whether it is an integer."""

    mechanism: Callable[[Generator], Spec]
    pointer: str
    low: float
    high: float
    whole: bool = False
    threat_model: Callable[[Generator], Spec] = lambda _: {"type": "worst_case"}
    bounded: bool = False
    """Whether likelihood ratios are bounded, so that questions about extreme ones make sense."""

    def drawn(self, random: Generator) -> float:
        number = log_uniform(random, self.low, self.high)
        return max(round(number), 1) if self.whole else number


def _run(random: Generator) -> Spec:
    return {
        "type": "dpsgd",
        "noise_multiplier": log_uniform(random, 0.7, 3.0),
        "sample_rate": log_uniform(random, 2e-3, 3e-2),
        "steps": int(log_uniform(random, 500, 5000)),
    }


def _schedule(random: Generator) -> Spec:
    return _run(random) | {"noise_multiplier": [1.5, log_uniform(random, 0.8, 2.0)], "steps": [500, 300]}


def _sizes(random: Generator) -> Spec:
    size = int(log_uniform(random, 1e4, 1e6))
    run = {"dataset_size": size, "batch_size": max(1, size // 100), "steps": int(log_uniform(random, 100, 2000))}
    return {"type": "dpsgd", "noise_multiplier": log_uniform(random, 1.0, 3.0), **run}


def _epochs(random: Generator) -> Spec:
    return {"type": "dpsgd", "noise_multiplier": 1.5, "dataset_size": 50_000, "batch_size": 500, "epochs": 3.0}


def _composed(random: Generator) -> Spec:
    laplace = {"type": "laplace", "noise_multiplier": log_uniform(random, 3.0, 9.0)}
    return {"type": "composed", "mechanisms": [laplace, {"type": "gaussian", "noise_multiplier": 2.0}]}


def _repeated_laplace(random: Generator) -> Spec:
    return {"type": "repeated", "steps": 5, "mechanism": {"type": "laplace", "noise_multiplier": 5.0}}


def _mixture_of_shifts(random: Generator) -> Spec:
    del random
    shares = {"shifts": [0.0, 1.0, 2.0], "weights": [0.9, 0.09, 0.01]}
    return {
        "type": "repeated",
        "steps": 50,
        "mechanism": {"type": "gaussian_mixture", "noise_multiplier": 2.0, **shares},
    }


def _noisy_sgd(random: Generator) -> Spec:
    del random
    sizes = {"dataset_size": 400, "batch_size": 400, "dimension": 650, "steps": 3}
    return {"type": "noisy_sgd", **sizes, "noise_std": 2.0, "max_grad_norm": 500.0}


FREE: Final[dict[str, Free]] = {
    "noise of a run": Free(_run, "/mechanism/noise_multiplier", 0.6, 4.0),
    "rate of a run": Free(_run, "/mechanism/sample_rate", 2e-3, 3e-2),
    "steps of a run": Free(_run, "/mechanism/steps", 50, 5000, whole=True),
    "noise of a phase": Free(_schedule, "/mechanism/noise_multiplier/1", 0.8, 2.0),
    "batch of a run": Free(_sizes, "/mechanism/batch_size", 100, 9000, whole=True),
    "data of a run": Free(_sizes, "/mechanism/dataset_size", 10_000, 1_000_000, whole=True),
    "epochs of a run": Free(_epochs, "/mechanism/epochs", 1.0, 20.0),
    "noise": Free(lambda _: {"type": "gaussian", "noise_multiplier": 1.0}, "/mechanism/noise_multiplier", 0.3, 30.0),
    "records": Free(
        lambda random: {"type": "gaussian", "noise_multiplier": log_uniform(random, 5.0, 50.0)},
        "/threat_model/records",
        1,
        40,
        whole=True,
        threat_model=lambda _: {"type": "worst_case", "records": 1},
    ),
    "noise_std": Free(_noisy_sgd, "/mechanism/noise_std", 1.0, 9.0),
    "norm": Free(_noisy_sgd, "/mechanism/max_grad_norm", 200.0, 900.0),
    "shift": Free(_mixture_of_shifts, "/mechanism/mechanism/shifts/2", 1.0, 3.0),
    "mu": Free(lambda _: {"type": "gdp", "mu": 1.0}, "/mechanism/mu", 0.05, 5.0),
    "scale": Free(
        lambda _: {"type": "laplace", "noise_multiplier": 1.0}, "/mechanism/noise_multiplier", 0.3, 30.0, bounded=True
    ),
    "scales": Free(_repeated_laplace, "/mechanism/mechanism/noise_multiplier", 2.0, 20.0, bounded=True),
    "scale beside": Free(_composed, "/mechanism/mechanisms/0/noise_multiplier", 3.0, 9.0),
    "epsilon": Free(lambda _: {"type": "pure_dp", "epsilon": 1.0}, "/mechanism/epsilon", 0.05, 5.0, bounded=True),
    "exponential": Free(
        lambda _: {"type": "exponential", "epsilon": 1.0}, "/mechanism/epsilon", 0.05, 5.0, bounded=True
    ),
    "stated delta": Free(
        lambda _: {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-5}, "/mechanism/delta", 1e-2, 0.5
    ),
}
RARE: Final = (
    "scale beside",
    "shift",
    "norm",
    "epochs of a run",
    "data of a run",
    "batch of a run",
    "steps of a run",
    "noise of a phase",
)
"""Descriptions whose answers take longer or move in steps."""
CLOSED: Final = ("noise", "mu", "scale", "epsilon", "exponential")

QUESTIONS: Final[dict[str, Callable[[Generator], Spec]]] = {
    "trade_off": lambda random: {"false_positive_rates": [log_uniform(random, 1e-7, 0.5)]},
    "epsilon": lambda random: {"delta": log_uniform(random, 1e-9, 1e-3)},
    "delta": lambda random: {"epsilon": log_uniform(random, 0.05, 3.0)},
    "advantage": lambda _: {},
    "gdp_mu": lambda _: {"direction": "add"},
    "reconstruction": lambda random: {"baseline_success": log_uniform(random, 1e-6, 0.5)},
    "attack_accuracy": lambda random: {"prior": random.uniform(0.45, 0.55)},
    "positive_predictive_value": lambda random: {
        "prior": random.uniform(0.01, 0.9),
        "false_positive_rate": log_uniform(random, 1e-4, 0.5),
    },
    "negative_predictive_value": lambda random: {
        "prior": random.uniform(0.01, 0.9),
        "false_positive_rate": random.uniform(0.1, 0.9),
        "side": str(random.choice(["at_most", "at_least"])),
    },
    "advantage_over_prior": lambda random: {"prior": random.uniform(0.01, 0.9)},
    "deletion_capacity": lambda random: {"prior": log_uniform(random, 1e-4, 1e-2), "confidence": 0.9},
    "unlearning_guarantee": lambda random: {"prior": random.uniform(0.01, 0.5), "confidence": 0.5},
}
NEAR: Final = 1e-5
EXTREME: Final = ("advantage_over_prior", "deletion_capacity", "unlearning_guarantee")
"""Questions that rest on the largest likelihood ratio."""


@dataclass(frozen=True)
class Case:
    """Calibration, and a value of its free number that meets the target."""

    name: str
    body: Spec
    known: float

    @property
    def end(self) -> str:
        return "at_most" if "at_most" in self.body["targets"][0] else "at_least"


def case(kind: str, seed: int, index: int, rare: float = 0.3) -> Case:
    """Return a calibration to a question of the type `kind`, by seed. Its search starts at another number than the
    solution.

    Answers avoid the endpoints of their range, where they do not distinguish numbers. `rare` is the share of cases from
    the whole space of requests.
    """
    random = np.random.default_rng([seed, index, *kind.encode()])
    fitting = [name for name, free in FREE.items() if free.bounded or kind not in EXTREME]
    likely = [name for name in fitting if name not in RARE and (kind != "gdp_mu" or name in CLOSED)]
    while True:
        name = str(random.choice(fitting if random.uniform() < rare else likely))
        free = FREE[name]
        question = {"type": kind, **QUESTIONS[kind](random)}
        known, start = free.drawn(random), free.drawn(random)
        body: Spec = {
            "mechanism": free.mechanism(random),
            "threat_model": free.threat_model(random),
            "free": free.pointer,
        }
        target: Spec = {"question": question}
        protects = kind in PROTECTING or question.get("side") == "at_least"
        if kind == "trade_off" and random.uniform() < 0.3:
            target["reads"], protects = "type_two_error", True
        body["targets"] = [target]
        answer = bounds_of_target(with_number(body, known))
        target["at_least" if protects else "at_most"] = limit = answer["lower" if protects else "upper"]
        if math.isinf(limit):
            continue
        least, most = value_range(CalibrationTarget.model_validate_json(json.dumps(target)))
        if limit - least > NEAR * least and (limit > 0) and (most - limit > NEAR or most == math.inf > limit):
            return Case(f"{kind}, {name}", with_number(body, start), known)


def with_number(body: Spec, number: float) -> Spec:
    """Return the body with a number at the pointer `free`."""
    found = copy.deepcopy(body)
    *steps, last = found["free"][1:].split("/")
    inner: Any = found
    for step in steps:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    inner[int(last) if isinstance(inner, list) else last] = number
    return found


def bounds_of_target(body: Spec, target: int = 0) -> dict[str, float]:
    """Return both bounds of the number of a target by `/v1/bounds`, and their logarithms for tiny numbers."""
    wanted = body["targets"][target]
    sent = {
        "mechanism": body["mechanism"],
        "threat_model": wanted.get("threat_model", body.get("threat_model", {"type": "worst_case"})),
        "questions": [wanted["question"]],
        "relative_tolerance": body.get("relative_tolerance", 1e-6) / 4,
    }
    [answer] = compute_bounds(BoundsRequest.model_validate_json(json.dumps(sent)), "", "")["answers"]
    if answer["type"] == "trade_off":
        answer = answer["points"][0][wanted.get("reads", "power")]
    return {name: answer[name] for name in ("lower", "upper", "lower_log10", "upper_log10") if name in answer}


def calibrated(body: Spec) -> dict[str, Any]:
    """Return the parsed response of the calibration."""
    request = CalibrationsRequest.model_validate_json(json.dumps(body))
    written: dict[str, Any] = json.loads(CALIBRATIONS.body(request, "sha256:" + "0" * 64, "2026.1.1"))
    return written


def meets(target: Spec, answer: dict[str, float]) -> bool:
    """Return whether the limit of a target is certainly kept."""
    (upper, at_most), (lower, at_least) = compared(target, answer, "upper"), compared(target, answer, "lower")
    return upper <= at_most if "at_most" in target else lower >= at_least


def fails(target: Spec, answer: dict[str, float]) -> bool:
    """Return whether the limit of a target is certainly broken."""
    (upper, at_most), (lower, at_least) = compared(target, answer, "upper"), compared(target, answer, "lower")
    return lower > at_most if "at_most" in target else upper < at_least


def compared(target: Spec, answer: dict[str, float], end: str) -> tuple[float, float]:
    """Return the lower or upper bound of an answer and the limit of its target, or the logarithms of both.

    `end` is `lower` or `upper`.
    """
    limit: float = target["at_most" if "at_most" in target else "at_least"]
    if f"{end}_log10" not in answer or limit == 0:
        return answer[end], limit
    return answer[f"{end}_log10"], math.log10(limit)


def wrong(found: Case, answer: dict[str, Any]) -> str:
    """Return what is wrong with the response to the calibration `found`, or ""."""
    [target], value, body = found.body["targets"], answer["value"], found.body
    if answer["status"] == "trivially_met":
        return "" if meets(target, bounds_of_target(with_number(body, value))) else "does not meet the target"
    if answer["status"] != "met":
        return f"is {answer['status']}, and {found.known!r} meets the target"
    if not meets(target, bounds_of_target(with_number(body, value))):
        return "does not meet the target"
    whole = isinstance(value, int)
    reach = 1 if whole else 1e-6 * abs(value)
    witness = answer["witness"]
    if witness is None:
        return f"has no witness: {answer['no_witness']['reason']}"
    if not fails(target, bounds_of_target(with_number(body, witness["value"]))):
        return "has a witness that does not fail"
    if abs(witness["value"] - value) > reach * (1 + 1e-9):
        return "has a witness too far away"
    toward = 1 if value > witness["value"] else -1
    if toward * (value - found.known) > reach:
        return f"is more private than {found.known!r}, which meets the target"
    return ""
