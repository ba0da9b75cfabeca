"""Responses about whole runs, with short texts for `repr` and tables for notebooks.

The classes have all members of the responses of the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Self, final

from pydantic import PrivateAttr
from typing_extensions import override

from api_schemas.assessments import AssessmentsResponse
from api_schemas.base import Response
from api_schemas.calibration_answers import CalibrationsResponse
from api_schemas.claims import ClaimsResponse
from api_schemas.comparisons import ComparedRun, ComparisonsResponse, RankedQuantity
from privacy_bounds.calls import read_response
from privacy_bounds.formatting import (
    ANSWER_HEADER,
    VALUE_DIGITS,
    aligned,
    answer_line,
    answer_rows,
    html_table,
    question_direction,
    rounded,
    shortened_lines,
)
from privacy_bounds.pictures import Origin
from privacy_bounds.runs import Notes

MOST_RULINGS: Final = 3
MOST_ANSWERS: Final = 5


class Report(Response, ABC):
    """Response with a short text, and with the request behind it."""

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @abstractmethod
    def _lines(self) -> Iterator[str]:
        """Yield the lines of the short text about the response."""

    @override
    def __repr__(self) -> str:
        return shortened_lines(list(self._lines()))

    @override
    def __str__(self) -> str:
        return repr(self)

    @property
    def read_as(self) -> Notes:
        """Notes on how a run without a type was read; empty if every run had one."""
        return self._origin.notes

    @classmethod
    def read(cls, body: bytes, origin: Origin) -> Self:
        """Parse a response body as a value of this class, with the request `origin` behind it. Raise InvalidAnswer."""
        report = read_response(cls, body)
        report._origin = origin  # noqa: SLF001 - an instance of this class
        return report


@final
class Assessment(Report, AssessmentsResponse):
    """Assessment of a run: standard questions for every attacker, hazards, assumptions, statement and verdict.

    It has all members of the response of `POST /v1/assessments`.
    """

    def plot(self) -> Any:
        """Return pictures of the run: a chart of Altair, or a `Picture` without Altair."""
        return self._origin.plot()

    def _repr_html_(self) -> str:
        rows = [
            (each.threat_model.type, *row)
            for each in (self.threat_models if self.summary.bounded else ())
            for answer in each.answers
            for row in answer_rows(answer)
        ]
        notes = [
            *self._origin.notes,
            *self._verdict(),
            self.summary.sentence,
            *self._hazards(),
            f"Digest {self.digest}",
        ]
        return html_table(("threat model", *ANSWER_HEADER), rows, caption=self.summary.title, notes=notes)

    @override
    def _lines(self) -> Iterator[str]:
        yield self.summary.title
        yield from self._origin.notes
        yield from self._verdict()
        yield self.summary.sentence
        answers = self.threat_models[0].answers if self.summary.bounded and self.threat_models else ()
        yield from (f"  {answer_line(answer)}" for answer in answers[:MOST_ANSWERS])
        yield f"threat models: {', '.join(each.threat_model.type for each in self.threat_models)}"
        yield from self._hazards()
        attested = sum(each.by is not None for each in self.assumptions)
        yield f"assumptions: {len(self.assumptions)}, {attested} of them attested"
        yield self.digest

    def _verdict(self) -> Iterator[str]:
        if self.decision is None:
            return
        yield f"verdict: {self.decision.verdict}. {self.decision.sentence}"
        open_rulings = [each for each in self.decision.rulings if each.verdict != "met"]
        for each in open_rulings[:MOST_RULINGS]:
            yield f"  {each.verdict}: {each.meaning} {answer_line(each.answer)}"

    def _hazards(self) -> Iterator[str]:
        if self.hazards:
            yield "hazards: " + "; ".join(f"{each.code} ({each.status})" for each in self.hazards)


@final
class RunComparison(Report, ComparisonsResponse):
    """Comparison of named runs: every quantity of every run, and the best run. `table` converts it to columns.

    It has all members of the response of `POST /v1/comparisons`.
    """

    def plot(self) -> Any:
        """Return a picture of the curves of all runs: a chart of Altair, or a `Picture` without Altair."""
        return self._origin.plot()

    @override
    def _lines(self) -> Iterator[str]:
        yield from self._origin.notes
        yield from aligned(*self._cells())

    def _repr_html_(self) -> str:
        header, rows = self._cells()
        return html_table(header, rows, notes=[*self._origin.notes, *self.notes])

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        rows = [
            [
                quantity.label,
                *(self._number(run, quantity) for run in self.runs),
                ", ".join(quantity.best) + ("" if quantity.certain else " (not certain)"),
            ]
            for quantity in self.quantities
        ]
        return ["quantity", *(run.name for run in self.runs), "best"], rows

    def _number(self, run: ComparedRun, quantity: RankedQuantity) -> str:
        answer = run.answers[quantity.question]
        is_power = answer.type == "trade_off"
        value = answer.points[quantity.point or 0]["power"]["value"] if is_power else answer.value
        return rounded(value, VALUE_DIGITS, question_direction(self.questions[quantity.question]))


@final
class Calibration(Report, CalibrationsResponse):
    """The least private number that meets every target, the answers there, and a neighbour that fails a target.

    It has all members of the response of `POST /v1/calibrations`. `witness` is None if there is no such neighbour, with
    the reason in `no_witness`.
    """

    @override
    def _lines(self) -> Iterator[str]:
        yield from self._origin.notes
        yield self._headline()
        yield from (f"  {answer_line(each)}" for each in self.answers)

    def _repr_html_(self) -> str:
        rows = [row for answer in self.answers for row in answer_rows(answer)]
        notes = [*self._origin.notes, *self.notes]
        return html_table(ANSWER_HEADER, rows, caption=self._headline(), notes=notes)

    def _headline(self) -> str:
        beside = "no witness" if self.witness is None else f"witness {self.witness.value!r}"
        return f"{self.free} {self.value!r} ({self.status}, {beside})"


@final
class CheckedClaims(Report, ClaimsResponse):
    """Verdicts on claimed numbers, each with the answer behind the verdict.

    It has all members of the response of `POST /v1/claims`.
    """

    @override
    def _lines(self) -> Iterator[str]:
        yield from self._origin.notes
        yield from (f"{each.verdict}: claimed {each.claimed:.9g}, {answer_line(each.answer)}" for each in self.claims)

    def _repr_html_(self) -> str:
        rows = [(each.verdict, f"{each.claimed:.9g}", *row) for each in self.claims for row in answer_rows(each.answer)]
        return html_table(("verdict", "claimed", *ANSWER_HEADER), rows, notes=self._origin.notes)
