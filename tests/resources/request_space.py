"""Random bodies of requests over everything that the contract allows, corners included, by seed."""

from __future__ import annotations

import math
from collections import abc
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from api_schemas.fields import shape_of_field
from api_schemas.training_runs import DpsgdMechanism
from service.privacy.composition.planning import choose

Spec = dict[str, Any]
Draw = Callable[[Generator], float]

CORNER_SHARE: Final = 0.25
LAST: Final = math.nextafter(1.0, 0.0)
NOT_POISSON: Final = shape_of_field(DpsgdMechanism.model_fields["sampling"]).choices[1:]
"""Samplers of DP-SGD other than the default."""


def spread(low: float, high: float, *corners: float) -> Draw:
    """Return a log-uniform draw between positive endpoints.

    Every fourth number is an endpoint or one of the numbers `corners`.
    """

    def draw(random: Generator) -> float:
        if random.uniform() < CORNER_SHARE:
            return float(random.choice([low, high, *corners]))
        return float(math.exp(random.uniform(math.log(low), math.log(high))))

    return draw


def mostly_common(low: float, high: float, rare: Draw) -> Draw:
    """Return a number, which is from [`low`, `high`] in two of three draws, and from the function `rare` in
    the others.
    """
    return lambda random: spread(low, high)(random) if random.uniform() < 2 / 3 else rare(random)


noise = mostly_common(0.3, 30.0, spread(1e-4, 1e15))
rate = mostly_common(1e-3, 0.5, spread(1e-300, 1.0, LAST, 0.5, 1e-12))
epsilon = mostly_common(0.01, 8.0, spread(1e-12, 1e6, 0.0, 700.0, 800.0))
delta = mostly_common(1e-9, 1e-2, spread(1e-300, 1.0, 0.0, 0.5, LAST))
rho = mostly_common(1e-3, 10.0, spread(1e-12, 1e4, 0.0))
mu = mostly_common(0.01, 5.0, spread(1e-12, 1e6, 0.0))
probability = mostly_common(1e-6, 0.9, spread(1e-300, 1.0, 0.0, 0.5, LAST))


def _whole(low: float, high: float, most: float) -> Callable[[Generator], int]:
    drawn = mostly_common(low, high, spread(1.0, most))
    return lambda random: int(drawn(random))


steps = _whole(1, 3000, 1e12)


def _gaussian(random: Generator) -> Spec:
    return {"type": "gaussian", "noise_multiplier": noise(random)}


def _laplace(random: Generator) -> Spec:
    return {"type": "laplace", "noise_multiplier": noise(random)}


def _sampled(random: Generator) -> Spec:
    inner = (_gaussian, _laplace)[random.integers(2)](random)
    return {"type": "poisson_sampled", "sample_rate": rate(random), "mechanism": inner}


def _dpsgd(random: Generator) -> Spec:
    return {
        "type": "dpsgd",
        "noise_multiplier": noise(random),
        "sample_rate": rate(random),
        "steps": steps(random),
    }


def _drawn_batches(random: Generator) -> Spec:
    """Draw a run of DP-SGD with batches that are not Poisson samples."""
    size = _whole(10, 1e5, 1e12)(random)
    length: Spec = {"epochs": int(random.integers(1, 20))} if random.uniform() < 0.3 else {"steps": steps(random)}
    return {
        "type": "dpsgd",
        "sampling": str(random.choice(NOT_POISSON)),
        "noise_multiplier": noise(random),
        "dataset_size": size,
        "batch_size": max(1, int(size * min(rate(random), 1.0))),
        **length,
    }


def _gaussian_mixture(random: Generator) -> Spec:
    number = int(random.integers(1, 6))
    shares = random.dirichlet(np.ones(number)).tolist()
    shifts = [mostly_common(0.1, 10.0, spread(1e-15, 1e15, 0.0))(random) for _ in shares]
    return {"type": "gaussian_mixture", "noise_multiplier": noise(random), "shifts": shifts, "weights": shares}


