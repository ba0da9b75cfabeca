"""`POST /v1/conversions/membership`: closed forms, solved for epsilon, a prior or a sampling rate."""

from __future__ import annotations

from typing import Final

from api_schemas.enclosures import EnclosedNumber
from api_schemas.examples import MEMBERSHIP_CONVERSIONS_EXAMPLES
from api_schemas.membership_conversions import (
    LargestEpsilonConversion,
    LargestEpsilonForDeletionsConversion,
    LargestPriorForDeletionsConversion,
    LargestSamplingRateConversion,
    MembershipConversion,
    MembershipConversionAnswer,
    MembershipConversionsRequest,
    MembershipConversionsResponse,
    PriorOfLargestAdvantageConversion,
)
from service.computations.abstract import Computation, Quote
from service.computations.numbers import enclosed_number, tightness
from service.computations.prices import INLINE_LIMIT
from service.privacy.enclosure import Evidence
from service.privacy.questions import membership_inverse
from service.privacy.questions.reading import Reading

CONVERSION_COST: Final = 100
NO_EPSILON: Final = "No epsilon keeps it: without any release the prior alone is too large."
NO_CERTAIN_EPSILON: Final = (
    "No epsilon keeps it, or epsilon 0 does within rounding: (1 - prior)^deletions < confidence."
)


def compute_membership_conversions(
    request: MembershipConversionsRequest, digest: str, engine_version: str
) -> MembershipConversionsResponse:
    """Answer every conversion."""
    return MembershipConversionsResponse(
        digest=digest, engine_version=engine_version, answers=tuple(map(_answer, request.conversions))
    )


def membership_conversions_quote(request: MembershipConversionsRequest) -> Quote:
    """Each has a closed form of constant cost."""
    cost = CONVERSION_COST * len(request.conversions)
    return Quote(cost, inline=cost <= INLINE_LIMIT)


def _answer(conversion: MembershipConversion) -> MembershipConversionAnswer:
    match conversion:
        case LargestEpsilonConversion():
            found = membership_inverse.largest_epsilon(conversion.positive_predictive_value, conversion.prior)
            return _found_or_none(conversion, found, membership_inverse.ACCURACY.format(unknown="epsilon"), NO_EPSILON)
        case LargestSamplingRateConversion():
            rate = membership_inverse.largest_sampling_rate(conversion.positive_predictive_value, conversion.epsilon)
            return _found(conversion, rate)
        case PriorOfLargestAdvantageConversion():
            prior, advantage = membership_inverse.prior_of_largest_advantage(conversion.epsilon)
            largest = enclosed_number(advantage.value, advantage.safe_end)
            return _found(conversion, prior, largest)
        case LargestEpsilonForDeletionsConversion():
            found = membership_inverse.largest_epsilon_for_deletions(
                conversion.prior, conversion.confidence, conversion.deletions
            )
            source = membership_inverse.DELETIONS + "epsilon"
            return _found_or_none(conversion, found, source, NO_CERTAIN_EPSILON)
        case LargestPriorForDeletionsConversion():
            return _found(
                conversion,
                membership_inverse.largest_prior_for_deletions(
                    conversion.epsilon, conversion.confidence, conversion.deletions
                ),
            )


def _found(
    conversion: MembershipConversion, reading: Reading, largest_advantage: EnclosedNumber | None = None
) -> MembershipConversionAnswer:
    number = enclosed_number(reading.value, reading.safe_end)
    return MembershipConversionAnswer(
        type=conversion.type,
        conversion=conversion,
        value=number["value"],
        lower=number["lower"],
        upper=number["upper"],
        value_log10=number.get("value_log10"),
        lower_log10=number.get("lower_log10"),
        upper_log10=number.get("upper_log10"),
        largest_advantage=largest_advantage,
        evidence=reading.value.evidence.value,
        tight=tightness(reading.value.evidence, None),
        source=reading.source,
        notes=reading.notes,
    )


def _found_or_none(
    conversion: MembershipConversion, reading: Reading | None, source: str, reason: str
) -> MembershipConversionAnswer:
    if reading is not None:
        return _found(conversion, reading)
    return MembershipConversionAnswer(
        type=conversion.type,
        conversion=conversion,
        value=None,
        lower=None,
        upper=None,
        evidence=Evidence.EXACT.value,
        tight=tightness(Evidence.EXACT, None),
        source=source,
        notes=(reason,),
    )


MEMBERSHIP_CONVERSIONS: Final = Computation(
    name="membership-conversions",
    path="/v1/conversions/membership",
    description="The largest epsilon, prior or sampling rate that keeps a promise about membership, in closed form.",
    examples=MEMBERSHIP_CONVERSIONS_EXAMPLES,
    request_type=MembershipConversionsRequest,
    response_type=MembershipConversionsResponse,
    function=compute_membership_conversions,
    quote=membership_conversions_quote,
)
