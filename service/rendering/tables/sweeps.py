"""Sweeps as CSV and as JSON lines, with a row for each point."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from api_schemas.sweeps import SweepsResponse, SweptAnswer
from service.rendering.numbers import exact_cell

LOGARITHMS: Final = ("value_log10", "lower_log10", "upper_log10")
IF_ANY: Final = (*LOGARITHMS, "limit")
"""Columns that are written only if some point has an entry."""
ENDS: Final = ("value", "lower", "upper", *LOGARITHMS, "tolerance_met", "limit")
"""Columns of an answer, in the order of the table."""


def to_csv(response: SweepsResponse) -> str:
    """Write a sweep as CSV (RFC 4180) with a row for each point, as exact doubles. A cell without a number is empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    named = list(_named_columns(response))
    writer.writerow(["point", *response.columns, *(name for name, _ in named), "problem"])
    problems = {
        problem.point: _sentence(problem.title, [dict(each) for each in problem.errors])
        for problem in response.problems
    }
    for point in range(response.points):
        given = (column[point] for column in response.columns.values())
        read = (column[point] for _, column in named)
        writer.writerow([point, *map(exact_cell, given), *map(exact_cell, read), problems.get(point, "")])
    return text.getvalue()


def to_json_lines(response: SweepsResponse, first: int = 0) -> str:
    """Write a sweep as JSON lines with an object for each point. Infinities are strings, as in the response.

    `first` is the index of the first point, if the response is one chunk of a longer sweep.
    """
    problems = {
        problem.point: problem.model_dump(mode="json") | {"point": first + problem.point}
        for problem in response.problems
    }
    lines: list[str] = []
    for point in range(response.points):
        row: dict[str, Any] = {
            "point": first + point,
            "numbers": {pointer: column[point] for pointer, column in response.columns.items()},
            "answers": [_answer_fields(answer, point) for answer in response.answers],
        }
        if any(answer.evidence[point] is not None for answer in _worst_case_answers(response)):
            row["worst_case"] = [_answer_fields(answer, point) for answer in _worst_case_answers(response)]
        row["problem"] = problems.get(point)
        lines.append(json.dumps(row, separators=(",", ":")))
    return "\n".join(lines) + "\n"


def cells_of_json_line(row: dict[str, Any]) -> dict[str, str]:
    """Return `row`, the object of a JSON line, as table cells by the columns of the CSV table.

    Columns of logarithms and limits, which a table has only if some point needs them, are always present.
    """
    found = {"point": str(row["point"])}
    found |= {pointer: exact_cell(number) for pointer, number in row.get("numbers", {}).items()}
    for prefix, answers in (("", row.get("answers", ())), ("worst case ", row.get("worst_case", ()))):
        for answer in answers:
            name = f"{prefix}{answer['label']}"
            found |= {name + ("" if end == "value" else f" {end}"): exact_cell(answer.get(end)) for end in ENDS}
    problem = row.get("problem")
    found["problem"] = "" if problem is None else _sentence(problem["title"], problem["errors"])
    return found


def _named_columns(response: SweepsResponse) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for prefix, answers in (("", response.answers), ("worst case ", _worst_case_answers(response))):
        for answer in answers:
            for end in ENDS:
                column = getattr(answer, end)
                if column is not None:
                    yield f"{prefix}{answer.label}" + ("" if end == "value" else f" {end}"), column


def _worst_case_answers(response: SweepsResponse) -> tuple[SweptAnswer, ...]:
    return () if response.worst_case is None else response.worst_case.answers


def _answer_fields(answer: SweptAnswer, point: int) -> dict[str, Any]:
    found: dict[str, Any] = {"label": answer.label}
    for end in (*ENDS, "evidence", "tight", "method"):
        column = getattr(answer, end)
        value = None if column is None else column[point]
        if value is not None or end not in IF_ANY:
            found[end] = _infinity(value) if isinstance(value, float) and math.isinf(value) else value
    return found


def _infinity(value: float) -> str:
    return "Infinity" if value > 0 else "-Infinity"


def _sentence(title: str, errors: Iterable[Mapping[str, str]]) -> str:
    return "; ".join((title, *(f"{each['pointer']}: {each['detail']}" for each in errors)))


SWEEP_WRITERS: Final[Mapping[str, Callable[[SweepsResponse], str]]] = {
    "application/x-ndjson": to_json_lines,
    "text/csv": to_csv,
}
"""Functions that write a sweep, by media type."""
