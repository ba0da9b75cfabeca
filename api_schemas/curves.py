"""Request and response of `POST /v1/curves`: trade-off curves as columns, and which curve is harder to attack."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired, Self

from pydantic import Field, model_validator
from typing_extensions import TypedDict

from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.base import Log10, Request, Response, Result, is_none, named_schema
from api_schemas.choices import Direction, Engine, Evidence, MethodUsed
from api_schemas.enclosures import Conditional, LimitIfWide, Notes, Source, Tight, ToleranceMet
from api_schemas.limits import check_tree, limit_error
from api_schemas.mechanisms import MechanismSpec
from api_schemas.options import MethodOptions, settle_options
from api_schemas.scalar_types import (
    LARGEST_LIST,
    OptionalFalsePositiveRates,
)
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel, is_relaxed, settled, worst_case_beside

LARGEST_CHOICES: Final = 8
LARGEST_CURVES: Final = 64
LARGEST_CURVE_POINTS: Final = 40_000


class RateGrid(Request):
    """False positive rates with equal ratios from one to the next."""

    count: Annotated[
        int,
        Field(ge=2, le=LARGEST_LIST, description="How many rates, from the smallest to the largest.", examples=[200]),
    ] = 200
    smallest: Annotated[
        float, Field(ge=1e-300, le=1, description="The first rate; below the largest.", examples=[1e-12])
    ] = 1e-12
    largest: Annotated[float, Field(ge=1e-300, le=1, description="The last rate.", examples=[0.5])] = 0.5
    spacing: Annotated[
        Literal["log", "log_mirrored"],
        Field(
            description="log: the rates; log_mirrored: the rates and their complements, which resolve the other end of "
            "the curves. What coincides in double precision is listed once.",
            examples=["log"],
        ),
    ] = "log"


class CurvesRequest(MethodOptions, Request):
    """A mechanism, and the curves to draw of it: every threat model by every method in every direction."""

    mechanism: MechanismSpec
    threat_models: Annotated[
        tuple[ThreatModelSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_CHOICES,
            description="Who attacks: a curve for each. The worst case is added where only relaxed models are named.",
        ),
    ] = (WorstCaseThreatModel(type="worst_case"),)
    methods: Annotated[
        tuple[Engine, ...],
        Field(
            min_length=1,
            max_length=LARGEST_CHOICES,
            description="Engines that compute the curves: a curve for each.",
            examples=[["auto"]],
        ),
    ] = ("auto",)
    directions: Annotated[
        tuple[Direction, ...], Field(min_length=1, max_length=3, description="A curve for each.", examples=[["add"]])
    ] = ("add",)
    false_positive_rates: OptionalFalsePositiveRates = None
    grid: Annotated[
        RateGrid | None,
        Field(
            description="Rates to read every curve at, where they are not listed; absent: 200 from 1e-12 to 0.5.",
            exclude_if=is_none,
        ),
    ] = None

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        check_tree(self.mechanism)
        self._settle(threat_models=self._with_worst_case())
        settle_options(self, self.methods)
        if self.false_positive_rates is None:
            self._settle(grid=self.grid or RateGrid())
        elif self.grid is not None:
            raise limit_error("/grid", "Send only one of false_positive_rates and grid.")
        if self.grid is not None and self.grid.smallest >= self.grid.largest:
            raise limit_error("/grid/smallest", "Must be below the largest rate.")
        if self.curve_count > LARGEST_CURVES:
            raise limit_error(
                "", f"A request may ask for at most {LARGEST_CURVES} curves; it asks for {self.curve_count}."
            )
        if self.rate_count > LARGEST_LIST:
            raise limit_error("/grid/count", f"There may be at most {LARGEST_LIST} rates with their complements.")
        if self.curve_count * self.rate_count > LARGEST_CURVE_POINTS:
            raise limit_error("", f"All curves together may have at most {LARGEST_CURVE_POINTS} points.")
        return self

    def _with_worst_case(self) -> tuple[ThreatModelSpec, ...]:
        """Add the worst case beside relaxed threat models."""
        asked = tuple(settled(each, self.mechanism) for each in self.threat_models)
        if all(map(is_relaxed, asked)):
            return (*asked, worst_case_beside(asked, self.mechanism))
        return asked

    @property
    def curve_count(self) -> int:
        """Number of requested curves."""
        return len(self.threat_models) * len(self.methods) * len(self.directions)

    @property
    def rate_count(self) -> int:
        """Number of rates at which each curve is evaluated."""
        if self.grid is None:
            return len(self.false_positive_rates or ())
        return self.grid.count * (2 if self.grid.spacing == "log_mirrored" else 1)


LOGARITHMS = Field(
    exclude_if=is_none,
    description="Decimal logarithms. null beside numbers that are not below 1e-290.",
    examples=[[None, -312.4]],
)


class EnclosedColumn(TypedDict):
    """An enclosed number at each rate, as columns; `value` is the safe bound.

    The logarithms are there when a number of the column is positive and below 1e-290, and null beside the others.
    """

    value: Annotated[list[float], Field(description="The safe bound at each rate.")]
    lower: Annotated[list[float] | None, Field(description="Lower bounds. null where the evidence is asymptotic.")]
    upper: Annotated[list[float] | None, Field(description="Upper bounds. null where the evidence is asymptotic.")]
    value_log10: NotRequired[Annotated[list[Log10 | None], LOGARITHMS]]
    lower_log10: NotRequired[Annotated[list[Log10 | None], LOGARITHMS]]
    upper_log10: NotRequired[Annotated[list[Log10 | None], LOGARITHMS]]


class Curve(Response):
    """One curve at the rates of the response. `type_two_error` is safe from below, `power` from above."""

    threat_model: ThreatModelSpec
    requested_method: Annotated[Engine, Field(description="The method that was asked for.")]
    method: MethodUsed
    direction: Direction
    type_two_error: EnclosedColumn
    power: EnclosedColumn
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    tolerance_met: ToleranceMet
    limit: LimitIfWide = None
    source: Source
    notes: Notes


class RateInterval(TypedDict):
    """Rates from `start` to `end`."""

    start: Annotated[float, Field(description="The smaller rate.")]
    end: Annotated[float, Field(description="The larger rate.")]


Place = Annotated[int, Field(ge=0, description="Place in `curves`, from 0.")]


class CurveVerdict(Response):
    """Which of two curves is harder for the attacker, who has the smaller power on it, at the rates of the response."""

    verdict: Annotated[
        Literal["equal", "first_is_harder", "second_is_harder", "crossing", "undecided"],
        named_schema(
            "HarderCurve",
            "first_is_harder, second_is_harder: at least as hard at every rate; equal: both; crossing: "
            "each is surely harder at some rate; undecided: the enclosures overlap at some rates, and say no more.",
            examples=["first_is_harder"],
        ),
    ]
    crossings: Annotated[
        tuple[RateInterval, ...],
        Field(description="Between the ends of each interval the curves surely change places."),
    ]
    undecided_rates: Annotated[int, Field(ge=0, description="At how many rates the enclosures overlap.")]
    evidence: Annotated[
        Evidence,
        Field(description="What the verdict rests on: the weaker of both curves. asymptotic: values, not enclosures."),
    ]


class ComparedPlaces(Response):
    """Positions of the compared curves."""

    first: Place
    second: Place


class CurveComparison(CurveVerdict, ComparedPlaces):
    """Which of two curves is harder for the attacker."""


class CurvesResponse(MethodOptions, Result):
    """The curves: threat models in the order of the request, in each the methods, in each the directions."""

    mechanism: MechanismSpec
    false_positive_rates: Annotated[tuple[float, ...], Field(description="Where every curve is read.")]
    methods: Annotated[tuple[Engine, ...], Field(description="As in the request; each curve names the engine used.")]
    curves: Annotated[tuple[Curve, ...], Field(description="A curve for each threat model, method and direction.")]
    comparisons: Annotated[tuple[CurveComparison, ...], Field(description="Of every pair of curves.")]
    assumptions: Assumptions
    hazards: Hazards
