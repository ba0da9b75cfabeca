"""`POST /v1/conversions/membership`: the epsilon, prior or sampling rate that keeps a promise about membership."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import AliasChoices, Field

from api_schemas.base import NonNegative, Probability, Request, Response, Result, named_schema
from api_schemas.choices import Evidence
from api_schemas.enclosures import Enclosed, EnclosedNumber, Notes, Source, Tight
from api_schemas.questions import LARGEST_QUESTIONS
from api_schemas.scalar_types import LARGEST_RECORDS, Confidence, Epsilon, Prior, UnitInterval

TypeT = TypeVar("TypeT")
ConversionT = TypeVar("ConversionT")

TargetPositivePredictiveValue = Annotated[
    UnitInterval,
    Field(
        validation_alias=AliasChoices("positive_predictive_value", "ppv", "positive_accuracy", "target"),
        description="Largest allowed P(member | attacker claims membership). At prior 1/2 it equals the "
        "accuracy of any attack.",
        examples=[0.75],
    ),
]
Deletions = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_RECORDS,
        description="Required deletion capacity: number of records that count as deleted without a change of "
        "the model.",
        examples=[10],
    ),
]


class LargestEpsilonConversion(Request):
    """Largest epsilon whose positive predictive value stays within the limit. null: the prior exceeds the limit."""

    type: Literal["largest_epsilon"]
    positive_predictive_value: TargetPositivePredictiveValue
    prior: Prior


class LargestSamplingRateConversion(Request):
    """Largest sampling rate that keeps the positive predictive value of an epsilon-DP run within the limit.

    The rate is the probability with which the data set has each record of a larger data set. The result holds for every
    record of the larger data set.
    """

    type: Literal["largest_sampling_rate"]
    positive_predictive_value: TargetPositivePredictiveValue
    epsilon: Epsilon


class PriorOfLargestAdvantageConversion(Request):
    """Prior at which a membership claim gains most over the prior, and the gain."""

    type: Literal["prior_of_largest_advantage"]
    epsilon: Epsilon


class LargestEpsilonForDeletionsConversion(Request):
    """Largest epsilon whose deletion capacity is at least `deletions`. null: no such epsilon is proved."""

    type: Literal["largest_epsilon_for_deletions"]
    prior: Prior
    confidence: Confidence
    deletions: Deletions = 1


class LargestPriorForDeletionsConversion(Request):
    """Largest prior at which the deletion capacity of an epsilon-DP run is at least `deletions`."""

    type: Literal["largest_prior_for_deletions"]
    epsilon: Epsilon
    confidence: Confidence
    deletions: Deletions = 1


MembershipConversion = Annotated[
    LargestEpsilonConversion
    | LargestSamplingRateConversion
    | PriorOfLargestAdvantageConversion
    | LargestEpsilonForDeletionsConversion
    | LargestPriorForDeletionsConversion,
    named_schema(
        "MembershipConversion",
        "One inversion of a membership bound of pure differential privacy.",
        discriminator="type",
    ),
]


class MembershipConversionsRequest(Request):
    """Conditions on membership inference, each with one number to compute."""

    conversions: Annotated[
        tuple[MembershipConversion, ...],
        Field(min_length=1, max_length=LARGEST_QUESTIONS, description="Conversions, answered in this order."),
    ]


# Fields come in the order of the bases, the last one first, as in `answers.py`.


class ConversionResult(Response, Generic[TypeT, ConversionT]):
    """Result of one conversion, with the conversion itself."""

    type: Annotated[TypeT, Field(description="Type of the conversion.")]
    conversion: Annotated[ConversionT, Field(description="The conversion, with default values filled in.")]


class LargestAdvantage(Response):
    """The gain over the prior at the prior that was found."""

    largest_advantage: Annotated[
        EnclosedNumber,
        Field(description="Twice the largest difference between the positive predictive value and this prior."),
    ]


class ConversionGrounds(Response):
    """Evidence, source and notes of a converted number."""

    evidence: Evidence
    tight: Tight
    source: Source
    notes: Notes


class EpsilonConversionAnswer(
    ConversionGrounds,
    Enclosed[NonNegative | None],
    ConversionResult[
        Literal["largest_epsilon", "largest_epsilon_for_deletions"],
        Annotated[LargestEpsilonConversion | LargestEpsilonForDeletionsConversion, Field(discriminator="type")],
    ],
):
    """Largest epsilon that satisfies the condition.

    `value` is the safe bound. All three numbers are null if no epsilon satisfies it.
    """


class RateConversionAnswer(
    ConversionGrounds,
    Enclosed[Probability],
    ConversionResult[
        Literal["largest_sampling_rate", "largest_prior_for_deletions"],
        Annotated[LargestSamplingRateConversion | LargestPriorForDeletionsConversion, Field(discriminator="type")],
    ],
):
    """Largest sampling rate or prior that satisfies the condition. `value` is the safe bound."""


class PriorOfLargestAdvantageAnswer(
    ConversionGrounds,
    LargestAdvantage,
    Enclosed[Probability],
    ConversionResult[Literal["prior_of_largest_advantage"], PriorOfLargestAdvantageConversion],
):
    """Prior with the largest gain, and the gain at this prior."""


MembershipConversionAnswer = Annotated[
    EpsilonConversionAnswer | RateConversionAnswer | PriorOfLargestAdvantageAnswer,
    named_schema(
        "MembershipConversionAnswer",
        "The answer to one conversion. Its `type` is the type of the conversion.",
        discriminator="type",
    ),
]


class MembershipConversionsResponse(Result):
    """Answers in the order of the conversions."""

    answers: Annotated[
        tuple[MembershipConversionAnswer, ...], Field(description="One answer for each conversion, in their order.")
    ]
