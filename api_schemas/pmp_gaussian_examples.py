"""Named examples of practical membership privacy (PMP) of the Gaussian mechanism for the published document."""

from __future__ import annotations

from typing import Any, Final

PMP_GAUSSIAN_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "four_points": {
        "summary": "Noisy sum of a random half of four numbers",
        "value": {"points": [[0.0], [0.3], [0.7], [1.1]], "query": "sum", "noise_std": 0.8, "delta": 0.01},
    },
    "target": {
        "summary": "Mean of clipped records with noise for epsilon = 5",
        "value": {
            "points": [[0.2, 1.1], [-0.4, 0.3], [1.5, -0.2], [0.1, 0.1], [-2.0, 0.6], [0.5, -0.9]],
            "query": "mean",
            "clip_radius": 10.0,
            "target": {"epsilon": 5.0, "delta": 0.01},
        },
    },
}

PMP_SIMULATIONS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "figure_1": {
        "summary": "Exponential mechanism on normal data in one dimension (Figure 1 of the paper)",
        "value": {
            "experiment": "exponential",
            "data_size": 6,
            "dimension": 1,
            "clip_radius": 10.0,
            "epsilon_on_population": 5.0,
            "trials": 10,
        },
    },
    "figure_5": {
        "summary": "Noisy mean with two outliers (Figure 5 of the paper)",
        "value": {
            "experiment": "gaussian",
            "data_size": 100,
            "dimension": 10,
            "data_std": 5.0,
            "clip_radius": 100.0,
            "outliers": 2,
            "epsilon": 5.0,
            "trials": 10,
        },
    },
}
