"""Resource `POST /v1/pmp/gaussian`: points, a noisy sum or mean of a random half of them, and the PMP parameter.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.pmp_gaussian import GaussianWorstCase, PmpGaussianParameters, PmpGaussianRequest, PmpGaussianResponse
from api_schemas.pmp_gaussian_examples import PMP_GAUSSIAN_EXAMPLES
from service.privacy.numerics.arrays import FloatArray
from service.privacy.pmp.gaussian.lower_bound import ExposureLowerBound, enumerable_subsets
from service.privacy.pmp.gaussian.parameter import (
    GaussianPmp,
    GaussianRelease,
    gaussian_pmp,
    sensitivity,
    success_bound,
    worst_case_epsilon,
)
from service.privacy.pmp.gaussian.profile import noise_std_at
from service.privacy.pmp.gaussian.upper_bound import FIRST_ROWS, LARGEST_EXACT_WORK
from service.resources.abstract import Computation, Quote
from service.resources.numbers import enclosed_number, tightness
from service.resources.pmp.gaussian_upload import PmpGaussianUpload, read_pmp_gaussian_upload

AnyPmpGaussianRequest = PmpGaussianRequest | PmpGaussianUpload

SOURCE: Final = (
    "Upper bound: Lowy et al. 2023, Proposition 12, over every point. Lower bound: sets of outcomes on a line; "
    "Hoeffding 1963, Theorem 4, for many points. Profile: Balle and Wang 2018, Theorem 8"
)
WORST_CASE_SOURCE: Final = (
    "Balle and Wang 2018, Theorem 8, with sensitivity 2 C (sum) or 2 C/n (mean) for a replaced record"
)

BASE_COST: Final = 15_000
LARGEST_LINE_COST, SUM_COST = 2_500_000, 15
"""Largest cost of the lower bound, and the cost of each sum of a subset in it, if the noise is not small."""
LINE_LAW_COST: Final = 60_000
"""Cost of the alternative, the law of the projection on a line."""
PAIR_COST, COORDINATE_COST = 0.02, 2e-5
"""Cost of a pair of points, and of each of their coordinates, in all passes together."""
EXACT_PAIR_COST: Final = 1.5
"""Cost of a solved pair in up to 200 dimensions."""
READ_COST: Final = 0.1
"""Cost of reading and clipping a number."""


def _compute_pmp_gaussian(request: AnyPmpGaussianRequest, digest: str, engine_version: str) -> PmpGaussianResponse:
    points = _points(request)
    count, dimension = points.shape
    size = request.data_size_of(count)
    release = GaussianRelease(request.query, size, request.clip_radius, _noise_std(request, size))
    delta = request.delta or 0.0
    found = gaussian_pmp(points, release, delta)
    worst = worst_case_epsilon(release, delta)
    return PmpGaussianResponse(
        digest=digest,
        engine_version=engine_version,
        query=request.query,
        data_size=size,
        points=count,
        dimension=dimension,
        noise_std=release.noise_std,
        delta=delta,
        epsilon_pmp=enclosed_number(found.epsilon, "upper"),
        evidence=found.epsilon.evidence.value,
        tight=tightness(found.epsilon.evidence, found.bracket),
        conditional=True,
        most_exposed_point=found.point,
        success_bound=success_bound(found.epsilon.upper, delta, size / count),
        worst_case=GaussianWorstCase(
            epsilon=enclosed_number(worst, "upper"),
            tight=tightness(worst.evidence, None),
            delta=delta,
            source=WORST_CASE_SOURCE,
        ),
        source=SOURCE,
        notes=_notes(found, release, delta, count, dimension),
        assumptions=_assumptions(),
    )


def _pmp_gaussian_quote(request: AnyPmpGaussianRequest) -> Quote:
    if isinstance(request, PmpGaussianUpload):
        count, dimension = request.count, request.dimension
    else:
        count, dimension = len(request.points), len(request.points[0])
    pairs = count**2
    subsets = enumerable_subsets(count, request.data_size_of(count))
    line = min(LARGEST_LINE_COST, SUM_COST * subsets * count if subsets else LINE_LAW_COST)
    looked_at = pairs * (PAIR_COST + COORDINATE_COST * dimension)
    heavier = 1 + dimension / 200
    solved = EXACT_PAIR_COST * min(pairs * heavier, LARGEST_EXACT_WORK + FIRST_ROWS * count * heavier)
    return Quote(int(BASE_COST + line + READ_COST * count * dimension + looked_at + solved))


def _points(request: AnyPmpGaussianRequest) -> FloatArray:
    return request.read_points() if isinstance(request, PmpGaussianUpload) else np.array(request.points)


def _noise_std(request: PmpGaussianParameters, size: int) -> float:
    target = request.target
    if target is None:
        return request.noise_std or 0.0  # the schema accepts exactly one of the two fields
    moved = sensitivity(request.query, size, request.clip_radius or 0.0)
    return noise_std_at(target.epsilon, target.delta, moved).upper


def _assumptions() -> tuple[Assumption, ...]:
    return (
        Assumption(
            code="data_are_a_random_subset",
            text="The data are a uniformly random subset of the stated size from the parent set. The attacker knows "
            "nothing else about the subset.",
            holds="unknown",
        ),
        Assumption(
            code="one_noisy_release",
            text="Only this one release depends on the data. Its noise is fresh, secret and normal on every "
            "coordinate.",
            holds="unknown",
        ),
    )


def _notes(found: GaussianPmp, release: GaussianRelease, delta: float, count: int, dimension: int) -> tuple[str, ...]:
    notes = [
        "Practical membership privacy does not compose. Do not add the parameters of several releases.",
        "The result holds only for this parent set. The worst case holds for all data.",
    ]
    if delta == 0:
        notes.append(
            "With delta = 0 the Gaussian mechanism has no finite epsilon, because its log-likelihood ratios are "
            "unbounded."
        )
    elif found.epsilon.upper == 0:
        notes.append("delta alone covers the release, and epsilon has its minimum 0.")
    elif found.known is not None:
        notes.append(_lower_end(found.known, count, dimension))
    if found.bracket is not None:
        notes.append(found.bracket)
    if release.clip_radius is None:
        notes.append("Records are not clipped, so the worst case has no finite sensitivity and no finite epsilon.")
    if 2 * release.data_size != count:
        notes.append(
            f"A point is in the data with probability {release.data_size}/{count}. success_bound is for this prior, "
            "and includes the constant answer that is more likely."
        )
    return tuple(notes)


def _lower_end(known: ExposureLowerBound, count: int, dimension: int) -> str:
    line = "" if dimension == 1 else ", projected on the direction of the most exposed point"
    if known.method == "moments":
        return "Lower bound: half-lines of outcomes with exponential moments. The bound may be far below the truth."
    if known.method == "half_lines":
        return f"Lower bound: the best half-line of outcomes for the most exposed point{line}."
    which = "all points" if known.points == count else f"the {known.points} outermost points"
    return f"Lower bound: the exact value for {which}{line}, by the best sets of outcomes."


PMP_GAUSSIAN: Final = Computation(
    name="pmp_gaussian",
    path="/v1/pmp/gaussian",
    description="Compute practical membership privacy of a noisy sum or mean of a random half of given points. Many "
    "points may be sent as an .npz archive with the arrays `points`, `target.epsilon` and "
    "`target.delta`. Other fields are arrays without dimensions. The digest covers the bytes of the "
    "archive and its fields.",
    examples=PMP_GAUSSIAN_EXAMPLES,
    request_type=PmpGaussianRequest,
    response_type=PmpGaussianResponse,
    function=_compute_pmp_gaussian,
    quote=_pmp_gaussian_quote,
    read_archive=read_pmp_gaussian_upload,
)
