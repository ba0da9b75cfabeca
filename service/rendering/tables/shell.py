"""Responses of any resource for a terminal: every number of a response in one table, and as CSV.

A number is a dictionary with `value`, `lower` and `upper`. Its label is the question that it answers, or its position
in the response.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from textwrap import TextWrapper
from typing import Any, Final, NamedTuple, cast

from api_schemas.problems import Problem
from service.rendering.numbers import format_exact, rounded_down, rounded_up

Object = Mapping[str, Any]

OMITTED: Final = frozenset({"digest", "engine_version", "mechanism", "threat_model", "request", "targets", "questions"})
"""Members that repeat the request or identify the result. The JSON has them; the table does not."""
NOT_SUMMARISED: Final = frozenset(
    {"relative_tolerance", "method", "tolerance_met", "tight", "conditional", "binding", "readings", "evidence"}
)
"""Single values of the response that its rows repeat, or that are rarely needed."""
UNLABELLED: Final = frozenset({"answer", "answers", "claims", "power", "points"})
"""Member names that add nothing to the label of a number."""
REPEATED: Final = {"type_two_error": "power", "attack": "claimed"}
"""Members without a row, by the member beside them: one minus the power, and the attack that refutes a claim."""
SENTENCES: Final = ("notes", "not_carried_over")
MOST_ROWS: Final = 100
"""Largest number of rows of a table in a terminal."""
SAFE_WIDTH: Final = 2e-6
"""Relative width up to which both bounds print as one number: they agree in six digits."""


class NumberRow(NamedTuple):
    """Number of a response with its label `what`. The bounds are None for an approximation.

    `remark` says, for example, that an enclosure is wider than requested.
    """

    what: str
    value: float
    lower: float | None
    upper: float | None
    evidence: str
    remark: str


def number_rows(response: Object) -> list[NumberRow]:
    """Return a row for every number with bounds, in the order of the response.

    Numbers that repeat another one of the response, such as the type II error beside the power, are left out.
    """
    return list(_walk(response, "", _EnclosingObjects("", "")))


class _EnclosingObjects(NamedTuple):
    evidence: str
    remark: str

    def within(self, value_fields: Object) -> _EnclosingObjects:
        remarks = [self.remark] if self.remark else []
        if value_fields.get("tolerance_met") is False:
            limit = value_fields.get("limit")
            remarks.append(
                f"wider than requested ({limit['code']})" if isinstance(limit, dict) else "wider than requested"
            )
        if value_fields.get("tight") is False:
            remarks.append("between two theorems")
        if isinstance(verdict := value_fields.get("verdict"), str) and "claimed" in value_fields:
            remarks.append(f"{verdict}: {value_fields['claimed']} is claimed")
        evidence = value_fields.get("evidence")
        return _EnclosingObjects(evidence if isinstance(evidence, str) else self.evidence, ", ".join(remarks))


def _walk(value_fields: Object, what: str, context: _EnclosingObjects) -> Iterator[NumberRow]:
    context = context.within(value_fields)
    if called := _question_label(value_fields):
        what = f"{what}: {called}" if what else called
    if {"value", "lower", "upper"} <= value_fields.keys():
        if isinstance(value_fields["value"], list):
            return
        yield NumberRow(what, *(_float_of_json(value_fields[end]) for end in ("value", "lower", "upper")), *context)  # type: ignore[arg-type]
    for name, inner in value_fields.items():
        if name in OMITTED or name in SENTENCES or REPEATED.get(name) in value_fields:
            continue
        if isinstance(inner, dict):
            yield from _walk(cast("Object", inner), _label_within(what, name), context)
        elif name == "curves":
            yield from _curves(cast("list[Object]", inner), cast("list[float]", value_fields["false_positive_rates"]))
        elif isinstance(inner, list):
            entries = [cast("Object", each) for each in cast("list[Any]", inner) if isinstance(each, dict)]
            for entry in entries:
                yield from _walk(entry, _label_within(what, name, entry), context)


def _curves(curves: Iterable[Object], rates: Iterable[float]) -> Iterator[NumberRow]:
    for curve in curves:
        name = f"{curve['threat_model']['type']}, {curve['method']}, {curve['direction']}"
        context = _EnclosingObjects("", "").within(curve)
        power = curve["power"]
        empty = [None] * len(power["value"])
        ends = zip(rates, power["value"], power["lower"] or empty, power["upper"] or empty, strict=True)
        for rate, value, lower, upper in ends:
            yield NumberRow(
                f"{name}: power at {format_exact(rate)}", *map(_float_of_json, (value, lower, upper)), *context
            )  # type: ignore[arg-type]


def _question_label(value_fields: Object) -> str:
    question = value_fields.get("question") or value_fields.get("conversion")
    if not isinstance(question, dict):
        return ""
    given = dict(cast("dict[str, Any]", question))
    kind = given.pop("type")
    given.pop("direction", None)
    words = ", ".join(
        f"{name}={format_exact(value) if isinstance(value, float) else value}"
        for name, value in given.items()
        if isinstance(value, int | float | str)
    )
    return f"{kind}({words})" if words else str(kind)


def _label_within(what: str, name: str, entry: Object | None = None) -> str:
    # `entry` contains the number if the member `name` is a list
    words = [what] if what else []
    value_fields = entry or {}
    if name == "threat_models":
        words.append(value_fields["threat_model"]["type"])
    elif name not in UNLABELLED:
        words.append(name)
    if isinstance(called := value_fields.get("name"), str):
        words.append(called)
    if "false_positive_rate" in value_fields and "power" in value_fields:
        words.append(f"power at {format_exact(value_fields['false_positive_rate'])}")
    elif isinstance(delta := value_fields.get("delta"), float):
        words.append(f"at {format_exact(delta)}")
    return " ".join(words)


def _float_of_json(value: object) -> float | None:
    return None if value is None else float(cast("float | str", value))


def to_csv(response: Object) -> str:
    """Write the numbers of a response as CSV (RFC 4180) with a row for each number, as exact doubles."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(NumberRow._fields)
    for row in number_rows(response):
        writer.writerow(["" if each is None else repr(each) if isinstance(each, float) else each for each in row])
    return text.getvalue()


