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
    Field(
        ge=0, le=LARGEST_SEED, description="Seed of all random numbers, for the PCG64 generator of NumPy.", examples=[0]
    ),
]
Cutoffs = Annotated[
    int,
    Field(
        ge=2,
        le=LARGEST_CUTOFFS,
        description="Largest number of thresholds of the ROC curve.",
        examples=[100],
    ),
]
Verdict = Annotated[
    Literal["consistent", "above_the_bound"],
    named_schema(
        "AttackVerdict",
        "above_the_bound: with at least the stated confidence the attack exceeds the bound, so the training, "
        "its accounting or an assumption is wrong. consistent: the measurement does not contradict the bound.",
    ),
]


class MeasuredRate(TypedDict):
    """Observed rate with a confidence interval for the true rate."""

    estimate: Annotated[float, Field(description="Observed rate.")]
    lower: Annotated[float, Field(description="Lower confidence bound of the true rate.")]
    upper: Annotated[float, Field(description="Upper confidence bound of the true rate.")]


class MeasuredRates(TypedDict):
    """Measured rates as columns, with one entry for each threshold of the attack.

    The intervals hold at all thresholds together.
    """

    estimate: Annotated[
        list[float], Field(description="Observed rates, one for each threshold.", examples=[[0.0, 0.01, 0.05]])
    ]
    lower: Annotated[
        list[float], Field(description="Lower confidence bounds of the true rates.", examples=[[0.0, 0.002, 0.03]])
    ]
    upper: Annotated[
        list[float], Field(description="Upper confidence bounds of the true rates.", examples=[[0.004, 0.02, 0.07]])
    ]


class TheoryPowers(TypedDict):
    """Enclosed theoretical true positive rates, at the measured false positive rate of each threshold."""

    lower: Annotated[
        list[float],
        Field(
            description="Lower bound of the theoretical true positive rate, for each threshold.",
            examples=[[0.01, 0.12, 0.48]],
        ),
    ]
    upper: Annotated[
        list[float],
        Field(
            description="Upper bound of the theoretical true positive rate, for each threshold.",
            examples=[[0.01, 0.12, 0.48]],
        ),
    ]


class ProvedNumber(TypedDict):
    """Lower bound of the parameter of the mechanism that the counts prove with at least the stated confidence.

    `lower` (equal to `value`) and `upper` enclose the parameter that the true rates of this attack require.
    """

    value: Annotated[
        NonNegative, Field(description="Lower bound of the parameter with at least the stated confidence.")
    ]
    lower: Annotated[NonNegative, Field(description="Lower bound, equal to `value`.")]
    upper: Annotated[
        NonNegative, Field(description="Upper bound of the parameter that the true rates of this attack require.")
    ]


class ProvedEpsilon(ProvedNumber):
    """Lower bound of epsilon, in nats, that the counts prove at one delta."""

    delta: Annotated[float, Field(description="Delta of the proved epsilon.")]


class MeasuredRoc(Response):
    """Empirical ROC curve with one entry for each threshold. Higher scores indicate membership."""

    thresholds: Annotated[
        tuple[float, ...],
        Field(
            description="Decreasing thresholds. The attack claims membership for scores at or above the threshold.",
            examples=[[2.5, 1.5, 0.5]],
        ),
    ]
    false_positive_rate: MeasuredRates
    true_positive_rate: MeasuredRates
    confidence: Annotated[
        float, Field(description="Least probability that the bands hold at all thresholds together.", examples=[0.999])
    ]
    members: Annotated[
        int, Field(ge=1, description="Number of scores behind the true positive rates.", examples=[1_000])
    ]
    non_members: Annotated[
        int, Field(ge=1, description="Number of scores behind the false positive rates.", examples=[1_000])
    ]
