"""`POST /v1/bounds`: one mechanism, one threat model, up to 256 questions."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from api_schemas.base import Log10, NonNegative, Request, Response, is_none
from api_schemas.mechanisms import LARGEST_COMPONENTS, LARGEST_DEPTH, MechanismSpec, tree_size
from api_schemas.quantities import LARGEST_LIST, LARGEST_TOTAL_STEPS, Method, RelativeTolerance
from api_schemas.questions import (
    LARGEST_QUESTIONS,
    GdpMuQuestion,
    NumberQuestion,
    QuestionSpec,
    TradeOffQuestion,
    listed_numbers,
)
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel


class BoundsRequest(Request):
    """A mechanism, who attacks it, and what to find out."""

    mechanism: MechanismSpec
    threat_model: Annotated[ThreatModelSpec, Field(description="Who attacks.")] = WorstCaseThreatModel(
        type="worst_case"
    )
    questions: Annotated[
        tuple[QuestionSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_QUESTIONS,
            description="Answered in this order. A request is answered as a whole or not at all.",
        ),
    ]
    method: Method = "auto"
    relative_tolerance: RelativeTolerance = 1e-9

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        depth, components, steps = tree_size(self.mechanism)
        if depth > LARGEST_DEPTH:
            raise _beyond("/mechanism", f"The tree of mechanisms may be at most {LARGEST_DEPTH} levels deep.")
        if components > LARGEST_COMPONENTS:
            raise _beyond("/mechanism", f"The tree of mechanisms may have at most {LARGEST_COMPONENTS} components.")
        if steps > LARGEST_TOTAL_STEPS:
            raise _beyond(
                "/mechanism",
                f"All steps together may be at most {LARGEST_TOTAL_STEPS:.0e}; nested repetitions multiply.",
            )
        if sum(map(listed_numbers, self.questions)) > LARGEST_LIST:
            raise _beyond(
                "/questions",
                f"The lists of all questions together may hold at most {LARGEST_LIST} numbers.",
            )
        return self


def _beyond(pointer: str, sentence: str) -> PydanticCustomError:
    return PydanticCustomError("beyond_limit", "{sentence}", {"sentence": sentence, "pointer": pointer})


Value = Annotated[NonNegative, Field(description="The safe end of the enclosure.")]
Lower = Annotated[NonNegative, Field(description="The truth is at least this.")]
Upper = Annotated[NonNegative, Field(description="The truth is at most this.")]
Log10IfSmall = Annotated[
    Log10 | None,
    Field(exclude_if=is_none, description="Decimal logarithm; present when the truth is positive and below 1e-290."),
]

Evidence = Annotated[
    Literal["exact", "certified"],
    Field(
        description="exact: a closed form, good to a few units in the last place; certified: every truncation, "
        "aliasing, quadrature and rounding error has a bound that is inside the enclosure."
    ),
]


class EnclosedNumber(TypedDict):
    """lower <= truth <= upper; `value` is the end that is safe to rely on."""

    # A dictionary, not a model: a response may hold twenty thousand of these.
    value: Value
    lower: Lower
    upper: Upper
    value_log10: NotRequired[Log10]
    lower_log10: NotRequired[Log10]
    upper_log10: NotRequired[Log10]


class TradeOffPoint(TypedDict):
    """One point of the curve. `type_two_error` is safe from below, `power` from above."""

    false_positive_rate: float
    type_two_error: EnclosedNumber
    power: EnclosedNumber


Conditional = Annotated[bool, Field(description="The answer rests on a modelling assumption that is listed.")]
MethodUsed = Annotated[str, Field(description="The engine that computed it.", examples=["contour"])]
ToleranceMet = Annotated[bool, Field(description="The enclosure is at most relative_tolerance wide.")]
Source = Annotated[str, Field(description="The theorem behind the answer.")]


class TradeOffAnswer(Response):
    """The curve at the false positive rates asked for, in their order."""

    question: TradeOffQuestion
    points: tuple[TradeOffPoint, ...]
    evidence: Evidence
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    source: Source
    notes: tuple[str, ...]


class GdpMuAnswer(Response):
    """The regularised mu, and the one that holds at every error rate."""

    question: GdpMuQuestion
    value: Value
    lower: Lower
    upper: Upper
    global_mu: Annotated[EnclosedNumber, Field(description="Smallest mu with no restriction; often Infinity.")]
    evidence: Evidence
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    source: Source
    notes: tuple[str, ...]


class NumberAnswer(Response):
    """One number with its enclosure."""

    question: Annotated[NumberQuestion, Field(discriminator="type")]
    value: Value
    lower: Lower
    upper: Upper
    value_log10: Log10IfSmall = None
    lower_log10: Log10IfSmall = None
    upper_log10: Log10IfSmall = None
    evidence: Evidence
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    source: Source
    notes: tuple[str, ...]


Answer = TradeOffAnswer | GdpMuAnswer | NumberAnswer


class Assumption(Response):
    """Something the answers rest on and the service cannot check."""

    text: str
    holds: Annotated[Literal["yes", "no", "unknown"], Field(description="What the request says about it.")]


class Hazard(Response):
    """A known way in which runs like this one turn out less private than their parameters say."""

    code: Annotated[str, Field(examples=["poisson_sampling_assumed"])]
    text: str


class RelaxedComparison(Response):
    """The worst-case answers beside those of a relaxed threat model."""

    threat_model: ThreatModelSpec
    answers: tuple[Answer, ...]


class BoundsResponse(Response):
    """The answers, in the order of the questions, with everything needed to check and repeat them."""

    digest: Annotated[
        str, Field(pattern="^sha256:[0-9a-f]{64}$", description="Names this result; see GET /v1/results/{digest}.")
    ]
    engine_version: str
    mechanism: MechanismSpec
    threat_model: ThreatModelSpec
    answers: tuple[Answer, ...]
    worst_case: Annotated[RelaxedComparison | None, Field(description="null when the threat model is the worst case.")]
    assumptions: tuple[Assumption, ...]
    hazards: tuple[Hazard, ...]
