"""Request and response of `POST /v1/sweeps`: the same questions about many runs that differ in some numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.base import Log10, NonNegative, Request, Response, Result, field_error, is_none, named_schema
from api_schemas.bounds import BoundsRequest
from api_schemas.choices import Evidence, LimitCode, Method, MethodUsed, PointReading
from api_schemas.enclosures import Conditional, Notes, Tight, ToleranceMet
from api_schemas.free_parameters import free_place, with_numbers
from api_schemas.limits import check_tree, limit_error
from api_schemas.mechanisms import MechanismSpec
from api_schemas.options import MethodOptions, settle_options
from api_schemas.pointers import LONGEST_POINTER, Place, place_of
from api_schemas.problems import FieldError, ProblemType
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from api_schemas.threat_models import ThreatModelSpec, settled, usual_worst_case

LARGEST_POINTS: Final = 10_000
LARGEST_VARIED: Final = 8
LARGEST_SWEPT_QUESTIONS: Final = 16
LARGEST_SWEPT_NUMBERS: Final = 100_000
"""Points times the numbers that are read of each."""
SWEPT_PARTS: Final = {
    "mechanism": "the mechanism",
    "threat_model": "the threat model",
    "questions": "a question",
}
NOT_SWEPT: Final = ("all", "ground_truth")
"""Methods that answer one run at a time."""

Number = Annotated[float, Field(ge=-1e15, le=1e15)]


class SweptNumbers(Request):
    """Values of one varied number: a list, or a range with both endpoints."""

    model_config = ConfigDict(serialize_by_alias=True)

    values: Annotated[
        tuple[Number, ...] | None,
        Field(
            min_length=1,
            max_length=LARGEST_POINTS,
            description="List of the values. A value outside the range of the field is a problem of its points.",
            examples=[[0.8, 1.0, 1.5]],
            exclude_if=is_none,
        ),
    ] = None
    least: Annotated[
        Number | None,
        Field(
            validation_alias=AliasChoices("from", "min"),
            serialization_alias="from",
            description="First value of the range.",
            examples=[0.5],
            exclude_if=is_none,
        ),
    ] = None
    most: Annotated[
        Number | None,
        Field(
            validation_alias=AliasChoices("to", "max"),
            serialization_alias="to",
            description="Last value of the range.",
            examples=[10.0],
            exclude_if=is_none,
        ),
    ] = None
    count: Annotated[
        Annotated[int, Field(ge=1, le=LARGEST_POINTS)] | None,
        Field(description="Number of values from the first to the last.", examples=[20], exclude_if=is_none),
    ] = None
    spacing: Annotated[
        Literal["linear", "log"] | None,
        named_schema(
            "Spacing",
            "linear (default): equal differences. log: equal ratios. Intermediate numbers are rounded to 14 "
            "digits, and to integers for integer fields.",
            examples=["log"],
        ),
        Field(exclude_if=is_none),
    ] = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        held = vars(self)
        ranged = {"from": self.least, "to": self.most, "count": self.count}
        if self.values is not None:
            if not self.model_fields_set <= {"values"}:
                raise field_error("values", "Send either values, or from, to and count.")
            return self
        missing = [name for name, value in ranged.items() if value is None]
        if self.least is None or self.most is None or self.count is None:
            raise field_error("values", f"Send either values, or from, to and count; missing: {', '.join(missing)}.")
        held["spacing"] = self.spacing or "linear"
        if self.least > self.most:
            raise field_error("least", "`from` must not be above `to`.")
        if self.spacing == "log" and self.least <= 0:
            raise field_error("least", "Must be above 0 for logarithmic spacing.")
        if self.count == 1 and self.least < self.most:
            raise field_error("count", "Must be at least 2, because both endpoints are included.")
        return self

    @property
    def size(self) -> int:
        """Number of values of the varied number."""
        return len(self.values) if self.values is not None else self.count or 0

    def numbers(self, *, whole: bool) -> tuple[int | float, ...]:
        """Return all values of the varied number in order.

        `whole` is whether the field takes integers, so that values of a range are rounded.
        """
        return tuple(self.number(place, whole=whole) for place in range(self.size))

    def number(self, place: int, *, whole: bool) -> int | float:
        """Return the value of the varied number at the index `place`, from 0.

        `whole` is whether the field takes integers.
        """
        if self.values is not None:
            listed = self.values[place]
            return int(listed) if whole and listed.is_integer() else listed
        low, high, last = self.least or 0.0, self.most or 0.0, (self.count or 1) - 1
        found = low if place == 0 else high if place == last else self._between(low, high, place / last)
        return round(found) if whole else found

    def _between(self, low: float, high: float, share: float) -> float:
        found = low ** (1 - share) * high**share if self.spacing == "log" else low + share * (high - low)
        return min(max(float(f"{found:.14g}"), low), high)  # 0.3, and not 0.30000000000000004


Pointer = Annotated[str, Field(min_length=1, max_length=LONGEST_POINTER)]
Vary = Annotated[
    dict[Pointer, SweptNumbers],
    Field(
        min_length=1,
        max_length=LARGEST_VARIED,
        description="Varied numbers, by JSON pointers to numbers of the mechanism, the threat model or a "
        "question. The varied numbers replace the values at these pointers.",
        examples=[{"/mechanism/noise_multiplier": {"from": 0.5, "to": 5.0, "count": 10, "spacing": "log"}}],
    ),
]
Combine = Annotated[
    Literal["product", "zip"],
    named_schema(
        "Combine",
        "product: every combination of the varied numbers. The last pointer in lexicographic order changes "
        "fastest. zip: the first numbers of all pointers together, then the second numbers, and so on.",
        examples=["product"],
    ),
]


class SweepsRequest(MethodOptions, Request):
    """A mechanism, a threat model, questions, and the varied numbers of a sweep."""

    largest_points: ClassVar[int] = LARGEST_POINTS
    largest_numbers: ClassVar[int] = LARGEST_SWEPT_NUMBERS

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)
    vary: Vary
    combine: Combine = "product"
    questions: Annotated[
        tuple[QuestionSpec, ...],
        Field(min_length=1, max_length=LARGEST_SWEPT_QUESTIONS, description="Questions, answered at every point."),
    ]
    method: Method = "auto"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_tree(self.mechanism)
        self._settle(threat_model=settled(self.threat_model, self.mechanism))
        if self.method in NOT_SWEPT:
            raise limit_error(
                "/method", f"A sweep does not support the method {self.method}. Send POST /v1/bounds for single runs."
            )
        settle_options(self, (self.method,))
        self._settle(vary=self._in_order())
        sizes = [each.size for each in self.vary.values()]
        if self.combine == "zip" and len(set(sizes)) > 1:
            pointer = next(name for name, each in self.vary.items() if each.size != sizes[0])
            raise limit_error(
                f"/vary/{escaped(pointer)}",
                f"Must have {sizes[0]} numbers like the other pointers. It has {self.vary[pointer].size}.",
            )
        if self.point_count > self.largest_points:
            raise limit_error("/vary", f"A sweep may have at most {self.largest_points} points.")
        if self.point_count * self.quantity_count > self.largest_numbers:
            sentence = f"All points together may have at most {self.largest_numbers} numbers."
            raise limit_error("/questions", sentence)
        return self

    def _in_order(self) -> dict[str, SweptNumbers]:
        """Return the varied numbers, sorted by pointer in the spelling of the contract. JSON objects have no order."""
        found: dict[str, SweptNumbers] = {}
        for pointer, numbers in self.vary.items():
            place = free_place(self, pointer, f"/vary/{escaped(pointer)}", SWEPT_PARTS)
            if place.pointer in found:
                raise limit_error(f"/vary/{escaped(pointer)}", f"Points to {place.pointer}, like another pointer.")
            found[place.pointer] = numbers
        return {pointer: found[pointer] for pointer in sorted(found)}

    @property
    def point_count(self) -> int:
        """Number of points of the sweep."""
        sizes = [each.size for each in self.vary.values()]
        return sizes[0] if self.combine == "zip" else math.prod(sizes)

    @property
    def asked_points(self) -> range:
        """Indices of the points to answer: all of them."""
        return range(self.point_count)

    @property
    def quantity_count(self) -> int:
        """Number of answers that are computed at each point of the sweep.

        A trade_off has two error rates at each rate.
        """
        lists = [each.false_positive_rates for each in self.questions if isinstance(each, TradeOffQuestion)]
        return len(self.questions) + sum(2 * len(rates) - 1 for rates in lists)

    @property
    def places(self) -> tuple[Place, ...]:
        """Positions of the varied numbers in the request, in the order of the pointers."""
        return tuple(place_of(self, pointer) for pointer in self.vary)

    def points(self) -> Iterator[tuple[float, ...]]:
        """Yield the values of the varied numbers at every point of the sweep, in the order of the pointers."""
        lists = [
            numbers.numbers(whole=place.shape.kind == "integer")
            for place, numbers in zip(self.places, self.vary.values(), strict=True)
        ]
        return zip(*lists, strict=True) if self.combine == "zip" else product(*lists)

    def points_at(self, indices: Iterable[int]) -> Iterator[tuple[float, ...]]:
        """Return the values of the varied numbers at the points with these indices. Other points are not computed."""
        return zip(*self._columns(list(indices)).values(), strict=True)

    def columns(self, start: int, stop: int) -> dict[str, tuple[float, ...]]:
        """Return the values of the varied numbers by pointer, at the points `start` to `stop - 1`.

        Other points are not computed.
        """
        return self._columns(range(start, stop))

    def _columns(self, points: Sequence[int]) -> dict[str, tuple[float, ...]]:
        found: dict[str, tuple[float, ...]] = {}
        period = self.point_count
        for place, numbers in zip(self.places, self.vary.values(), strict=True):
            whole = place.shape.kind == "integer"
            # How many points have the same number here, one after the other: the last place changes fastest.
            period = 1 if self.combine == "zip" else period // numbers.size
            places = [point // period % numbers.size for point in points]
            known = {each: numbers.number(each, whole=whole) for each in set(places)}
            found[place.pointer] = tuple(known[each] for each in places)
        return found

    def asked(self, places: Sequence[Place], numbers: Sequence[float]) -> BoundsRequest:
        """Return the request for bounds at a point of the sweep. Raise ValidationError for invalid numbers."""
        held = vars(self)
        sent = {name: held[name] for name in (*SWEPT_PARTS, "method", *MethodOptions.model_fields)}
        sent |= with_numbers(self, zip(places, numbers, strict=True))
        return BoundsRequest.model_validate({name: value for name, value in sent.items() if value is not None})


def escaped(token: str) -> str:
    """Escape a part of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