def _noisy_sgd(random: Generator) -> Spec:
    size = _whole(10, 1e5, 1e12)(random)
    found: Spec = {
        "type": "noisy_sgd",
        "dataset_size": size,
        "batch_size": size if random.uniform() < 0.3 else max(1, int(size * random.uniform())),
        "dimension": _whole(2, 1e4, 1e9)(random),
        "steps": _whole(1, 100, 1e12)(random),
        "noise_std": float(random.choice([0.0, 1.0])) * random.uniform(0.01, 3.0),
    }
    if random.uniform() < 0.7:
        # n tau/C has the range of noise multipliers.
        found["max_grad_norm"] = max(size * found["noise_std"] / noise(random), 1e-300) if found["noise_std"] else 1.0
        found["max_grad_norm"] = min(found["max_grad_norm"], 1e15)
    if random.uniform() < 0.3:
        found["susceptibility"] = spread(1e-6, 1e12, 0.0)(random)
    return found


ELEMENTS: Final[dict[str, Callable[[Generator], Spec]]] = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "poisson_sampled": _sampled,
    "dpsgd": lambda random: (_dpsgd if random.uniform() < 0.7 else _drawn_batches)(random),
    "gaussian_mixture": _gaussian_mixture,
    "noisy_sgd": _noisy_sgd,
    "gdp": lambda random: {"type": "gdp", "mu": mu(random)},
    "pure_dp": lambda random: {"type": "pure_dp", "epsilon": epsilon(random)},
    "approximate_dp": lambda random: {"type": "approximate_dp", "epsilon": epsilon(random), "delta": delta(random)},
    "exponential": lambda random: {"type": "exponential", "epsilon": epsilon(random)},
}


def _rdp(random: Generator) -> Spec:
    """Draw Renyi orders with rising bounds: the bounds of Gaussian noise, times rising factors."""
    orders: list[Any] = sorted({round(1 + spread(1e-3, 1e3, 1.0)(random), 6) for _ in range(random.integers(1, 6))})
    factor, found = rho(random), []
    for order in orders:
        factor *= 1 + random.uniform() * (random.uniform() < 0.5)
        found.append(min(factor * order, 1e6))
    if random.uniform() < 0.3:
        orders.append("Infinity")
        found.append(min(2 * found[-1] + epsilon(random), 1e6))
    more = {"directions": "forward_only"} if random.uniform() < 0.3 else {}
    return {"type": "rdp", "orders": orders, "epsilons": found, **more}


LATER: Final[dict[str, Callable[[Generator], Spec]]] = {
    "zcdp": lambda random: {"type": "zcdp", "rho": rho(random)},
    "rdp": _rdp,
    "randomized_response": lambda random: {
        "type": "randomized_response",
        "epsilon": epsilon(random),
        "options": max(2, _whole(2, 100, 1e12)(random)),
    },
    "shuffled_reports": lambda random: _shuffled_reports(random),  # noqa: PLW0108 - defined below
    "unary_encoding": lambda random: _unary_encoding(random),  # noqa: PLW0108 - defined below
    "staircase": lambda random: {"type": "staircase", "epsilon": epsilon(random), "gamma": random.uniform()},
    "discrete_laplace": lambda random: {
        "type": "discrete_laplace",
        "scale": mostly_common(0.3, 30.0, spread(1e-3, 1e9))(random),
        "sensitivity": _whole(1, 10, 10_000)(random),
    },
    "discrete_gaussian": lambda random: {
        "type": "discrete_gaussian",
        "sigma": mostly_common(0.3, 30.0, spread(1e-2, 1e4))(random),
        "sensitivity": _whole(1, 10, 10_000)(random),
        "dimension": _whole(1, 2, 1e9)(random),
    },
    "skellam": lambda random: {
        "type": "skellam",
        "variance": mostly_common(0.3, 300.0, spread(1e-3, 1e7))(random),
        "sensitivity": _whole(1, 10, 10_000)(random),
    },
    "report_noisy_max": lambda random: {
        "type": "report_noisy_max",
        "noise": str(random.choice(["gumbel", "exponential", "laplace"])),
        "scale": mostly_common(0.3, 30.0, spread(1e-6, 1e15))(random),
        "sensitivity": mostly_common(0.5, 5.0, spread(1e-6, 1e15))(random),
        "monotone": bool(random.integers(2)),
    },
    "permute_and_flip": lambda random: {"type": "permute_and_flip", "epsilon": epsilon(random)},
    "sparse_vector": lambda random: {
        "type": "sparse_vector",
        "threshold_epsilon": mostly_common(0.05, 2.0, spread(1e-6, 1e4))(random),
        "query_epsilon": mostly_common(0.05, 2.0, spread(1e-6, 1e4))(random),
        "positives": _whole(1, 5, 10**6)(random),
    },
}
"""Elements that are younger than the stored answers of tests/frozen, whose requests have none of them."""
LATER_SHARE: Final = 0.25
_only_earlier = ContextVar("only_earlier", default=False)


