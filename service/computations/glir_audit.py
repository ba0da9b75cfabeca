"""`POST /v1/audits/glir`: gradients, sent or simulated -> evidence of membership -> the attack against its theory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from api_schemas.glir_audit import GlirAuditRequest, GlirAuditResponse, GlirParameters, GlirSimulation
from api_schemas.gradients import LARGEST_QUERIES, GradientStep
from service.computations.abstract import Computation, ResponseFields
from service.computations.attack_rates import against_theory, measured_roc
from service.computations.glir_prices import glir_audit_quote
from service.computations.glir_upload import GlirUpload, read_glir_upload
from service.computations.glir_words import SOURCE, THEORY_SOURCE, assumptions, notes, statistic
from service.computations.numbers import tightness
from service.privacy.audits import glir
from service.privacy.audits.glir_theory import theory_curve
from service.privacy.audits.glrt import optimal_power
from service.privacy.audits.gradient_law import GradientLaw, clipped, from_gradients, from_moments
from service.privacy.audits.roc import EmpiricalRoc, distance_from_uniform, empirical_roc
from service.privacy.enclosure import Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray

AnyGlirRequest = GlirAuditRequest | GlirUpload


@dataclass(frozen=True, slots=True)
class _Step:
    audit: glir.StepAudit
    largest_variance: float
    shrinkage: float


def compute_glir_audit(request: AnyGlirRequest, digest: str, engine_version: str) -> ResponseFields:
    """Audit every step, combine them, and hold the attack against theory where the members are known.

    Raises OutOfDomain with the pointer of the array that is to blame, or ArchiveError.
    """
    noise = glir.Noise(std=request.noise_std, proportional=request.noise_covariance == "gradient")
    simulate = request.simulate if isinstance(request, GlirAuditRequest) else None
    steps = list(_sent(request, noise) if simulate is None else _simulated(request, simulate, noise))
    audits = [step.audit for step in steps]
    combined = glir.p_values(glir.combined_log_p_values(audits))
    ratios = glir.log_likelihood_ratios(audits)
    members = _members(request)
    known = members is not None and members.any() and not members.all()
    return {
        "digest": digest,
        "engine_version": engine_version,
        "confidence": request.confidence,
        "seed": request.seed,
        "queries": ratios.size,
        "statistic": statistic(noise),
        "steps": [
            {
                "susceptibilities": _column(step.audit.susceptibility),
                "statistics": _column(step.audit.statistic),
                "p_values": _column(glir.p_values(step.audit.log_p_value)),
                "shrinkage": step.shrinkage,
            }
            for step in steps
        ],
        "combined_p_values": _column(combined),
        "log_likelihood_ratios": _column(ratios),
        "roc": _roc(request, noise, steps, ratios, members) if members is not None and known else None,
        "p_value_uniformity": _uniformity(combined[~members]) if members is not None and known else None,
        "evidence": Evidence.STATISTICAL,
        "tight": tightness(Evidence.STATISTICAL, None),
        "source": SOURCE,
        "assumptions": assumptions(simulate is not None),
        "notes": notes(simulate is not None, noise, members is not None and not known, ratios.size),
    }


def _column(values: FloatArray) -> list[float] | None:
    return values.tolist() if values.size <= LARGEST_QUERIES else None


def _generator(request: GlirParameters, step: int) -> np.random.Generator:
    """Random numbers of a step that no other step uses."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([request.seed, step])))


def _sent(request: AnyGlirRequest, noise: glir.Noise) -> Iterator[_Step]:
    uploaded = request.arrays() if isinstance(request, GlirUpload) else None
    count = len(request.background_rows) if isinstance(request, GlirUpload) else len(request.steps or ())
    for number in range(count):
        if uploaded is not None:
            arrays = uploaded.step(number)
        else:
            arrays = _arrays((request.steps or ())[number]) if isinstance(request, GlirAuditRequest) else {}
        try:
            law = _law(arrays, request)
            queries = clipped(arrays["query_gradients"], request.max_grad_norm)
            generator = _generator(request, number)
            audit = glir.audit_step(arrays["mean_gradient"], queries, law, request.batch_size, noise, generator)
        except OutOfDomain as error:
            error.pointer = f"/steps/{number}/{error.name}"
            raise
        yield _Step(audit, float(law.variances.max()), law.shrinkage)


