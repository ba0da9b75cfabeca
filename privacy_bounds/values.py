"""Answers as Python values: the safe number, both bounds, and columns for `pandas.DataFrame`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias, final

from privacy_bounds.formatting import (
    ANSWER_HEADER,
    answer_line,
    answer_rows,
    formatted,
    html_table,
    safe_direction,
    shortened_lines,
)
from privacy_bounds.pictures import Origin

if TYPE_CHECKING:
    from api_schemas.answers import Answer, TradeOffAnswer
    from api_schemas.bounds import BoundsResponse
    from privacy_bounds.runs import Notes

Columns: TypeAlias = dict[str, list[Any]]
"""Lists of equal length by name."""
SHARED = ("evidence", "tight", "method", "tolerance_met")
NO_ORIGIN = Origin()


@final
@dataclass(frozen=True, slots=True, repr=False)
class Number:
    """Number with an enclosure, `lower <= truth <= upper`.

    `value` is the safe bound: the one that never states more privacy than there is. An approximation has no bounds
    (None). `answer` has the evidence, the theorem and the notes. `response` has the digest, the assumptions and the
    hazards.

    `float(number)` is `value`. `format(number, ".3f")` rounds to the safe side. A comparison is true only if the bounds
    prove it: `number <= 2.0` needs `upper <= 2.0`, and `number >= 2.0` needs `lower >= 2.0`. Both are false if 2.0 lies
    between the bounds, or if there are no bounds. Sort by `float` to order numbers whose bounds overlap.
    """

    value: float
    lower: float | None
    upper: float | None
    answer: Answer
    response: BoundsResponse
    origin: Origin = field(default=NO_ORIGIN, compare=False)

    @property
    def read_as(self) -> Notes:
        """Notes on how a run without a type was read."""
        return self.origin.notes

    @property
    def notes(self) -> Notes:
        """Notes on how a run without a type was read, and on the answer."""
        return (*self.origin.notes, *self.answer.notes)

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return formatted(self.value, spec, safe_direction(self.answer)) if spec else str(self)

    def __repr__(self) -> str:
        return answer_line(self.answer)

    def _repr_html_(self) -> str:
        return _answers_html([self.answer], self.response, self.origin)

    def __le__(self, other: object) -> bool:
        return NotImplemented if (ends := _bounds_of_operand(other)) is None else _bounds_of_number(self)[1] <= ends[0]

    def __lt__(self, other: object) -> bool:
        return NotImplemented if (ends := _bounds_of_operand(other)) is None else _bounds_of_number(self)[1] < ends[0]

    def __ge__(self, other: object) -> bool:
        return NotImplemented if (ends := _bounds_of_operand(other)) is None else _bounds_of_number(self)[0] >= ends[1]

    def __gt__(self, other: object) -> bool:
        return NotImplemented if (ends := _bounds_of_operand(other)) is None else _bounds_of_number(self)[0] > ends[1]


def _bounds_of_number(number: Number) -> tuple[float, float]:
    if number.lower is None or number.upper is None:
        return math.nan, math.nan
    return number.lower, number.upper


def _bounds_of_operand(other: object) -> tuple[float, float] | None:
    if isinstance(other, Number):
        return _bounds_of_number(other)
    return (float(other), float(other)) if isinstance(other, Real) else None


@final
@dataclass(frozen=True, slots=True, repr=False)
class Power:
    """Largest power of any attack at each false positive rate. `value` is the upper bound, or an approximation.

    An approximation has no bounds: `lower` and `upper` hold None.
    """

    false_positive_rates: tuple[float, ...]
    value: tuple[float, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]
    answer: TradeOffAnswer
    response: BoundsResponse
    origin: Origin = field(default=NO_ORIGIN, compare=False)

    @property
    def read_as(self) -> Notes:
        """Notes on how a run without a type was read."""
        return self.origin.notes

    @property
    def notes(self) -> Notes:
        """Notes on how a run without a type was read, and on the answer."""
        return (*self.origin.notes, *self.answer.notes)

    def columns(self) -> Columns:
        """Return the columns of a table with a row for each false positive rate.

        A row has power and type II error, each with both bounds (None for an approximation).
        """
        columns: Columns = {"false_positive_rate": list(self.false_positive_rates)}
        for name in ("power", "type_two_error"):
            for end in ("value", "lower", "upper"):
                column = name if end == "value" else f"{name}_{end}"
                columns[column] = [dict(point)[name][end] for point in self.answer.points]  # type: ignore[index]
        return columns

    def plot(self) -> Any:
        """Return a picture of the curve at these rates: a chart of Altair, or a `Picture` without Altair."""
        from privacy_bounds.calls import encode

        request = {
            "mechanism": self.response.mechanism,
            "threat_models": [self.response.threat_model],
            "directions": [self.answer.question.direction],
            "false_positive_rates": self.false_positive_rates,
            "relative_tolerance": self.response.relative_tolerance,
        }
        return Origin(self.origin.asking, "/v1/curves", encode(request)).plot()

    def __repr__(self) -> str:
        return answer_line(self.answer)

    def _repr_html_(self) -> str:
        return _answers_html([self.answer], self.response, self.origin)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Bounds:
    """Answers to several questions about one run, in order."""

    response: BoundsResponse
    origin: Origin = field(default=NO_ORIGIN, compare=False)

    def __len__(self) -> int:
        return len(self.response.answers)

    def __iter__(self) -> Iterator[Number | Power]:
        return (_to_value(answer, self.response, self.origin) for answer in self.response.answers)

    def __getitem__(self, index: int) -> Number | Power:
        return _to_value(self.response.answers[index], self.response, self.origin)

    @property
    def answers(self) -> tuple[Number | Power, ...]:
        """All answers, in the order of the questions."""
        return tuple(self)

    @property
    def read_as(self) -> Notes:
        """Notes on how a run without a type was read."""
        return self.origin.notes

    def columns(self) -> Columns:
        """Return the columns of a table with a row for each number. A trade-off has a row for each false positive rate.

        A parameter that a question does not have is None.
        """
        rows = [row for answer in self.response.answers for row in _answer_columns(answer)]
        names = dict.fromkeys(name for row in rows for name in row)
        last = ("value", "lower", "upper", *SHARED)
        ordered = [name for name in names if name not in last] + list(last)
        return {name: [row.get(name) for row in rows] for name in ordered}

    def __repr__(self) -> str:
        beside = self.response.worst_case
        worst = [] if beside is None else ["worst case:", *map(answer_line, beside.answers)]
        return shortened_lines([*self.origin.notes, *map(answer_line, self.response.answers), *worst])

    def _repr_html_(self) -> str:
        return _answers_html(list(self.response.answers), self.response, self.origin)


def _answers_html(answers: list[Answer], response: BoundsResponse, origin: Origin) -> str:
    rows = [row for answer in answers for row in answer_rows(answer)]
    if response.worst_case is not None:
        asked = [answer.question for answer in answers]
        rows += [
            (f"worst case: {row[0]}", *row[1:])
            for answer in response.worst_case.answers
            if answer.question in asked
            for row in answer_rows(answer)
        ]
    hazards = [f"Hazard: {hazard.text}" for hazard in response.hazards]
    notes = dict.fromkeys([*origin.notes, *(note for answer in answers for note in answer.notes), *hazards])
    return html_table(ANSWER_HEADER, rows, notes=notes)


def _to_value(answer: Answer, response: BoundsResponse, origin: Origin = NO_ORIGIN) -> Number | Power:
    if answer.type == "trade_off":
        powers = [point["power"] for point in answer.points]
        return Power(
            tuple(point["false_positive_rate"] for point in answer.points),
            tuple(power["value"] for power in powers),
            tuple(power["lower"] for power in powers),
            tuple(power["upper"] for power in powers),
            answer,
            response,
            origin,
        )
    return Number(answer.value, answer.lower, answer.upper, answer, response, origin)


def _answer_columns(answer: Answer) -> Iterator[dict[str, Any]]:
    asked: dict[str, Any] = answer.question.model_dump(exclude_none=True)
    columns = {"question": asked.pop("type"), **asked} | {name: getattr(answer, name) for name in SHARED}
    if answer.type != "trade_off":
        yield {**columns, "value": answer.value, "lower": answer.lower, "upper": answer.upper}
        return
    del columns["false_positive_rates"]
    for point in answer.points:
        power = point["power"]
        ends = {"value": power["value"], "lower": power["lower"], "upper": power["upper"]}
        yield {**columns, "false_positive_rate": point["false_positive_rate"], **ends}
