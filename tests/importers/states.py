"""States written by the libraries themselves (`benchmarks/peers/states.py`), and the mechanisms that they describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from api_schemas.bounds import BoundsRequest
from service.importers.catalogue import validate_with_imports
from service.resources.bounds import BOUNDS

FOLDER = Path(__file__).with_name("fixtures")
STATES: dict[str, dict[str, dict[str, Any]]] = {
    path.stem: json.loads(path.read_text("utf-8"))["states"] for path in sorted(FOLDER.glob("*.json"))
}
RUN: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
FIXED: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.0, "batch_size": 480, "dataset_size": 48_000}
TRAINED: dict[str, Any] = {"type": "dpsgd", "noise_multiplier": 1.1, "sample_rate": 0.125, "steps": 24}
SIZES: dict[str, Any] = {
    "type": "dpsgd",
    "noise_multiplier": 1.1,
    "batch_size": 256,
    "dataset_size": 60_000,
    "epochs": 15,
}
MEANT: dict[str, dict[str, dict[str, Any]]] = {
    "opacus": {
        "prv": RUN,
        "rdp": RUN,
        "gdp": RUN,
        "schedule": RUN | {"noise_multiplier": [1.2, 1.0, 0.8], "steps": [200, 200, 100]},
        "trained": TRAINED,
        "trained_on_shuffled_epochs": TRAINED,
    },
    "riskcal": {
        "accountant": RUN | {"noise_multiplier": [1.0, 0.9], "steps": [300, 100]},
        "arguments": RUN,
        "arguments_of_beta": RUN,
    },
    "rdp": {
        "accountant": {"type": "rdp", "orders": [1.5, 2.0, 8.0, 32.0], "epsilons": [0.02, 0.03, 0.12, 0.5]},
        "unsorted": {"type": "rdp", "orders": [1.0, 2.0, 4.0, "Infinity"], "epsilons": [0.01, 0.04, 0.04, 1.0]},
    },
    "zcdp": {
        "smartnoise": {"type": "zcdp", "rho": 0.15},
        "opendp": {"type": "zcdp", "rho": 0.5},
        "opendp_pure": {"type": "pure_dp", "epsilon": 1.0},
        "opendp_approximate": {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6},
        "opendp_approximate_zcdp": {
            "type": "composed",
            "mechanisms": [{"type": "zcdp", "rho": 0.1}, {"type": "approximate_dp", "epsilon": 0.0, "delta": 1e-6}],
        },
    },
    "jax_privacy": {
        "dpsgd": RUN,
        "fixed": FIXED | {"sampling": "fixed_without_replacement", "steps": 1000},
        "replaced": FIXED | {"sampling": "fixed_with_replacement", "steps": 1000},
        "banded": RUN | {"steps": 143},
    },
    "tf_privacy": {
        "plain": SIZES,
        "microbatches": SIZES | {"noise_multiplier": 0.55},
        "users": SIZES,
        "fractional": SIZES | {"epochs": 0.3},
        "deprecated": SIZES,
    },
    "dp_accounting": {
        "gaussian": {"type": "gaussian", "noise_multiplier": 4.0},
        "laplace": {"type": "laplace", "noise_multiplier": 2.0},
        "sampled": {
            "type": "poisson_sampled",
            "sample_rate": 0.01,
            "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        },
        "run": RUN,
        "built": RUN | {"noise_multiplier": [1.2, 1.0, 0.8], "steps": [100, 200, 100]},
        "composed": {
            "type": "composed",
            "mechanisms": [RUN | {"steps": 100}, {"type": "laplace", "noise_multiplier": 10.0}],
        },
        "mixture": {
            "type": "repeated",
            "steps": 50,
            "mechanism": {
                "type": "gaussian_mixture",
                "noise_multiplier": 1.0,
                "shifts": [0.0, 1.0, 2.0],
                "weights": [0.9, 0.09, 0.01],
            },
        },
        "discrete_laplace": {"type": "discrete_laplace", "scale": 2.0, "sensitivity": 1},
        "discrete_laplace_twice_as_far": {"type": "discrete_laplace", "scale": 2.0, "sensitivity": 2},
        "fixed_without_replacement": FIXED | {"sampling": "fixed_without_replacement", "steps": 1000},
        "fixed_with_replacement": FIXED | {"sampling": "fixed_with_replacement", "steps": 1},
        "zcdp": {"type": "zcdp", "rho": 0.5},
        "best_of_several": {
            "type": "selected",
            "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
            "trials": {"type": "truncated_negative_binomial", "mean": 10.0, "shape": 1.0},
            "released": "best",
        },
        "nothing": {"type": "pure_dp", "epsilon": 0.0},
        "not_private": {"type": "approximate_dp", "epsilon": 0.0, "delta": 1.0},
    },
}
"""The mechanism that each state describes, written by hand. Missing states are rejected or only bounded."""
BOUNDED: dict[str, float] = {"randomized_response": 1.0986122886681098, "many_buckets": 2.3978952727983707}
"""Events of randomised response, with epsilon rounded up: ln 3 and ln 11."""
REFUSED: dict[str, dict[str, str]] = {
    "dp_accounting": dict.fromkeys(("unsupported", "truncated", "tree"), "/class_name"),
    "jax_privacy": {"truncated": "/truncated_batch_size"},
}
"""Pointers at which the other states are rejected."""
ALL = [(library, name) for library, states in STATES.items() for name in states]
KNOWN = [(library, name) for library, states in MEANT.items() for name in states]


def parsed_request(mechanism: Any, *questions: dict[str, Any], **more: Any) -> BoundsRequest:
    """Return a request as the service reads it."""
    body = {"mechanism": mechanism, "questions": questions or [{"type": "epsilon", "delta": 1e-5}], **more}
    return validate_with_imports(BoundsRequest, json.dumps(body).encode())


def imported(content: Any, library: str = "detect") -> dict[str, Any]:
    """Return the mechanism of a request that imports the state `content` of another library."""
    return {"type": "imported", "format": library, "content": content}


def first_answer(request: BoundsRequest) -> dict[str, Any]:
    """Compute the answer to the first question."""
    answer: dict[str, Any] = json.loads(BOUNDS.body(request, "sha256:" + "0" * 64, "1"))["answers"][0]
    return answer
