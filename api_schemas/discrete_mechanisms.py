"""Discrete and local mechanisms: reports of single persons, integer noise, and choices among candidates."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.base import Request, field_error, named_schema
from api_schemas.scalar_types import POSITIVE_ZERO, Epsilon

WholeSensitivity = Annotated[
    int,
    Field(
        ge=1,
        le=10_000,
        validation_alias=AliasChoices("sensitivity", "l1_sensitivity"),
        description="Largest change of the query by one record, under the neighbouring relation of the threat model. "
        "Round a sensitivity between integers up.",
        examples=[1],
    ),
]
Bit = Annotated[float, Field(ge=0, le=1, description="Probability of a bit.", examples=[0.5]), POSITIVE_ZERO]


class RandomizedResponseMechanism(Request):
    """A report of one of `options` values: the true one with probability e^epsilon/(e^epsilon + options - 1).

    A local mechanism: every person sends one report. The default neighbouring relation is `replace_one`, and no other
    relation is allowed.
    """

    type: Literal["randomized_response"]
    epsilon: Epsilon
    options: Annotated[
        int,
        Field(
            ge=2,
            le=10**12,
            validation_alias=AliasChoices("options", "k"),
            description="Number of possible values.",
            examples=[4],
        ),
    ]


class UnaryEncodingMechanism(Request):
    """A report of a vector of bits. Bits of the true value are 1 with probability `true_bit`, others with `false_bit`.

    A local mechanism: every person sends one report. The default neighbouring relation is `replace_one`, and no other
    relation is allowed. RAPPOR has true_bit = 1 - false_bit. Optimised unary encoding has true_bit = 1/2 and
    false_bit = 1/(e^epsilon + 1).
    """

    type: Literal["unary_encoding"]
    true_bit: Annotated[Bit, Field(description="Probability p with which a bit of the true value is reported as 1.")]
    false_bit: Annotated[
        Bit,
        Field(
            description="Probability q < true_bit with which another bit is reported as 1.",
            examples=[0.25],
        ),
    ]
    bits_per_value: Annotated[
        int,
        Field(
            ge=1,
            le=1_000,
            description="Number of bits that belong to a value, for example hash functions of a Bloom filter. "
            "The answers hold for values that share no bit, the worst case.",
            examples=[1],
        ),
    ] = 1

    @model_validator(mode="after")
    def _bits_differ(self) -> Self:
        if self.true_bit <= self.false_bit:
            raise field_error(
                "true_bit",
                f"true_bit must be above false_bit, {self.false_bit}. Exchange both, or the meaning of 0 and 1.",
            )
        return self


class StaircaseMechanism(Request):
    """A query with staircase noise: the density falls by the factor e^-epsilon once in every sensitivity."""

    type: Literal["staircase"]
    epsilon: Epsilon
    gamma: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="Share of the sensitivity up to which the highest step of the density reaches.",
            examples=[0.5],
        ),
        POSITIVE_ZERO,
    ]


class DiscreteLaplaceMechanism(Request):
    """A query with integer values and discrete Laplace noise: P(x) is proportional to e^(-|x|/scale)."""

    type: Literal["discrete_laplace"]
    scale: Annotated[
        float,
        Field(ge=1e-3, le=1e9, description="Scale of the noise, in the unit of the query.", examples=[2.0]),
    ]
    sensitivity: WholeSensitivity


class DiscreteGaussianMechanism(Request):
    """A query with integer values and discrete Gaussian noise: P(x) is proportional to e^(-x^2/(2 sigma^2))."""

    type: Literal["discrete_gaussian"]
    sigma: Annotated[
        float,
        Field(ge=1e-2, le=1e4, description="Parameter sigma of the noise, in the unit of the query.", examples=[5.0]),
    ]
    sensitivity: WholeSensitivity
    dimension: Annotated[
        int,
        Field(
            ge=1,
            le=1_000_000_000,
            validation_alias=AliasChoices("dimension", "d"),
            description="Number of coordinates with noise. Several coordinates: `sensitivity` is the Euclidean norm of "
            "the largest change, and two theorems enclose the answers (`tight` is false). Default: 1.",
            examples=[1],
        ),
    ] = 1


class SkellamMechanism(Request):
    """A query with integer values and Skellam noise, the difference of two Poisson variables of equal mean."""

    type: Literal["skellam"]
    variance: Annotated[
        float,
        Field(
            ge=1e-3,
            le=1e7,
            description="Variance of the noise: twice the mean of each Poisson variable.",
            examples=[100.0],
        ),
    ]
    sensitivity: WholeSensitivity


ScoreSensitivity = Annotated[
    float,
    Field(
        ge=1e-6,
        le=1e15,
        validation_alias=AliasChoices("sensitivity", "score_sensitivity"),
        description="Largest change of the score of a candidate by one record.",
        examples=[1.0],
    ),
]
Monotone = Annotated[
    bool,
    Field(
        description="Whether one record moves all scores in one direction, as counts do. Only for "
        "`add_or_remove_one` and `zero_out`. Default: false.",
        examples=[False],
    ),
]


ScoreNoise = Annotated[
    Literal["gumbel", "exponential", "laplace"],
    named_schema("ScoreNoise", "Law of the noise on every score.", examples=["exponential"]),
]


class ReportNoisyMaxMechanism(Request):
    """The candidate with the largest score plus noise; nothing else is released.

    Gumbel noise is the exponential mechanism, and exponential noise is permute and flip. Both are exact for one choice.
    Laplace noise is enclosed by two theorems (`tight` is false).
    """

    type: Literal["report_noisy_max"]
    noise: ScoreNoise
    scale: Annotated[
        float,
        Field(ge=1e-6, le=1e15, description="Scale of the noise, in the unit of the scores.", examples=[2.0]),
    ]
    sensitivity: ScoreSensitivity
    monotone: Monotone = False


class PermuteAndFlipMechanism(Request):
    """Permute and flip: report noisy max with exponential noise of scale 2 sensitivity/epsilon.

    One choice is exact. Several choices are enclosed by two theorems (`tight` is false).
    """

    type: Literal["permute_and_flip"]
    epsilon: Epsilon
    monotone: Monotone = False


PartEpsilon = Annotated[
    float,
    Field(ge=1e-6, le=1e4, description="Part of the privacy parameter.", examples=[0.5]),
]


class SparseVectorMechanism(Request):
    """Sparse vector technique: one bit for each query against a noisy threshold, until `positives` bits were positive.

    Only the bits are released. Queries may depend on earlier bits. The answer is enclosed by two theorems (`tight` is
    false).
    """

    type: Literal["sparse_vector"]
    threshold_epsilon: Annotated[
        PartEpsilon, Field(description="The threshold has Laplace noise of scale sensitivity/threshold_epsilon.")
    ]
    query_epsilon: Annotated[
        PartEpsilon,
        Field(description="Every query has Laplace noise of scale 2 positives sensitivity/query_epsilon."),
    ]
    positives: Annotated[
        int,
        Field(
            ge=1,
            le=10**6,
            validation_alias=AliasChoices("positives", "c"),
            description="Number of positive bits after which the technique stops.",
            examples=[1],
        ),
    ]


LocalMechanism = RandomizedResponseMechanism | UnaryEncodingMechanism
"""Mechanisms that read `replace_one` where a request states no neighbouring relation."""
NoiseMechanism = StaircaseMechanism | DiscreteLaplaceMechanism | DiscreteGaussianMechanism | SkellamMechanism
"""Mechanisms with noise whose stated sensitivity holds under every relation."""
SelectionMechanism = ReportNoisyMaxMechanism | PermuteAndFlipMechanism | SparseVectorMechanism
"""Mechanisms that release choices or bits, and no numbers."""
DiscreteMechanism = LocalMechanism | NoiseMechanism | SelectionMechanism
"""All mechanisms of this module."""
