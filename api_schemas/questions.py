"""Questions about a trade-off curve. Each question is answered in its `direction`.

`add`: the null hypothesis is the data without the record. `remove`: with the record. `both`: the worse of the two.
"""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from api_schemas.base import Request, field_error, named_schema
from api_schemas.choices import Direction, Side
from api_schemas.scalar_types import (
    Confidence,
    Delta,
    Epsilon,
    FalsePositiveRateMin,
    FalsePositiveRates,
    OptionalBaselineSuccess,
    OptionalCandidates,
    OptionalFalsePositiveRate,
    OptionalPriorProbabilities,
    Prior,
    TypeTwoErrorMin,
)

LARGEST_QUESTIONS: Final = 256
PROBABILITY_SUM_TOLERANCE: Final = 1e-6


class TradeOffQuestion(Request):
    """Trade-off curve: smallest type II error and largest power at each false positive rate."""

    type: Literal["trade_off"]
    false_positive_rates: FalsePositiveRates
    direction: Direction = "add"


class EpsilonQuestion(Request):
    """Smallest epsilon, in nats, for which the mechanism is (epsilon, delta)-differentially private."""

    type: Literal["epsilon"]
    delta: Delta
    direction: Direction = "both"


class DeltaQuestion(Request):
    """Smallest delta for which the mechanism is (epsilon, delta)-differentially private."""

    type: Literal["delta"]
    epsilon: Epsilon
    direction: Direction = "both"


class AdvantageQuestion(Request):
    """Largest difference between power and false positive rate (total variation distance).

    The value is equal in every direction.
    """

    type: Literal["advantage"]
    direction: Direction = "add"


class GdpMuQuestion(Request):
    """Smallest mu of Gaussian differential privacy whose trade-off curve lies below that of the run.

    Only errors at or above the given minima count.
    """

    type: Literal["gdp_mu"]
    false_positive_rate_min: FalsePositiveRateMin = 1e-9
    type_two_error_min: TypeTwoErrorMin = 1e-9
    direction: Direction = "both"


class ReconstructionQuestion(Request):
    """Largest probability gamma of reconstructing the record.

    The success probability without the release is `baseline_success`, 1/`candidates`, or the largest of
    `prior_probabilities`. Send exactly one of them.
    """

    type: Literal["reconstruction"]
    baseline_success: OptionalBaselineSuccess = None
    candidates: OptionalCandidates = None
    prior_probabilities: OptionalPriorProbabilities = None
    direction: Direction = "add"

    @model_validator(mode="after")
    def _one_baseline(self) -> Self:
        given = (self.baseline_success, self.candidates, self.prior_probabilities)
        if given.count(None) != 2:
            raise PydanticCustomError(
                "one_baseline",
                "{sentence}",
                {"sentence": "Send exactly one of baseline_success, candidates and prior_probabilities."},
            )
        probabilities = self.prior_probabilities
        if probabilities is not None and abs(math.fsum(probabilities) - 1) > PROBABILITY_SUM_TOLERANCE:
            raise field_error("prior_probabilities", "prior_probabilities must sum to 1 (within 1e-6).")
        return self


class AttackAccuracyQuestion(Request):
    """Largest accuracy of an attacker who knows the prior.

    With a false positive rate, the accuracy of the best attack at this rate.
    """

    type: Literal["attack_accuracy"]
    prior: Prior
    false_positive_rate: OptionalFalsePositiveRate = None
    direction: Direction = "add"


class PositivePredictiveValueQuestion(Request):
    """Probability that the record is a member, given that the attacker claims membership."""

    type: Literal["positive_predictive_value"]
    prior: Prior
    false_positive_rate: OptionalFalsePositiveRate = None
    side: Side = "at_most"
    direction: Direction = "add"


class NegativePredictiveValueQuestion(Request):
    """Probability that the record is not a member, given that the attacker claims non-membership."""

    type: Literal["negative_predictive_value"]
    prior: Prior
    false_positive_rate: OptionalFalsePositiveRate = None
    side: Side = "at_most"
    direction: Direction = "add"


class AdvantageOverPriorQuestion(Request):
    """Twice the largest difference between the positive predictive value and the prior."""

    type: Literal["advantage_over_prior"]
    prior: Prior
    direction: Direction = "add"


class DeletionCapacityQuestion(Request):
    """Largest number of records that may count as deleted without any change of the model, at the given confidence."""

    type: Literal["deletion_capacity"]
    prior: Prior
    confidence: Confidence
    direction: Direction = "add"


class UnlearningGuaranteeQuestion(Request):
    """Whether the unchanged model guarantees unlearning of a record (B-MI unlearning, Thudi et al. 2022, Definition 2).

    The guarantee requires P(not a member | release) >= B for every release, where B is `confidence`.
    """

    type: Literal["unlearning_guarantee"]
    prior: Prior
    confidence: Confidence
    direction: Direction = "add"


QuestionSpec = Annotated[
    TradeOffQuestion
    | EpsilonQuestion
    | DeltaQuestion
    | AdvantageQuestion
    | GdpMuQuestion
    | ReconstructionQuestion
    | AttackAccuracyQuestion
    | PositivePredictiveValueQuestion
    | NegativePredictiveValueQuestion
    | AdvantageOverPriorQuestion
    | DeletionCapacityQuestion
    | UnlearningGuaranteeQuestion,
    named_schema("Question", "A question about the trade-off curve.", discriminator="type"),
]

NumberQuestion = (
    EpsilonQuestion
    | DeltaQuestion
    | AdvantageQuestion
    | ReconstructionQuestion
    | AttackAccuracyQuestion
    | PositivePredictiveValueQuestion
    | NegativePredictiveValueQuestion
    | AdvantageOverPriorQuestion
    | DeletionCapacityQuestion
)
"""The questions whose answer is one number and nothing else."""


def listed_numbers(question: QuestionSpec) -> int:
    """Return the number of values in the lists of a question."""
    if question.type == "trade_off":
        return len(question.false_positive_rates)
    if question.type == "reconstruction" and question.prior_probabilities is not None:
        return len(question.prior_probabilities)
    return 0
