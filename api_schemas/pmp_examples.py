"""Named examples of the resources of practical membership privacy for the published document."""

from __future__ import annotations

from typing import Any, Final

PMP_EXPONENTIAL_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "distances": {
        "summary": "Private choice of one of two centres for half of eight points on a line",
        "value": {
            "epsilon": 8.0,
            "points": [[0.2], [1.5], [-0.4], [2.5], [0.9], [-1.1], [0.0], [1.2]],
            "objects": [[1.0], [-1.0]],
            "clip_radius": 10.0,
        },
    },
    "losses": {
        "summary": "Three candidates with summed losses in [0, 1]",
        "value": {
            "epsilon": 2.0,
            "losses": [[0.0, 0.2, 1.0, 0.7], [1.0, 0.9, 0.1, 0.0], [0.5, 0.5, 0.5, 0.4]],
            "aggregate": "sum",
            "sensitivity": 1.0,
        },
    },
}

PMP_FINITE_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "one_record": {
        "summary": "One record of two: PMP equals differential privacy, including delta",
        "value": {"points": 2, "probabilities": [[0.3, 0.7, 0.0], [0.0, 0.7, 0.3]], "epsilon": 0.0},
    },
    "noisy_parity": {
        "summary": "Randomised response about two of four points: whether they are neighbours",
        "value": {
            "points": 4,
            "subsets": [[0, 1], [1, 2], [2, 3], [0, 2], [0, 3], [1, 3]],
            "probabilities": [[0.75, 0.25], [0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75], [0.25, 0.75]],
            "epsilon": 0.1,
        },
    },
}