@contextmanager
def earlier_mechanisms() -> abc.Generator[None]:
    """Draw requests without the mechanisms of `LATER`."""
    token = _only_earlier.set(True)
    try:
        yield
    finally:
        _only_earlier.reset(token)


def _shuffled_reports(random: Generator) -> Spec:
    local, reports = min(epsilon(random), 100.0), _whole(1, 10_000, 1e9)(random)
    randomizer: Spec = {"type": "pure_dp", "epsilon": local}
    if random.uniform() < 0.6:
        options = 2 if random.uniform() < 0.5 else max(2, _whole(2, 20, 1e12)(random))
        randomizer = {"type": "randomized_response", "epsilon": local, "options": options}
    found: Spec = {"type": "shuffled_reports", "reports": reports, "randomizer": randomizer}
    if randomizer.get("options") == 2 and random.uniform() < 0.5:
        found["others_holding_one"] = int(random.integers(reports))
    return found


def _unary_encoding(random: Generator) -> Spec:
    low, high = sorted((probability(random), probability(random)))
    if low == high:
        low, high = 0.25, 0.75
    found: Spec = {"type": "unary_encoding", "true_bit": high, "false_bit": low}
    return found if random.uniform() < 0.5 else {**found, "bits_per_value": _whole(1, 5, 1000)(random)}


COMPOUNDS: Final = ("repeated", "composed", "mixture", "selected")
TRIALS: Final[dict[str, Callable[[Generator], Spec]]] = {
    "fixed": lambda random: {"count": _whole(1, 30, 1e6)(random)},
    "geometric": lambda random: {"mean": mostly_common(1.0, 40.0, spread(1.0, 1e6))(random)},
    "truncated_negative_binomial": lambda random: {
        "mean": mostly_common(1.0, 40.0, spread(1.0, 1e6))(random),
        "shape": float(random.choice([-0.9, -0.5, 0.0, 0.5, 1.0, 2.0, 100.0])),
    },
    "poisson": lambda random: {"mean": mostly_common(0.1, 40.0, spread(1e-300, 1e6))(random)},
    "binomial": lambda random: {"count": _whole(1, 30, 1e6)(random), "probability": rate(random)},
}
SELECTED_SHARE: Final = 0.08
"""Share of mechanisms that are selections of several trials."""


def _selected(random: Generator) -> Spec:
    """Draw a selection of trials of an element or of a short composition."""
    law = str(random.choice(list(TRIALS)))
    base = ELEMENTS[DRAWN[random.integers(len(DRAWN))]](random)
    if random.uniform() < 0.3:
        base = {"type": "repeated", "mechanism": base, "steps": int(random.integers(1, 50))}
    released = "all" if random.uniform() < 0.2 else "best"
    return {"type": "selected", "mechanism": base, "trials": {"type": law, **TRIALS[law](random)}, "released": released}


DRAWN: Final = tuple(name for name in ELEMENTS for _ in range(2 if name == "dpsgd" else 1))


def mechanism(random: Generator, depth: int = 3) -> Spec:
    """Draw a mechanism, nested up to a depth. Mixtures and selections are outermost."""
    if depth == 3 and not _only_earlier.get():
        (beside,) = random.spawn(1)
        if beside.uniform() < SELECTED_SHARE:
            return _selected(beside)
    kind = random.uniform() if depth > 0 else 0.0
    if kind < 0.4:
        (aside,) = random.spawn(1)  # a stream of its own: requests without later elements stay the same
        if not _only_earlier.get() and aside.uniform() < LATER_SHARE:
            return LATER[list(LATER)[aside.integers(len(LATER))]](aside)
        return ELEMENTS[DRAWN[random.integers(len(DRAWN))]](random)
    inside = min(depth, 2) - 1
    if kind < 0.6:
        return {"type": "repeated", "mechanism": mechanism(random, inside), "steps": steps(random)}
    if kind < 0.92 or depth < 3:
        return {"type": "composed", "mechanisms": [mechanism(random, inside) for _ in range(random.integers(1, 5))]}
    weight = random.uniform()
    return {
        "type": "mixture",
        "components": [{"weight": share, "mechanism": mechanism(random, inside)} for share in (weight, 1 - weight)],
    }


