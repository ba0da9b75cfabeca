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
        description="The run is to be mu-Gaussian differentially private (GDP), neighbours by replacing a record.",
        examples=[1.0],
        exclude_if=is_none,
    ),
]
OptionalMuMip = Annotated[
    Annotated[float, Field(ge=LEAST_MU, le=LARGEST_MU)] | None,
    Field(
        description="The run is to have mu-Gaussian membership inference privacy (GMIP).",
        examples=[0.5],
        exclude_if=is_none,
    ),
]
OptionalDatasetSize = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_RECORDS)] | None,
    Field(
        validation_alias=AliasChoices("dataset_size", "num_examples", "n_train"),
        description="Records in the data set; absent: every batch is the whole data set.",
        examples=[48_000],
        exclude_if=is_none,
    ),
]
OptionalRunSteps = Annotated[
    Annotated[int, Field(ge=1, le=LARGEST_STEPS)] | None,
    Field(
        validation_alias=AliasChoices("steps", "num_steps", "iterations"),
        description="Steps of the run; absent, and no epochs either: one.",
        examples=[1200],
        exclude_if=is_none,
    ),
]
OptionalEpochs = Annotated[
    Annotated[float, Field(gt=0, le=1e12)] | None,
    Field(
        validation_alias=AliasChoices("epochs", "num_epochs"),
        description="Passes over the data set, in place of steps: epochs dataset_size / batch_size steps.",
        examples=[10.0],
        exclude_if=is_none,
    ),
]


class GdpGmipRequest(Request):
    """One of both parameters, and the run of noisy SGD that it is about: by default one step on the whole data set."""

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
            raise limit_error("/epochs", "Epochs are passes over a data set: send dataset_size as well.")
        if self.dataset_size is not None and self.batch_size > self.dataset_size:
            raise limit_error("/batch_size", "batch_size must be at most dataset_size.")
        return self

    @property
    def target(self) -> tuple[Literal["mu_dp", "mu_mip"], float]:
        """The parameter that was sent."""
        if self.mu_dp is not None:
            return "mu_dp", self.mu_dp
        return "mu_mip", self.mu_mip or LEAST_MU  # which is not 0


class ConvertedNumber(Response):
    """A number, what it was computed by, and how sure it is."""

    value: Value
    lower: Lower
    upper: Upper
    evidence: Evidence
    tight: Tight
    source: Source


class NoiseForTarget(Response):
    """The noise with which the run reaches the parameter that was sent."""

    target: Annotated[Literal["mu_dp", "mu_mip"], Field(description="The parameter that was sent.")]
    mu_step: Annotated[ConvertedNumber, Field(description="The mu that each step may have.")]
    tau_mip: Annotated[
        ConvertedNumber | None,
        Field(
            description="Standard deviation of the noise on the mean gradient that Corollary 5.1 asks for; null where "
            "it says of no noise that it is enough."
        ),
    ]
    tau_dp: Annotated[
        ConvertedNumber | None,
        Field(description="The one with which every step is mu_step-GDP; null where gradients are not clipped."),
    ]
    noise_std: Annotated[
        ConvertedNumber | None,
        Field(
            description="What is enough for the target: tau_dp for mu_dp, the smaller of both for mu_mip, as mu-GDP is "
            "mu-GMIP; null where neither is known."
        ),
    ]
    noise_free_mu: Annotated[
        ConvertedNumber, Field(description="The smallest mu_mip that the run has without any noise.")
    ]


class GdpGmipResponse(Result):
    """Both parameters of the run, and the noise for the one that was sent."""

    request: GdpGmipRequest
    mu_dp: Annotated[
        ConvertedNumber | None,
        Field(
            description="The GDP of the run with tau_mip, where mu_mip was sent; null where no noise is needed: a run "
            "without noise has no GDP."
        ),
    ]
    mu_mip: ConvertedNumber
    noise_needed: Annotated[bool, Field(description="Whether mu_mip takes any noise; mu_dp always does.")]
    noise: NoiseForTarget
    conditional: Conditional
    assumptions: Assumptions
    notes: Notes
