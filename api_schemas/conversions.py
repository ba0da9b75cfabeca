"""`POST /v1/conversions/gdp-gmip`: privacy of noisy SGD, differential and membership, and the noise for a target."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.assumptions_and_hazards import Assumptions
from api_schemas.base import Request, Response, Result, is_none
from api_schemas.choices import Evidence
from api_schemas.enclosures import Conditional, Lower, Notes, Source, Tight, Upper, Value
from api_schemas.limits import limit_error
from api_schemas.scalar_types import (
    LARGEST_RECORDS,
    LARGEST_STEPS,
    BatchSize,
    Dimension,
    OptionalMaxGradNorm,
    OptionalSusceptibility,
)

LEAST_MU, LARGEST_MU = 1e-100, 1e6

OptionalMuDp = Annotated[
    Annotated[float, Field(ge=LEAST_MU, le=LARGEST_MU)] | None,
    Field(
        description="Target mu of Gaussian differential privacy (GDP) of the run, for neighbours by replacement "
        "of a record.",
        examples=[1.0],
        exclude_if=is_none,
    ),
]
OptionalMuMip = Annotated[
    Annotated[float, Field(ge=LEAST_MU, le=LARGEST_MU)] | None,
    Field(
        description="Target mu of Gaussian membership inference privacy (GMIP) of the run.",
        examples=[0.5],
        exclude_if=is_none,
    ),
]
OptionalDatasetSize = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_RECORDS)] | None,
    Field(
        validation_alias=AliasChoices("dataset_size", "num_examples", "n_train"),
        description="Number of records in the data set. Default: the batch size.",
        examples=[48_000],
        exclude_if=is_none,
    ),
]
OptionalRunSteps = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_STEPS)] | None,
    Field(
        validation_alias=AliasChoices("steps", "num_steps", "iterations"),
        description="Number of steps of the run. Default: 1, unless `epochs` is present.",
        examples=[1200],
        exclude_if=is_none,
    ),
]
OptionalEpochs = Annotated[
    Annotated[float, Field(gt=0, le=1e12)] | None,
    Field(
        validation_alias=AliasChoices("epochs", "num_epochs"),
        description="Number of passes over the data set, in place of `steps`. A run has epochs dataset_size / "
        "batch_size steps.",
        examples=[10.0],
        exclude_if=is_none,
    ),
]


class GdpGmipRequest(Request):
    """A run of noisy SGD, and one of its privacy parameters mu_dp and mu_mip.

    Default: one step on the whole data set.
    """

    mu_dp: OptionalMuDp = None
    mu_mip: OptionalMuMip = None
    dimension: Dimension
    batch_size: BatchSize
    susceptibility: OptionalSusceptibility = None
    max_grad_norm: OptionalMaxGradNorm = None
    dataset_size: OptionalDatasetSize = None
    steps: OptionalRunSteps = None
    epochs: OptionalEpochs = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.mu_dp is None) == (self.mu_mip is None):
            raise limit_error("/mu_mip", "Send exactly one of mu_dp and mu_mip.")
        if self.steps is not None and self.epochs is not None:
            raise limit_error("/epochs", "Send only one of steps and epochs.")
        if self.epochs is not None and self.dataset_size is None:
            raise limit_error("/epochs", "Send dataset_size together with epochs, which are passes over a data set.")
        if self.dataset_size is not None and self.batch_size > self.dataset_size:
            raise limit_error("/batch_size", "batch_size must be at most dataset_size.")
        return self

    @property
    def target(self) -> tuple[Literal["mu_dp", "mu_mip"], float]:
        """Name and value of the parameter that the request gives: mu_dp or mu_mip.

        GMIP is Gaussian membership inference privacy (Leemann et al. 2023).
        """
        if self.mu_dp is not None:
            return "mu_dp", self.mu_dp
        return "mu_mip", self.mu_mip or LEAST_MU  # which is not 0


class ConvertedNumber(Response):
    """A number with its method and its evidence."""

    value: Value
    lower: Lower
    upper: Upper
    evidence: Evidence
    tight: Tight
    source: Source


class NoiseForTarget(Response):
    """Noise with which the run reaches the target of the request."""

    target: Annotated[Literal["mu_dp", "mu_mip"], Field(description="mu_dp or mu_mip, the parameter of the request.")]
    mu_step: Annotated[ConvertedNumber, Field(description="Largest mu of each step.")]
    tau_mip: Annotated[
        ConvertedNumber | None,
        Field(
            description="Standard deviation of the noise on the mean gradient by Corollary 5.1 of Leemann et al. 2023. "
            "null: the corollary gives no sufficient noise."
        ),
    ]
    tau_dp: Annotated[
        ConvertedNumber | None,
        Field(
            description="Standard deviation of the noise with which every step is mu_step-GDP. null: "
            "gradients are not clipped."
        ),
    ]
    noise_std: Annotated[
        ConvertedNumber | None,
        Field(
            description="Sufficient noise for the target: tau_dp for mu_dp, and the smaller of both for mu_mip, "
            "since mu-GDP implies mu-GMIP. null: neither is known."
        ),
    ]
    noise_free_mu: Annotated[ConvertedNumber, Field(description="Smallest mu_mip of the run without noise.")]


class GdpGmipResponse(Result):
    """Both privacy parameters of a run of noisy SGD, and the noise for the parameter of the request."""

    request: GdpGmipRequest
    mu_dp: Annotated[
        ConvertedNumber | None,
        Field(
            description="GDP parameter of the run with noise tau_mip, for a request with mu_mip. null: no noise "
            "is necessary, and a run without noise has no GDP."
        ),
    ]
    mu_mip: ConvertedNumber
    noise_needed: Annotated[
        bool, Field(description="Whether the target requires noise. A target mu_dp always requires noise.")
    ]
    noise: NoiseForTarget
    conditional: Conditional
    assumptions: Assumptions
    notes: Notes
