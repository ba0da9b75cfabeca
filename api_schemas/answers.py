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
    """Question of an answer."""

    type: Annotated[TypeT, Field(description="The `type` of the question.")]
    question: Annotated[QuestionT, Field(description="As it was asked, with its defaults.")]


class TradeOffPoint(TypedDict):
    """One point of the curve. `type_two_error` is safe from below, `power` from above."""

    false_positive_rate: Annotated[float, Field(description="As in the question.")]
    type_two_error: Annotated[EnclosedProbability, Field(description="Smallest type II error of any attack there.")]
    power: Annotated[EnclosedProbability, Field(description="Largest power (true positive rate) of any attack there.")]


class PointsInOrder(Response):
    """Points of a curve, in the order of the request."""

    points: Annotated[
        tuple[TradeOffPoint, ...], Field(description="At the false positive rates asked for, in their order.")
    ]


class EngineField(Response):
    """Engine of a number, or the theorem behind it."""

    method: ComparedMethod


class EngineGrounds(Response):
    """Evidence behind the number of one engine."""

    evidence: Annotated[Evidence | None, Field(description="As in the answer; null where the engine failed.")]
    tight: Tight
    notes: Notes


class MethodPoints(EngineGrounds, PointsInOrder, EngineField):
    """The curve by one engine. No points: the engine failed, and the notes say how."""


class MethodNumber(EngineGrounds, Enclosed[NonNegative | None], EngineField):
    """The number by one engine or theorem. null: the engine failed, and the notes say how."""


class MethodProbability(EngineGrounds, Enclosed[Probability | None], EngineField):
    """The probability by one engine or theorem. null: the engine failed, and the notes say how."""


class MethodGain(EngineGrounds, Enclosed[AdvantageOverPrior | None], EngineField):
    """The advantage over the prior by one engine or theorem. null: the engine failed, and the notes say how."""


class EngineComparison(Response, Generic[EntryT]):
    """Numbers of all engines for one question."""

    methods: Annotated[
        tuple[EntryT, ...] | None,
        Field(exclude_if=is_none, description='Every engine side by side; present with method "all".'),
    ] = None


class TradeOffAnswer(
    EngineComparison[MethodPoints], EvidenceFields, PointsInOrder, AnswerBase[Literal["trade_off"], TradeOffQuestion]
):
    """The curve at the false positive rates asked for, in their order."""


class GlobalMu(Response):
    """Global mu beside the regularised mu."""

    global_mu: Annotated[EnclosedNumber, Field(description="Smallest mu with no restriction; often Infinity.")]


class GdpMuAnswer(
    EngineComparison[MethodNumber],
    EvidenceFields,
    GlobalMu,
    Ends[NonNegative],
    AnswerBase[Literal["gdp_mu"], GdpMuQuestion],
):
    """The regularised mu, and the one that holds at every error rate."""


class NumberAnswer(
    EngineComparison[MethodNumber],
    EvidenceFields,
    Enclosed[NonNegative],
    AnswerBase[
        Literal["epsilon", "deletion_capacity"],
        Annotated[EpsilonQuestion | DeletionCapacityQuestion, Field(discriminator="type")],
    ],
):
    """One number with its enclosure; "Infinity" where none is finite."""


class AdvantageOverPriorAnswer(
    EngineComparison[MethodGain],
    EvidenceFields,
    Enclosed[AdvantageOverPrior],
    AnswerBase[Literal["advantage_over_prior"], AdvantageOverPriorQuestion],
):
    """The largest gain of an accusation over the prior, with its enclosure."""


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
    """One probability with its enclosure, or the advantage, which is a difference of two."""


class Guarantee(Response):
    """Whether the guarantee holds."""

    holds: Annotated[
        Holds,
        Field(description="unknown: the confidence lies inside the enclosure, or there is no enclosure."),
    ]


class GuaranteeAnswer(
    EngineComparison[MethodProbability],
    Guarantee,
    EvidenceFields,
    Enclosed[Probability],
    AnswerBase[Literal["unlearning_guarantee"], UnlearningGuaranteeQuestion],
):
    """The smallest probability that the record is not a member, and whether it is at least the confidence asked for."""


Answer = Annotated[
    TradeOffAnswer | GdpMuAnswer | NumberAnswer | AdvantageOverPriorAnswer | ProbabilityAnswer | GuaranteeAnswer,
    named_schema("Answer", "The answer to one question, which has its `type`.", discriminator="type"),
]
