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
    """False positive rates with a constant ratio between neighbours."""

    count: Annotated[
        int,
        Field(ge=2, le=LARGEST_LIST, description="Number of rates from the smallest to the largest.", examples=[200]),
    ] = 200
    smallest: Annotated[
        float, Field(ge=1e-300, le=1, description="First rate, smaller than the last rate.", examples=[1e-12])
    ] = 1e-12
    largest: Annotated[float, Field(ge=1e-300, le=1, description="Last rate of the grid.", examples=[0.5])] = 0.5
    spacing: Annotated[
        Literal["log", "log_mirrored"],
        Field(
            description="log: the rates. log_mirrored: the rates and their complements, for high resolution "
            "near 1. Rates that coincide in double precision appear once.",
            examples=["log"],
        ),
    ] = "log"


class CurvesRequest(MethodOptions, Request):
    """A mechanism and its requested trade-off curves, one for each threat model, method and direction."""

    mechanism: MechanismSpec
    threat_models: Annotated[
        tuple[ThreatModelSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_CHOICES,
            description="Threat models, one curve for each. The service adds the worst case to a list of only "
            "weaker models.",
        ),
    ] = (WorstCaseThreatModel(type="worst_case"),)
    methods: Annotated[
        tuple[Engine, ...],
        Field(
            min_length=1,
            max_length=LARGEST_CHOICES,
            description="Engines, one curve for each.",
            examples=[["auto"]],
        ),
    ] = ("auto",)
    directions: Annotated[
        tuple[Direction, ...],
        Field(min_length=1, max_length=3, description="Directions, one curve for each.", examples=[["add"]]),
    ] = ("add",)
    false_positive_rates: OptionalFalsePositiveRates = None
    grid: Annotated[
        RateGrid | None,
        Field(
            description="Grid of rates, in place of a list. Default: 200 rates from 1e-12 to 0.5.",
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
                "", f"A request may have at most {LARGEST_CURVES} curves. This request has {self.curve_count}."
            )
        if self.rate_count > LARGEST_LIST:
            raise limit_error("/grid/count", f"The grid may have at most {LARGEST_LIST} rates with their complements.")
        if self.curve_count * self.rate_count > LARGEST_CURVE_POINTS:
            raise limit_error("", f"All curves together may have at most {LARGEST_CURVE_POINTS} points.")
        return self

    def _with_worst_case(self) -> tuple[ThreatModelSpec, ...]:
        """Return the threat models of the request, with the worst case added if there are only weaker attackers."""
        asked = tuple(settled(each, self.mechanism) for each in self.threat_models)
        if all(map(is_relaxed, asked)):
            return (*asked, worst_case_beside(asked, self.mechanism))
        return asked

    @property
    def curve_count(self) -> int:
        """Number of requested trade-off curves."""
        return len(self.threat_models) * len(self.methods) * len(self.directions)

    @property
    def rate_count(self) -> int:
        """Number of false positive rates at which each curve is evaluated."""
        if self.grid is None:
            return len(self.false_positive_rates or ())
        return self.grid.count * (2 if self.grid.spacing == "log_mirrored" else 1)


LOGARITHMS = Field(
    exclude_if=is_none,
    description="Decimal logarithms of the bounds. null: the number is not below 1e-290.",
    examples=[[None, -312.4]],
)


class EnclosedColumn(TypedDict):
    """Numbers with bounds at all false positive rates, as columns.

    `value` is the safe bound. The logarithms are present when a number of the column is positive and below 1e-290.
    Other rows of such a column are null.
    """

    value: Annotated[list[float], Field(description="Safe bound at each rate.")]
    lower: Annotated[
        list[float] | None, Field(description="Lower bound at each rate. null: the evidence is asymptotic.")
    ]
    upper: Annotated[
        list[float] | None, Field(description="Upper bound at each rate. null: the evidence is asymptotic.")
    ]
    value_log10: NotRequired[Annotated[list[Log10 | None], LOGARITHMS]]
    lower_log10: NotRequired[Annotated[list[Log10 | None], LOGARITHMS]]
    upper_log10: NotRequired[Annotated[list[Log10 | None], LOGARITHMS]]


class Curve(Response):
    """One trade-off curve at the false positive rates of the response.

    The safe bound is the lower bound of `type_two_error` and the upper bound of `power`.
    """

    threat_model: ThreatModelSpec
    requested_method: Annotated[Engine, Field(description="The requested method.")]
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
    """Range of false positive rates, from `start` to `end`."""

    start: Annotated[float, Field(description="Lower endpoint of the interval.")]
    end: Annotated[float, Field(description="Upper endpoint of the interval.")]


Place = Annotated[int, Field(ge=0, description="Index of the curve in `curves`, from 0.")]


class CurveVerdict(Response):
    """Verdict on two trade-off curves at the rates of the response. The harder curve gives the attacker less power."""

    verdict: Annotated[
        Literal["equal", "first_is_harder", "second_is_harder", "crossing", "undecided"],
        named_schema(
            "HarderCurve",
            "first_is_harder, second_is_harder: at least as hard at every rate. equal: both curves are equally "
            "hard. crossing: each curve is provably harder at some rate. undecided: the enclosures overlap at "
            "some rates, and the other rates do not decide.",
            examples=["first_is_harder"],
        ),
    ]
    crossings: Annotated[
        tuple[RateInterval, ...],
        Field(description="Intervals of rates in which the order of the curves provably changes."),
    ]
    undecided_rates: Annotated[int, Field(ge=0, description="Number of rates at which the enclosures overlap.")]
    evidence: Annotated[
        Evidence,
        Field(
            description="Weaker evidence of both curves. asymptotic: the comparison uses values instead of enclosures."
        ),
    ]


class ComparedPlaces(Response):
    """Indices of the two compared curves."""

    first: Place
    second: Place


class CurveComparison(CurveVerdict, ComparedPlaces):
    """Verdict on which of two trade-off curves is harder for the attacker."""


class CurvesResponse(MethodOptions, Result):
    """Trade-off curves in the order of the threat models, then the methods, then the directions."""

    mechanism: MechanismSpec
    false_positive_rates: Annotated[tuple[float, ...], Field(description="Rates at which every curve is evaluated.")]
    methods: Annotated[
        tuple[Engine, ...], Field(description="Methods of the request. Each curve names the engine that computed it.")
    ]
    curves: Annotated[tuple[Curve, ...], Field(description="One curve for each threat model, method and direction.")]
    comparisons: Annotated[tuple[CurveComparison, ...], Field(description="One comparison for each pair of curves.")]
    assumptions: Assumptions
    hazards: Hazards
