"""Answers of many points as columns, which grow point by point."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple, final

from api_schemas.pointers import Place
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from service.resources.abstract import ResponseFields
from service.resources.comparisons.labels import label_of
from service.resources.numbers import LOGARITHMS

NUMBERS: Final = ("value", "lower", "upper")
BESIDE: Final = ("tolerance_met", "evidence", "tight", "method")
READ: Final = ("power", "type_two_error")
_NO_NUMBERS: Final = (None,) * len((*NUMBERS, *LOGARITHMS))
_NOTHING_BESIDE: Final = (None,) * len(BESIDE)
_numbers_of, _beside_of = itemgetter(*NUMBERS), itemgetter(*BESIDE)

Answers = Sequence[ResponseFields] | None
"""Answers of a point in the format of `/v1/bounds`; None if it has none."""


@final
class Quantity(NamedTuple):
    """Number that every point of a sweep has, with its label. `place` is the index of its question.

    For a trade-off question, `point` is the index of the rate and `reads` is "power" or "type_two_error".
    """

    place: int
    label: str
    point: int | None = None
    reads: str | None = None

    def of(self, answer: ResponseFields) -> Mapping[str, Any]:
        """Return the number of this column, with `value` and bounds, from the answer to its question."""
        return answer if self.point is None else answer["points"][self.point][self.reads]


def quantities(questions: Sequence[QuestionSpec], varied: Collection[Place]) -> Iterator[Quantity]:
    """Yield the numbers that the answers to `questions` have at every point of a sweep, in order.

    `varied` are the pointers of the varied numbers.
    """
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


@final
class Column:
    """One number of all points of a sweep, as columns of values, bounds and other fields that the answers have."""

    def __init__(self, quantity: Quantity) -> None:
        self._quantity = quantity
        self._numbers: list[tuple[Any, ...]] = []
        self._beside: list[tuple[Any, ...]] = []
        self._limits: list[str | None] = []
        self._conditional = self._is_small = False
        self._sources, self._notes = dict[str, None](), dict[str, None]()

    def add(self, answers: Answers) -> None:
        """Append the number of the next point, from all answers of the point; None if the point has no answers."""
        if answers is None:
            self._numbers.append(_NO_NUMBERS)
            self._beside.append(_NOTHING_BESIDE)
            self._limits.append(None)
            return
        answer = answers[self._quantity.place]
        number = self._quantity.of(answer)
        self._numbers.append((*_numbers_of(number), *map(number.get, LOGARITHMS)))
        self._beside.append(_beside_of(answer))
        self._limits.append(answer["limit"]["code"] if "limit" in answer else None)
        self._is_small = self._is_small or LOGARITHMS[0] in number
        self._conditional = self._conditional or answer["conditional"]
        self._sources[answer["source"]] = None
        self._notes |= dict.fromkeys(answer["notes"])

    @property
    def response_fields(self) -> ResponseFields:
        """Column as fields of `SweptAnswer`."""
        place, label, point, reads = self._quantity
        names = (*NUMBERS, *LOGARITHMS) if self._is_small else NUMBERS
        numbers: ResponseFields = dict(zip(names, zip(*self._numbers, strict=True), strict=False))
        beside: ResponseFields = dict(zip(BESIDE, zip(*self._beside, strict=True), strict=True))
        return {
            "question": place,
            **({} if point is None else {"point": point, "reads": reads}),
            "label": label,
            **numbers,
            **beside,
            **({"limit": self._limits} if any(self._limits) else {}),
            "conditional": self._conditional,
            "sources": list(self._sources),
            "notes": list(self._notes),
        }
