"""Answers to questions, discriminated by the `type` of the question. Shared fields are defined once."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field
from typing_extensions import TypedDict

from api_schemas.base import AdvantageOverPrior, NonNegative, Probability, Response, is_none, named_schema
from api_schemas.choices import ComparedMethod, Evidence, Holds
from api_schemas.enclosures import Enclosed, EnclosedNumber, EnclosedProbability, Ends, EvidenceFields, Notes, Tight
from api_schemas.questions import (
    AdvantageOverPriorQuestion,
    AdvantageQuestion,
    AttackAccuracyQuestion,
    DeletionCapacityQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    GdpMuQuestion,
    NegativePredictiveValueQuestion,
    PositivePredictiveValueQuestion,
    ReconstructionQuestion,
    TradeOffQuestion,
    UnlearningGuaranteeQuestion,
)

TypeT = TypeVar("TypeT")
QuestionT = TypeVar("QuestionT")
EntryT = TypeVar("EntryT")

# Fields come in the order of the bases, the last one first: pydantic reads them from the far end.


class AnswerBase(Response, Generic[TypeT, QuestionT]):
    """Base of all answers: the question that was answered."""

    type: Annotated[TypeT, Field(description="Type of the question.")]
    question: Annotated[QuestionT, Field(description="The question, with default values filled in.")]


class TradeOffPoint(TypedDict):
    """One point of a trade-off curve.

    The safe bound is the lower bound of `type_two_error` and the upper bound of `power`.
    """

    false_positive_rate: Annotated[float, Field(description="False positive rate from the question.")]
    type_two_error: Annotated[
        EnclosedProbability, Field(description="Smallest type II error of any attack at this rate.")
    ]
    power: Annotated[
        EnclosedProbability, Field(description="Largest power (true positive rate) of any attack at this rate.")
    ]


class PointsInOrder(Response):
    """Points of a trade-off curve, in the order of the request."""

    points: Annotated[
        tuple[TradeOffPoint, ...], Field(description="Points at the requested false positive rates, in their order.")
    ]


class EngineField(Response):
    """Composition engine that computed a number, or the theorem behind it."""

    method: ComparedMethod


class EngineGrounds(Response):
    """Evidence behind the number of one composition engine."""

    evidence: Annotated[Evidence | None, Field(description="Evidence of the number. null: the engine failed.")]
    tight: Tight
    notes: Notes


class MethodPoints(EngineGrounds, PointsInOrder, EngineField):
    """Trade-off curve by one composition engine. Without points, the engine failed, and the notes give the reason."""


class MethodNumber(EngineGrounds, Enclosed[NonNegative | None], EngineField):
    """Number by one composition engine or theorem. null: the engine failed, and the notes give the reason."""


class MethodProbability(EngineGrounds, Enclosed[Probability | None], EngineField):
    """Probability by one composition engine or theorem. null: the engine failed, and the notes give the reason."""


class MethodGain(EngineGrounds, Enclosed[AdvantageOverPrior | None], EngineField):
    """Answer to a question `advantage_over_prior` by one composition engine or theorem.

    null: the engine failed, and the notes give the reason.
    """


class EngineComparison(Response, Generic[EntryT]):
    """Numbers of all composition engines for one question."""

    methods: Annotated[
        tuple[EntryT, ...] | None,
        Field(
            exclude_if=is_none,
            description="Answers of every engine side by side. The field is present with method `all`.",
        ),
    ] = None


class TradeOffAnswer(
    EngineComparison[MethodPoints], EvidenceFields, PointsInOrder, AnswerBase[Literal["trade_off"], TradeOffQuestion]
):
    """The trade-off curve at the requested false positive rates, in their order."""


class GlobalMu(Response):
    """The mu of Gaussian differential privacy that is valid at every error rate."""

    global_mu: Annotated[
        EnclosedNumber, Field(description="Smallest mu without restriction of the error rates. Infinity is frequent.")
    ]


class GdpMuAnswer(
    EngineComparison[MethodNumber],
    EvidenceFields,
    GlobalMu,
    Ends[NonNegative],
    AnswerBase[Literal["gdp_mu"], GdpMuQuestion],
):
    """The mu of Gaussian differential privacy, over the requested error rates and over all error rates."""


class NumberAnswer(
    EngineComparison[MethodNumber],
    EvidenceFields,
    Enclosed[NonNegative],
    AnswerBase[
        Literal["epsilon", "deletion_capacity"],
        Annotated[EpsilonQuestion | DeletionCapacityQuestion, Field(discriminator="type")],
    ],
):
    """One number with its enclosure. "Infinity" stands for an infinite bound."""


class AdvantageOverPriorAnswer(
    EngineComparison[MethodGain],
    EvidenceFields,
    Enclosed[AdvantageOverPrior],
    AnswerBase[Literal["advantage_over_prior"], AdvantageOverPriorQuestion],
):
    """Twice the largest difference between the positive predictive value and the prior, with its enclosure."""


class ProbabilityAnswer(
    EngineComparison[MethodProbability],
    EvidenceFields,
    Enclosed[Probability],
    AnswerBase[
        Literal[
            "delta",
            "advantage",
            "reconstruction",
            "attack_accuracy",
            "positive_predictive_value",
            "negative_predictive_value",
        ],
        Annotated[
            DeltaQuestion
            | AdvantageQuestion
            | ReconstructionQuestion
            | AttackAccuracyQuestion
            | PositivePredictiveValueQuestion
            | NegativePredictiveValueQuestion,
            Field(discriminator="type"),
        ],
    ],
):
    """One probability with its enclosure. The advantage is a difference of two probabilities."""


class Guarantee(Response):
    """Whether the guarantee of unlearning holds."""

    holds: Annotated[
        Holds,
        Field(
            description="Whether the guarantee holds. unknown: the confidence lies inside the enclosure, or "
            "there is no enclosure."
        ),
    ]


class GuaranteeAnswer(
    EngineComparison[MethodProbability],
    Guarantee,
    EvidenceFields,
    Enclosed[Probability],
    AnswerBase[Literal["unlearning_guarantee"], UnlearningGuaranteeQuestion],
):
    """Smallest probability that the record is not a member, and whether it reaches the requested confidence."""


Answer = Annotated[
    TradeOffAnswer | GdpMuAnswer | NumberAnswer | AdvantageOverPriorAnswer | ProbabilityAnswer | GuaranteeAnswer,
    named_schema("Answer", "The answer to one question. Its `type` is the type of the question.", discriminator="type"),
]