COLUMN: Final = "One entry for each point, in their order. null: the point has a problem."
Ends = Annotated[
    tuple[NonNegative | None, ...],
    Field(
        description="One bound for each point, in their order. null: the point has a problem or asymptotic evidence."
    ),
]
Logarithms = Annotated[
    tuple[Log10 | None, ...] | None,
    Field(
        exclude_if=is_none,
        description="Decimal logarithms of the bounds. The column is present when some true value is positive "
        "and below 1e-290. Other points are null.",
        examples=[[None, -312.4]],
    ),
]


class SweptAnswer(Response):
    """One number at every point of a sweep, as columns.

    The number is the answer to a question, or one quantity at one rate of trade_off.
    """

    question: Annotated[int, Field(ge=0, description="Index of the question in `questions`, from 0.")]
    point: Annotated[
        int | None,
        Field(ge=0, exclude_if=is_none, description="Index of the rate in a trade_off question, from 0.", examples=[0]),
    ] = None
    reads: Annotated[
        PointReading | None, Field(exclude_if=is_none, description="Quantity of a trade_off point in this column.")
    ] = None
    label: Annotated[str, Field(description="Short description of the quantity.", examples=["epsilon(delta=1e-05)"])]
    value: Annotated[
        tuple[NonNegative | None, ...],
        Field(description="Safe bounds, one for each point in their order. null: the point has a problem."),
    ]
    lower: Ends
    upper: Ends
    value_log10: Logarithms = None
    lower_log10: Logarithms = None
    upper_log10: Logarithms = None
    tolerance_met: Annotated[tuple[ToleranceMet | None, ...], Field(description=COLUMN)]
    limit: Annotated[
        tuple[LimitCode | None, ...] | None,
        Field(
            exclude_if=is_none,
            description="Reason why tolerance_met is false. The column is present when tolerance_met is false "
            "at some point. Other points are null.",
        ),
    ] = None
    evidence: Annotated[tuple[Evidence | None, ...], Field(description=COLUMN)]
    tight: Annotated[tuple[Tight, ...], Field(description=COLUMN)]
    method: Annotated[tuple[MethodUsed | None, ...], Field(description=COLUMN)]
    conditional: Conditional
    sources: Annotated[tuple[str, ...], Field(description="Theorems behind the answers, each listed once.")]
    notes: Notes


