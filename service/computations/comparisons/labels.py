"""Questions in short, for the rows of a table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from api_schemas.questions import QuestionSpec, TradeOffQuestion


def label_of(
    question: QuestionSpec, point: int | None = None, reads: str = "power", varied: Collection[str] = ()
) -> str:
    """The type of a question with its fields, but for those that have their default; of a curve what is read at a
    point of it. `varied`: fields that are not the same everywhere.

    Numbers are written so that they can be read back.
    """
    name, fields = question.type, _fields(question)
    if isinstance(question, TradeOffQuestion) and point is not None:
        rate = {"false_positive_rate": question.false_positive_rates[point]}
        name, fields = reads, rate | {key: value for key, value in fields.items() if key == "direction"}
    inside = ", ".join(f"{key}={'*' if key in varied else _written(value)}" for key, value in fields.items())
    return f"{name}({inside})" if inside else name


def _fields(question: QuestionSpec) -> dict[str, Any]:
    """Those of a question that say more than its type."""
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
