"""Every quantity of the wire: range, unit, meaning, example, and the spellings that peers use for it.

The first spelling of a quantity is ours and the only one that is written; the others are accepted on input.
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
        description="Standard deviation of the Gaussian noise divided by the add/remove sensitivity.",
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
        description="Scale b of the Laplace noise divided by the add/remove sensitivity.",
        examples=[2.0],
    ),
]
SampleRate = Annotated[
    float,
    Field(
        gt=0,
        le=1,
        validation_alias=AliasChoices("sample_rate", "sampling_probability", "sampling_prob", "sampling_rate", "q"),
        description="Probability that a record enters a batch, independently of all others (Poisson sampling).",
        examples=[0.01],
    ),
]
Steps = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_STEPS,
        validation_alias=AliasChoices("steps", "num_steps", "count", "iterations", "num_compositions", "ncomp"),
        description="How often the mechanism is applied to the same data.",
        examples=[1000],
    ),
]
DatasetSize = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_RECORDS,
        validation_alias=AliasChoices("dataset_size", "num_examples", "n_train"),
        description="Records in the data set.",
        examples=[48_000],
    ),
]
BatchSize = Annotated[
    int,
    Field(
        ge=1,
        le=LARGEST_RECORDS,
        validation_alias=AliasChoices("batch_size", "n"),
        description="Records in a batch, drawn without replacement.",
        examples=[400],
    ),
]
Dimension = Annotated[
    int,
    Field(
        ge=1,
        le=1_000_000_000,
        validation_alias=AliasChoices("dimension", "d", "num_parameters"),
        description="Number of coordinates: of the gradient, or of the released vector.",
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
        description="Norm C to which each gradient is clipped; absent: gradients are not clipped.",
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
        description="Centred gradient susceptibility K = |Sigma^-1/2 (gradient - mean)|^2 of the records.",
        examples=[650.0],
    ),
    POSITIVE_ZERO,
]
OptionalSusceptibility = Annotated[
    Annotated[float, Field(ge=0, le=1e12), POSITIVE_ZERO] | None,
    Field(
        validation_alias=_SUSCEPTIBILITY,
        description="Centred gradient susceptibility K = |Sigma^-1/2 (gradient - mean)|^2 of the record; absent: the "
        "dimension, which is what it is on average.",
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
        description="Probability with which this component is drawn.",
        examples=[0.5],
    ),
]
Shift = Annotated[
    float,
    Field(
        ge=0,
        le=1e15,
        description="A shift of a query, 0 or at least 1e-15.",
        examples=[1.0],
    ),
    POSITIVE_ZERO,
    AfterValidator(_no_speck),
]
ShiftWeight = Annotated[float, Field(gt=0, le=1, description="Probability of a shift.", examples=[0.01])]
LARGEST_EPSILON: Final = 1e6
Epsilon = Annotated[
    float,
    Field(
        ge=0,
        le=LARGEST_EPSILON,
        validation_alias=AliasChoices("epsilon", "eps", "target_epsilon"),
        description="Privacy parameter epsilon of (epsilon, delta)-differential privacy.",
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
        description="False positive rates alpha of the attack, P(attacker says member | not a member).",
        examples=[[1e-3, 1e-2]],
    ),
]
OptionalFalsePositiveRates = Annotated[
    Annotated[tuple[UnitInterval, ...], Field(min_length=1, max_length=LARGEST_LIST)] | None,
    Field(
        validation_alias=FALSE_POSITIVE_RATES,
        description="False positive rates alpha at which every curve is read; absent: those of `grid`.",
        examples=[[1e-3, 1e-2]],
        exclude_if=is_none,
    ),
]
OptionalFalsePositiveRate = Annotated[
    UnitInterval | None,
    Field(
        validation_alias=AliasChoices("false_positive_rate", "fpr", "alpha"),
        description="False positive rate of the attack; absent: the most extreme value over all rates.",
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
        description="Smallest false positive rate at which the Gaussian curve must lie below the true one.",
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
        description="Smallest type II error at which the Gaussian curve must lie below the true one.",
        examples=[1e-9],
    ),
    POSITIVE_ZERO,
]
OptionalBaselineSuccess = Annotated[
    UnitInterval | None,
    Field(
        validation_alias=AliasChoices("baseline_success", "kappa"),
        description="Chance to reconstruct the record without seeing the release.",
        examples=[1e-3],
        exclude_if=is_none,
    ),
]
OptionalCandidates = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_TOTAL_STEPS)] | None,
    Field(
        validation_alias=AliasChoices("candidates", "num_candidates"),
        description="Number of equally likely candidates n; the baseline success is 1/n.",
        examples=[1000],
        exclude_if=is_none,
    ),
]
OptionalPriorProbabilities = Annotated[
    Annotated[tuple[UnitInterval, ...], Field(min_length=1, max_length=LARGEST_LIST)] | None,
    Field(
        validation_alias=AliasChoices("prior_probabilities", "priors"),
        description="Probability of each candidate before the release, summing to 1; the largest is the baseline.",
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
        description="P(the record is a member) before the attack.",
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
        description="Confidence B that 'not a member' must keep for every deleted record together.",
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
        description="Relative width of the enclosure that is asked for; a wider answer says tolerance_met: false.",
        examples=[1e-6],
    ),
]
OptionalOrder = Annotated[
    Annotated[int, Field(ge=0, le=4)] | None,
    Field(description="edgeworth: order of the series; absent: 4.", examples=[4], exclude_if=is_none),
]
OptionalSamples = Annotated[
    Annotated[int, Field(ge=1_000, le=10_000_000)] | None,
    Field(
        description="monte_carlo: draws of the loss of the whole mechanism under each hypothesis; absent: 100000.",
        examples=[100_000],
        exclude_if=is_none,
    ),
]
OptionalSeed = Annotated[
    Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None,
    Field(
        description="monte_carlo: seed of the draws; the same seed gives the same numbers; absent: 0.",
        examples=[0],
        exclude_if=is_none,
    ),
]
OptionalConfidenceLevel = Annotated[
    Annotated[float, Field(ge=0.5, le=0.999999999)] | None,
    Field(
        description="monte_carlo: least probability that all enclosures of an answer hold the truth; absent: 0.999.",
        examples=[0.999],
        exclude_if=is_none,
    ),
]
OptionalDigits = Annotated[
    Annotated[int, Field(ge=15, le=50)] | None,
    Field(description="ground_truth: decimal digits of the answer; absent: 25.", examples=[25], exclude_if=is_none),
]
