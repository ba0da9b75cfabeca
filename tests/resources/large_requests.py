"""Large requests within the limits of the contract, by seed: many parts, phases, questions, points, runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from tests.resources.request_space import QUESTIONS, Spec, spread

LISTED, PARTS, ASKED = 10_000, 256, 256
LARGE: Final = spread(50, 9_900)


def _one(random: Generator) -> Spec:
    """Draw a step whose numbers were not drawn before."""
    kind, noise = random.uniform(), float(random.uniform(0.7, 5.0))
    if kind < 0.4:
        return {
            "type": "dpsgd",
            "noise_multiplier": noise,
            "sample_rate": float(random.uniform(1e-3, 0.2)),
            "steps": int(random.integers(1, 900)),
        }
    if kind < 0.6:
        return {"type": "gaussian", "noise_multiplier": noise}
    if kind < 0.8:
        return {"type": "laplace", "noise_multiplier": 10 * noise}
    inside = {"type": "gaussian", "noise_multiplier": noise}
    return {
        "type": "repeated",
        "steps": int(random.integers(1, 50)),
        "mechanism": {"type": "poisson_sampled", "sample_rate": float(random.uniform(1e-3, 0.9)), "mechanism": inside},
    }


def composed(random: Generator) -> Spec:
    """Draw a composition with up to the largest number of parts, all of one kind or of any kind."""
    count = PARTS if random.uniform() < 0.5 else int(random.integers(2, PARTS + 1))
    kind = type_of(random)
    parts = [_one(random) for _ in range(4 * count)]
    chosen = [part for part in parts if kind in ("", part["type"])][:count]
    return {"type": "composed", "mechanisms": chosen or parts[:count]}


def type_of(random: Generator) -> str:
    return str(random.choice(["", "dpsgd", "gaussian", "laplace", "repeated"]))


def phases(random: Generator) -> Spec:
    """Draw a run whose numbers change from phase to phase."""
    count = int(LARGE(random))
    return {
        "type": "dpsgd",
        "noise_multiplier": random.uniform(0.7, 5.0, count).tolist(),
        "sample_rate": random.uniform(1e-3, 0.2, count).tolist() if random.uniform() < 0.5 else 0.01,
        "steps": random.integers(1, 90, count).tolist(),
    }


def mixture(random: Generator) -> Spec:
    count = int(random.integers(2, 33))
    shares = random.dirichlet(np.ones(count)).tolist()
    return {"type": "mixture", "components": [{"weight": share, "mechanism": _one(random)} for share in shares]}


def mechanism(random: Generator) -> Spec:
    return (composed, composed, phases, phases, mixture, _one)[random.integers(6)](random)


def questions(random: Generator, most: int = ASKED) -> list[Spec]:
    """Draw many questions of one kind with different numbers, or of any kind."""
    names = list(QUESTIONS) if random.uniform() < 0.5 else [str(random.choice(list(QUESTIONS)))]
    count = int(random.choice([1, 4, most]))
    return [{"type": name, **QUESTIONS[name](random)} for name in (str(random.choice(names)) for _ in range(count))]


def _rates(random: Generator, most: int) -> Spec:
    count = int(random.choice([10, most]))
    return {"type": "trade_off", "false_positive_rates": np.geomspace(1e-9, 0.9, count).tolist()}


def _bounds(random: Generator) -> Spec:
    asked = questions(random) if random.uniform() < 0.7 else [_rates(random, LISTED)]
    method = {"method": "all"} if random.uniform() < 0.15 else {}
    return {"mechanism": mechanism(random), "questions": asked, **method}


def _curves(random: Generator) -> Spec:
    count = int(random.choice([100, 10_000]))
    grid = {"spacing": "log_mirrored", "smallest": 1e-9, "largest": 0.5, "count": count}
    return {"mechanism": mechanism(random), "threat_models": [{"type": "worst_case"}], "grid": grid}


def _sweep(random: Generator) -> Spec:
    """Draw a sweep with up to 10 000 points, or 100 000 numbers."""
    swept = mechanism(random)
    asked = [each for each in questions(random, 16) if each["type"] != "gdp_mu"] or [{"type": "advantage"}]
    asked = asked if random.uniform() < 0.8 else [_rates(random, 5_000)]
    numbers = sum(2 * len(each.get("false_positive_rates", [0])) for each in asked)
    most = min(10_000, 100_000 // numbers)
    place, inside = "/mechanism", swept
    if swept["type"] == "composed":
        place, inside = "/mechanism/mechanisms/0", swept["mechanisms"][0]
    elif swept["type"] == "mixture":
        place, inside = "/mechanism/components/0/mechanism", swept["components"][0]["mechanism"]
    if inside["type"] == "repeated":
        pointer, values = f"{place}/steps", {"from": 1, "to": 10_000, "count": int(spread(1, most)(random))}
    elif isinstance(inside.get("noise_multiplier"), list):
        pointer, values = f"{place}/noise_multiplier/0", {"from": 1, "to": 5, "count": int(spread(1, most)(random))}
    else:
        pointer, values = f"{place}/noise_multiplier", {"from": 0.7, "to": 9, "count": int(spread(1, most)(random))}
    return {
        "mechanism": swept,
        "vary": {pointer: values if values["count"] > 1 else {"values": [3]}},
        "questions": asked,
    }


def _comparison(random: Generator) -> Spec:
    count = int(random.integers(2, 17))
    runs = [{"name": f"run {place}", "mechanism": mechanism(random)} for place in range(count)]
    return {
        "runs": runs,
        "questions": [each for each in questions(random, 16) if each["type"] != "trade_off"][:16]
        or [{"type": "advantage"}],
    }


def _calibration(random: Generator) -> Spec:
    swept = composed(random)
    swept["mechanisms"][0] = {"type": "gaussian", "noise_multiplier": 1.0}
    target = {"question": {"type": "epsilon", "delta": 1e-6}, "at_most": 5.0}
    return {"mechanism": swept, "free": "/mechanism/mechanisms/0/noise_multiplier", "targets": [target]}


def _assessment(random: Generator) -> Spec:
    return {"mechanism": mechanism(random), "context": {"delta": 1e-6, "dataset_size": 100_000}}


def _claims(random: Generator) -> Spec:
    stated = [{"question": {"type": "epsilon", "delta": 10.0 ** -int(random.integers(2, 12))}, "value": 3.0}]
    return {"mechanism": mechanism(random), "claims": stated}


def _imports(random: Generator) -> Spec:
    """Draw a state of Opacus with many phases."""
    count = int(LARGE(random))
    noises, rates = random.uniform(0.7, 5.0, count), random.uniform(1e-3, 0.2, count)
    history = [[float(noise), float(rate), 10] for noise, rate in zip(noises, rates, strict=True)]
    return {"format": "opacus", "content": {"history": history, "mechanism": "prv"}}


KINDS: Final[dict[str, Callable[[Generator], Any]]] = {
    "bounds": _bounds,
    "curves": _curves,
    "sweeps": _sweep,
    "comparisons": _comparison,
    "calibrations": _calibration,
    "assessments": _assessment,
    "claims": _claims,
    "imports": _imports,
}


def large_request(random: Generator, names: tuple[str, ...] = tuple(KINDS)) -> tuple[str, Spec]:
    """Draw the name of a resource, and a large request for it."""
    name = str(random.choice(names))
    return name, KINDS[name](random)
