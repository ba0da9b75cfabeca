"""Resource `POST /v1/audits/glir`: evidence of membership from gradients, and the attack against its theory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from api_schemas.audit_examples import GLIR_EXAMPLES
from api_schemas.glir_audit import (
    GlirAuditRequest,
    GlirAuditResponse,
    GlirParameters,
    GlirRoc,
    GlirSimulation,
    GlirStepResult,
    GlirTheory,
    GlirWorstCase,
    Uniformity,
)
from api_schemas.gradients import LARGEST_QUERIES, GradientStep
from service.privacy.audits import glir
from service.privacy.audits.background import audit_against_background
from service.privacy.audits.glir_theory import theory_curve
from service.privacy.audits.glrt import optimal_power
from service.privacy.audits.gradient_law import clipped, from_moments
from service.privacy.audits.roc import EmpiricalRoc, distance_from_uniform, empirical_roc
from service.privacy.enclosure import Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray
from service.resources.abstract import Computation
from service.resources.audits.attack_rates import against_theory, measured_roc
from service.resources.audits.glir_estimate import glir_audit_quote
from service.resources.audits.glir_texts import (
    THEORY_SOURCE,
    assumptions,
    notes,
    source_text,
    statistic_text,
)
from service.resources.audits.glir_upload import AnyGlirRequest, GlirUpload, read_glir_upload
from service.resources.numbers import tightness

LAW_SHARE: Final = 0.1
"""Share of 1 - confidence for upper bounds of an estimated law. The confidence bands have the rest."""


def _compute_glir_audit(request: AnyGlirRequest, digest: str, engine_version: str) -> GlirAuditResponse:
    noise = glir.ReleaseNoise(std=request.noise_std, proportional=request.noise_covariance == "gradient")
    simulate = request.simulate if isinstance(request, GlirAuditRequest) else None
    estimated = _has_background(request)
    known_laws, any_estimated = not all(estimated), any(estimated)
    steps = list(_sent(request, noise) if simulate is None else _simulated(request, simulate, noise))
    combined = glir.p_values(glir.combined_log_p_values(steps))
    ratios = glir.log_likelihood_ratios(steps)
    members = _members(request)
    known = members is not None and members.any() and not members.all()
    return GlirAuditResponse(
        digest=digest,
        engine_version=engine_version,
        confidence=request.confidence,
        seed=request.seed,
        queries=ratios.size,
        statistic=statistic_text(noise, known_laws, any_estimated),
        steps=tuple(map(_written, steps)),
        combined_p_values=_column(combined),
        log_likelihood_ratios=_column(ratios),
        roc=_roc(request, noise, steps, ratios, members, any_estimated) if members is not None and known else None,
        p_value_uniformity=_uniformity(combined[~members]) if members is not None and known else None,
        evidence=Evidence.STATISTICAL.value,
        tight=tightness(Evidence.STATISTICAL, None),
        source=source_text(any_estimated),
        assumptions=assumptions(simulate is not None, known_laws, any_estimated),
        notes=notes(noise, any_estimated, members is not None and not known, ratios.size),
    )


def _has_background(request: AnyGlirRequest) -> list[bool]:
    # a simulation is one step without background gradients
    if isinstance(request, GlirUpload):
        return [rows > 0 for rows in request.background_rows]
    return [step.background_gradients is not None for step in request.steps] if request.steps else [False]


def _written(audit: glir.StepAudit) -> GlirStepResult:
    return GlirStepResult(
        susceptibilities=_column(audit.susceptibility),
        statistics=_column(audit.statistic),
        p_values=_column(glir.p_values(audit.log_p_value)),
        shrinkage=audit.shrinkage,
    )


def _column(values: FloatArray) -> tuple[float, ...] | None:
    return tuple(values.tolist()) if values.size <= LARGEST_QUERIES else None


def _random_generator(request: GlirParameters, step: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([request.seed, step])))


def _sent(request: AnyGlirRequest, noise: glir.ReleaseNoise) -> Iterator[glir.StepAudit]:
    uploaded = request.arrays() if isinstance(request, GlirUpload) else None
    count = len(request.background_rows) if isinstance(request, GlirUpload) else len(request.steps or ())
    for number in range(count):
        if uploaded is not None:
            arrays = uploaded.step(number)
        else:
            arrays = _arrays((request.steps or ())[number]) if isinstance(request, GlirAuditRequest) else {}
        try:
            yield _audit(arrays, request, noise, count, _random_generator(request, number))
        except OutOfDomain as error:
            error.pointer = f"/steps/{number}/{error.name}"
            raise


def _arrays(step: GradientStep) -> dict[str, FloatArray]:
    sent = vars(step)
    return {name: np.array(sent[name], dtype=np.float64) for name in sent if sent[name] is not None}


def _audit(
    arrays: dict[str, FloatArray],
    request: GlirParameters,
    noise: glir.ReleaseNoise,
    steps: int,
    generator: np.random.Generator,
) -> glir.StepAudit:
    mean = arrays["mean_gradient"]
    queries = clipped(arrays["query_gradients"], request.max_grad_norm)
    if "background_gradients" in arrays:
        background = clipped(arrays["background_gradients"], request.max_grad_norm)
        doubt = LAW_SHARE * (1 - request.confidence) / steps
        return audit_against_background(
            mean, queries, background, request.batch_size, noise, request.shrinkage, doubt, generator
        )
    name = "background_covariance" if "background_covariance" in arrays else "background_variances"
    law = from_moments(arrays["background_mean"], arrays[name], name)
    return glir.audit_step(mean, queries, law, request.batch_size, noise, generator)


def _simulated(request: GlirParameters, simulate: GlirSimulation, noise: glir.ReleaseNoise) -> Iterator[glir.StepAudit]:
    law = glir.identity_law(simulate.dimension)
    members = simulate.queries // 2
    for number in range(simulate.steps):
        generator = _random_generator(request, number)
        means, queries = glir.simulated_step(
            members, simulate.queries - members, simulate.dimension, request.batch_size, noise, generator
        )
        yield glir.audit_step(means, queries, law, request.batch_size, noise, generator)


def _members(request: AnyGlirRequest) -> NDArray[np.bool_] | None:
    if isinstance(request, GlirUpload):
        return request.arrays().members() if request.has_members else None
    if request.simulate is not None:
        return np.arange(request.simulate.queries) < request.simulate.queries // 2
    return None if request.members is None else np.array(request.members)


def _roc(
    request: GlirParameters,
    noise: glir.ReleaseNoise,
    steps: list[glir.StepAudit],
    ratios: FloatArray,
    members: NDArray[np.bool_],
    estimated: bool,
) -> GlirRoc:
    confidence = 1 - (1 - LAW_SHARE) * (1 - request.confidence) if estimated else request.confidence
    roc = empirical_roc(ratios[members], ratios[~members], confidence, request.cutoffs)
    susceptibilities = np.sum([step.largest_susceptibility for step in steps], axis=0)
    variance = max(step.largest_variance for step in steps)
    effective = glir.effective_batch_size(request.batch_size, noise, variance, request.max_grad_norm)
    dimension = sum(step.dimension for step in steps)
    theory, verdict, _ = against_theory(roc, theory_curve(dimension, effective, susceptibilities).power)
    return GlirRoc(
        roc=measured_roc(roc, int(members.sum()), int((~members).sum()), request.confidence),
        theory=GlirTheory(
            **theory,
            effective_batch_size=effective,
            dimension=dimension,
            mean_susceptibility=float(susceptibilities.mean()),
        ),
        verdict=verdict,
        worst_case=_worst_case(request, noise, roc, len(steps)),
        source=THEORY_SOURCE,
    )


def _worst_case(
    request: GlirParameters, noise: glir.ReleaseNoise, roc: EmpiricalRoc, steps: int
) -> GlirWorstCase | None:
    if not noise.is_isotropic or request.max_grad_norm is None:
        return None
    mu = glir.worst_case_mu(request.batch_size, noise, request.max_grad_norm, steps)
    theory, verdict, _ = against_theory(roc, lambda rates: optimal_power(rates, mu))
    return GlirWorstCase(**theory, mu=mu, verdict=verdict)


def _uniformity(p_values: FloatArray) -> Uniformity:
    distance, critical = distance_from_uniform(p_values)
    return Uniformity(distance=distance, critical_value=critical, non_members=p_values.size)


GLIR_AUDIT: Final[Computation[AnyGlirRequest, GlirAuditResponse]] = Computation(
    name="glir_audit",
    path="/v1/audits/glir",
    description="Run the gradient likelihood ratio attack on released mean gradients, and compare it with theory. "
    "Large gradients may be sent as an .npz archive with one array for each field, such as "
    "`steps.0.mean_gradient`. Scalar fields are arrays without dimensions. The digest covers the bytes "
    "of the archive and its fields.",
    examples=GLIR_EXAMPLES,
    request_type=GlirAuditRequest,
    response_type=GlirAuditResponse,
    function=_compute_glir_audit,
    quote=glir_audit_quote,
    read_archive=read_glir_upload,
)
