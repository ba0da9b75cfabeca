"""Short labels of questions for the rows of a table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from api_schemas.questions import QuestionSpec, TradeOffQuestion


def label_of(
    question: QuestionSpec, point: int | None = None, reads: str = "power", varied: Collection[str] = ()
) -> str:
    """Return the label of a question: its type, and its fields that differ from their defaults.

    For a question about a curve, the label names the quantity `reads` and the index of the point. Fields in `varied`
    are written as `*`. Other numbers are written so that they parse to the same value.
    """
    name, fields = question.type, _fields_without_defaults(question)
    if isinstance(question, TradeOffQuestion) and point is not None:
        rate = {"false_positive_rate": question.false_positive_rates[point]}
        name, fields = reads, rate | {key: value for key, value in fields.items() if key == "direction"}
    inside = ", ".join(f"{key}={'*' if key in varied else _written(value)}" for key, value in fields.items())
    return f"{name}({inside})" if inside else name


def _fields_without_defaults(question: QuestionSpec) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, field in type(question).model_fields.items():
        value = getattr(question, name)
        if name != "type" and (field.is_required() or value != field.default):
            shown[name] = value
    return shown


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{len(value)} numbers]"  # pyright: ignore[reportUnknownArgumentType]
    return value if isinstance(value, str) else repr(value)
