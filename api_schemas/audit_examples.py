"""Named examples of audits for the published document."""

from __future__ import annotations

from typing import Any, Final

ATTACK_COUNTS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "counts_alone": {
        "summary": "Attack with 180 of 1000 members detected and 10 false positives",
        "value": {
            "true_positives": 180,
            "members": 1000,
            "false_positives": 10,
            "non_members": 1000,
            "delta": 1e-5,
        },
    },
    "against_a_run": {
        "summary": "Attack on a DP-SGD run with doubtful accounting",
        "value": {
            "true_positives": 180,
            "members": 1000,
            "false_positives": 10,
            "non_members": 1000,
            "confidence": 0.99,
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
        },
    },
}

GLIR_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "one_step": {
        "summary": "Two queries against one released mean gradient, with given moments of the gradients",
        "value": {
            "batch_size": 50,
            "steps": [
                {
                    "mean_gradient": [0.11, -0.02, 0.07],
                    "query_gradients": [[0.9, -1.1, 0.4], [-0.3, 1.6, -0.8]],
                    "background_mean": [0.1, 0.0, 0.05],
                    "background_variances": [1.0, 1.5, 0.8],
                }
            ],
        },
    },
    "simulated": {
        "summary": "Simulated gradients with known parameters (Figure 2a of the paper)",
        "value": {"batch_size": 500, "simulate": {"dimension": 650, "queries": 2000}, "seed": 1},
    },
}

GLRT_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "figure_8": {
        "summary": "Scalar query with 70 releases and sigma = 6 (Figures 8 and 9 of the paper)",
        "value": {"noise_multiplier": 6.0, "queries": 70, "trials": 10000},
    },
    "figure_10": {
        "summary": "Query in 50 dimensions with 50 releases and sigma = 3.5 (Figure 10)",
        "value": {"noise_multiplier": 3.5, "queries": 50, "dimension": 50, "trials": 10000},
    },
}
