"""Sweeps over runs in which few steps use the record: enclosures of batches overlap those of single runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from service.resources.bounds import BOUNDS
from tests.resources.sweep_cases import NAMED, Spec, parsed, spread, swept
from tests.slow_marker import thorough

RATES = [1e-4, 0.01, 0.2]
QUESTIONS: list[Spec] = [
    {"type": "epsilon", "delta": 1e-5},
    {"type": "reconstruction", "baseline_success": 1e-3},
    {"type": "trade_off", "false_positive_rates": RATES},
]
RARE: dict[str, tuple[Spec, Spec]] = {
    "add_or_remove": ({"sample_rate": 0.01}, {}),
    "zero_out": ({"sample_rate": 0.01}, {"neighboring_relation": "zero_out"}),
    "fixed batches": ({"sampling": "fixed_without_replacement", "batch_size": 10, "dataset_size": 1000}, {}),
    "replace_one": ({"sample_rate": 0.01}, {"neighboring_relation": "replace_one"}),
    "two records": ({"sample_rate": 0.01}, {"records": 2}),
    "a list of rates": ({"sample_rate": [0.01, 0.02]}, {}),
}


@pytest.mark.parametrize("case", RARE)
@pytest.mark.parametrize("seed", [1, *(thorough(seed) for seed in range(2, 6))])
def test_batched_rare_runs_meet_single_runs(case: str, seed: int) -> None:
    """Enclosures of rare runs in a batch meet those of the same runs alone.

    A tenth of a step to five steps use the record, for every relation and for groups of records.
    """
    random = np.random.default_rng(seed)
    sampling, threat_model = RARE[case]
    count, place = (2, "/mechanism/steps/0") if case == "a list of rates" else (1, "/mechanism/steps")
    steps = [int(spread(random, 10, 500)) for _ in range(3)]
    taken: Any = [50, 20] if count > 1 else 50
    mechanism: Spec = {"type": "dpsgd", "noise_multiplier": spread(random, 0.8, 3), "steps": taken, **sampling}
    body = {
        "mechanism": mechanism,
        "threat_model": {"type": "worst_case", **threat_model},
        "vary": {place: {"values": steps}},
        "questions": QUESTIONS,
    }
    request, response = parsed(body), swept(body)
    for index, numbers in enumerate(request.points()):
        alone = json.loads(BOUNDS.body(request.asked(request.places, numbers), NAMED, "2026.01.01"))["answers"]
        for column in response.answers:
            answer = alone[column.question]
            met = answer["tolerance_met"]
            if column.point is not None:
                answer = answer["points"][column.point][column.reads]
            lower, upper = column.lower[index], column.upper[index]
            assert lower is not None
            assert upper is not None
            assert max(lower, answer["lower"]) <= min(upper, answer["upper"]) * (1 + 1e-15)
            assert column.tolerance_met[index] or not met
