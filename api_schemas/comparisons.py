"""Request and response of `POST /v1/comparisons`: several runs, and which run is harder to attack."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from api_schemas.assumptions_and_hazards import Assumptions, Hazards
from api_schemas.base import NonNegative, Request, Response, Result, Signed, is_none, named_schema
from api_schemas.bounds import Answers, BoundsRequest, RelaxedComparison
from api_schemas.choices import Direction
from api_schemas.curves import CurveVerdict
from api_schemas.enclosures import Notes
from api_schemas.limits import limit_error
from api_schemas.mechanisms import MechanismSpec
from api_schemas.nested import bounds_request
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from api_schemas.scalar_types import DEFAULT_TOLERANCE, FALSE_POSITIVE_RATES, RelativeTolerance, UnitInterval
from api_schemas.threat_models import ThreatModelSpec, usual_worst_case

LARGEST_RUNS: Final = 16
LARGEST_NAME: Final = 64
LARGEST_QUANTITIES: Final = 128
LARGEST_RATES: Final = 1000
USUAL_RATES: Final = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Where people read curves of attacks."""

# A semicolon parts cells in some countries, and names of the best runs; what is not seen may hide a first character.
_NEVER: Final = r"\x00-\x1f\x7f-\x9f;\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
RunName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LARGEST_NAME,
        # Names become cells of tables, where some programs take these for formulas.
        pattern=rf"^[^\x20\xa0=+@'\-\uff1d\uff0b\uff0d\uff20{_NEVER}][^{_NEVER}]*$",
        description="Unique name of the run in this request. The first character must not be a space or one of "
        "= + - @ '. Semicolons and invisible characters are not allowed.",
        examples=["baseline"],
    ),
]


class Run(Request):
    """One of the compared runs: a mechanism with its threat model."""

    name: RunName
    mechanism: MechanismSpec
    threat_model: ThreatModelSpec = Field(default_factory=usual_worst_case)


class ComparisonsRequest(Request):
    """Runs to compare, and the compared quantities."""

    runs: Annotated[
        tuple[Run, ...],
        Field(min_length=2, max_length=LARGEST_RUNS, description="Runs to compare. The answers have the same order."),
    ]
    questions: Annotated[
        tuple[QuestionSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_QUANTITIES,
            description="Questions about every run. Every rate of a trade_off question is a separate quantity.",
        ),
    ]
    direction: Annotated[
        Direction, Field(description="Direction of the compared curves. Questions have their own direction.")
    ] = "add"
    false_positive_rates: Annotated[
        tuple[UnitInterval, ...],
        Field(
            min_length=1,
            max_length=LARGEST_RATES,
            validation_alias=FALSE_POSITIVE_RATES,
            description="Rates at which curves are compared when no theorem decides. Default: 14 rates from "
            "1e-6 to 0.8.",
            examples=[[1e-6, 1e-3, 0.1, 0.5]],
        ),
    ] = USUAL_RATES
    relative_tolerance: RelativeTolerance = DEFAULT_TOLERANCE

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        names: set[str] = set()
        for index, run in enumerate(self.runs):
            if run.name in names:
                raise limit_error(f"/runs/{index}/name", "Another run has this name.")
            names.add(run.name)
        if self.quantity_count > LARGEST_QUANTITIES:
            raise limit_error(
                "/questions", f"A request may have at most {LARGEST_QUANTITIES} questions and rates of trade_off."
            )
        for index, run in enumerate(self.runs):
            vars(run)["threat_model"] = self.asked(index).threat_model
        return self

    @property
    def quantity_count(self) -> int:
        """Number of compared quantities: one for each question, or for each rate of a trade-off question."""
        points = [each.false_positive_rates for each in self.questions if isinstance(each, TradeOffQuestion)]
        return len(self.questions) + sum(len(rates) - 1 for rates in points)

    def asked(self, index: int) -> BoundsRequest:
        """Return the questions about the run at this index as a request for bounds."""
        run = self.runs[index]
        given = run.threat_model if "threat_model" in run.model_fields_set else None
        return bounds_request(run.mechanism, given, self.questions, self.places(index), self.relative_tolerance)

    def places(self, index: int) -> dict[str, str]:
        """Return the JSON pointers of this request, by the pointers of the request for bounds that `asked` returns."""
        return {"/mechanism": f"/runs/{index}/mechanism", "/threat_model": f"/runs/{index}/threat_model"}


