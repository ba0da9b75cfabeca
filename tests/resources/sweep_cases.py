"""Sweeps by seed: training runs that are evaluated together, and every other mechanism."""

from __future__ import annotations

import json
import math
from typing import Any

from numpy.random import Generator

from api_schemas.sweeps import SweepsRequest, SweepsResponse
from service.resources.sweeps.sweeping import SWEEPS

Spec = dict[str, Any]
NAMED = "sha256:" + "0" * 64


def parsed(body: Spec) -> SweepsRequest:
    request: SweepsRequest = SWEEPS.request_type.model_validate_json(json.dumps(body))
    return request


def swept(body: Spec) -> SweepsResponse:
    response: SweepsResponse = SWEEPS.response(parsed(body), NAMED, "2026.01.01")
    return response


def spread(random: Generator, low: float, high: float) -> float:
    return float(math.exp(random.uniform(math.log(low), math.log(high))))


def training_runs(random: Generator, count: int) -> Spec:
    """Draw the parameters of `count` runs with moderate losses, most of them on short contours."""
    noises = [spread(random, 0.7, 8.0) for _ in range(count)]
    rates = [spread(random, 2e-3, 0.2) for _ in range(count)]
    steps = [int(spread(random, 500, 2e4)) for _ in range(count)]
    return {
        "/mechanism/noise_multiplier": {"values": noises},
        "/mechanism/sample_rate": {"values": rates},
        "/mechanism/steps": {"values": steps},
    }


def questions(random: Generator) -> list[Spec]:
    """Draw every kind of number that contours serve, in every direction."""
    return [
        {"type": "epsilon", "delta": spread(random, 1e-9, 1e-2)},
        {"type": "epsilon", "delta": spread(random, 1e-9, 1e-2), "direction": "remove"},
        {"type": "delta", "epsilon": float(random.uniform(0, 3))},
        {"type": "advantage"},
        {"type": "reconstruction", "baseline_success": spread(random, 1e-6, 0.3)},
        {"type": "reconstruction", "candidates": 7, "direction": "remove"},
        {"type": "attack_accuracy", "prior": float(random.uniform(0.1, 0.9))},
        {"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 1e-3},
        {"type": "trade_off", "false_positive_rates": [1e-3, 0.2]},
    ]
