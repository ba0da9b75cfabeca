"""What the parts send."""

from __future__ import annotations

from typing import Any

ADVANTAGE = {"type": "advantage"}
TRUTH: dict[str, Any] = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}


def closed_forms(points: int) -> dict[str, Any]:
    """Cheap points: what is around them is what is measured."""
    vary = {"/mechanism/noise_multiplier": {"from": 0.5, "to": 50.0, "count": points}}
    return {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "vary": vary, "questions": [ADVANTAGE]}


def grid(points: int) -> dict[str, Any]:
    """A planner's product grid: noises x 20 rates x 10 steps, epsilon and reconstruction."""
    return {
        "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
        "vary": {
            "/mechanism/noise_multiplier": {"from": 0.8, "to": 8.0, "count": points // 200, "spacing": "log"},
            "/mechanism/sample_rate": {"from": 0.001, "to": 0.05, "count": 20, "spacing": "log"},
            "/mechanism/steps": {"from": 100, "to": 10_000, "count": 10, "spacing": "log"},
        },
        "questions": [{"type": "epsilon", "delta": 1e-5}, {"type": "reconstruction", "baseline_success": 0.001}],
    }
