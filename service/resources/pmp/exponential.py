"""Resource `POST /v1/pmp/exponential`: losses and logits on the parent set, the PMP parameter, and comparisons.

PMP is practical membership privacy: the attacker does not know which records were drawn. The parent set is the
population from which the data are drawn.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from api_schemas.assumptions_and_hazards import Assumption
from api_schemas.enclosures import AnswerLimit
from api_schemas.pmp_examples import PMP_EXPONENTIAL_EXAMPLES
from api_schemas.pmp_exponential import (
    EpsilonOnPopulation,
    ExponentialMaximiser,
    PmpExponentialRequest,
    PmpExponentialResponse,
    ReplaceOneWorstCase,
    SamplesDrawn,
    sampling_work,
)
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.limit import WidthLimit
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.attacks import success_bound, tight_eta
from service.privacy.pmp.exponential.adjacent import adjacent_epsilon, enumeration_cost
from service.privacy.pmp.exponential.losses import Losses, ball_sensitivity, largest_distance
from service.privacy.pmp.exponential.parameter import ExponentialPmp, Sampling, exponential_pmp
from service.privacy.pmp.exponential.population import LARGEST_LINEAR_SPREAD, Population
from service.privacy.pmp.exponential.swap import swap_bounds
from service.resources.abstract import Computation, Quote
from service.resources.limits import advice
from service.resources.numbers import enclosed_number, meets, tightness
from service.resources.pmp.definition import DATA_ARE_A_RANDOM_HALF, DISTINCT_RECORDS, NO_COMPOSITION, NO_CONVERSE

SOURCE: Final = (
    "Lowy et al. 2023 (practical membership privacy), Proposition 9 in both directions: the absolute value that its "
    "proof has and its statement lacks (/errata#pmp-proposition-9)"
)
WORST_CASE_SOURCE: Final = "McSherry, Talwar 2007 (exponential mechanism); Lowy et al. 2023, Definition 7 and Lemma 8"
WORST_CASE_BRACKET: Final = (
    "worst_case: halves of this parent set attain the lower bound (Lowy et al. 2023, Definition 7). The upper "
    "bound holds for all data (McSherry, Talwar 2007, by the sensitivity)."
)
ADJACENT_NUMBERS, ADJACENT_NUMBERS_ON_REQUEST = 3e7, 1e9
"""Limits of the numbers that are compared for the exact epsilon of adjacent subsets."""

FIXED_COST, LOSS_COST, OFFSET_COST, POINT_COST, SWAP_COST, SORTED_SWAP_COST = 500, 0.04, 1.0, 12.0, 0.003, 0.11
"""Costs in microseconds: of the smallest request; of a coordinate of a distance, and of an object; of a point for an
object; of a swap for a pair of objects, and for an object."""
ADJACENT_COST, ENVELOPE_COST, SAMPLING_COST = 0.007, 30.0, 0.0003
"""Costs of a number of adjacent subsets; of a point for an object before sampling; of an operation of sampling."""
SUBSET_COST, OBJECT_COST, HALF_SUBSET_COST, LOG_SPACE_COST = 0.0022, 0.00035, 1.0, 0.06
"""Costs of a subset, and of each object with it; of an object with a subset of one half; of an object with a subset in
log space."""

WEIGHTS: Final = Assumption(
    code="weights_are_exponential",
    text="The mechanism draws one object with weights exp(-epsilon loss/(2 sensitivity)) of the aggregated losses "
    "in the request. The random numbers are secret and not predictable.",
    holds="unknown",
)
SENSITIVITY: Final = Assumption(
    code="loss_sensitivity_bounded",
    text="Replacing one record of any data set changes the aggregated loss of every object by at most sensitivity.",
    holds="unknown",
)
CLIPPED: Final = Assumption(
    code="points_are_clipped",
    text="Every point of any data set is clipped to clip_radius before its loss is computed.",
    holds="unknown",
)


class _ScaledLosses(NamedTuple):
    losses: Losses
    population: Population
    sensitivity: float
    records: int
    """Divisor of the sum of losses."""
    beyond: float | None
    """Sensitivity of the aggregated loss on all clipped points; None if only losses are known."""


def _compute_pmp_exponential(
    request: PmpExponentialRequest, digest: str, engine_version: str
) -> PmpExponentialResponse:
    scaled = _scaled(request)
    population = scaled.population
    bounds = swap_bounds(population)
    sampling = _sampling(request)
    proved = _proved_epsilon_for_all_data(request, scaled)
    adjacent = adjacent_epsilon(population, bounds, enumerate_subsets=_enumerates_adjacent(request), at_most=proved)
    found = exponential_pmp(population, bounds, sampling, exact=request.enumerates, at_most=adjacent.upper)
    limit = _width_limit(found, request.relative_tolerance)
    worst_case = Enclosure(min(adjacent.lower, proved), proved, Evidence.CERTIFIED)
    return PmpExponentialResponse(
        digest=digest,
        engine_version=engine_version,
        relative_tolerance=request.relative_tolerance,
        epsilon=request.epsilon,
        sensitivity=scaled.sensitivity,
        data_size=request.data_size,
        epsilon_pmp=enclosed_number(found.epsilon, "upper"),
        evidence=found.epsilon.evidence.value,
        tight=tightness(found.epsilon.evidence, found.bracket),
        conditional=True,
        method=found.method,
        tolerance_met=limit is None,
        limit=None if limit is None else AnswerLimit.model_validate(advice(limit)),
        source=SOURCE,
        maximiser=ExponentialMaximiser(object=found.object_index, point=found.point_index, direction=found.direction),
        swap_bound=min(float(bounds.either.max()), proved),
        sampling=_drawn(sampling) if found.method == "sampling" else None,
        epsilon_on_population=_on_population(request, scaled, adjacent),
        success_bound=enclosed_number(success_bound(found.epsilon), "upper"),
        eta_mip=enclosed_number(tight_eta(found.epsilon), "upper"),
        worst_case=ReplaceOneWorstCase(
            epsilon=enclosed_number(worst_case, "upper"),
            tight=tightness(worst_case.evidence, WORST_CASE_BRACKET),
            source=WORST_CASE_SOURCE,
        ),
        notes=_notes(request, found, worst_case),
        assumptions=_assumptions(scaled),
    )


def _on_population(request: PmpExponentialRequest, scaled: _ScaledLosses, adjacent: Enclosure) -> EpsilonOnPopulation:
    return EpsilonOnPopulation(
        exact=enclosed_number(adjacent, "upper"),
        sensitivity=enclosed_number(_epsilon_by_sensitivity(request, scaled), "upper"),
    )


def _width_limit(found: ExponentialPmp, tolerance: float) -> WidthLimit | None:
    if meets(found.epsilon, tolerance):
        return None
    if found.epsilon.evidence is Evidence.STATISTICAL:
        return WidthLimit.SAMPLING_ERROR
    return WidthLimit.TOLERANCE_TOO_FINE if found.bracket is None else WidthLimit.TWO_THEOREMS


def pmp_exponential_quote(request: PmpExponentialRequest) -> Quote:
    """Return the estimated cost of the PMP parameter of an exponential mechanism, in microseconds of CPU time.

    A worker computes the parameter. PMP is practical membership privacy: the attacker does not know which records were
    drawn.
    """
    objects, points, half = request.object_count, request.point_count, request.data_size
    dimension = len(request.points[0]) if request.points else 1
    cost = FIXED_COST + (LOSS_COST * points + OFFSET_COST) * objects * dimension
    cost += objects * points * (POINT_COST + points * (SWAP_COST * objects + SORTED_SWAP_COST))
    if _enumerates_adjacent(request):
        cost += ADJACENT_COST * enumeration_cost(objects, points)
    if request.enumerates:
        linear = _scaled(request).population.spread <= LARGEST_LINEAR_SPREAD
        each = SUBSET_COST + OBJECT_COST * objects if linear else LOG_SPACE_COST * objects
        cost += each * math.comb(points, half) + HALF_SUBSET_COST * objects * 2**half
    elif request.samples:
        cost += ENVELOPE_COST * objects * points + SAMPLING_COST * request.samples * sampling_work(objects, points)
    return Quote(int(cost))


def _scaled(request: PmpExponentialRequest) -> _ScaledLosses:
    records = request.data_size if request.aggregate == "mean" else 1
    beyond = None
    if request.losses is not None:
        losses = Losses.given(np.array(request.losses))
    else:
        points, objects, radius = np.array(request.points), np.array(request.objects), request.clip_radius or 0.0
        losses, beyond = Losses.euclidean(points, objects, radius), ball_sensitivity(objects, radius) / records
    sensitivity = request.sensitivity or beyond or 0.0
    if beyond is None and losses.widest_range > sensitivity * records * (1 + 1e-9):
        domain = f"at least the largest change on the parent set itself, which is {losses.widest_range / records:.6g}"
        error = OutOfDomain("sensitivity", sensitivity, domain)
        error.pointer = "/sensitivity"
        raise error
    population = Population.of(losses, request.epsilon / (2 * sensitivity * records))
    return _ScaledLosses(losses, population, sensitivity, records, beyond)


def _sampling(request: PmpExponentialRequest) -> Sampling | None:
    if not request.samples or request.seed is None or request.confidence is None:
        return None
    return Sampling(request.samples, request.seed, request.confidence)


def _drawn(sampling: Sampling | None) -> SamplesDrawn | None:
    if sampling is None:
        return None
    return SamplesDrawn(samples=sampling.samples, seed=sampling.seed, confidence=sampling.confidence)


def _enumerates_adjacent(request: PmpExponentialRequest) -> bool:
    if not request.enumerates:
        return False
    allowed = ADJACENT_NUMBERS_ON_REQUEST if request.exact else ADJACENT_NUMBERS
    return enumeration_cost(request.object_count, request.point_count) <= allowed


def _epsilon_by_sensitivity(request: PmpExponentialRequest, scaled: _ScaledLosses) -> Enclosure:
    factor = request.epsilon / (scaled.sensitivity * scaled.records)
    change, slack = scaled.losses.widest_range, scaled.losses.range_error
    rounding = 16 * UNIT_ROUNDOFF
    lower, largest = max(change - slack, 0.0), change + slack
    if scaled.beyond is not None:
        largest = min(largest, scaled.beyond * scaled.records)
    return Enclosure(
        min(lower, largest) * factor * (1 - rounding), largest * factor * (1 + rounding), Evidence.CERTIFIED
    )


def _proved_epsilon_for_all_data(request: PmpExponentialRequest, scaled: _ScaledLosses) -> float:
    # Epsilon for all data is epsilon B/S, with the sensitivity S that scales the logits and B on all possible data. For
    # Euclidean losses, B is also at most the largest distance between two objects, for a mean divided by the number of
    # records. For given losses, the requested S is trusted as B, and only enlarged if the losses exceed S by rounding.
    factor = request.epsilon / scaled.sensitivity
    if scaled.beyond is None:
        known = (scaled.losses.widest_range + scaled.losses.range_error) / (scaled.sensitivity * scaled.records)
        return request.epsilon * (1.0 if known <= 1 else known * (1 + 8 * UNIT_ROUNDOFF))
    objects = np.array(request.objects)
    largest = factor * min(scaled.beyond, largest_distance(objects) / scaled.records)
    return largest * (1 + (objects.shape[1] + 32) * UNIT_ROUNDOFF)


def _notes(request: PmpExponentialRequest, found: ExponentialPmp, worst_case: Enclosure) -> tuple[str, ...]:
    notes = [NO_COMPOSITION, NO_CONVERSE]
    if found.method == "sampling":
        notes.append(
            f"sampling: {request.samples} subsets for each object, with seed {request.seed}. The enclosure holds with "
            f"probability {request.confidence:g}, and swap_bound is certified."
        )
    if found.method == "swap_bound":
        notes.append("swap_bound: a certified upper bound. No subset was summed or drawn, so the lower bound is 0.")
    if found.bracket is not None:
        notes.append(found.bracket)
    if found.method == "swap_bound" and request.samples:
        notes.append(
            "sampling: not used, because the weights of the objects at some point are too far apart, or all equal."
        )
    notes.append(WORST_CASE_BRACKET)
    if not _enumerates_adjacent(request):
        notes.append(
            "epsilon_on_population.exact: an attained lower bound and a proved upper bound. Not all subsets were "
            "compared."
        )
    if worst_case.upper < request.epsilon:
        notes.append(
            "worst_case: below epsilon, because the contribution of a record that is equal for all objects cancels."
        )
    rows = request.points or tuple(zip(*(request.losses or ()), strict=True))
    if len(set(rows)) < len(rows):
        notes.append(DISTINCT_RECORDS)
    return tuple(notes)


def _assumptions(scaled: _ScaledLosses) -> tuple[Assumption, ...]:
    if scaled.beyond is not None:
        return (DATA_ARE_A_RANDOM_HALF, WEIGHTS, CLIPPED)
    return (DATA_ARE_A_RANDOM_HALF, WEIGHTS, SENSITIVITY)


PMP_EXPONENTIAL: Final = Computation(
    name="pmp-exponential",
    path="/v1/pmp/exponential",
    description="Compute practical membership privacy of the exponential mechanism on a parent set, and its "
    "epsilon on this set.",
    examples=PMP_EXPONENTIAL_EXAMPLES,
    request_type=PmpExponentialRequest,
    response_type=PmpExponentialResponse,
    function=_compute_pmp_exponential,
    quote=pmp_exponential_quote,
)
