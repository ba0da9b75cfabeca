"""`POST /v1/pmp/gaussian`: points and a noisy sum or mean of a random half of them -> the PMP parameter."""

from __future__ import annotations

from typing import Final

import numpy as np

from api_schemas.pmp_gaussian import PmpGaussianParameters, PmpGaussianRequest, PmpGaussianResponse
from service.computations.abstract import Computation, Quote, ResponseFields
from service.computations.numbers import enclosed_number, tightness
from service.computations.pmp_gaussian_upload import PmpGaussianUpload, read_pmp_gaussian_upload
from service.computations.pmp_gaussian_words import SOURCE, WORST_CASE_SOURCE, assumptions, notes
from service.privacy.numerics.arrays import FloatArray
from service.privacy.pmp.gaussian.lower_bound import written_subsets
from service.privacy.pmp.gaussian.parameter import (
    GaussianRelease,
    gaussian_pmp,
    sensitivity,
    success_bound,
    worst_case_epsilon,
)
from service.privacy.pmp.gaussian.profile import noise_std_at
from service.privacy.pmp.gaussian.upper_bound import FIRST_ROWS, LARGEST_EXACT_WORK

AnyPmpGaussianRequest = PmpGaussianRequest | PmpGaussianUpload

BASE_COST: Final = 3_000
LARGEST_LINE_COST, SUM_COST = 2_500_000, 80
"""Of the lower end at most, and of each sum of a subset in it."""
LINE_LAW_COST: Final = 1_000_000
"""Where the law on a line is computed instead, at most."""
PAIR_COST, COORDINATE_COST = 0.02, 2e-5
"""Of looking at a pair of points, and of each of their coordinates, in all passes together."""
EXACT_PAIR_COST: Final = 1.5
"""Of a pair that is solved, in up to 200 dimensions."""
READ_COST: Final = 0.1
"""Of a number that is read and clipped."""


def compute_pmp_gaussian(request: AnyPmpGaussianRequest, digest: str, engine_version: str) -> ResponseFields:
    """Enclose the parameter. Raises ArchiveError for points that are not finite."""
    points = _points(request)
    count, dimension = points.shape
    size = request.data_size_of(count)
    release = GaussianRelease(request.query, size, request.clip_radius, _noise_std(request, size))
    delta = request.delta or 0.0
    found = gaussian_pmp(points, release, delta)
    worst = worst_case_epsilon(release, delta)
    return {
        "digest": digest,
        "engine_version": engine_version,
        "query": request.query,
        "data_size": size,
        "points": count,
        "dimension": dimension,
        "noise_std": release.noise_std,
        "delta": delta,
        "epsilon_pmp": enclosed_number(found.epsilon, "upper"),
        "evidence": found.epsilon.evidence,
        "tight": tightness(found.epsilon.evidence, found.bracket),
        "conditional": True,
        "most_exposed_point": found.point,
        "success_bound": success_bound(found.epsilon.upper, delta, size / count),
        "worst_case": {
            "epsilon": enclosed_number(worst, "upper"),
            "tight": tightness(worst.evidence, None),
            "delta": delta,
            "source": WORST_CASE_SOURCE,
        },
        "source": SOURCE,
        "notes": notes(found, release, delta, count, dimension),
        "assumptions": assumptions(),
    }


def pmp_gaussian_quote(request: AnyPmpGaussianRequest) -> Quote:
    """What it costs: a worker computes it."""
    if isinstance(request, PmpGaussianUpload):
        count, dimension = request.count, request.dimension
    else:
        count, dimension = len(request.points), len(request.points[0])
    pairs = count**2
    subsets = written_subsets(count, request.data_size_of(count))
    line = min(LARGEST_LINE_COST, SUM_COST * subsets * count if subsets else LINE_LAW_COST)
    looked_at = pairs * (PAIR_COST + COORDINATE_COST * dimension)
    heavier = 1 + dimension / 200
    solved = EXACT_PAIR_COST * min(pairs * heavier, LARGEST_EXACT_WORK + FIRST_ROWS * count * heavier)
    return Quote(int(BASE_COST + line + READ_COST * count * dimension + looked_at + solved))


def _points(request: AnyPmpGaussianRequest) -> FloatArray:
    return request.read_points() if isinstance(request, PmpGaussianUpload) else np.array(request.points)


def _noise_std(request: PmpGaussianParameters, size: int) -> float:
    """What was sent, or the least that meets the target, rounded up."""
    target = request.target
    if target is None:
        return request.noise_std or 0.0  # the schema lets exactly one of the two through
    moved = sensitivity(request.query, size, request.clip_radius or 0.0)
    return noise_std_at(target.epsilon, target.delta, moved).upper


PMP_GAUSSIAN: Final = Computation(
    name="pmp_gaussian",
    request_type=PmpGaussianRequest,
    response_type=PmpGaussianResponse,
    function=compute_pmp_gaussian,
    quote=pmp_gaussian_quote,
    read_archive=read_pmp_gaussian_upload,
)
