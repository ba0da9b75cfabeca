"""Examples of requests for certificates, for the published document."""

from __future__ import annotations

from typing import Any, Final

CERTIFICATES_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "epsilon_of_a_run": {
        "summary": "The safe epsilon of a DP-SGD run, computed and then proved",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "question": {"type": "epsilon", "delta": 1e-5},
        },
    },
    "published_delta": {
        "summary": "A delta that a paper prints for one replaced record, and that does not hold",
        "value": {
            "mechanism": {"type": "gaussian", "noise_multiplier": 2.0},
            "threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"},
            "question": {"type": "delta", "epsilon": 1.0},
            "value": 0.1269,
        },
    },
}
