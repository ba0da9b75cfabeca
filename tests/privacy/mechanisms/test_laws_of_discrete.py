"""Reference values of discrete and local mechanisms, each computed by two routes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built

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
