"""Examples of calibrations for the published document, by name."""

from __future__ import annotations

from typing import Any, Final

CALIBRATIONS_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "noise_for_reconstruction": {
        "summary": "Noise that limits reconstruction to 1 %, with a baseline of 1 in 1000",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "free": "/mechanism/noise_multiplier",
            "targets": [{"question": {"type": "reconstruction", "baseline_success": 0.001}, "at_most": 0.01}],
        },
    },
    "steps_for_two_targets": {
        "summary": "Number of steps for epsilon 2 and an attack power of at most 1 in 1000",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "free": "/mechanism/steps",
            "targets": [
                {"question": {"type": "epsilon", "delta": 1e-5}, "at_most": 2.0},
                {"question": {"type": "trade_off", "false_positive_rates": [1e-4]}, "at_most": 1e-3},
            ],
        },
    },
}
