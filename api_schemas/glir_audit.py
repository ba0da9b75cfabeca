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
    "Send `shrinkage` above 0 only with `background_gradients` in every step. A given covariance counts as "
    "known, and shrinking it makes the p-values wrong."
)


class GlirSimulation(Request):
    """Simulation with standard normal gradients of known parameters. Every query has its own batch."""

    dimension: Annotated[
        int,
        Field(ge=1, le=LARGEST_DIMENSION, description="Number of parameters of the simulated model.", examples=[650]),
    ]
    queries: Annotated[
        int,
        Field(
            ge=20,
            le=1_000_000,
            description="Number of simulated queries. The first half are members.",
            examples=[2000],
        ),
    ] = 2_000
    steps: Annotated[
        int, Field(ge=1, le=LARGEST_STEP_COUNT, description="Number of released mean gradients.", examples=[1])
    ] = 1


class GlirParameters(Request):
    """Fields of a GLiR audit (gradient likelihood-ratio attack) that JSON requests and archives share."""

    batch_size: Annotated[
        int,
        Field(
            ge=2,
            le=10**6,
            description="Number of gradients in every released mean. At least 2, since a mean of one gradient "
            "reveals its member.",
            examples=[500],
        ),
    ]
    noise_std: Annotated[
        float,
        Field(
            ge=0,
            le=1e15,
            description="Standard deviation tau of the noise on the mean gradient, in the unit of `noise_covariance`.",
            examples=[0.0],
        ),
    ] = 0.0
    noise_covariance: Annotated[
        Literal["isotropic", "gradient"],
        Field(
            description="Covariance of the noise. isotropic: noise_std^2 times the identity. gradient: "
            "noise_std^2 times the covariance of the gradients.",
        ),
    ] = "isotropic"
    max_grad_norm: Annotated[
        Annotated[float, Field(ge=SMALLEST_SCALE, le=1e15)] | None,
        Field(
            description="Clipping norm C of single gradients. The audit clips queries and background gradients "
            "to this norm. Default: no clipping.",
            examples=[1.0],
            exclude_if=is_none,
        ),
    ] = None
    shrinkage: Annotated[
        Annotated[float, Field(ge=0, le=1)] | None,
        Field(
            description="Shrinkage weight rho of the covariance estimate (1 - rho) S + rho (tr S/d) I, for "
            "background gradients. The p-values are exact for every rho. Default: the estimate of "
            "Chen, Wiesel, Eldar and Hero 2010.",
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
    """Released mean gradients, and the gradients of the queried records at the same parameters."""

    steps: Annotated[
        Annotated[tuple[GradientStep, ...], Field(min_length=1, max_length=LARGEST_STEP_COUNT)] | None,
        Field(description="One entry for each release.", exclude_if=is_none),
    ] = None
    members: Annotated[
        Annotated[tuple[bool, ...], Field(min_length=1, max_length=LARGEST_QUERIES)] | None,
        Field(
            description="Whether each query was in every batch. With this field, the audit compares the attack "
            "with theory.",
            exclude_if=is_none,
        ),
    ] = None
    simulate: Annotated[
        GlirSimulation | None,
        Field(description="Simulation of the gradients, in place of `steps`.", exclude_if=is_none),
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
                raise limit_error(
                    f"/{name}",
                    "Send this field only with `steps`. Simulated gradients have a known law and are not clipped.",
                )
        if simulate.queries * simulate.dimension > LARGEST_SIMULATED_NUMBERS:
            raise limit_error(
                "/simulate/queries", f"queries times dimension may be at most {LARGEST_SIMULATED_NUMBERS}."
            )


class GlirStepResult(Response):
    """Evidence of membership from one training step, for each query, as columns.

    null: the request has more than 10 000 queries.
    """

    susceptibilities: Annotated[
        tuple[float, ...] | None,
        Field(
            description="Susceptibility K = |Sigma^-1/2 (theta - mu)|^2 of the query's gradient theta. With "
            "background gradients, an unbiased estimate truncated at 0."
        ),
    ]
    statistics: Annotated[
        tuple[float, ...] | None,
        Field(description="Statistic of each query, with the formula of `statistic`. Members have small values."),
    ]
    p_values: Annotated[
        tuple[float, ...] | None, Field(description="Probability of an equal or smaller statistic for a non-member.")
    ]
    shrinkage: Annotated[
        float,
        Field(
            description="Weight rho of the identity in the covariance estimate. 0: the request gives the covariance."
        ),
    ]


class Uniformity(Response):
    """Kolmogorov distance between the combined p-values of non-members and the uniform distribution."""

    distance: Annotated[
        float, Field(description="Kolmogorov distance from the uniform distribution.", examples=[0.021])
    ]
    critical_value: Annotated[
        float, Field(description="Distance that uniform p-values exceed with probability 1 %.", examples=[0.0515])
    ]
    non_members: Annotated[int, Field(description="Number of p-values.", examples=[1_000])]


class GlirTheory(TheoryPowers):
    """Largest true positive rate of any attack on these mean gradients, by Theorem 5.1 of Leemann et al. 2023."""

    effective_batch_size: Annotated[
        float,
        Field(
            description="The number n + n^2 t, where n is the batch size. The noise variance is at least t times the "
            "variance of the gradients, in every direction.",
            examples=[612.5],
        ),
    ]
    dimension: Annotated[int, Field(description="Dimension of all steps together.", examples=[650])]
    mean_susceptibility: Annotated[
        float,
        Field(
            description="Mean over the queries of the summed susceptibility K of all steps. With background "
            "gradients, upper bounds of K are used.",
            examples=[648.2],
        ),
    ]


class GlirWorstCase(TheoryPowers):
    """Worst-case bound for the same releases: mu-GDP for a replaced record with sensitivity 2 C/n."""

    mu: Annotated[float, Field(description="Gaussian parameter 2 C sqrt(T)/(n tau) for T steps.", examples=[0.8])]
    verdict: Verdict


class GlirRoc(Response):
    """ROC curve of the attack that ranks queries by likelihood ratio, with the theoretical curve."""

    roc: MeasuredRoc
    theory: GlirTheory
    verdict: Verdict
    worst_case: Annotated[
        GlirWorstCase | None,
        Field(
            description="Worst-case bound of the attack. null: no bound exists without isotropic noise and "
            "max_grad_norm."
        ),
    ]
    source: Source


class GlirAuditResponse(Result):
    """Evidence of membership for each query. With known members, a comparison of the attack with theory."""

    confidence: AuditConfidence
    seed: AuditSeed
    queries: Annotated[int, Field(description="Number of queries.")]
    statistic: Annotated[str, Field(description="Formula and distribution of the statistic.")]
    steps: Annotated[tuple[GlirStepResult, ...], Field(description="One entry for each release.")]
    combined_p_values: Annotated[
        tuple[float, ...] | None,
        Field(
            description="p-values of the queries, combined over the steps by Fisher's method. Members have small "
            "values. null: there are more than 10 000 queries."
        ),
    ]
    log_likelihood_ratios: Annotated[
        tuple[float, ...] | None,
        Field(
            description="Log-likelihood ratio of membership against non-membership for each query, in nats. null: "
            "there are more than 10 000 queries."
        ),
    ]
    roc: Annotated[
        GlirRoc | None,
        Field(
            description="ROC curve of the attack. null: the members are unknown, or all queries are of one kind "
            "(members or non-members)."
        ),
    ]
    p_value_uniformity: Annotated[
        Uniformity | None,
        Field(
            description="Uniformity test of non-members' p-values. null: the members are unknown, or all queries are "
            "of one kind (members or non-members)."
        ),
    ]
    evidence: Evidence
    tight: Tight
    source: Source
    assumptions: Assumptions
    notes: Notes
