"""Resource `POST /v1/conversions/membership`: membership bounds solved for epsilon, a prior or a sampling rate."""

from __future__ import annotations

from typing import Final, TypedDict

from api_schemas.choices import EvidenceName
from api_schemas.examples import MEMBERSHIP_CONVERSIONS_EXAMPLES
from api_schemas.membership_conversions import (
    EpsilonConversionAnswer,
    LargestEpsilonConversion,
    LargestEpsilonForDeletionsConversion,
    LargestPriorForDeletionsConversion,
    LargestSamplingRateConversion,
    MembershipConversion,
    MembershipConversionAnswer,
    MembershipConversionsRequest,
    MembershipConversionsResponse,
    PriorOfLargestAdvantageAnswer,
    PriorOfLargestAdvantageConversion,
    RateConversionAnswer,
)
from service.privacy.enclosure import Evidence
from service.privacy.questions import membership_inverse
from service.privacy.questions.reading import Reading
from service.resources.abstract import Computation, Quote
from service.resources.estimates import INLINE_LIMIT
from service.resources.numbers import enclosed_number, tightness

CONVERSION_COST: Final = 100
NO_EPSILON: Final = "No epsilon satisfies the condition, because the prior alone is too large without any release."
NO_CERTAIN_EPSILON: Final = (
    "No epsilon above 0 satisfies the condition within rounding: (1 - prior)^deletions < confidence."
)


def _compute_membership_conversions(
    request: MembershipConversionsRequest, digest: str, engine_version: str
) -> MembershipConversionsResponse:
    return MembershipConversionsResponse(
        digest=digest, engine_version=engine_version, answers=tuple(map(_answer, request.conversions))
    )


def _membership_conversions_quote(request: MembershipConversionsRequest) -> Quote:
    cost = CONVERSION_COST * len(request.conversions)
    return Quote(cost, inline=cost <= INLINE_LIMIT)


def _answer(conversion: MembershipConversion) -> MembershipConversionAnswer:
    match conversion:
        case LargestEpsilonConversion():
            found = membership_inverse.largest_epsilon(conversion.positive_predictive_value, conversion.prior)
            return _epsilon_answer(conversion, found, membership_inverse.ACCURACY.format(unknown="epsilon"), NO_EPSILON)
        case LargestEpsilonForDeletionsConversion():
            found = membership_inverse.largest_epsilon_for_deletions(
                conversion.prior, conversion.confidence, conversion.deletions
            )
            return _epsilon_answer(conversion, found, membership_inverse.DELETIONS + "epsilon", NO_CERTAIN_EPSILON)
        case LargestSamplingRateConversion():
            return _rate(
                conversion,
                membership_inverse.largest_sampling_rate(conversion.positive_predictive_value, conversion.epsilon),
            )
        case LargestPriorForDeletionsConversion():
            return _rate(
                conversion,
                membership_inverse.largest_prior_for_deletions(
                    conversion.epsilon, conversion.confidence, conversion.deletions
                ),
            )
        case PriorOfLargestAdvantageConversion():
            prior, advantage = membership_inverse.prior_of_largest_advantage(conversion.epsilon)
            return PriorOfLargestAdvantageAnswer(
                type=conversion.type,
                conversion=conversion,
                **enclosed_number(prior.value, prior.safe_end),
                largest_advantage=enclosed_number(advantage.value, advantage.safe_end),
                **_evidence_fields(prior),
            )


def _epsilon_answer(
    conversion: LargestEpsilonConversion | LargestEpsilonForDeletionsConversion,
    reading: Reading | None,
    source: str,
    reason: str,
) -> EpsilonConversionAnswer:
    # without a `reading`, no epsilon keeps the promise, for this `reason`
    if reading is not None:
        number = enclosed_number(reading.value, reading.safe_end)
        return EpsilonConversionAnswer(
            type=conversion.type, conversion=conversion, **number, **_evidence_fields(reading)
        )
    return EpsilonConversionAnswer(
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


def _rate(
    conversion: LargestSamplingRateConversion | LargestPriorForDeletionsConversion, reading: Reading
) -> RateConversionAnswer:
    number = enclosed_number(reading.value, reading.safe_end)
    return RateConversionAnswer(type=conversion.type, conversion=conversion, **number, **_evidence_fields(reading))


class _EvidenceFields(TypedDict):
    evidence: EvidenceName
    tight: bool | None
    source: str
    notes: tuple[str, ...]


def _evidence_fields(reading: Reading) -> _EvidenceFields:
    evidence = reading.value.evidence
    return _EvidenceFields(
        evidence=evidence.value, tight=tightness(evidence, None), source=reading.source, notes=reading.notes
    )


MEMBERSHIP_CONVERSIONS: Final = Computation(
    name="membership-conversions",
    path="/v1/conversions/membership",
    description="Compute the largest epsilon, prior or sampling rate that satisfies a condition on membership "
    "inference, in closed form.",
    examples=MEMBERSHIP_CONVERSIONS_EXAMPLES,
    request_type=MembershipConversionsRequest,
    response_type=MembershipConversionsResponse,
    function=_compute_membership_conversions,
    quote=_membership_conversions_quote,
)