def _direction(random: Generator, question: Spec) -> Spec:
    return question if random.uniform() < 0.5 else {**question, "direction": random.choice(["add", "remove", "both"])}


QUESTIONS: Final[dict[str, Callable[[Generator], Spec]]] = {
    "trade_off": lambda random: {"false_positive_rates": [probability(random) for _ in range(random.integers(1, 4))]},
    "epsilon": lambda random: {"delta": delta(random)},
    "delta": lambda random: {"epsilon": epsilon(random)},
    "advantage": lambda _: {},
    "gdp_mu": lambda _: {},
    "reconstruction": lambda random: {"baseline_success": probability(random)},
    "attack_accuracy": lambda random: {"prior": probability(random), **_rate(random)},
    "positive_predictive_value": lambda random: {"prior": probability(random), **_rate(random), **_side(random)},
    "negative_predictive_value": lambda random: {"prior": probability(random), **_rate(random), **_side(random)},
    "advantage_over_prior": lambda random: {"prior": probability(random)},
    "deletion_capacity": lambda random: {"prior": probability(random), "confidence": probability(random)},
    "unlearning_guarantee": lambda random: {"prior": probability(random), "confidence": probability(random)},
}


def _rate(random: Generator) -> Spec:
    return {} if random.uniform() < 0.5 else {"false_positive_rate": probability(random)}


def _side(random: Generator) -> Spec:
    return {} if random.uniform() < 0.5 else {"side": "at_least"}


def question(random: Generator) -> Spec:
    """Draw one question of any type."""
    name = str(random.choice(list(QUESTIONS)))
    return _direction(random, {"type": name, **QUESTIONS[name](random)})


THREATS: Final[tuple[Callable[[Generator], Spec], ...]] = (
    lambda _: {"type": "worst_case", "neighboring_relation": "replace_one"},
    lambda random: {"type": "worst_case", "records": _whole(2, 8, 64)(random)},
    lambda _: {"type": "worst_case", "neighboring_relation": "zero_out"},
    lambda random: {"type": "glrt", "dimension": _whole(1, 1000, 1e9)(random)},
    lambda _: {"type": "membership"},
    lambda random: {"type": "practical", "epsilon_pmp": epsilon(random)},
)
METHODS: Final = (*choose.METHODS[1:], "all")


def body(random: Generator) -> Spec:
    """Draw one request for bounds: mostly defaults, some against another attacker or by another method."""
    found: Spec = {"mechanism": mechanism(random), "questions": [question(random)]}
    if random.uniform() < 0.25:
        found["threat_model"] = THREATS[random.integers(len(THREATS))](random)
    if random.uniform() < 0.33:
        found["method"] = str(random.choice(METHODS))
        if found["method"] == "ground_truth":
            found["digits"] = int(random.integers(15, 51))
        if found["method"] == "monte_carlo":
            found["samples"], found["seed"] = 2000, 1
    return found


def _several(random: Generator) -> Spec:
    """Draw one mechanism with a few different questions, or the largest number of questions."""
    found = body(random)
    if random.uniform() < 0.8:
        found["questions"] += [question(random) for _ in range(random.integers(1, 8))]
    else:
        kind = str(random.choice(list(QUESTIONS)))
        found["questions"] = [_direction(random, {"type": kind, **QUESTIONS[kind](random)}) for _ in range(256)]
    return found


def _curves(random: Generator) -> Spec:
    """Draw a body of `POST /v1/curves`."""
    found = body(random)
    method = found.pop("method", "auto")
    del found["questions"]
    return {
        **found,
        "threat_models": [found.pop("threat_model", {"type": "worst_case"})],
        "methods": ["auto" if method == "all" else method],
        "directions": [str(random.choice(["add", "remove", "both"]))],
        "grid": {
            "spacing": "log_mirrored",
            "smallest": 10.0 ** -int(random.integers(1, 30)),
            "largest": 0.5,
            "count": int(random.choice([10, 100, 1000, 5000])),
        },
    }


def any_request(random: Generator) -> tuple[str, Spec]:
    """Draw the name of a resource, `bounds` or `curves`, and a body for it."""
    kind = random.uniform()
    if kind < 0.08:
        return "curves", _curves(random)
    return "bounds", _several(random) if kind < 0.2 else body(random)
