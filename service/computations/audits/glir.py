"""`POST /v1/audits/glir`: gradients, sent or simulated -> evidence of membership -> the attack against its theory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from api_schemas.audit_examples import GLIR_EXAMPLES
from api_schemas.caveats import Assumption, AssumptionCode
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
from service.computations.abstract import Computation
from service.computations.audits.attack_rates import against_theory, measured_roc
from service.computations.audits.glir_price import glir_audit_quote
from service.computations.audits.glir_upload import AnyGlirRequest, GlirUpload, read_glir_upload
from service.computations.numbers import tightness
from service.privacy.audits import glir
from service.privacy.audits.glir import P_VALUE_DRAWS
from service.privacy.audits.glir_theory import LARGEST_GROUPS, theory_curve
from service.privacy.audits.glrt import optimal_power
from service.privacy.audits.gradient_law import GradientLaw, clipped, from_gradients, from_moments
from service.privacy.audits.roc import EmpiricalRoc, distance_from_uniform, empirical_roc
from service.privacy.enclosure import Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.numerics.arrays import FloatArray

SOURCE: Final = (
    "Leemann, Pawelczyk, Kasneci 2023, Algorithm 1, corrected: factor n, lower tail, centred K, clipping by "
    "min(1, C/|g|); Fisher 1932 over the steps"
)
THEORY_SOURCE: Final = "Leemann, Pawelczyk, Kasneci 2023, Theorem 5.1 (K centred), Definition 4.1 over the queries"

WITHOUT_NOISE: Final = (
    "S = n (m - theta)' Sigma^-1 (m - theta), chi2'_d(n K) for non-members; p is its lower tail "
    "(/errata#gmip-statistic)."
)
PROPORTIONAL_NOISE: Final = (
    "S = (n^2/N) |Sigma^-1/2 ((m - mu) - (1 + n tau^2)(theta - mu))|^2, N = n + n^2 tau^2, for noise of covariance "
    "tau^2 Sigma; chi2'_d(N K) for non-members; p is its lower tail (/errata#gmip-noise)."
)
ISOTROPIC_NOISE: Final = (
    "Minus twice the log-likelihood ratio of the two normal laws of m in the eigenvectors of Sigma, without the terms "
    f"that do not depend on m; p is its rank among {P_VALUE_DRAWS} seeded draws of m for a non-member, plus one, over "
    f"{P_VALUE_DRAWS + 1}: valid for any law of the statistic, and never below 1/{P_VALUE_DRAWS + 1}."
)


@dataclass(frozen=True, slots=True)
class _Step:
    audit: glir.StepAudit
    largest_variance: float
    shrinkage: float


def compute_glir_audit(request: AnyGlirRequest, digest: str, engine_version: str) -> GlirAuditResponse:
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
    return GlirAuditResponse(
        digest=digest,
        engine_version=engine_version,
        confidence=request.confidence,
        seed=request.seed,
        queries=ratios.size,
        statistic=_statistic(noise),
        steps=tuple(map(_written, steps)),
        combined_p_values=_column(combined),
        log_likelihood_ratios=_column(ratios),
        roc=_roc(request, noise, steps, ratios, members) if members is not None and known else None,
        p_value_uniformity=_uniformity(combined[~members]) if members is not None and known else None,
        evidence=Evidence.STATISTICAL.value,
        tight=tightness(Evidence.STATISTICAL, None),
        source=SOURCE,
        assumptions=_assumptions(simulate is not None),
        notes=_notes(simulate is not None, noise, members is not None and not known, ratios.size),
    )


def _written(step: _Step) -> GlirStepResult:
    return GlirStepResult(
        susceptibilities=_column(step.audit.susceptibility),
        statistics=_column(step.audit.statistic),
        p_values=_column(glir.p_values(step.audit.log_p_value)),
        shrinkage=step.shrinkage,
    )


def _column(values: FloatArray) -> tuple[float, ...] | None:
    return tuple(values.tolist()) if values.size <= LARGEST_QUERIES else None


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
) -> GlirRoc:
    roc = empirical_roc(ratios[members], ratios[~members], request.confidence, request.cutoffs)
    susceptibilities = np.sum([step.audit.susceptibility for step in steps], axis=0)
    variance = max(step.largest_variance for step in steps)
    effective = glir.effective_batch_size(request.batch_size, noise, variance, request.max_grad_norm)
    dimension = sum(step.audit.dimension for step in steps)
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


def _worst_case(request: GlirParameters, noise: glir.Noise, roc: EmpiricalRoc, steps: int) -> GlirWorstCase | None:
    if not noise.is_isotropic or request.max_grad_norm is None:
        return None
    mu = glir.worst_case_mu(request.batch_size, noise, request.max_grad_norm, steps)
    theory, verdict, _ = against_theory(roc, lambda rates: optimal_power(rates, mu))
    return GlirWorstCase(**theory, mu=mu, verdict=verdict)


def _uniformity(p_values: FloatArray) -> Uniformity:
    distance, critical = distance_from_uniform(p_values)
    return Uniformity(distance=distance, critical_value=critical, non_members=p_values.size)


def _assume(code: AssumptionCode, text: str, simulated: bool) -> Assumption:
    return Assumption(code=code, text=text, holds="yes" if simulated else "unknown")


def _assumptions(simulated: bool) -> tuple[Assumption, ...]:
    """What p-values and theory rest on; a simulation keeps it."""
    return (
        _assume(
            "mean_gradient_is_normal",
            "The mean gradient is normal given the query: exactly for normal gradients, else for large n.",
            simulated,
        ),
        _assume(
            "gradient_law_known",
            "Mean and covariance of a gradient are known; estimates make p-values approximate.",
            simulated,
        ),
        _assume(
            "steps_are_independent",
            "Steps are independent given the past; releases of the same hidden batch are not.",
            simulated,
        ),
        _assume("members_are_in_every_batch", "A member is in every batch whose mean is released.", simulated),
        _assume(
            "queries_are_independent",
            "Scores of different queries are independent: the confidence bands rest on it.",
            simulated,
        ),
    )


def _statistic(noise: glir.Noise) -> str:
    """The formula and the law of the statistic."""
    if noise.is_isotropic:
        return ISOTROPIC_NOISE
    return PROPORTIONAL_NOISE if noise.std > 0 else WITHOUT_NOISE


def _notes(simulated: bool, noise: glir.Noise, one_class: bool, queries: int) -> tuple[str, ...]:
    """What a reader should know about this answer."""
    said = [
        "Queries are ranked by the sum of their log-likelihood ratios: every threshold on it is an optimal test.",
        "Theory: steps are composed exactly, as one step with the dimensions and susceptibilities of all; queries are "
        f"taken in up to {LARGEST_GROUPS} groups by the largest K of each, which bounds them from above.",
        "An attack above the bound is a defect of the training or the accounting, or one of the assumptions fails.",
    ]
    if not simulated:
        said.append(
            "Covariance: (1 - rho) S + rho (tr S/d) I; rho is `shrinkage`, for background gradients by default that of "
            "Ledoit and Wolf 2004: min(1, sum_k |x_k x_k' - S|^2/(b^2 |S - (tr S/d) I|^2))."
        )
        said.append("The mean of b background gradients adds about d/b to K, which makes p-values larger.")
    if noise.is_isotropic:
        said.append("Theory with noise: N = n + n^2 tau^2/lambda, lambda the largest variance, or C^2 if that is less.")
    if one_class:
        said.append("No ROC curve: it needs members and non-members.")
    if queries > LARGEST_QUERIES:
        said.append(f"Columns of single queries are left out above {LARGEST_QUERIES} queries.")
    return tuple(said)


GLIR_AUDIT: Final[Computation[AnyGlirRequest, GlirAuditResponse]] = Computation(
    name="glir_audit",
    path="/v1/audits/glir",
    description="The gradient likelihood ratio attack on released mean gradients, against its theory.\n\n"
    "Large gradients come as an .npz archive: one array for each field, named like `steps.0.mean_gradient`, the others "
    "as\narrays without dimensions. Its digest is that of the archive's bytes and of the fields.",
    examples=GLIR_EXAMPLES,
    request_type=GlirAuditRequest,
    response_type=GlirAuditResponse,
    function=compute_glir_audit,
    quote=glir_audit_quote,
    read_archive=read_glir_upload,
)
