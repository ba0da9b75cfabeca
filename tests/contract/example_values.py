"""One object of every type of mechanism and question, built from the examples of the contract."""

from __future__ import annotations

from typing import Any

from api_schemas.base import Request
from api_schemas.fields import shape_of, type_of
from api_schemas.mechanisms import MechanismSpec
from api_schemas.questions import QuestionSpec

GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.0}
INSIDE: dict[str, Any] = {
    "mechanism": GAUSSIAN,
    "mechanisms": [GAUSSIAN, {"type": "gdp", "mu": 1.0}],
    "trials": {"type": "geometric", "mean": 10.0},
    "components": [
        {"weight": 0.25, "mechanism": GAUSSIAN},
        {"weight": 0.75, "mechanism": {"type": "gdp", "mu": 1.0}},
    ],
}
"""Nested objects of a mechanism, by field name."""
EITHER_OR = {"candidates", "prior_probabilities"}
"""Fields that replace another field."""
OTHERWISE = {"dpsgd": {"sampling", "batch_size", "dataset_size", "epochs", "reshuffled"}}
"""Fields that replace another field of a mechanism, and fields of another kind of run."""


def example_object(model: type[Request]) -> dict[str, Any]:
    """Build an object with all its fields at the example values of the contract."""
    examples = {name: field.examples[0] for name, field in model.model_fields.items() if field.examples}
    inside = {name: INSIDE[name] for name in model.model_fields if name in INSIDE}
    left_out = EITHER_OR | {"type", "direction"} | OTHERWISE.get(type_of(model), set())
    return {"type": type_of(model)} | {name: v for name, v in (examples | inside).items() if name not in left_out}


MECHANISMS = {type_of(model): example_object(model) for model in shape_of(MechanismSpec).models}
QUESTIONS = {type_of(model): example_object(model) for model in shape_of(QuestionSpec).models}
