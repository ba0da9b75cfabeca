"""Audit `POST /v1/audits/glrt`: simulated attacks of the GLRT adversary (generalised likelihood-ratio test)."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import AliasChoices, Field, model_validator

from api_schemas.assumptions_and_hazards import Assumptions
from api_schemas.attack_rates import AuditConfidence, AuditSeed, Cutoffs, MeasuredRoc, TheoryPowers, Verdict
from api_schemas.base import Request, Response, Result
from api_schemas.choices import Evidence
from api_schemas.enclosures import Notes, Source, Tight
from api_schemas.limits import limit_error
from api_schemas.scalar_types import NoiseMultiplier

LARGEST_SIMULATED_NUMBERS: Final = 10**9
LARGEST_NONCENTRALITY: Final = 1e12


class GlrtAuditRequest(Request):
    """A query with Gaussian noise, the number of its releases, and the number of simulated attacks."""

    noise_multiplier: NoiseMultiplier
    queries: Annotated[
        int,
        Field(
            ge=1,
            le=10**12,
            validation_alias=AliasChoices("queries", "steps", "num_queries", "count"),
            description="Number of releases of the query, each with fresh noise.",
            examples=[70],
        ),
    ]
    dimension: Annotated[
        int, Field(ge=1, le=1_000_000, description="Dimension of the answer to the query.", examples=[1])
    ] = 1
    trials: Annotated[
        int,
        Field(
            ge=100,
            le=1_000_000,
            validation_alias=AliasChoices("trials", "samples"),
            description="Number of simulated attacks with the record. Equally many attacks are simulated "
            "without the record.",
            examples=[10_000],
        ),
    ] = 10_000
    seed: AuditSeed = 0
    confidence: AuditConfidence = 0.95
    cutoffs: Cutoffs = 100

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        if self.trials * self.dimension > LARGEST_SIMULATED_NUMBERS:
            raise limit_error("/trials", f"trials times dimension may be at most {LARGEST_SIMULATED_NUMBERS:.0e}.")
        if self.queries > LARGEST_NONCENTRALITY * self.noise_multiplier**2:
            limit = f"{LARGEST_NONCENTRALITY:.0e}"
            raise limit_error("/queries", f"queries divided by the square of noise_multiplier may be at most {limit}.")
        return self


class SimulatedAttack(Response):
    """Empirical ROC curve of an adversary, with the theoretical curve at the same false positive rates."""

    roc: MeasuredRoc
    theory: TheoryPowers
    verdict: Verdict
    below_the_curve: Annotated[
        bool,
        Field(description="Whether the confidence band lies entirely below the theoretical curve at some threshold."),
    ]
    source: Source


class GlrtAuditResponse(Result):
    """Simulated adversary without knowledge of the direction, and the optimal adversary with this knowledge."""

    confidence: AuditConfidence
    seed: AuditSeed
    trials: Annotated[
        int,
        Field(
            description="Number of simulated attacks with the record. Equally many attacks "
            "are simulated without the record.",
            examples=[10_000],
        ),
    ]
    noncentrality: Annotated[
        float, Field(description="Noncentrality lambda = queries / noise_multiplier^2.", examples=[4.0])
    ]
    glrt: Annotated[SimulatedAttack, Field(description="Attack by a threshold on the length of the mean answer.")]
    worst_case: Annotated[
        SimulatedAttack, Field(description="Neyman-Pearson optimal attack along the known direction.")
    ]
    evidence: Evidence
    tight: Tight
    assumptions: Assumptions
    notes: Notes
