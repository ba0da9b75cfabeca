"""`POST /v1/conversions/membership`: the epsilon, prior or sampling rate that keeps a promise about membership."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AliasChoices, Field

from api_schemas.base import NonNegative, Request, Response, Result, component, is_none
from api_schemas.choices import Evidence
from api_schemas.enclosures import EnclosedNumber, Log10IfSmall, Lower, Notes, Source, Tight, Upper
from api_schemas.quantities import LARGEST_RECORDS, Confidence, Epsilon, Prior, UnitInterval
from api_schemas.questions import LARGEST_QUESTIONS

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
    component(
        "MembershipConversion", "One inverse of a membership bound of pure differential privacy.", discriminator="type"
    ),
]


MembershipConversionType: TypeAlias = Literal[
    "largest_epsilon",
    "largest_sampling_rate",
    "prior_of_largest_advantage",
    "largest_epsilon_for_deletions",
    "largest_prior_for_deletions",
]


class MembershipConversionsRequest(Request):
    """What is to be kept, and what is to be found for it."""

    conversions: Annotated[
        tuple[MembershipConversion, ...],
        Field(min_length=1, max_length=LARGEST_QUESTIONS, description="Answered in this order."),
    ]


class MembershipConversionAnswer(Response):
    """The number found; `value` keeps the promise. All three are null where no number does."""

    type: Annotated[MembershipConversionType, Field(description="The `type` of the conversion.")]
    conversion: Annotated[MembershipConversion, Field(description="As it was asked, with its defaults.")]
    value: Annotated[NonNegative | None, Field(description="The safe end of the enclosure; null: there is none.")]
    lower: Lower
    upper: Upper
    value_log10: Log10IfSmall = None
    lower_log10: Log10IfSmall = None
    upper_log10: Log10IfSmall = None
    largest_advantage: Annotated[
        EnclosedNumber | None,
        Field(
            exclude_if=is_none,
            description="prior_of_largest_advantage: 2 (largest positive predictive value - prior) at this prior.",
        ),
    ] = None
    evidence: Evidence
    tight: Tight
    source: Source
    notes: Notes


class MembershipConversionsResponse(Result):
    """The answers, in the order of the conversions."""

    answers: Annotated[
        tuple[MembershipConversionAnswer, ...], Field(description="One for each conversion, in their order.")
    ]