def _arrays(step: GradientStep) -> dict[str, FloatArray]:
    sent = vars(step)
    return {name: np.array(sent[name], dtype=np.float64) for name in sent if sent[name] is not None}


def _law(arrays: dict[str, FloatArray], request: GlirParameters) -> GradientLaw:
    background = arrays.get("background_gradients")
    if background is not None:
        return from_gradients(clipped(background, request.max_grad_norm), request.shrinkage)
    for name in ("background_covariance", "background_variances"):
        if name in arrays:
            return from_moments(arrays["background_mean"], arrays[name], request.shrinkage, name)
    raise OutOfDomain("background_gradients", None, "given, or the moments of the background")


def _simulated(request: GlirParameters, simulate: GlirSimulation, noise: glir.Noise) -> Iterator[_Step]:
    law = glir.identity_law(simulate.dimension)
    members = simulate.queries // 2
    for number in range(simulate.steps):
        generator = _generator(request, number)
        means, queries = glir.simulated_step(
            members, simulate.queries - members, simulate.dimension, request.batch_size, noise, generator
        )
        audit = glir.audit_step(means, queries, law, request.batch_size, noise, generator)
        yield _Step(audit, 1.0, 0.0)


def _members(request: AnyGlirRequest) -> NDArray[np.bool_] | None:
    if isinstance(request, GlirUpload):
        return request.arrays().members() if request.has_members else None
    if request.simulate is not None:
        return np.arange(request.simulate.queries) < request.simulate.queries // 2
    return None if request.members is None else np.array(request.members)


def _roc(
    request: GlirParameters, noise: glir.Noise, steps: list[_Step], ratios: FloatArray, members: NDArray[np.bool_]
) -> ResponseFields:
    roc = empirical_roc(ratios[members], ratios[~members], request.confidence, request.cutoffs)
    susceptibilities = np.sum([step.audit.susceptibility for step in steps], axis=0)
    variance = max(step.largest_variance for step in steps)
    effective = glir.effective_batch_size(request.batch_size, noise, variance, request.max_grad_norm)
    dimension = sum(step.audit.dimension for step in steps)
    theory, verdict, _ = against_theory(roc, theory_curve(dimension, effective, susceptibilities).power)
    return {
        "roc": measured_roc(roc, int(members.sum()), int((~members).sum()), request.confidence),
        "theory": {
            **theory,
            "effective_batch_size": effective,
            "dimension": dimension,
            "mean_susceptibility": float(susceptibilities.mean()),
        },
        "verdict": verdict,
        "worst_case": _worst_case(request, noise, roc, len(steps)),
        "source": THEORY_SOURCE,
    }


def _worst_case(request: GlirParameters, noise: glir.Noise, roc: EmpiricalRoc, steps: int) -> ResponseFields | None:
    if not noise.is_isotropic or request.max_grad_norm is None:
        return None
    mu = glir.worst_case_mu(request.batch_size, noise, request.max_grad_norm, steps)
    theory, verdict, _ = against_theory(roc, lambda rates: optimal_power(rates, mu))
    return {**theory, "mu": mu, "verdict": verdict}


def _uniformity(p_values: FloatArray) -> ResponseFields:
    distance, critical = distance_from_uniform(p_values)
    return {"distance": distance, "critical_value": critical, "non_members": p_values.size}


GLIR_AUDIT: Final[Computation[AnyGlirRequest, GlirAuditResponse]] = Computation(
    name="glir_audit",
    request_type=GlirAuditRequest,
    response_type=GlirAuditResponse,
    function=compute_glir_audit,
    quote=glir_audit_quote,
    read_archive=read_glir_upload,
)
