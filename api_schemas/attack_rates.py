"""What the audits share: measured rates with their intervals, ROC curves with their bands, and verdicts."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api_schemas.base import NonNegative, Response, component
from api_schemas.quantities import LARGEST_SEED

LARGEST_CUTOFFS: Final = 1_000

AuditConfidence = Annotated[
    float,
    Field(
        ge=0.5,
        le=0.999999999,
        validation_alias="confidence",
        description="Probability with which all measured intervals of the answer hold together.",
        examples=[0.95],
    ),
]
AuditSeed = Annotated[
    int,
    Field(ge=0, le=LARGEST_SEED, description="Seed of all random numbers: PCG64, as numpy makes it.", examples=[0]),
]
Cutoffs = Annotated[
    int,
    Field(
        ge=2,
        le=LARGEST_CUTOFFS,
        description="At how many thresholds, at most, the ROC curve is read.",
        examples=[100],
    ),
]
Verdict = Annotated[
    Literal["consistent", "above_the_bound"],
    component(
        "AttackVerdict",
        "above_the_bound: with the stated confidence the attack does better than the bound allows, so the "
        "training, its accounting or an assumption is at fault; consistent: the measurement does not say so.",
    ),
]


class MeasuredRate(TypedDict):
    """A rate: the share that was counted, and the interval that holds the true one with the stated confidence."""

    estimate: float
    lower: float
    upper: float


class MeasuredRates(TypedDict):
    """The same as columns, one row for each threshold; the intervals hold at all thresholds together."""

    estimate: list[float]
    lower: list[float]
    upper: list[float]


class TheoryPowers(TypedDict):
    """What theory says about the true positive rate at the false positive rate of each row, enclosed."""

    lower: list[float]
    upper: list[float]


class ProvedNumber(TypedDict):
    """What the counts prove: the mechanism's parameter is at least `value`, with the stated confidence.

    `lower`, which is `value`, and `upper` enclose the parameter that the true rates of this attack need.
    """

    value: NonNegative
    lower: NonNegative
    upper: NonNegative


class ProvedEpsilon(ProvedNumber):
    """The same of epsilon, in nats, at one delta."""

    delta: float


class MeasuredRoc(Response):
    """An empirical ROC curve: a row for each threshold, thresholds falling; suspicion rises with the score."""

    thresholds: tuple[float, ...]
    false_positive_rate: MeasuredRates
    true_positive_rate: MeasuredRates
    confidence: float
    members: Annotated[int, Field(ge=1, description="Scores behind the true positive rates.")]
    non_members: Annotated[int, Field(ge=1, description="Scores behind the false positive rates.")]
