"""Answers about many runs or many rates: sweeps, curves and comparisons, as columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from privacy_bounds.formatting import (
    UP,
    VALUE_DIGITS,
    aligned,
    html_table,
    question_direction,
    rounded,
    shortened_lines,
)
from privacy_bounds.pictures import Origin
from privacy_bounds.values import NO_ORIGIN, Columns

if TYPE_CHECKING:
    from api_schemas.comparisons import ComparisonsResponse
    from api_schemas.curves import CurvesResponse
    from api_schemas.sweeps import SweepsResponse
    from privacy_bounds.runs import Notes


def table(response: ComparisonsResponse) -> Columns:
    """Return the columns of a table with a row for each quantity of a comparison.

    A row has the safe bound and both bounds of every run (None for an approximation), the names of the best runs, and
    whether the bounds prove that they are the best. The safe bound never states more privacy than there is.
    """
    columns: Columns = {"quantity": [quantity.label for quantity in response.quantities]}
    for run in response.runs:
        answers = [(run.answers[quantity.question], quantity.point) for quantity in response.quantities]
        cells = [each.points[point or 0]["power"] if each.type == "trade_off" else each for each, point in answers]
        for end in ("value", "lower", "upper"):
            column = run.name if end == "value" else f"{run.name} {end}"
            columns[column] = [cell[end] if isinstance(cell, dict) else getattr(cell, end) for cell in cells]
    columns["best"] = [quantity.best for quantity in response.quantities]
    columns["certain"] = [quantity.certain for quantity in response.quantities]
    return columns


@final
@dataclass(frozen=True, slots=True, repr=False)
class Sweep:
    """Answers to the same questions about many runs, with one row for each run."""

    response: SweepsResponse
    origin: Origin = field(default=NO_ORIGIN, compare=False)

    def __len__(self) -> int:
        return self.response.points

    @property
    def read_as(self) -> Notes:
        """Notes on how a run without a type was read."""
        return self.origin.notes

    def columns(self) -> Columns:
        """Return the columns of a table with a row for each point of the sweep.

        A row has the varied numbers, and for every answer the safe bound, both bounds, and whether the tolerance is
        met. The safe bound never states more privacy than there is. For a weaker attacker, columns of answers against
        the worst case follow. Numbers have the units of their questions, and are None at a point without answers. The
        last column describes the problem of a point without answers.
        """
        response = self.response
        columns = _varied_columns(response)
        beside = () if response.worst_case is None else response.worst_case.answers
        for prefix, answers in (("", response.answers), ("worst case ", beside)):
            for answer in answers:
                ends = {"": answer.value, " lower": answer.lower, " upper": answer.upper}
                ends |= {" tolerance_met": answer.tolerance_met}
                columns |= {f"{prefix}{answer.label}{name}": list(column) for name, column in ends.items()}
        problems = {problem.point: "; ".join(each.detail for each in problem.errors) for problem in response.problems}
        return columns | {"problem": [problems.get(point) for point in range(response.points)]}

    def plot(self) -> Any:
        """Return pictures of the answers: a chart of Altair, or a `Picture` without Altair."""
        return self.origin.plot()

    def __repr__(self) -> str:
        lines = aligned(*_sweep_header_and_rows(self.response))
        return shortened_lines([*self.origin.notes, f"sweep of {self.response.points} points", *lines])

    def _repr_html_(self) -> str:
        header, rows = _sweep_header_and_rows(self.response)
        return html_table(header, rows, caption=f"Sweep of {self.response.points} points", notes=self.origin.notes)


def _varied_columns(response: SweepsResponse) -> Columns:
    columns: Columns = {pointer.rpartition("/")[2]: list(column) for pointer, column in response.columns.items()}
    if len(columns) < len(response.columns):  # two places of one name
        columns = {pointer: list(column) for pointer, column in response.columns.items()}
    return columns


def _sweep_header_and_rows(response: SweepsResponse) -> tuple[list[str], list[list[str]]]:
    varied = _varied_columns(response)
    directions = [
        question_direction(response.questions[answer.question], answer.reads or "power") for answer in response.answers
    ]
    swept = list(zip(response.answers, directions, strict=True))
    header = [*varied, *(answer.label for answer in response.answers)]
    rows = [
        [
            *(f"{column[point]:.6g}" for column in varied.values()),
            *(_swept(answer.value[point], direction) for answer, direction in swept),
        ]
        for point in range(response.points)
    ]
    return header, rows


def _swept(value: float | None, direction: str) -> str:
    return "problem" if value is None else rounded(value, VALUE_DIGITS, direction)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Curves:
    """Trade-off curves of one run, one for each threat model, method and direction."""

    response: CurvesResponse
    origin: Origin = field(default=NO_ORIGIN, compare=False)

    def __len__(self) -> int:
        return len(self.response.curves)

    @property
    def read_as(self) -> Notes:
        """Notes on how a run without a type was read."""
        return self.origin.notes

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the curves in order: the attacker, method or direction, as far as the curves differ in it.

        Equal names are distinguished by the index of the curve.
        """
        parts = [(curve.threat_model.type, curve.method, curve.direction) for curve in self.response.curves]
        differing = [index for index in range(3) if len({part[index] for part in parts}) > 1] or [0]
        names = [" ".join(part[index] for index in differing) for part in parts]
        return tuple(name if names.count(name) == 1 else f"{name} {index}" for index, name in enumerate(names))

    def columns(self) -> Columns:
        """Return the columns of a table with a row for each false positive rate.

        A row has power and type II error of every curve, each with both bounds (None for an approximation).
        """
        rates = list(self.response.false_positive_rates)
        columns: Columns = {"false_positive_rate": rates}
        for name, curve in zip(self.names, self.response.curves, strict=True):
            for reading, column in (("power", curve.power), ("type_two_error", curve.type_two_error)):
                for end, numbers in (("", column["value"]), (" lower", column["lower"]), (" upper", column["upper"])):
                    columns[f"{name} {reading}{end}"] = [None] * len(rates) if numbers is None else list(numbers)
        return columns

    def plot(self) -> Any:
        """Return a picture of the curves: a chart of Altair, or a `Picture` without Altair."""
        return self.origin.plot()

    def __repr__(self) -> str:
        rates = self.response.false_positive_rates
        curves = "1 curve" if len(self) == 1 else f"{len(self)} curves"
        first = f"{curves} at {len(rates)} rates from {rates[0]:.6g} to {rates[-1]:.6g}"
        named = zip(self.names, self.response.curves, strict=True)
        lines = [f"  {name}: {curve.evidence}, {curve.method}, {curve.direction}" for name, curve in named]
        return shortened_lines([*self.origin.notes, first, *lines])

    def _repr_html_(self) -> str:
        rates = self.response.false_positive_rates
        rows = [
            [f"{rate:.6g}", *(rounded(curve.power["value"][place], VALUE_DIGITS, UP) for curve in self.response.curves)]
            for place, rate in enumerate(rates)
        ]
        header = ["false positive rate", *(f"{name}: power" for name in self.names)]
        return html_table(header, rows, caption="Largest power of any attack", notes=self.origin.notes)