class ComparedRun(Response):
    """Answers and trade-off curve of one run of a comparison."""

    name: Annotated[str, Field(description="Name from the request.")]
    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    answers: Answers
    worst_case: Annotated[
        RelaxedComparison | None,
        Field(description="Worst-case answers to the same questions. null: the threat model is the worst case."),
    ]
    assumptions: Assumptions
    hazards: Hazards


class RankedQuantity(Response):
    """A compared quantity: the answer to a question, or the power at one rate of trade_off."""

    label: Annotated[str, Field(description="Short description of the quantity.", examples=["epsilon(delta=1e-05)"])]
    question: Annotated[int, Field(ge=0, description="Index of the question in `questions`, from 0.")]
    point: Annotated[
        int | None,
        Field(ge=0, exclude_if=is_none, description="Index of the rate in a trade_off question, from 0.", examples=[0]),
    ] = None
    better: Annotated[
        Literal["smaller", "larger"],
        named_schema(
            "Better",
            "smaller: a smaller number means more privacy. larger: a larger number means more privacy.",
            examples=["smaller"],
        ),
    ]
    best: Annotated[
        tuple[str, ...],
        Field(description="Runs with the best safe bound. The list is empty if no run has an enclosure."),
    ]
    certain: Annotated[
        bool, Field(description="Whether every other run is provably worse, and the best runs are provably equal.")
    ]


class DifferenceEnds(Response):
    """Enclosure of the difference of a quantity of two runs: lower <= first - second <= upper."""

    lower: Annotated[Signed, Field(description="Lower bound of the difference.")]
    upper: Annotated[Signed, Field(description="Upper bound of the difference.")]


class RatioEnds(Response):
    """Enclosure of the ratio of a quantity of two runs: lower <= first / second <= upper."""

    lower: Annotated[NonNegative, Field(description="Lower bound of the ratio.")]
    upper: Annotated[NonNegative, Field(description="Upper bound of the ratio.")]


class ComparedQuantity(Response):
    """One quantity of two compared runs."""

    verdict: Annotated[
        Literal["first_smaller", "second_smaller", "equal", "undecided"],
        named_schema(
            "DifferenceVerdict",
            "first_smaller, second_smaller: this number is provably smaller. equal: both numbers are "
            "provably equal. undecided: the enclosures overlap, or one is missing.",
            examples=["first_smaller"],
        ),
    ]
    difference: Annotated[
        DifferenceEnds | None,
        Field(description="Difference of both values. null: an enclosure is missing, or both values are infinite."),
    ]
    ratio: Annotated[
        RatioEnds | None,
        Field(description="Ratio of both values. null: the difference is null, or the second value is 0."),
    ]


class ComparedPair(Response):
    """Comparison of two runs."""

    first: Annotated[str, Field(description="Name of the first run.")]
    second: Annotated[str, Field(description="Name of the second run.")]
    curves: CurveVerdict
    theorem: Annotated[
        str | None,
        Field(
            description="Theorem that proves the verdict on the curves at every rate. null: the verdict holds "
            "only at the rates of the response.",
            examples=["The curve of a larger noise multiplier lies above (data processing)."],
        ),
    ]
    differences: Annotated[
        tuple[ComparedQuantity, ...], Field(description="One difference for each quantity, in their order.")
    ]


class ComparisonsResponse(Result):
    """Comparison of several runs."""

    relative_tolerance: RelativeTolerance
    questions: Annotated[
        tuple[QuestionSpec, ...], Field(description="Questions of the request, with default values filled in.")
    ]
    direction: Direction
    false_positive_rates: Annotated[
        tuple[float, ...], Field(description="Rates at which curves are compared when no theorem decides.")
    ]
    runs: Annotated[tuple[ComparedRun, ...], Field(description="Results of the runs, in the order of the request.")]
    quantities: Annotated[
        tuple[RankedQuantity, ...], Field(description="Compared quantities, in the order of the questions.")
    ]
    pairs: Annotated[tuple[ComparedPair, ...], Field(description="One comparison for each pair of runs.")]
    notes: Notes
