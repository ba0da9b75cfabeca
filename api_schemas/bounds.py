"""`POST /v1/bounds`: one mechanism, one threat model, up to 256 questions."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AliasChoices, Field, model_validator
from typing_extensions import TypedDict

from api_schemas.base import NonNegative, Request, Response, is_none
from api_schemas.choices import ComparedMethod, Evidence, Holds, Method, MethodUsed
from api_schemas.enclosures import (
    Conditional,
    DecimalIfKnown,
    EnclosedNumber,
    Log10IfSmall,
    Lower,
    Source,
    Tight,
    ToleranceMet,
    Upper,
    Value,
)
from api_schemas.limits import check_tree, refusal
from api_schemas.mechanisms import MechanismSpec
from api_schemas.options import settle_options
from api_schemas.quantities import (
    DEFAULT_TOLERANCE,
    LARGEST_LIST,
    OptionalConfidenceLevel,
    OptionalDigits,
    OptionalOrder,
    OptionalSamples,
    OptionalSeed,
    RelativeTolerance,
    UnitInterval,
)
from api_schemas.questions import (
    LARGEST_QUESTIONS,
    GdpMuQuestion,
    NumberQuestion,
    QuestionSpec,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
    listed_numbers,
)
from api_schemas.threat_models import ThreatModelSpec, WorstCaseThreatModel, settled


class DatasetSubsampling(Request):
    """Before the mechanism was run, every record of a larger data set was kept with probability `rate`, independently.

    Nobody's prior exceeds `rate`, whatever is known about the larger data set: questions with a larger prior are read
    at `rate`, the prior of an attacker who knows that the record is in the larger data set, and say so in their notes.
    """

    rate: Annotated[
        UnitInterval,
        Field(
            validation_alias=AliasChoices("rate", "T"),
            description="Probability T with which each record was kept.",
            examples=[0.1],
        ),
    ]


class BoundsRequest(Request):
    """A mechanism, who attacks it, and what to find out."""

    mechanism: MechanismSpec
    # A default that is an object inside a union is beyond client generators: the document names none.
    threat_model: ThreatModelSpec = Field(default_factory=lambda: WorstCaseThreatModel(type="worst_case"))
    questions: Annotated[
        tuple[QuestionSpec, ...],
        Field(
            min_length=1,
            max_length=LARGEST_QUESTIONS,
            description="Answered in this order. A request is answered as a whole or not at all.",
        ),
    ]
    dataset_subsampling: Annotated[
        DatasetSubsampling | None,
        Field(
            description="How the data were drawn from a larger data set; bounds the priors of questions.",
            exclude_if=is_none,
        ),
    ] = None
    method: Method = "auto"
    relative_tolerance: RelativeTolerance = DEFAULT_TOLERANCE
    order: OptionalOrder = None
    samples: OptionalSamples = None
    seed: OptionalSeed = None
    confidence: OptionalConfidenceLevel = None
    digits: OptionalDigits = None

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        check_tree(self.mechanism)
        vars(self)["threat_model"] = settled(self.threat_model, self.mechanism)
        if sum(map(listed_numbers, self.questions)) > LARGEST_LIST:
            raise refusal("/questions", f"The lists of all questions together may hold at most {LARGEST_LIST} numbers.")
        if self.dataset_subsampling is not None and not any(hasattr(question, "prior") for question in self.questions):
            raise refusal("/dataset_subsampling", "No question has a prior that it could bound.")
        settle_options(self, (self.method,))
        return self


EvidenceOfEngine = Annotated[Evidence | None, Field(description="As in the answer; null where the engine failed.")]


class TradeOffPoint(TypedDict):
    """One point of the curve. `type_two_error` is safe from below, `power` from above."""

    false_positive_rate: float
    type_two_error: EnclosedNumber
    power: EnclosedNumber


class MethodPoints(Response):
    """The curve by one engine. No points: the engine failed, and the notes say how."""

    method: ComparedMethod
    points: tuple[TradeOffPoint, ...]
    evidence: EvidenceOfEngine
    tight: Tight
    notes: tuple[str, ...]


class MethodNumber(Response):
    """The number by one engine. null: the engine failed, and the notes say how."""

    method: ComparedMethod
    value: Annotated[NonNegative | None, Field(description="As in the answer; null where the engine failed.")]
    lower: Lower
    upper: Upper
    value_log10: Log10IfSmall = None
    lower_log10: Log10IfSmall = None
    upper_log10: Log10IfSmall = None
    value_decimal: DecimalIfKnown = None
    lower_decimal: DecimalIfKnown = None
    upper_decimal: DecimalIfKnown = None
    evidence: EvidenceOfEngine
    tight: Tight
    notes: tuple[str, ...]


ByMethod = Field(exclude_if=is_none, description='Every engine side by side; present with method "all".')
PointsByMethod = Annotated[tuple[MethodPoints, ...] | None, ByMethod]
NumberByMethod = Annotated[tuple[MethodNumber, ...] | None, ByMethod]


class TradeOffAnswer(Response):
    """The curve at the false positive rates asked for, in their order."""

    question: TradeOffQuestion
    points: tuple[TradeOffPoint, ...]
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    source: Source
    notes: tuple[str, ...]
    methods: PointsByMethod = None


class GdpMuAnswer(Response):
    """The regularised mu, and the one that holds at every error rate."""

    question: GdpMuQuestion
    value: Value
    lower: Lower
    upper: Upper
    global_mu: Annotated[EnclosedNumber, Field(description="Smallest mu with no restriction; often Infinity.")]
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    source: Source
    notes: tuple[str, ...]
    methods: NumberByMethod = None


class NumberAnswer(Response):
    """One number with its enclosure."""

    question: Annotated[NumberQuestion, Field(discriminator="type")]
    value: Value
    lower: Lower
    upper: Upper
    value_log10: Log10IfSmall = None
    lower_log10: Log10IfSmall = None
    upper_log10: Log10IfSmall = None
    value_decimal: DecimalIfKnown = None
    lower_decimal: DecimalIfKnown = None
    upper_decimal: DecimalIfKnown = None
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    source: Source
    notes: tuple[str, ...]
    methods: NumberByMethod = None


class GuaranteeAnswer(Response):
    """The smallest probability that the record is not a member, and whether it is at least the confidence asked for."""

    question: UnlearningGuaranteeQuestion
    value: Value
    lower: Lower
    upper: Upper
    value_log10: Log10IfSmall = None
    lower_log10: Log10IfSmall = None
    upper_log10: Log10IfSmall = None
    value_decimal: DecimalIfKnown = None
    lower_decimal: DecimalIfKnown = None
    upper_decimal: DecimalIfKnown = None
    evidence: Evidence
    tight: Tight
    conditional: Conditional
    method: MethodUsed
    tolerance_met: ToleranceMet
    source: Source
    notes: tuple[str, ...]
    holds: Annotated[
        Holds,
        Field(description="unknown: the confidence lies inside the enclosure, or there is no enclosure."),
    ]
    methods: NumberByMethod = None


Answer = TradeOffAnswer | GdpMuAnswer | GuaranteeAnswer | NumberAnswer


class Assumption(Response):
    """Something the answers rest on and the service cannot check."""

    text: str
    holds: Annotated[Holds, Field(description="What the request says about it.")]


class Hazard(Response):
    """A known way in which runs like this one turn out less private than their parameters say."""

    code: Annotated[str, Field(examples=["poisson_sampling_assumed"])]
    text: str


class RelaxedComparison(Response):
    """The worst-case answers beside those of a relaxed threat model, by the method auto."""

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
    dataset_subsampling: Annotated[
        DatasetSubsampling | None, Field(exclude_if=is_none, description="As in the request; absent where it was.")
    ] = None
    answers: tuple[Answer, ...]
    worst_case: Annotated[RelaxedComparison | None, Field(description="null when the threat model is the worst case.")]
    assumptions: tuple[Assumption, ...]
    hazards: tuple[Hazard, ...]