def to_table(response: Object, width: int | None = None) -> str:
    """Write the numbers of a response as a table with six digits, rounded to the safe side.

    Single values stand above the numbers, notes below. `width` is the number of columns of the terminal, or None for
    120. Rows beyond 100 are only counted.
    """
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    found = number_rows(response)
    text = io.StringIO()
    console = Console(file=text, width=width or 120, highlight=False, markup=False, emoji=False)
    for name, value in _values_without_bounds(response):
        console.print(f"{name}: {value}")
    if found:
        shown = found[:MOST_ROWS]
        ends = [_bounds_text(row) for row in shown]
        wide = any(ends)  # else both ends are what is printed
        grid = Table(box=SIMPLE, pad_edge=False)
        for column in ("", "safe value", *(("from", "to") if wide else ()), "evidence"):
            grid.add_column(column, justify="left" if column in ("", "evidence") else "right", overflow="fold")
        for row, both in zip(shown, ends, strict=True):
            words = ", ".join(filter(None, (row.evidence, row.remark)))
            grid.add_row(row.what, _safe_value(row), *((both or ("", "")) if wide else ()), words)
        console.print(grid)
    if len(found) > MOST_ROWS:
        console.print(f"{len(found) - MOST_ROWS} more rows: use --csv for all rows.")
    for sentence in _sentences(response):
        console.print(f"- {sentence}")
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def refit(text: str, width: int) -> str:
    """Wrap the entries of a text at `width` columns. An entry begins with "- "; two spaces begin its next lines.

    Other lines, for example those of tables, are unchanged.
    """
    paragraphs: list[str] = []
    for line in text.splitlines():
        if line.startswith("  ") and paragraphs and paragraphs[-1].startswith("- "):
            paragraphs[-1] += f" {line.strip(' ')}"
        else:
            paragraphs.append(line)
    fitting = TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    lines = (fitting.fill(each) if each.startswith("- ") else each for each in paragraphs)
    return "".join(f"{line}\n" for line in lines)


def align_csv(comma_separated_rows: str) -> str:
    """Align CSV in columns, numbers to the right. Rows beyond the first 100 are only counted."""
    head, *found = csv.reader(io.StringIO(comma_separated_rows))
    shown = [head, *found[:MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(cell.rjust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in shown]
    more = [f"{len(found) - MOST_ROWS} more rows: use --csv for all rows."] if len(found) > MOST_ROWS else []
    return "\n".join([*lines, *more]) + "\n"


def _values_without_bounds(response: Object) -> Iterator[tuple[str, str]]:
    import json

    for name, value in response.items():
        if (
            name not in OMITTED | NOT_SUMMARISED
            and value is not None
            and isinstance(value, str | int | float)
            and value != ""
        ):
            yield (
                name,
                value if isinstance(value, str) else format_exact(value) if isinstance(value, float) else str(value),
            )
    if "format" in response and isinstance(response.get("mechanism"), dict):
        yield "mechanism", json.dumps(response["mechanism"])


def _safe_value(row: NumberRow) -> str:
    if row.lower is None or row.upper is None:
        return f"~{row.value:.6g}"
    return rounded_up(row.value) if row.value == row.upper else rounded_down(row.value)


def _bounds_text(row: NumberRow) -> tuple[str, str] | None:
    # None: an approximation, or bounds that agree in six digits
    if row.lower is None or row.upper is None or row.lower == row.upper:
        return None
    if row.upper - row.lower <= SAFE_WIDTH * abs(row.upper) < math.inf:
        return None
    return rounded_down(row.lower), rounded_up(row.upper)


def _sentences(response: Object) -> Iterator[str]:
    for name in SENTENCES:
        yield from cast("Iterable[str]", response.get(name) or ())
    for hazard in cast("Iterable[Object]", response.get("hazards") or ()):
        if hazard.get("status") != "absent":
            yield f"{hazard['code']}: {hazard['text']}"
    assumed = [each["code"] for each in cast("Iterable[Object]", response.get("assumptions") or ())]
    if assumed:
        yield f"Assumptions: {', '.join(assumed)}. Use --json for their texts."


def problem_text(problem: Problem) -> str:
    """Return a problem as text for a terminal."""
    places = [f"  {each.pointer or '(the whole request)'}: {each.detail}" for each in problem.errors]
    return "\n".join((f"{problem.title}. {problem.detail}", *places))
