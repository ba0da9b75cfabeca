"""Resource `POST /v1/audits/glrt`: simulated attacks of the GLRT adversary and the optimal one.

Their error rates are compared with the theoretical trade-off curves. The adversary of the generalised likelihood ratio
test (GLRT) does not know the direction of the record's answer.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.audit_examples import GLRT_EXAMPLES
from api_schemas.glrt_audit import GlrtAuditRequest, GlrtAuditResponse, SimulatedAttack
from service.privacy.audits.glrt import glrt_power, optimal_power, signal_of, simulated_scores
from service.privacy.audits.roc import empirical_roc
from service.privacy.enclosure import Evidence
from service.privacy.numerics.arrays import FloatArray
from service.resources.abstract import Computation, Quote
from service.resources.audits.attack_rates import PowerEnds, against_theory, measured_roc
from service.resources.numbers import tightness

NORMAL_COST: Final = 0.012
TRIAL_COST: Final = 0.5
CUTOFF_COST: Final = 60
BASE_COST: Final = 20_000

DIRECTION_UNKNOWN: Final = Assumption(
    code="direction_unknown",
    text="The GLRT adversary knows nothing about the direction of the true answer. The optimal adversary in this "
    "response knows the direction.",
    holds="unknown",
)
NOISE_IS_FRESH: Final = Assumption(
    code="noise_is_fresh", text="The noise of the simulation is Gaussian and fresh for every answer.", holds="yes"
)
NOTES: Final = (
    "The simulation draws the mean of all answers by its law. Both adversaries use only this mean.",
    (
        "The bands hold for all thresholds of one adversary together (Dvoretzky, Kiefer, Wolfowitz, with half of "
        "the error probability for each class)."
    ),
)
GLRT_SOURCE: Final = "Kaissis et al. (GLRT), Theorems 1 and 2: R(x) = SF[chi2'_d(lambda)](SF^-1[chi2_d](x))"
OPTIMAL_SOURCE: Final = "Neyman and Pearson 1933: Q(Q^-1(x) - sqrt(lambda))"


def _compute_glrt_audit(request: GlrtAuditRequest, digest: str, engine_version: str) -> GlrtAuditResponse:
    generator = np.random.Generator(np.random.PCG64(request.seed))
    signal = signal_of(request.queries, request.noise_multiplier)
    lengths, projections = simulated_scores(request.trials, request.dimension, signal, generator)
    null_lengths, null_projections = simulated_scores(request.trials, request.dimension, 0.0, generator)

    def glrt(rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return glrt_power(rates, request.dimension, signal**2)

    def optimal(rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return optimal_power(rates, signal)

    return GlrtAuditResponse(
        digest=digest,
        engine_version=engine_version,
        confidence=request.confidence,
        seed=request.seed,
        trials=request.trials,
        noncentrality=signal**2,
        glrt=_attack(request, lengths, null_lengths, glrt, GLRT_SOURCE),
        worst_case=_attack(request, projections, null_projections, optimal, OPTIMAL_SOURCE),
        evidence=Evidence.STATISTICAL.value,
        tight=tightness(Evidence.STATISTICAL, None),
        assumptions=(DIRECTION_UNKNOWN, NOISE_IS_FRESH),
        notes=NOTES,
    )


def _attack(
    request: GlrtAuditRequest, scores: FloatArray, null_scores: FloatArray, power: PowerEnds, source: str
) -> SimulatedAttack:
    roc = empirical_roc(scores, null_scores, request.confidence, request.cutoffs)
    theory, verdict, below = against_theory(roc, power)
    return SimulatedAttack(
        roc=measured_roc(roc, request.trials, request.trials, request.confidence),
        theory=theory,
        verdict=verdict,
        below_the_curve=below,
        source=source,
    )


def _glrt_audit_quote(request: GlrtAuditRequest) -> Quote:
    trials = 2 * request.trials * (NORMAL_COST * request.dimension + TRIAL_COST)
    return Quote(int(BASE_COST + trials + CUTOFF_COST * request.cutoffs))


GLRT_AUDIT: Final = Computation(
    name="glrt_audit",
    path="/v1/audits/glrt",
    description="Simulate the adversary who does not know the direction of a record's influence, and compare "
    "the attack with theory.",
    examples=GLRT_EXAMPLES,
    request_type=GlrtAuditRequest,
    response_type=GlrtAuditResponse,
    function=_compute_glrt_audit,
    quote=_glrt_audit_quote,
)
