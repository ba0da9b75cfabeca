"""Scalar types of requests: range, unit, meaning, example, and spellings that other libraries use.

The first spelling is that of this service and the only one in responses. The others are accepted in requests.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, AliasChoices, FailFast, Field
from pydantic_core import PydanticCustomError

from api_schemas.base import is_none

LARGEST_STEPS: Final = 10**12
LARGEST_TOTAL_STEPS: Final = 10**15
LARGEST_LIST: Final = 10_000
LARGEST_RECORDS: Final = 10**12
LARGEST_SEED: Final = 2**63 - 1

# 0.0 + -0.0 is 0.0: equal requests must have equal bytes, whatever the sign of their zero.
POSITIVE_ZERO: Final = AfterValidator((0.0).__add__)

LEAST_SHIFT: Final = 1e-15


def _no_speck(shift: float) -> float:
    if 0 < shift < LEAST_SHIFT:
        raise PydanticCustomError("shift", "{sentence}", {"sentence": "A shift must be 0 or in [1e-15, 1e+15]."})
    return shift


UnitInterval = Annotated[float, Field(ge=0, le=1), POSITIVE_ZERO]
"""A number in [0, 1]."""

NoiseMultiplier = Annotated[
    float,
    Field(
        ge=1e-4,
        le=1e15,
        validation_alias=AliasChoices("noise_multiplier", "sigma", "noise"),
        description="Standard deviation of the Gaussian noise, divided by the add/remove sensitivity.",
        examples=[1.0],
    ),
]
# No alias `sigma` here: for Laplace noise it is read as the standard deviation, which is sqrt(2) times the scale.
LaplaceNoiseMultiplier = Annotated[
    float,
    Field(
        ge=1e-4,
        le=1e15,
        validation_alias=AliasChoices("noise_multiplier", "noise", "scale"),
        description="Scale b of the Laplace noise, divided by the add/remove sensitivity.",
        examples=[2.0],
    ),
]
SampleRate = Annotated[
    float,
    Field(
        gt=0,
        le=1,
        validation_alias=AliasChoices("sample_rate", "sampling_probability", "sampling_prob", "sampling_rate", "q"),
        description="Probability that a record enters a batch, independently of all other records (Poisson sampling).",
        examples=[0.01],
    ),
]
Steps = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_STEPS,
        validation_alias=AliasChoices("steps", "num_steps", "count", "iterations", "num_compositions", "ncomp"),
        description="Number of applications of the mechanism to the same data.",
        examples=[1000],
    ),
]
DatasetSize = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_RECORDS,
        validation_alias=AliasChoices("dataset_size", "num_examples", "n_train"),
        description="Number of records in the data set.",
        examples=[48_000],
    ),
]
BatchSize = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_RECORDS,
        validation_alias=AliasChoices("batch_size", "n"),
        description="Number of records in a batch, drawn without replacement.",
        examples=[400],
    ),
]
Dimension = Annotated[
    int,
    Field(
        ge=1,
        le=1_000_000_000,
        validation_alias=AliasChoices("dimension", "d", "num_parameters"),
        description="Number of coordinates of the gradient or of the released vector.",
        examples=[650],
    ),
]
NoiseStd = Annotated[
    float,
    Field(
        ge=0,
        le=1e15,
        validation_alias=AliasChoices("noise_std", "tau"),
        description="Standard deviation tau of the Gaussian noise on each coordinate of the mean gradient.",
        examples=[2.84],
    ),
    POSITIVE_ZERO,
]
OptionalMaxGradNorm = Annotated[
    Annotated[float, Field(gt=0, le=1e15)] | None,
    Field(
        validation_alias=AliasChoices("max_grad_norm", "clip_norm", "l2_norm_clip", "C"),
        description="Clipping norm C of each gradient. Default: no clipping.",
        examples=[500.0],
        exclude_if=is_none,
    ),
]
_SUSCEPTIBILITY: Final = AliasChoices("susceptibility", "K")
Susceptibility = Annotated[
    float,
    Field(
        ge=0,
        le=1e12,
        validation_alias=_SUSCEPTIBILITY,
        description="Centred gradient susceptibility K = |Sigma^-1/2 (gradient - mean)|^2 of these records.",
        examples=[650.0],
    ),
    POSITIVE_ZERO,
]
OptionalSusceptibility = Annotated[
    Annotated[float, Field(ge=0, le=1e12), POSITIVE_ZERO] | None,
    Field(
        validation_alias=_SUSCEPTIBILITY,
        description="Centred gradient susceptibility K = |Sigma^-1/2 (gradient - mean)|^2 of the record. "
        "Default: the dimension, its mean value.",
        examples=[650.0],
        exclude_if=is_none,
    ),
]
Weight = Annotated[
    float,
    Field(
        gt=0,
        le=1,
        validation_alias=AliasChoices("weight", "probability"),
        description="Probability of this component.",
        examples=[0.5],
    ),
]
Shift = Annotated[
    float,
    Field(
        ge=0,
        le=1e15,
        description="A shift of the query: 0 or at least 1e-15.",
        examples=[1.0],
    ),
    POSITIVE_ZERO,
    AfterValidator(_no_speck),
]
ShiftWeight = Annotated[float, Field(gt=0, le=1, description="Probability of one shift.", examples=[0.01])]
LARGEST_EPSILON: Final = 1e6
Epsilon = Annotated[
    float,
    Field(
        ge=0,
        le=LARGEST_EPSILON,
        validation_alias=AliasChoices("epsilon", "eps", "target_epsilon"),
        description="Privacy parameter epsilon of (epsilon, delta)-differential privacy, in nats.",
        examples=[2.0],
        json_schema_extra={"x-unit": "nats"},
    ),
    POSITIVE_ZERO,
]
Delta = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        validation_alias=AliasChoices("delta", "target_delta"),
        description="Privacy parameter delta of (epsilon, delta)-differential privacy.",
        examples=[1e-5],
    ),
    POSITIVE_ZERO,
]
Mu = Annotated[
    float,
    Field(
        ge=0,
        le=1e6,
        validation_alias=AliasChoices("mu", "gdp_mu"),
        description="Parameter mu of mu-Gaussian differential privacy.",
        examples=[1.0],
    ),
    POSITIVE_ZERO,
]
FALSE_POSITIVE_RATES: Final = AliasChoices("false_positive_rates", "fpr", "fprs", "alpha", "alphas")
FalsePositiveRates = Annotated[
    tuple[UnitInterval, ...],
    FailFast(),
    Field(
        min_length=1,
        max_length=LARGEST_LIST,
        validation_alias=FALSE_POSITIVE_RATES,
        description="False positive rates alpha of the attack: P(attacker claims membership | not a member).",
        examples=[[1e-3, 1e-2]],
    ),
]
OptionalFalsePositiveRates = Annotated[
    Annotated[tuple[UnitInterval, ...], Field(min_length=1, max_length=LARGEST_LIST)] | None,
    Field(
        validation_alias=FALSE_POSITIVE_RATES,
        description="False positive rates at which every curve is evaluated. Default: the rates of `grid`.",
        examples=[[1e-3, 1e-2]],
        exclude_if=is_none,
    ),
]
OptionalFalsePositiveRate = Annotated[
    UnitInterval | None,
    Field(
        validation_alias=AliasChoices("false_positive_rate", "fpr", "alpha"),
        description="False positive rate of the attack. Default: the rate with the most extreme value.",
        examples=[1e-3],
        exclude_if=is_none,
    ),
]
FalsePositiveRateMin = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        validation_alias=AliasChoices("false_positive_rate_min", "fpr_min", "alpha_min"),
        description="Smallest false positive rate at which the Gaussian curve must lie below the true curve.",
        examples=[1e-9],
    ),
    POSITIVE_ZERO,
]
TypeTwoErrorMin = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        validation_alias=AliasChoices("type_two_error_min", "fnr_min", "beta_min"),
        description="Smallest type II error at which the Gaussian curve must lie below the true curve.",
        examples=[1e-9],
    ),
    POSITIVE_ZERO,
]
OptionalBaselineSuccess = Annotated[
    UnitInterval | None,
    Field(
        validation_alias=AliasChoices("baseline_success", "kappa"),
        description="Probability of reconstructing the record without the release.",
        examples=[1e-3],
        exclude_if=is_none,
    ),
]
OptionalCandidates = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_TOTAL_STEPS)] | None,
    Field(
        validation_alias=AliasChoices("candidates", "num_candidates"),
        description="Number n of equally likely candidates. The baseline success is 1/n.",
        examples=[1000],
        exclude_if=is_none,
    ),
]
OptionalPriorProbabilities = Annotated[
    Annotated[tuple[UnitInterval, ...], Field(min_length=1, max_length=LARGEST_LIST)] | None,
    Field(
        validation_alias=AliasChoices("prior_probabilities", "priors"),
        description="Probability of each candidate before the release. The probabilities sum to 1, and the "
        "largest is the baseline.",
        examples=[[0.5, 0.3, 0.2]],
        exclude_if=is_none,
    ),
]
Prior = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        validation_alias=AliasChoices("prior", "prior_probability"),
        description="Probability, before the attack, that the record is a member.",
        examples=[0.5],
    ),
    POSITIVE_ZERO,
]
Confidence = Annotated[
    float,
    Field(
        ge=0,
        le=1,
        validation_alias=AliasChoices("confidence", "confidence_bound"),
        description="Confidence that none of the deleted records was a member.",
        examples=[0.8],
    ),
    POSITIVE_ZERO,
]
DEFAULT_TOLERANCE: Final = 1e-6
"""Default of `relative_tolerance`: what ordinary runs reach."""
RelativeTolerance = Annotated[
    float,
    Field(
        ge=1e-16,
        le=1,
        validation_alias=AliasChoices("relative_tolerance", "rtol"),
        description="Requested relative width (upper - lower)/upper of the enclosure. A wider answer has "
        "`tolerance_met: false`.",
        examples=[1e-6],
    ),
]
OptionalOrder = Annotated[
    Annotated[int, Field(ge=0, le=4)] | None,
    Field(description="Order of the series, for method edgeworth. Default: 4.", examples=[4], exclude_if=is_none),
]
OptionalSamples = Annotated[
    Annotated[int, Field(ge=1_000, le=10_000_000)] | None,
    Field(
        description="Number of draws of the privacy loss under each hypothesis, for method monte_carlo. "
        "Default: 100000.",
        examples=[100_000],
        exclude_if=is_none,
    ),
]
OptionalSeed = Annotated[
    Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None,
    Field(
        description="Seed of the draws, for method monte_carlo. Equal seeds give equal numbers. Default: 0.",
        examples=[0],
        exclude_if=is_none,
    ),
]
OptionalConfidenceLevel = Annotated[
    Annotated[float, Field(ge=0.5, le=0.999999999)] | None,
    Field(
        description="Least probability that all enclosures of an answer hold, for method monte_carlo. Default: 0.999.",
        examples=[0.999],
        exclude_if=is_none,
    ),
]
OptionalDigits = Annotated[
    Annotated[int, Field(ge=15, le=50)] | None,
    Field(
        description="Number of decimal digits of the answer, for method ground_truth. Default: 25.",
        examples=[25],
        exclude_if=is_none,
    ),
]
