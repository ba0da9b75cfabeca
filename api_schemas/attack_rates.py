"""Shared parts of the audits: measured rates with intervals, ROC curves with bands, and verdicts."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api_schemas.base import NonNegative, Response, named_schema
from api_schemas.scalar_types import LARGEST_SEED

LARGEST_CUTOFFS: Final = 1_000

AuditConfidence = Annotated[
    float,
    Field(
        ge=0.5,
        le=0.999999999,
        validation_alias="confidence",
        description="Least probability that all measured intervals of the answer hold together.",
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
    named_schema(
        "AttackVerdict",
        "above_the_bound: with at least the stated confidence the attack does better than the bound allows, so the "
        "training, its accounting or an assumption is at fault; consistent: the measurement does not say so.",
    ),
]


class MeasuredRate(TypedDict):
    """The share that was counted, and an interval that holds the true rate with at least the stated confidence."""

    estimate: Annotated[float, Field(description="The share that was counted.")]
    lower: Annotated[float, Field(description="The true rate is at least this.")]
    upper: Annotated[float, Field(description="The true rate is at most this.")]


class MeasuredRates(TypedDict):
    """Measured rates as columns, one row for each threshold. The intervals hold at all thresholds together."""

    estimate: Annotated[list[float], Field(description="The shares that were counted.")]
    lower: Annotated[list[float], Field(description="The true rates are at least these.")]
    upper: Annotated[list[float], Field(description="The true rates are at most these.")]


class TheoryPowers(TypedDict):
    """Enclosed true positive rates of the theory at the false positive rate of each row."""

    lower: Annotated[list[float], Field(description="The true positive rate of theory is at least this, for each row.")]
    upper: Annotated[list[float], Field(description="The true positive rate of theory is at most this, for each row.")]


class ProvedNumber(TypedDict):
    """Lower bound of the parameter of the mechanism that the counts prove, with at least the stated confidence.

    `lower`, which is `value`, and `upper` enclose the parameter that the true rates of this attack need.
    """

    value: Annotated[
        NonNegative, Field(description="The parameter is at least this, with at least the stated confidence.")
    ]
    lower: Annotated[NonNegative, Field(description="The same as `value`.")]
    upper: Annotated[NonNegative, Field(description="The true rates of this attack need no more than this.")]


class ProvedEpsilon(ProvedNumber):
    """Lower bound of epsilon (nats) at one delta that the counts prove."""

    delta: Annotated[float, Field(description="The delta at which epsilon is proved.")]


class MeasuredRoc(Response):
    """An empirical ROC curve: a row for each threshold, thresholds falling; suspicion rises with the score."""

    thresholds: Annotated[
        tuple[float, ...], Field(description="Scores at or above which the attack says member; they fall.")
    ]
    false_positive_rate: MeasuredRates
    true_positive_rate: MeasuredRates
    confidence: Annotated[float, Field(description="Least probability that the bands hold at all thresholds together.")]
    members: Annotated[int, Field(ge=1, description="Scores behind the true positive rates.")]
    non_members: Annotated[int, Field(ge=1, description="Scores behind the false positive rates.")]
