"""Answers of many points as columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

from api_schemas.pointers import Place
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from service.computations.abstract import ResponseFields
from service.computations.comparisons.labels import label_of
from service.computations.numbers import LOGARITHMS

NUMBERS = ("value", "lower", "upper")
BESIDE = ("tolerance_met", "evidence", "tight", "method")
READ = ("power", "type_two_error")

Answers = Sequence[ResponseFields] | None
"""The answers of a point, as of `/v1/bounds`; None where it has none."""


@final
class Quantity(NamedTuple):
    """A number that is read of every point, and what it is called. `point`, `reads`: of a question of trade_off."""

    place: int
    label: str
    point: int | None = None
    reads: str | None = None

    def of(self, answer: ResponseFields) -> Mapping[str, Any]:
        """The number in an answer to the question."""
        return answer if self.point is None else answer["points"][self.point][self.reads]


def quantities(questions: Sequence[QuestionSpec], varied: Collection[Place]) -> Iterator[Quantity]:
    """What is read of every point, in the order of the questions. `varied`: places of numbers that differ."""
    for index, question in enumerate(questions):
        inside = [place for place in varied if place.steps[:2] == ("questions", index)]
        fields = {place.name for place in inside}
        if not isinstance(question, TradeOffQuestion):
            yield Quantity(index, label_of(question, varied=fields))
            continue
        for rate in range(len(question.false_positive_rates)):
            differs = any(place.steps[-1] == rate for place in inside)
            fields = {"false_positive_rate"} if differs else set[str]()
            yield from (Quantity(index, label_of(question, rate, reads, fields), rate, reads) for reads in READ)


def column_of(quantity: Quantity, points: Sequence[Answers]) -> ResponseFields:
    """One number of all points."""
    answers = [None if answers is None else answers[quantity.place] for answers in points]
    numbers = [None if answer is None else quantity.of(answer) for answer in answers]
    given = [answer for answer in answers if answer is not None]
    logarithms = LOGARITHMS if any(number is not None and LOGARITHMS[0] in number for number in numbers) else ()
    told = {"point": quantity.point, "reads": quantity.reads}
    return {
        "question": quantity.place,
        **({} if quantity.point is None else told),
        "label": quantity.label,
        **{name: [None if number is None else number[name] for number in numbers] for name in NUMBERS},
        **{name: [None if number is None else number.get(name) for number in numbers] for name in logarithms},
        **{name: [None if answer is None else answer[name] for answer in answers] for name in BESIDE},
        "conditional": any(answer["conditional"] for answer in given),
        "sources": list(dict.fromkeys(answer["source"] for answer in given)),
        "notes": list(dict.fromkeys(note for answer in given for note in answer["notes"])),
    }
