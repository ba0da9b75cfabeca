"""Answers for people in a shell: every number of a response in one table, and as CSV. No computation is known here.

A number is whatever has two ends: a dictionary with `value`, `lower` and `upper`. It is called after the question it
answers, or after where it stands.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from api_schemas.problems import Problem
from service.interop.numbers import as_given, rounded_down, rounded_up

Object = Mapping[str, Any]

UNSEEN: Final = frozenset({"digest", "engine_version", "mechanism", "threat_model", "request", "targets", "questions"})
"""What was sent, and what names the result: in JSON, and not in a table."""
ASIDE: Final = frozenset(
    {"relative_tolerance", "method", "tolerance_met", "tight", "conditional", "binding", "readings", "evidence"}
)
"""Words and numbers about the whole that the rows say as well, or that nobody asks for first."""
UNNAMED: Final = frozenset({"answer", "answers", "claims", "power", "points"})
"""Places that say nothing about the numbers in them."""
SENTENCES: Final = ("notes", "not_carried_over")
MOST_ROWS: Final = 100
"""Of a table for people."""
SAFE_WIDTH: Final = 2e-6
"""Relative width up to which one number is printed for both ends: less than six digits show."""


class NumberRow(NamedTuple):
    """One number of a response. No ends: an approximation."""

    what: str
    value: float
    lower: float | None
    upper: float | None
    evidence: str
    remark: str


def rows(response: Object) -> list[NumberRow]:
    """Every number with ends, in the order of the response."""
    return list(_walk(response, "", _Around("", "")))


class _Around(NamedTuple):
    """What the objects around a number say about it."""

    evidence: str
    remark: str

    def within(self, held: Object) -> _Around:
        remarks = [self.remark] if self.remark else []
        if held.get("tolerance_met") is False:
            limit = held.get("limit")
            remarks.append(
                f"wider than asked for ({limit['code']})" if isinstance(limit, dict) else "wider than asked for"
            )
        if held.get("tight") is False:
            remarks.append("between two theorems")
        if isinstance(verdict := held.get("verdict"), str) and "claimed" in held:
            remarks.append(f"{verdict}: {held['claimed']} is claimed")
        evidence = held.get("evidence")
        return _Around(evidence if isinstance(evidence, str) else self.evidence, ", ".join(remarks))


def _walk(held: Object, what: str, around: _Around) -> Iterator[NumberRow]:
    around = around.within(held)
    if called := _called(held):
        what = f"{what}: {called}" if what else called
    if {"value", "lower", "upper"} <= held.keys():
        if isinstance(held["value"], list):
            return
        yield NumberRow(what, *(_number(held[end]) for end in ("value", "lower", "upper")), *around)  # type: ignore[arg-type]
    for name, inner in held.items():
        if name in UNSEEN or name in SENTENCES or (name == "type_two_error" and "power" in held):
            continue
        if isinstance(inner, dict):
            yield from _walk(cast("Object", inner), _joined(what, name), around)
        elif name == "curves":
            yield from _curves(cast("list[Object]", inner), cast("list[float]", held["false_positive_rates"]))
        elif isinstance(inner, list):
            entries = [cast("Object", each) for each in cast("list[Any]", inner) if isinstance(each, dict)]
            for entry in entries:
                yield from _walk(entry, _joined(what, name, entry), around)


def _curves(curves: Iterable[Object], rates: Iterable[float]) -> Iterator[NumberRow]:
    for curve in curves:
        name = f"{curve['threat_model']['type']}, {curve['method']}, {curve['direction']}"
        around = _Around("", "").within(curve)
        power = curve["power"]
        empty = [None] * len(power["value"])
        ends = zip(rates, power["value"], power["lower"] or empty, power["upper"] or empty, strict=True)
        for rate, value, lower, upper in ends:
            yield NumberRow(f"{name}: power at {as_given(rate)}", *map(_number, (value, lower, upper)), *around)  # type: ignore[arg-type]


def _called(held: Object) -> str:
    """An answer is called after its question."""
    asked = held.get("question") or held.get("conversion")
    if not isinstance(asked, dict):
        return ""
    given = dict(cast("dict[str, Any]", asked))
    kind = given.pop("type")
    given.pop("direction", None)
    told = ", ".join(
        f"{name}={as_given(value) if isinstance(value, float) else value}"
        for name, value in given.items()
        if isinstance(value, int | float | str)
    )
    return f"{kind}({told})" if told else str(kind)


def _joined(what: str, name: str, entry: Object | None = None) -> str:
    """The place of what is within, and what tells an entry of a list from the others."""
    words = [what] if what else []
    words += [] if name in UNNAMED else [name]
    held = entry or {}
    if isinstance(called := held.get("name"), str):
        words.append(called)
    if "false_positive_rate" in held and "power" in held:
        words.append(f"power at {as_given(held['false_positive_rate'])}")
    elif isinstance(delta := held.get("delta"), float):
        words.append(f"at {as_given(delta)}")
    return " ".join(words)


def _number(value: object) -> float | None:
    """Numbers that JSON has no figures for are words."""
    return None if value is None else float(cast("float | str", value))


def comma_separated(response: Object) -> str:
    """CSV (RFC 4180): a row for each number, the doubles as they are."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(NumberRow._fields)
    for row in rows(response):
        writer.writerow(["" if each is None else repr(each) if isinstance(each, float) else each for each in row])
    return text.getvalue()


