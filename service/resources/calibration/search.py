"""Search of a calibration for the least private number that meets all targets, and its neighbour where one fails."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from api_schemas.calibrations import CalibrationsRequest
from api_schemas.free_parameters import ABSENT
from api_schemas.targets import value_range, widest
from service.privacy.calibration.scale import TINY, Scale
from service.privacy.errors import NumericalFailure
from service.resources.calibration.directions import NOT_PROVED, Directions, rise_sign
from service.resources.calibration.evaluator import Evaluator, PointEvaluation
from service.resources.calibration.found import SearchResult, crossing_of, finished_search, unmet_result
from service.resources.calibration.plateaus import beyond_plateau, steps_follow
from service.resources.calibration.search_by_scan import PLACES, search_by_scan

ALWAYS_FAILS: Final = "the answer to the target does not depend on the free number, and fails"


def search(request: CalibrationsRequest, evaluator: Evaluator, known: Directions) -> SearchResult:
    """Search for the least private value of the calibrated parameter at which all targets are met.

    `known` has the directions in which targets are met. If they do not say which values are more private, search for
    the change nearest to the stated value. `evaluator` evaluates the targets. Raises PrivacyComputationError if the
    service can answer at no evaluated value.
    """
    scale, start = _scale_and_start(request, evaluator, known)
    moving = tuple(index for index in range(len(request.targets)) if index not in known.fixed)
    if known.fixed:
        broken = _failure_at_all_numbers(_first_evaluation(evaluator, scale, start), known)
        if broken is not None:
            return broken
    if known.side is None:
        found = search_by_scan(evaluator, scale, start, moving)
    else:
        found = _search_range(request, evaluator, scale, start, known)
        _check_answers_are_monotone(request, evaluator, known)
    if all(found.value.targets[index].meets for index in known.fixed) or found.status == "infeasible":
        return found
    return replace(found, status="undecided", group=known.fixed, failing=None, witnessed=False, side=None)


def _scale_and_start(request: CalibrationsRequest, evaluator: Evaluator, known: Directions) -> tuple[Scale, float]:
    low, high = request.interval
    shape = evaluator.place.shape
    low = max(low, TINY) if shape.minimum_excluded and low == 0 else low
    whole, tolerance = shape.kind == "integer", request.relative_tolerance
    number = evaluator.place.number
    start = min(max(ABSENT[evaluator.place.name] if number is None else number, low), high)
    return Scale(low=low, high=high, whole=whole, side=known.side or 1, tolerance=tolerance), start


def _failure_at_all_numbers(first: PointEvaluation, known: Directions) -> SearchResult | None:
    # a target that does not depend on the calibrated parameter fails at every number
    failing = first.failing(known.fixed)
    if failing is None:
        return None
    return replace(unmet_result(first, (failing,), proved=True), proved=True, theorem=ALWAYS_FAILS)


def _search_range(
    request: CalibrationsRequest, evaluator: Evaluator, scale: Scale, start: float, known: Directions
) -> SearchResult:
    group = known.group
    if all(_is_met_by_all_values(request, index) for index in group):
        start = scale.first
    crossing = crossing_of(evaluator, scale, group)
    crossing.run(_first_evaluation(evaluator, scale, start).number)
    found = finished_search(evaluator, crossing, group, proved=bool(known.theorem))
    if found.status == "met" and steps_follow(evaluator.place):
        found = beyond_plateau(evaluator, scale, found)
    if found.status in ("met", "trivially_met") and not found.value.meets(known.others):
        proved = bool(known.theorem) and _exclude_each_other(found, known)
        found = unmet_result(found.value, known.others, proved=proved)
    if not known.theorem:
        return replace(found, status="met" if found.status == "trivially_met" else found.status, theorem=NOT_PROVED)
    one_sided = found.status in ("met", "trivially_met") and not known.others
    return replace(found, proved=True, side=scale.side if one_sided else None, theorem=known.theorem)


def _exclude_each_other(found: SearchResult, known: Directions) -> bool:
    # Answers are monotone: no value meets all targets if another target fails where a target of the group fails, or at
    # the found value if the group fails at the neighbouring integer.
    if found.status == "trivially_met":
        return found.value.failing(known.others) is not None
    outside = found.failing
    if outside is None:
        return False
    adjacent = found.value.number in (outside.number - 1, outside.number + 1)
    inside = found.value.failing(known.others) is not None
    return outside.failing(known.others) is not None or (adjacent and found.whole and inside)


def _is_met_by_all_values(request: CalibrationsRequest, index: int) -> bool:
    # the limit lies beyond all possible answers
    target = request.targets[index]
    free = request.place.steps[:3] == ("targets", index, "question")
    least, most = widest(target.question) if free else value_range(target)
    return target.limit <= least if target.at_most is None else target.limit >= most


def _first_evaluation(evaluator: Evaluator, scale: Scale, start: float) -> PointEvaluation:
    places = sorted(scale.spread(PLACES), key=lambda each: abs(scale.coordinate(each) - scale.coordinate(start)))
    for number in (start, *places):
        evaluation = evaluator.at(number)
        if evaluation is not None:
            return evaluation
    raise evaluator.refusals[start]


def _check_answers_are_monotone(request: CalibrationsRequest, evaluator: Evaluator, known: Directions) -> None:
    if not known.theorem:
        return
    ordered = [evaluator.evaluations[number] for number in sorted(evaluator.evaluations)]
    for index, (need, target) in enumerate(zip(known.needs, request.targets, strict=True)):
        way = rise_sign(need, target)
        ends = [(evaluation.targets[index].lower, evaluation.targets[index].upper) for evaluation in ordered][
            :: way or 1
        ]
        highest = -math.inf
        for lower, upper in ends if way else ():
            if upper < highest:
                raise NumericalFailure(f"answers that rise by a theorem fall: {upper!r} after {highest!r}")
            highest = max(highest, lower)
