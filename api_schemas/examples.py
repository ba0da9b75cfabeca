"""Named examples of realistic requests for the published document."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

BOUNDS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "dpsgd_run": {
        "summary": "DP-SGD training run: reconstruction robustness and epsilon",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "questions": [
                {"type": "reconstruction", "baseline_success": 0.001},
                {"type": "epsilon", "delta": 1e-5},
            ],
        },
    },
    "laplace_release": {
        "summary": "Membership inference from one statistic with Laplace noise",
        "value": {
            "mechanism": {"type": "laplace", "noise_multiplier": 2.0},
            "threat_model": {"type": "worst_case", "neighboring_relation": "add_or_remove_one"},
            "questions": [
                {"type": "advantage"},
                {"type": "positive_predictive_value", "prior": 0.1, "false_positive_rate": 0.001},
                {"type": "trade_off", "false_positive_rates": [0.001, 0.01, 0.1], "direction": "both"},
            ],
        },
    },
}

CURVES_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "dpsgd_directions": {
        "summary": "DP-SGD training run: curves in both directions at 100 rates from 1e-9 to 1/2",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "directions": ["add", "remove"],
            "grid": {"count": 100, "smallest": 1e-9, "largest": 0.5, "spacing": "log"},
        },
    },
    "gaussian_relations": {
        "summary": "Gaussian release under two neighbouring relations",
        "value": {
            "mechanism": {"type": "gaussian", "noise_multiplier": 2.0},
            "threat_models": [
                {"type": "worst_case", "neighboring_relation": "add_or_remove_one"},
                {"type": "worst_case", "neighboring_relation": "replace_one"},
            ],
            "false_positive_rates": [0.001, 0.01, 0.1, 0.5],
        },
    },
}

COMPARISONS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "noise_or_steps": {
        "summary": "Effect of more noise, fewer steps or both on epsilon and on an attack at a small rate",
        "value": {
            "runs": [
                {
                    "name": "baseline",
                    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
                },
                {
                    "name": "more noise",
                    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.3, "sample_rate": 0.01, "steps": 1000},
                },
                {
                    "name": "fewer steps",
                    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 400},
                },
            ],
            "questions": [
                {"type": "epsilon", "delta": 1e-5},
                {"type": "trade_off", "false_positive_rates": [1e-3, 1e-6]},
            ],
        },
    },
    "gaussian_or_laplace": {
        "summary": "Two releases whose curves cross: the false positive rate decides which one is better",
        "value": {
            "runs": [
                {"name": "Gaussian", "mechanism": {"type": "gaussian", "noise_multiplier": 1.0}},
                {"name": "Laplace", "mechanism": {"type": "laplace", "noise_multiplier": 1.0}},
            ],
            "questions": [{"type": "advantage"}, {"type": "positive_predictive_value", "prior": 0.1}],
        },
    },
}

CLAIMS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "power_at_a_small_rate": {
        "summary": "Grid-based claims of a library about a DP-SGD run, unsafe at small rates",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 0.5, "sample_rate": 0.002, "steps": 10_000},
            "claims": [
                {"question": {"type": "trade_off", "false_positive_rates": [1e-4]}, "value": 4.1005575246444437e-07},
                {"question": {"type": "advantage"}, "value": 0.4414, "relative_tolerance": 1e-3},
            ],
        },
    },
    "epsilon_of_a_release": {
        "summary": "Claims about epsilon and mu of a Gaussian release: finite, infinite and loose",
        "value": {
            "mechanism": {"type": "gaussian", "noise_multiplier": 2.0},
            "threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"},
            "claims": [
                {"question": {"type": "epsilon", "delta": 1e-5}, "value": 1.9},
                {"question": {"type": "epsilon", "delta": 0}, "value": "Infinity"},
                {"question": {"type": "gdp_mu"}, "value": 1.5},
            ],
        },
    },
}

GDP_GMIP_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "noise_for_membership_privacy": {
        "summary": "Noise and GDP of a training run with target 0.5-GMIP",
        "value": {
            "mu_mip": 0.5,
            "dimension": 650,
            "batch_size": 400,
            "max_grad_norm": 500.0,
            "dataset_size": 48_000,
            "epochs": 10.0,
        },
    },
    "one_step": {
        "summary": "One step with 1-GDP against an adversary who does not know the other records",
        "value": {"mu_dp": 1.0, "dimension": 650, "batch_size": 500},
    },
}

MEMBERSHIP_CONVERSIONS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "accusations": {
        "summary": "Epsilon and sampling rate that limit the positive predictive value to 75 %",
        "value": {
            "conversions": [
                {"type": "largest_epsilon", "positive_predictive_value": 0.75, "prior": 0.5},
                {"type": "largest_sampling_rate", "positive_predictive_value": 0.75, "epsilon": 2.0},
                {"type": "prior_of_largest_advantage", "epsilon": 1.0},
            ]
        },
    },
    "deletions": {
        "summary": "Epsilon and prior for ten deletions without retraining at confidence 0.8",
        "value": {
            "conversions": [
                {"type": "largest_epsilon_for_deletions", "prior": 0.001, "confidence": 0.8, "deletions": 10},
                {"type": "largest_prior_for_deletions", "epsilon": 1.0, "confidence": 0.8, "deletions": 10},
            ]
        },
    },
}


@cache
def response_examples() -> dict[str, dict[str, Any]]:
    """Return example responses by operation and by the name of the example request.

    Digest and engine version are those of the day of generation. A test compares the numbers with current answers.
    """
    return json.loads(files("api_schemas").joinpath("response_examples.json").read_text("utf-8"))


INVALID_REQUEST_EXAMPLE: Final[dict[str, Any]] = {
    "type": "/problems/invalid-request",
    "title": "Invalid request",
    "status": 422,
    "detail": "One position in the body is invalid.",
    "instance": "/v1/bounds",
    "request_id": "0123456789abcdef0123456789abcdef",
    "errors": [
        {
            "pointer": "/mechanism/steps",
            "detail": "Must be an integer (written without fraction or exponent) in [1, 1e+12], or a list "
            "of 1 to 10000 of them.",
        }
    ],
}