def table(response: Object, width: int | None = None) -> str:
    """The numbers, six digits to the safe side; below them what is single, and what to look at."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    found = rows(response)
    text = io.StringIO()
    console = Console(file=text, width=width or 120, highlight=False, markup=False, emoji=False)
    for name, value in _single(response):
        console.print(f"{name}: {value}")
    if found:
        shown = found[:MOST_ROWS]
        ends = [_ends(row) for row in shown]
        wide = any(ends)  # else both ends are what is printed
        drawn = Table(box=SIMPLE, pad_edge=False)
        for column in ("", "safe value", *(("from", "to") if wide else ()), "evidence"):
            drawn.add_column(column, justify="left" if column in ("", "evidence") else "right", overflow="fold")
        for row, both in zip(shown, ends, strict=True):
            told = ", ".join(filter(None, (row.evidence, row.remark)))
            drawn.add_row(row.what, _safe(row), *((both or ("", "")) if wide else ()), told)
        console.print(drawn)
    if len(found) > MOST_ROWS:
        console.print(f"{len(found) - MOST_ROWS} more rows: --csv has them.")
    for sentence in _sentences(response):
        console.print(f"- {sentence}")
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def lined_up(comma_separated_rows: str) -> str:
    """Rows of CSV in columns, numbers to the right; of very many the first."""
    head, *found = csv.reader(io.StringIO(comma_separated_rows))
    shown = [head, *found[:MOST_ROWS]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  ".join(cell.rjust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip() for row in shown]
    more = [f"{len(found) - MOST_ROWS} more rows: --csv has them."] if len(found) > MOST_ROWS else []
    return "\n".join([*lines, *more]) + "\n"


def _single(response: Object) -> Iterator[tuple[str, str]]:
    """Verdicts, counts and numbers without ends; of an import what was read."""
    import json

    for name, value in response.items():
        if name not in UNSEEN | ASIDE and value is not None and isinstance(value, str | int | float) and value != "":
            yield name, value if isinstance(value, str) else as_given(value) if isinstance(value, float) else str(value)
    if "format" in response and isinstance(response.get("mechanism"), dict):
        yield "mechanism", json.dumps(response["mechanism"])


def _safe(row: NumberRow) -> str:
    if row.lower is None or row.upper is None:
        return f"~{row.value:.6g}"
    return rounded_up(row.value) if row.value == row.upper else rounded_down(row.value)


def _ends(row: NumberRow) -> tuple[str, str] | None:
    """Both ends where they differ in what is printed."""
    if row.lower is None or row.upper is None or row.lower == row.upper:
        return None
    if row.upper - row.lower <= SAFE_WIDTH * abs(row.upper) < math.inf:
        return None
    return rounded_down(row.lower), rounded_up(row.upper)


def _sentences(response: Object) -> Iterator[str]:
    """What to look at: notes of the whole, hazards, and what nobody vouched for."""
    for name in SENTENCES:
        yield from cast("Iterable[str]", response.get(name) or ())
    for hazard in cast("Iterable[Object]", response.get("hazards") or ()):
        if hazard.get("status") != "absent":
            yield f"{hazard['code']}: {hazard['text']}"
    assumed = [each["code"] for each in cast("Iterable[Object]", response.get("assumptions") or ())]
    if assumed:
        yield f"Assumed: {', '.join(assumed)}. What each means is in the JSON (--json)."


def sentences_of(problem: Problem) -> str:
    """A problem for who reads it in a shell."""
    places = [f"  {each.pointer or '(the whole request)'}: {each.detail}" for each in problem.errors]
    return "\n".join((f"{problem.title}. {problem.detail}", *places))
