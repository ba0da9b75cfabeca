"""`POST /v1/audits/glir`: the gradient likelihood ratio attack on released mean gradients, or on simulated ones."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from api_schemas.assumptions_and_hazards import Assumptions
from api_schemas.attack_rates import AuditConfidence, AuditSeed, Cutoffs, MeasuredRoc, TheoryPowers, Verdict
from api_schemas.base import Request, Response, Result, is_none
from api_schemas.choices import Evidence
from api_schemas.enclosures import Notes, Source, Tight
from api_schemas.gradients import LARGEST_DIMENSION, LARGEST_QUERIES, LARGEST_STEP_COUNT, GradientStep, check_steps
from api_schemas.limits import limit_error

LARGEST_SIMULATED_NUMBERS: Final = 2**23
SMALLEST_SCALE: Final = 1e-15
SHRINKAGE_NEEDS_BACKGROUND: Final = (
    "Only with `background_gradients` in every step: a covariance that is sent is taken as known, and shrinking it "
    "would make the p-values wrong. Send 0, or leave it out."
)


class GlirSimulation(Request):
    """Gradients to simulate instead: standard normal ones with known parameters, a batch of its own for each query."""

    dimension: Annotated[
        int, Field(ge=1, le=LARGEST_DIMENSION, description="Parameters of the simulated model.", examples=[650])
    ]
    queries: Annotated[
        int,
        Field(
            ge=20,
            le=1_000_000,
            description="Simulated queries; the first half are members.",
            examples=[2000],
        ),
    ] = 2_000
    steps: Annotated[
        int, Field(ge=1, le=LARGEST_STEP_COUNT, description="Mean gradients that are released.", examples=[1])
    ] = 1


class GlirParameters(Request):
    """Fields of a GLiR audit in JSON and as an archive."""

    batch_size: Annotated[
        int,
        Field(
            ge=2,
            le=10**6,
            description="Gradients in every released mean. Of one alone, every member would be recognised.",
            examples=[500],
        ),
    ]
    noise_std: Annotated[
        float,
        Field(ge=0, le=1e15, description="Noise tau on the mean gradient, as `noise_covariance` says.", examples=[0.0]),
    ] = 0.0
    noise_covariance: Annotated[
        Literal["isotropic", "gradient"],
        Field(
            description="isotropic: the covariance of the noise is noise_std^2 times the identity; gradient: "
            "noise_std^2 times the covariance of the gradients.",
        ),
    ] = "isotropic"
    max_grad_norm: Annotated[
        Annotated[float, Field(ge=SMALLEST_SCALE, le=1e15)] | None,
        Field(
            description="Clipping norm C of single gradients: queries and background are clipped to it, and it bounds "
            "what the noise is worth; absent: nothing is clipped.",
            examples=[1.0],
            exclude_if=is_none,
        ),
    ] = None
    shrinkage: Annotated[
        Annotated[float, Field(ge=0, le=1)] | None,
        Field(
            description="Only with background gradients: weight rho of (tr S/d) I in the covariance "
            "(1 - rho) S + rho (tr S/d) I that gives the direction of the test. p-values are exact for every rho. "
            "Absent: estimated as by Chen, Wiesel, Eldar and Hero 2010.",
            examples=[0.1],
            exclude_if=is_none,
        ),
    ] = None
    confidence: AuditConfidence = 0.95
    cutoffs: Cutoffs = 100
    seed: AuditSeed = 0

    @model_validator(mode="after")
    def _noise_or_none(self) -> Self:
        if 0 < self.noise_std < SMALLEST_SCALE:
            raise limit_error("/noise_std", f"Must be 0, or at least {SMALLEST_SCALE:g}.")
        return self


class GlirAuditRequest(GlirParameters):
    """Mean gradients that were released, and the gradients of the queries at the same parameters."""

    steps: Annotated[
        Annotated[tuple[GradientStep, ...], Field(min_length=1, max_length=LARGEST_STEP_COUNT)] | None,
        Field(description="One entry for each release.", exclude_if=is_none),
    ] = None
    members: Annotated[
        Annotated[tuple[bool, ...], Field(min_length=1, max_length=LARGEST_QUERIES)] | None,
        Field(
            description="Whether each query was in every batch; with it the attack is held against theory.",
            exclude_if=is_none,
        ),
    ] = None
    simulate: Annotated[
        GlirSimulation | None, Field(description="Simulate the gradients instead of sending them.", exclude_if=is_none)
    ] = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.steps is None) == (self.simulate is None):
            raise limit_error("", "Send exactly one of `steps` and `simulate`.")
        if self.simulate is not None:
            self._check_simulation(self.simulate)
        elif self.steps is not None:
            queries = check_steps(self.steps)
            if self.shrinkage and any(step.background_gradients is None for step in self.steps):
                raise limit_error("/shrinkage", SHRINKAGE_NEEDS_BACKGROUND)
            if self.members is not None and len(self.members) != queries:
                raise limit_error("/members", f"Must have one entry for each of the {queries} queries.")
        return self

    def _check_simulation(self, simulate: GlirSimulation) -> None:
        for name in ("members", "max_grad_norm", "shrinkage"):
            if getattr(self, name) is not None:
                raise limit_error(f"/{name}", "Only with `steps`: simulated gradients are known, and not clipped.")
        if simulate.queries * simulate.dimension > LARGEST_SIMULATED_NUMBERS:
            raise limit_error(
                "/simulate/queries", f"queries times dimension may be at most {LARGEST_SIMULATED_NUMBERS}."
            )


class GlirStepResult(Response):
    """Evidence of one step about each query: columns, null where there are more than 10 000 queries."""

    susceptibilities: Annotated[
        tuple[float, ...] | None,
        Field(
            description="K = |Sigma^-1/2 (theta - mu)|^2 of the query's gradient theta; an unbiased estimate, cut off "
            "at 0, where background gradients were sent."
        ),
    ]
    statistics: Annotated[tuple[float, ...] | None, Field(description="As `statistic` says; small for members.")]
    p_values: Annotated[
        tuple[float, ...] | None, Field(description="Probability of a statistic as small for a non-member.")
    ]
    shrinkage: Annotated[
        float, Field(description="Weight rho of the multiple of the identity in the covariance; 0 if this is given.")
    ]


class Uniformity(Response):
    """Kolmogorov's distance of the non-members' combined p-values from the uniform law they should have."""

    distance: Annotated[float, Field(description="Kolmogorov distance from the uniform law.")]
    critical_value: Annotated[float, Field(description="What it exceeds with probability 1 % if they have it.")]
    non_members: Annotated[int, Field(description="How many p-values there are.")]


class GlirTheory(TheoryPowers):
    """The best that an attack on these mean gradients can reach, by Theorem 5.1."""

    effective_batch_size: Annotated[float, Field(description="N: the batch size, and what the noise is worth.")]
    dimension: Annotated[int, Field(description="Of all steps together.")]
    mean_susceptibility: Annotated[
        float,
        Field(
            description="Mean over the queries of K summed over the steps, of upper bounds of K where background "
            "gradients were sent."
        ),
    ]


class GlirWorstCase(TheoryPowers):
    """The bound of the worst case for the same releases: mu-GDP for a record that is replaced, sensitivity 2 C/n."""

    mu: Annotated[float, Field(description="2 C sqrt(T)/(n tau) for T steps.")]
    verdict: Verdict


class GlirRoc(Response):
    """The attack that ranks queries by likelihood ratio, against theory."""

    roc: MeasuredRoc
    theory: GlirTheory
    verdict: Verdict
    worst_case: Annotated[
        GlirWorstCase | None,
        Field(description="null without isotropic noise and max_grad_norm: then the worst case bounds nothing."),
    ]
    source: Source


class GlirAuditResponse(Result):
    """Evidence of membership for each query, and where members are known, the attack against its theory."""

    confidence: AuditConfidence
    seed: AuditSeed
    queries: Annotated[int, Field(description="How many queries there were.")]
    statistic: Annotated[str, Field(description="Formula and law of the statistic.")]
    steps: Annotated[tuple[GlirStepResult, ...], Field(description="One entry for each release.")]
    combined_p_values: Annotated[
        tuple[float, ...] | None, Field(description="By Fisher over the steps; small for members.")
    ]
    log_likelihood_ratios: Annotated[
        tuple[float, ...] | None,
        Field(description="ln of how much likelier the releases are with the query in the batches than without; nats."),
    ]
    roc: Annotated[GlirRoc | None, Field(description="null where members are not known.")]
    p_value_uniformity: Annotated[Uniformity | None, Field(description="null where members are not known.")]
    evidence: Evidence
    tight: Tight
    source: Source
    assumptions: Assumptions
    notes: Notes
