"""Named examples of assessments for the published document."""

from __future__ import annotations

from typing import Any, Final

ASSESSMENT_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "before_a_release": {
        "summary": "DP-SGD run before the release of its model, with a release policy",
        "value": {
            "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
            "context": {
                "dataset_size": 48_000,
                "batch_size": 480,
                "delta": 1e-6,
                "microbatch_size": 1,
                "gradient_accumulation_steps": 1,
                "attested": [
                    {"code": "sampling_is_poisson", "holds": "yes", "by": "ML platform", "when": "2026-11-23"}
                ],
            },
            "policy": {
                "name": "Model release gate",
                "revision": "2026-11",
                "rules": [
                    {"question": {"type": "epsilon", "delta": 1e-6}, "at_most": 4},
                    {
                        "name": "power at one false alarm in a thousand",
                        "question": {"type": "trade_off", "false_positive_rates": [0.001]},
                        "at_most": 0.01,
                        "severity": "warning",
                    },
                ],
            },
        },
    },
    "users_with_records": {
        "summary": "Noisy sum over users with up to four records each",
        "value": {
            "mechanism": {"type": "gaussian", "noise_multiplier": 8.0},
            "context": {
                "delta": 1e-7,
                "dataset_size": 1_000_000,
                "privacy_unit": "user",
                "records": 4,
                "dimension": 10,
            },
        },
    },
}
