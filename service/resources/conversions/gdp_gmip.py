"""Resource `POST /v1/conversions/gdp-gmip`: mu of differential privacy and of membership privacy, and the noise.

Noisy SGD has a parameter mu_dp against a changed record and mu_mip against a test of membership. Each of the two
parameters follows from the other. GMIP is Gaussian membership inference privacy (Leemann et al. 2023).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, Literal

from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.conversions import ConvertedNumber, GdpGmipRequest, GdpGmipResponse, NoiseForTarget
from api_schemas.examples import GDP_GMIP_EXAMPLES
from service.privacy import conversions
from service.privacy.conversions import RequiredNoise, Training
from service.privacy.enclosure import Enclosure
from service.privacy.threat_models import membership_premises
from service.resources.abstract import Computation, Quote
from service.resources.numbers import SafeEnd, enclosed_number, tightness
from service.resources.parts import assumption_of

COST: Final = 15_000
"""Microseconds for a dozen functions in many digits, and one root."""

SENT: Final = "as sent in the request"
LIMIT: Final = "Lemma 5.1 (Equation 10)"
SQUARES: Final = "the values of mu^2 add up"
PAPER: Final = "Leemann et al. 2023 (Gaussian membership inference privacy)"
FORWARD: Final = f"{PAPER}, Corollary F.1 (1), with 4/mu^2 in place of 4 C^2/mu^2 (/errata#gmip-f1)"
BACKWARD: Final = f"{PAPER}, Corollary F.1 (2)"
STEP: Final = f"{PAPER}, Corollary 5.1"
DIFFERENTIAL: Final = f"{PAPER}, Theorem 4.2 (mu_step = 2 C/(n tau))"

NOT_NEEDED: Final = (
    "No noise is needed, because the batch alone protects the record to this degree. The run need not be GDP."
)
NOT_CLIPPED: Final = (
    "Gradients are not clipped, so no noise makes the run GDP, and no noise counts as protection of the record."
)
ONE_RECORD: Final = "A batch of one record reveals the record without noise, for every mu_mip."
LESS_IS_ENOUGH: Final = (
    "mu_dp belongs to the noise tau_mip. Less noise, which makes the run mu_mip-GDP, is also sufficient."
)


def _compute_gdp_gmip(request: GdpGmipRequest, digest: str, engine_version: str) -> GdpGmipResponse:
    training = _training(request)
    target, given = request.target
    if target == "mu_dp":
        differential, membership = Enclosure.point(given), conversions.membership_mu(given, training)
        sources = SENT, FORWARD
    else:
        differential, membership = conversions.differential_mu(given, training), Enclosure.point(given)
        sources = BACKWARD, SENT
    noise = conversions.noise_for(given, training)
    needed = target == "mu_dp" or noise.membership is None or noise.membership.upper > 0
    return GdpGmipResponse(
        digest=digest,
        engine_version=engine_version,
        request=request,
        mu_dp=_if_any(differential, sources[0]),
        mu_mip=_written(membership, sources[1]),
        noise_needed=needed,
        noise=_noise(noise, target, training),
        conditional=True,
        assumptions=_assumptions(request, training, needed=needed),
        notes=_notes(needed, noise, differential, target, training),
    )


def _training(request: GdpGmipRequest) -> Training:
    dataset = request.dataset_size
    rate = Fraction(1) if dataset is None else Fraction(request.batch_size, dataset)
    steps = Fraction(request.steps or 1) if request.epochs is None else Fraction(request.epochs) / rate
    susceptibility = request.susceptibility
    return Training(
        dimension=request.dimension,
        batch_size=request.batch_size,
        susceptibility=float(request.dimension) if susceptibility is None else susceptibility,
        sample_rate=rate,
        steps=steps,
        max_grad_norm=request.max_grad_norm,
    )


def _noise(noise: RequiredNoise, target: Literal["mu_dp", "mu_mip"], training: Training) -> NoiseForTarget:
    composed = LIMIT if training.is_sampled else SQUARES
    enough = noise.differential
    by = DIFFERENTIAL
    least = noise.membership
    if target == "mu_mip" and least is not None and (enough is None or least.upper <= enough.upper):
        enough, by = least, STEP
    return NoiseForTarget(
        target=target,
        mu_step=_written(noise.step_mu, composed, "lower"),
        tau_mip=_if_any(noise.membership, f"{STEP}; {composed}"),
        tau_dp=_if_any(noise.differential, f"{DIFFERENTIAL}; {composed}"),
        noise_std=_if_any(enough, f"{by}; {composed}"),
        noise_free_mu=_written(noise.free_mu, f"{STEP}; {composed}"),
    )


def _if_any(number: Enclosure | None, source: str) -> ConvertedNumber | None:
    return None if number is None else _written(number, source)


def _written(number: Enclosure, source: str, safe_end: SafeEnd = "upper") -> ConvertedNumber:
    ends = enclosed_number(number, safe_end)
    return ConvertedNumber(
        value=ends["value"],
        lower=ends["lower"],
        upper=ends["upper"],
        evidence=number.evidence.value,
        tight=tightness(number.evidence, None),
        source=source,
    )


def _assumptions(request: GdpGmipRequest, training: Training, *, needed: bool) -> tuple[Assumption, ...]:
    known = "mean" if request.susceptibility is None else "stated"
    premises = [
        membership_premises.MEAN_IS_GAUSSIAN,
        membership_premises.susceptibility(known),
        membership_premises.independence(math.ceil(training.steps), with_noise=needed),
        membership_premises.STEP_APPROXIMATED,
    ]
    if training.is_sampled:
        premises.append(membership_premises.RUN_APPROXIMATED)
    return tuple(map(assumption_of, premises))


def _notes(
    needed: bool,
    noise: RequiredNoise,
    differential: Enclosure | None,
    target: Literal["mu_dp", "mu_mip"],
    training: Training,
) -> tuple[str, ...]:
    notes: list[str] = []
    if not needed:
        notes.append(NOT_NEEDED)
    if training.max_grad_norm is None and needed:
        notes.append(NOT_CLIPPED)
    if training.batch_size == 1:
        notes.append(ONE_RECORD)
    if target == "mu_mip" and differential is not None and differential.upper < noise.step_mu.upper:
        notes.append(LESS_IS_ENOUGH)
    return tuple(notes)


def _gdp_gmip_quote(_: GdpGmipRequest) -> Quote:
    return Quote(COST)


GDP_GMIP: Final = Computation(
    name="gdp-gmip",
    path="/v1/conversions/gdp-gmip",
    description="Convert Gaussian differential privacy of noisy SGD to membership privacy and back, and compute "
    "the noise for a target.",
    examples=GDP_GMIP_EXAMPLES,
    request_type=GdpGmipRequest,
    response_type=GdpGmipResponse,
    function=_compute_gdp_gmip,
    quote=_gdp_gmip_quote,
)
