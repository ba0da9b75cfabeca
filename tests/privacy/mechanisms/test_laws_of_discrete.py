"""Reference values of discrete and local mechanisms, each computed by two routes."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
import pytest

from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built

mp: Any = mpmath
TYPES: Final = frozenset(
    {
        "randomized_response",
        "unary_encoding",
        "staircase",
        "discrete_laplace",
        "discrete_gaussian",
        "skellam",
        "report_noisy_max",
    }
)
ROWS: Final[list[dict[str, Any]]] = [
    row
    for row in json.loads((Path(__file__).parents[1] / "reference" / "laws.json").read_text("utf-8"))["rows"]
    if row["inputs"]["mechanism"]["type"] in TYPES
]


def test_reference_has_every_law() -> None:
    assert {row["inputs"]["mechanism"]["type"] for row in ROWS} == TYPES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["id"]))
def test_reference_value_is_enclosed(row: dict[str, Any]) -> None:
    """Exact reference values are enclosed to 1e-9, and reference values of upper bounds equal our upper bounds."""
    inputs, value = row["inputs"], row["value"]
    mechanism = inputs["mechanism"]
    if "repetitions" in inputs:
        mechanism = {"type": "repeated", "mechanism": mechanism, "steps": inputs["repetitions"]}
    relation = inputs.get("neighboring_relation", "add_or_remove_one")
    pair = WorstCase(relation).curves(built(mechanism))
    found = pair.both.profile_at(inputs["epsilon"])
    assert found.lower <= value * (1 + row["rel_tol"])
    assert found.upper >= value * (1 - row["rel_tol"])
    if row["kind"] == "upper_delta":
        assert pair.bracket is not None
        assert found.upper <= value * (1 + 1e-9)
    else:
        assert pair.bracket is None
        assert found.upper - found.lower <= 1e-9 * value


@pytest.mark.parametrize("seed", range(12))
def test_bits_of_extreme_probabilities_are_enclosed(seed: int) -> None:
    """A pair of bits has the largest loss ln(p (1 - q)/(q (1 - p))), and delta(0) = p - q, over all doubles p > q."""
    random = np.random.default_rng([20261207, seed])
    q = float(2.0 ** random.uniform(-1074, -1))
    if seed % 3 == 0:
        q, p = float(2.0 ** random.uniform(-1074, -1000)), 1 - float(2.0 ** random.uniform(-53, -40))
    else:
        p = max(1 - float(2.0 ** random.uniform(-53, -1)), q) if seed % 2 else float(q ** random.uniform(0, 0.9))
    pair = WorstCase("replace_one").curves(built({"type": "unary_encoding", "true_bit": p, "false_bit": q}))
    largest, advantage = pair.both.largest_log_ratio, pair.both.profile_at(0.0)
    with mp.workdps(40):
        odds = Fraction(p) * (1 - Fraction(q)) / (Fraction(q) * (1 - Fraction(p)))
        assert largest.lower <= mp.log(odds.numerator) - mp.log(odds.denominator) <= largest.upper
    assert largest.upper - largest.lower <= 1e-13 * largest.upper
    assert Fraction(advantage.lower) <= Fraction(p) - Fraction(q) <= Fraction(advantage.upper)