class SweptWorstCase(Response):
    """Worst-case answers by method auto, for comparison with a weaker attacker."""

    threat_model: Annotated[
        ThreatModelSpec | None,
        Field(description="Worst case of all points. null: the worst case differs between points, or there is none."),
    ]
    answers: Annotated[
        tuple[SweptAnswer, ...], Field(description="Worst-case answers, in the format of the answers of the sweep.")
    ]


class PointProblem(Response):
    """Reason why one point of a sweep has no answer. Other points are not affected."""

    point: Annotated[int, Field(ge=0, description="Index of the point in the columns, from 0.", examples=[3])]
    type: ProblemType
    title: Annotated[str, Field(description="Kind of the problem in words.", examples=["Invalid request"])]
    errors: Annotated[
        tuple[FieldError, ...],
        Field(description="Positions and reasons of the errors, for the request with the numbers of the point."),
    ]


class SweepsResponse(MethodOptions, Result):
    """Answers of a sweep as columns with one entry for each point."""

    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    questions: Annotated[
        tuple[QuestionSpec, ...], Field(description="Questions of the request, with default values filled in.")
    ]
    method: Method
    combine: Combine
    points: Annotated[int, Field(ge=1, description="Number of points.")]
    columns: Annotated[
        dict[str, tuple[int | float, ...]],
        Field(
            description="Varied numbers of every point, by their canonical JSON pointers.",
            examples=[{"/mechanism/noise_multiplier": [0.8, 1.0, 1.2]}],
        ),
    ]
    answers: Annotated[
        tuple[SweptAnswer, ...],
        Field(description="Answers in the order of the questions. A trade_off question has one answer for each rate."),
    ]
    worst_case: Annotated[
        SweptWorstCase | None,
        Field(description="Worst-case answers to the same questions. null: the threat model is the worst case."),
    ]
    problems: Annotated[
        tuple[PointProblem, ...],
        Field(
            description="Points without answers, in their order. Points beyond the time limit have the type "
            "/problems/out-of-time; a job has more time."
        ),
    ]
    assumptions: Assumptions
    hazards: Hazards
