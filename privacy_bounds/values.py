"""Answers as values: the safe number, both ends, and columns that `pandas.DataFrame` takes as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from api_schemas.answers import Answer, TradeOffAnswer
from api_schemas.bounds import BoundsResponse
from api_schemas.comparisons import ComparisonsResponse
from api_schemas.sweeps import SweepsResponse

Columns: TypeAlias = dict[str, list[Any]]
"""Lists of one length by their names."""
SHARED = ("evidence", "tight", "method", "tolerance_met")


@final
@dataclass(frozen=True, slots=True)
class Number:
    """One number: `lower <= truth <= upper`, and `value`, the safe end. No ends: an approximation that was asked for.

    `answer` has the evidence, the theorem and the notes, `response` the digest, the assumptions and the hazards.
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
    """Largest power of any attack at each false positive rate; `value` is its upper end."""

    false_positive_rates: tuple[float, ...]
    value: tuple[float, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]
    answer: TradeOffAnswer
    response: BoundsResponse

    def columns(self) -> Columns:
        """A row for each rate: power and type II error, each with both ends."""
        held: Columns = {"false_positive_rate": list(self.false_positive_rates)}
        for name in ("power", "type_two_error"):
            for end in ("value", "lower", "upper"):
                column = name if end == "value" else f"{name}_{end}"
                held[column] = [dict(point)[name][end] for point in self.answer.points]  # type: ignore[index]
        return held


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """The answers to several questions about one run, in their order."""

    response: BoundsResponse

    def __len__(self) -> int:
        return len(self.response.answers)

    def __iter__(self) -> Iterator[Number | Power]:
        return (valued(answer, self.response) for answer in self.response.answers)

    def __getitem__(self, index: int) -> Number | Power:
        return valued(self.response.answers[index], self.response)

    @property
    def answers(self) -> tuple[Number | Power, ...]:
        """All of them."""
        return tuple(self)

    def columns(self) -> Columns:
        """A row for each number, of a trade-off for the power at each rate; None where a question lacks a parameter."""
        rows = [row for answer in self.response.answers for row in _rows(answer)]
        names = dict.fromkeys(name for row in rows for name in row)
        last = ("value", "lower", "upper", *SHARED)
        ordered = [name for name in names if name not in last] + list(last)
        return {name: [row.get(name) for row in rows] for name in ordered}


def table(response: ComparisonsResponse) -> Columns:
    """A row for each quantity of a comparison: the safe number and both ends of every run, and who is best."""
    held: Columns = {"quantity": [quantity.label for quantity in response.quantities]}
    for run in response.runs:
        answers = [(run.answers[quantity.question], quantity.point) for quantity in response.quantities]
        cells = [
            each.points[point or 0]["power"] if isinstance(each, TradeOffAnswer) else each for each, point in answers
        ]
        for end in ("value", "lower", "upper"):
            column = run.name if end == "value" else f"{run.name} {end}"
            held[column] = [cell[end] if isinstance(cell, dict) else getattr(cell, end) for cell in cells]
    held["best"] = [quantity.best for quantity in response.quantities]
    held["certain"] = [quantity.certain for quantity in response.quantities]
    return held


@final
@dataclass(frozen=True, slots=True)
class Sweep:
    """The answers to the same questions about many runs."""

    response: SweepsResponse

    def __len__(self) -> int:
        return self.response.points

    def columns(self) -> Columns:
        """A row for each point: the numbers that are varied, and the safe number and both ends of every answer; None
        where there is a problem, which is told in the last column.
        """
        response = self.response
        held: Columns = {_last(pointer): list(column) for pointer, column in response.columns.items()}
        if len(held) < len(response.columns):  # two places of one name
            held = {pointer: list(column) for pointer, column in response.columns.items()}
        beside = () if response.worst_case is None else response.worst_case.answers
        for prefix, answers in (("", response.answers), ("worst case ", beside)):
            for answer in answers:
                ends = {"": answer.value, " lower": answer.lower, " upper": answer.upper}
                ends |= {" tolerance_met": answer.tolerance_met}
                held |= {f"{prefix}{answer.label}{name}": list(column) for name, column in ends.items()}
        told = {problem.point: "; ".join(each.detail for each in problem.errors) for problem in response.problems}
        return held | {"problem": [told.get(point) for point in range(response.points)]}


def _last(pointer: str) -> str:
    return pointer.rpartition("/")[2]


def valued(answer: Answer, response: BoundsResponse) -> Number | Power:
    """An answer as a value."""
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


def _rows(answer: Answer) -> Iterator[dict[str, Any]]:
    asked: dict[str, Any] = answer.question.model_dump(exclude_none=True)
    held = {"question": asked.pop("type"), **asked} | {name: getattr(answer, name) for name in SHARED}
    if not isinstance(answer, TradeOffAnswer):
        yield {**held, "value": answer.value, "lower": answer.lower, "upper": answer.upper}
        return
    del held["false_positive_rates"]
    for point in answer.points:
        power = point["power"]
        ends = {"value": power["value"], "lower": power["lower"], "upper": power["upper"]}
        yield {**held, "false_positive_rate": point["false_positive_rate"], **ends}
