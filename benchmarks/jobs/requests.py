"""Request bodies of the job benchmarks."""

from __future__ import annotations

from typing import Any

ADVANTAGE = {"type": "advantage"}
TRUTH: dict[str, Any] = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}


def closed_forms(points: int) -> dict[str, Any]:
    """Return a sweep of `points` inexpensive points, so that the overhead of the job dominates."""
    vary = {"/mechanism/noise_multiplier": {"from": 0.5, "to": 50.0, "count": points}}
    return {"mechanism": {"type": "gaussian", "noise_multiplier": 1.0}, "vary": vary, "questions": [ADVANTAGE]}


def training_runs(noises: int, rates: int, steps: int) -> dict[str, Any]:
    """Return the product grid of `benchmarks numbers.many`: epsilon and reconstruction robustness of each run."""
    return {
        "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
        "vary": {
            "/mechanism/noise_multiplier": {"from": 0.7, "to": 7.0, "count": noises, "spacing": "log"},
            "/mechanism/sample_rate": {"from": 0.002, "to": 0.1, "count": rates, "spacing": "log"},
            "/mechanism/steps": {"from": 500, "to": 50_000, "count": steps, "spacing": "log"},
        },
        "questions": [{"type": "epsilon", "delta": 1e-5}, {"type": "reconstruction", "baseline_success": 0.001}],
    }


def releases(noises: int, deltas: int) -> dict[str, Any]:
    """Return a sweep over a product grid of Gaussian noises and deltas, whose answers are closed forms."""
    return {
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        "vary": {
            "/mechanism/noise_multiplier": {"from": 0.5, "to": 50.0, "count": noises, "spacing": "log"},
            "/questions/0/delta": {"from": 1e-12, "to": 1e-2, "count": deltas, "spacing": "log"},
        },
        "questions": [{"type": "epsilon", "delta": 1e-5}],
    }


GRIDS: dict[str, dict[str, Any]] = {
    "10 noises x 10 rates x 1000 steps": training_runs(10, 10, 1_000),
    "100 noises x 100 rates x 10 steps": training_runs(100, 100, 10),
    "gaussian, 1000 noises x 100 deltas": releases(1_000, 100),
}
"""Product grids of 1e5 points each."""
