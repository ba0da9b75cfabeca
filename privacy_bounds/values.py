"""Answers as Python values: the safe number, both bounds, and columns for `pandas.DataFrame`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from api_schemas.answers import Answer, TradeOffAnswer
from api_schemas.bounds import BoundsResponse
from api_schemas.comparisons import ComparisonsResponse
from api_schemas.sweeps import SweepsResponse

Columns: TypeAlias = dict[str, list[Any]]
"""Lists of equal length by name."""
SHARED = ("evidence", "tight", "method", "tolerance_met")


@final
@dataclass(frozen=True, slots=True)
class Number:
    """Number with an enclosure, `lower <= truth <= upper`.

    `value` is the safe bound. An approximation has no bounds (None). `answer` has the evidence, the theorem and the
    notes. `response` has the digest, the assumptions and the hazards.
    """

    value: float
    lower: float | None
    upper: float | None
    answer: Answer
    response: BoundsResponse

    def __float__(self) -> float:
        return self.value


@final
@dataclass(frozen=True, slots=True)
class Power:
    """Largest power of any attack at each false positive rate. `value` is the upper bound."""

    false_positive_rates: tuple[float, ...]
    value: tuple[float, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]
    answer: TradeOffAnswer
    response: BoundsResponse

    def columns(self) -> Columns:
        """Return the columns of a table with a row for each false positive rate.

        A row has power and type II error, each with both bounds.
        """
        columns: Columns = {"false_positive_rate": list(self.false_positive_rates)}
        for name in ("power", "type_two_error"):
            for end in ("value", "lower", "upper"):
                column = name if end == "value" else f"{name}_{end}"
                columns[column] = [dict(point)[name][end] for point in self.answer.points]  # type: ignore[index]
        return columns


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """Answers to several questions about one run, in order."""

    response: BoundsResponse

    def __len__(self) -> int:
        return len(self.response.answers)

    def __iter__(self) -> Iterator[Number | Power]:
        return (to_value(answer, self.response) for answer in self.response.answers)

    def __getitem__(self, index: int) -> Number | Power:
        return to_value(self.response.answers[index], self.response)

    @property
    def answers(self) -> tuple[Number | Power, ...]:
        """Tuple of all answers."""
        return tuple(self)

    def columns(self) -> Columns:
        """Return the columns of a table with a row for each number. A trade-off has a row for each false positive rate.

        A parameter that a question does not have is None.
        """
        rows = [row for answer in self.response.answers for row in _answer_rows(answer)]
        names = dict.fromkeys(name for row in rows for name in row)
        last = ("value", "lower", "upper", *SHARED)
        ordered = [name for name in names if name not in last] + list(last)
        return {name: [row.get(name) for row in rows] for name in ordered}


def table(response: ComparisonsResponse) -> Columns:
    """Return the columns of a table with a row for each quantity of a comparison.

    A row has the safe number and both bounds for every run, and the name of the best run.
    """
    columns: Columns = {"quantity": [quantity.label for quantity in response.quantities]}
    for run in response.runs:
        answers = [(run.answers[quantity.question], quantity.point) for quantity in response.quantities]
        cells = [
            each.points[point or 0]["power"] if isinstance(each, TradeOffAnswer) else each for each, point in answers
        ]
        for end in ("value", "lower", "upper"):
            column = run.name if end == "value" else f"{run.name} {end}"
            columns[column] = [cell[end] if isinstance(cell, dict) else getattr(cell, end) for cell in cells]
    columns["best"] = [quantity.best for quantity in response.quantities]
    columns["certain"] = [quantity.certain for quantity in response.quantities]
    return columns


@final
@dataclass(frozen=True, slots=True)
class Sweep:
    """Answers to the same questions about many runs."""

    response: SweepsResponse

    def __len__(self) -> int:
        return self.response.points

    def columns(self) -> Columns:
        """Return the columns of a table with a row for each point of the sweep.

        A row has the varied numbers, and the safe number and both bounds of every answer. The last column describes the
        problem of a point without answers.
        """
        response = self.response
        columns: Columns = {_last_name(pointer): list(column) for pointer, column in response.columns.items()}
        if len(columns) < len(response.columns):  # two places of one name
            columns = {pointer: list(column) for pointer, column in response.columns.items()}
        beside = () if response.worst_case is None else response.worst_case.answers
        for prefix, answers in (("", response.answers), ("worst case ", beside)):
            for answer in answers:
                ends = {"": answer.value, " lower": answer.lower, " upper": answer.upper}
                ends |= {" tolerance_met": answer.tolerance_met}
                columns |= {f"{prefix}{answer.label}{name}": list(column) for name, column in ends.items()}
        told = {problem.point: "; ".join(each.detail for each in problem.errors) for problem in response.problems}
        return columns | {"problem": [told.get(point) for point in range(response.points)]}


def _last_name(pointer: str) -> str:
    return pointer.rpartition("/")[2]


def to_value(answer: Answer, response: BoundsResponse) -> Number | Power:
    """Return an answer as a Number or a Power."""
    if isinstance(answer, TradeOffAnswer):
        powers = [point["power"] for point in answer.points]
        return Power(
            tuple(point["false_positive_rate"] for point in answer.points),
            tuple(power["value"] for power in powers),
            tuple(power["lower"] for power in powers),
            tuple(power["upper"] for power in powers),
            answer,
            response,
        )
    return Number(answer.value, answer.lower, answer.upper, answer, response)


def _answer_rows(answer: Answer) -> Iterator[dict[str, Any]]:
    asked: dict[str, Any] = answer.question.model_dump(exclude_none=True)
    columns = {"question": asked.pop("type"), **asked} | {name: getattr(answer, name) for name in SHARED}
    if not isinstance(answer, TradeOffAnswer):
        yield {**columns, "value": answer.value, "lower": answer.lower, "upper": answer.upper}
        return
    del columns["false_positive_rates"]
    for point in answer.points:
        power = point["power"]
        ends = {"value": power["value"], "lower": power["lower"], "upper": power["upper"]}
        yield {**columns, "false_positive_rate": point["false_positive_rate"], **ends}
