"""Named examples of sweeps for the published document."""

from __future__ import annotations

from typing import Any, Final

SWEEPS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "noise_and_steps": {
        "summary": "Effect of more noise and fewer steps on epsilon and reconstruction",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "vary": {
                "/mechanism/noise_multiplier": {"from": 0.8, "to": 2.0, "count": 3, "spacing": "log"},
                "/mechanism/steps": {"values": [500, 2000]},
            },
            "questions": [
                {"type": "epsilon", "delta": 1e-5},
                {"type": "reconstruction", "baseline_success": 0.001},
            ],
        },
    },
    "delta_by_delta": {
        "summary": "Epsilon of one run at several deltas",
        "value": {
            "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
            "vary": {"/questions/0/delta": {"from": 1e-9, "to": 1e-3, "count": 7, "spacing": "log"}},
            "questions": [{"type": "epsilon", "delta": 1e-5}],
        },
    },
}
