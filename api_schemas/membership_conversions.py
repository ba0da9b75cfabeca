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
        description="Largest P(member | attacker says 'member') to allow; at prior 1/2 the accuracy of any attack.",
        examples=[0.75],
    ),
]
Deletions = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_RECORDS,
        description="How many records are to be 'deleted' by doing nothing: the deletion capacity wanted.",
        examples=[10],
    ),
]


class LargestEpsilonConversion(Request):
    """Largest epsilon at which no accusation is surer than wanted. null: the prior alone is surer."""

    type: Literal["largest_epsilon"]
    positive_predictive_value: TargetPositivePredictiveValue
    prior: Prior


class LargestSamplingRateConversion(Request):
    """Largest rate at which the data set may be sampled before an epsilon-DP run, so that no accusation is surer than
    wanted, whoever is in it."""

    type: Literal["largest_sampling_rate"]
    positive_predictive_value: TargetPositivePredictiveValue
    epsilon: Epsilon


class PriorOfLargestAdvantageConversion(Request):
    """The prior at which an accusation gains most over the prior, and that gain."""

    type: Literal["prior_of_largest_advantage"]
    epsilon: Epsilon


class LargestEpsilonForDeletionsConversion(Request):
    """Largest epsilon whose deletion capacity is at least `deletions`. null: none is, or not surely."""

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
        "MembershipConversion", "One inverse of a membership bound of pure differential privacy.", discriminator="type"
    ),
]


class MembershipConversionsRequest(Request):
    """Promises about membership, each with the number to find for it."""

    conversions: Annotated[
        tuple[MembershipConversion, ...],
        Field(min_length=1, max_length=LARGEST_QUESTIONS, description="Answered in this order."),
    ]


# Fields come in the order of the bases, the last one first, as in `answers.py`.


class ConversionResult(Response, Generic[TypeT, ConversionT]):
    """Result of one conversion."""

    type: Annotated[TypeT, Field(description="The `type` of the conversion.")]
    conversion: Annotated[ConversionT, Field(description="As it was asked, with its defaults.")]


class LargestAdvantage(Response):
    """The gain at the prior that was found."""

    largest_advantage: Annotated[
        EnclosedNumber, Field(description="2 (largest positive predictive value - prior) at this prior.")
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
    """The epsilon found; `value` keeps the promise. All three numbers are null where no epsilon does."""


class RateConversionAnswer(
    ConversionGrounds,
    Enclosed[Probability],
    ConversionResult[
        Literal["largest_sampling_rate", "largest_prior_for_deletions"],
        Annotated[LargestSamplingRateConversion | LargestPriorForDeletionsConversion, Field(discriminator="type")],
    ],
):
    """The sampling rate or prior found; `value` keeps the promise."""


class PriorOfLargestAdvantageAnswer(
    ConversionGrounds,
    LargestAdvantage,
    Enclosed[Probability],
    ConversionResult[Literal["prior_of_largest_advantage"], PriorOfLargestAdvantageConversion],
):
    """The prior found, and the gain there."""


MembershipConversionAnswer = Annotated[
    EpsilonConversionAnswer | RateConversionAnswer | PriorOfLargestAdvantageAnswer,
    named_schema(
        "MembershipConversionAnswer", "The answer to one conversion, which has its `type`.", discriminator="type"
    ),
]


class MembershipConversionsResponse(Result):
    """The answers, in the order of the conversions."""

    answers: Annotated[
        tuple[MembershipConversionAnswer, ...], Field(description="One for each conversion, in their order.")
    ]
