"""Result of the search of a calibration, from evaluations on both sides of the calibrated number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from service.privacy.calibration.crossing import Crossing, Evaluation
from service.privacy.calibration.scale import Scale
from service.resources.calibration.evaluator import Evaluator, PointEvaluation

EDGE: Final = 0.999
"""First distance from the value, in tolerances, at which a failing number is searched if the nearest neighbour is
undecided."""
FURTHER: Final = 4
"""Factor by which the distance grows while the number there is undecided, too."""
BEYOND: Final = 1.02
"""Margin over the distance that the slope of the heights suggests."""
REFINED: Final = 2
"""Evaluations between the last undecided number and one that fails."""


@final
@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of the search for the least private value of the calibrated parameter that meets the targets.

    Attributes
    ----------
    value : PointEvaluation
        Evaluation at the found value, or without one at a value that comes near the targets.
    group : tuple of int
        Indices of the targets that determine the value.
    beside : PointEvaluation or None
        Evaluation at the neighbour of the value at which not every target of the group is known to be met. It is the
        less private one, if targets need more privacy.
    failing : PointEvaluation or None
        Evaluation at the nearest evaluated value at which a target of the group provably fails. If `witnessed`, this is
        a neighbour of the found value, or `value` if it is proved that no value meets the targets.
    refused : Exception or None
        Reason why this neighbour cannot be answered.
    whole : bool
        Whether the values are integers.
    proved : bool
        Whether `theorem` proves that the answers are monotone.
    side : int or None
        1 or -1: side of the found value (larger or smaller) on which all values provably meet the targets. None if
        unknown.
    notes : tuple of str
        Further observations of the search.
    """

    status: Literal["met", "trivially_met", "infeasible", "undecided"]
    value: PointEvaluation
    group: tuple[int, ...]
    beside: PointEvaluation | None = None
    failing: PointEvaluation | None = None
    refused: Exception | None = None
    witnessed: bool = False
    whole: bool = False
    proved: bool = False
    side: int | None = None
    theorem: str = ""
    notes: tuple[str, ...] = ()


def crossing_of(evaluator: Evaluator, scale: Scale, group: Sequence[int], *known: PointEvaluation) -> Crossing:
    """Return a search for the least private value of `scale` at which the targets with the indices `group` are met.

    The search begins with `run` of the result. `evaluator` evaluates the targets. `known` are evaluations from earlier
    steps.
    """
    return Crossing(
        _adapted(evaluator, lambda evaluation: _met(evaluation, group)),
        scale,
        [_met(evaluation, group) for evaluation in known],
    )


def _adapted(
    evaluator: Evaluator, adapt: Callable[[PointEvaluation], Evaluation]
) -> Callable[[float], Evaluation | None]:
    def scanned(number: float) -> Evaluation | None:
        evaluation = evaluator.at(number)
        return None if evaluation is None else adapt(evaluation)

    return scanned


def _met(evaluation: PointEvaluation, group: Sequence[int]) -> Evaluation:
    return Evaluation(evaluation.number, holds=evaluation.meets(group), height=evaluation.height(group))


def finished_search(evaluator: Evaluator, crossing: Crossing, group: tuple[int, ...], *, proved: bool) -> SearchResult:
    """Return the result of the finished search `crossing` for the value of a parameter that meets some targets.

    `evaluator` holds all evaluations. `group` has the indices of the targets. `proved` is whether a failure at the most
    private value of the range proves a failure at every value.
    """
    inside, outside, scale = crossing.inside, crossing.outside, crossing.scale
    if inside is None:
        last = evaluator.evaluations[outside.at] if outside is not None else next(iter(evaluator.evaluations.values()))
        fails = last.failing(group) is not None
        return unmet_result(last, group, proved=proved and fails and last.number == scale.last)
    value = evaluator.evaluations[inside.at]
    if outside is None:
        return SearchResult("trivially_met", value, group)
    beside = evaluator.at(outside.at)
    if beside is None:
        return SearchResult("met", value, group, refused=evaluator.refusals[outside.at], whole=scale.whole)
    failing = _search_failing_value(evaluator, scale, value, beside, group)
    near = failing is not None and scale.are_neighbours(value.number, failing.number)
    return SearchResult("met", value, group, beside, failing, witnessed=near, whole=scale.whole)


def unmet_result(best: PointEvaluation, group: tuple[int, ...], *, proved: bool) -> SearchResult:
    """Return the result of a search that found no value of the calibrated parameter at which the targets are met.

    `best` is the evaluation at the value that comes nearest to the targets. `group` has the indices of these targets in
    the request. `proved` states that no value meets all of them.
    """
    fails = best.failing(group) is not None
    status = "infeasible" if proved else "undecided"
    return SearchResult(status, best, group, failing=best if fails else None, witnessed=proved and fails)


def _search_failing_value(
    evaluator: Evaluator, scale: Scale, value: PointEvaluation, beside: PointEvaluation, group: Sequence[int]
) -> PointEvaluation | None:
    # If no target fails at `beside`, evaluate values at growing distances on its side until a target fails, then values
    # between the last two.
    if beside.failing(group) is not None:
        return beside
    here, undecided = scale.coordinate(value.number), value
    step = max(EDGE * scale.reach, BEYOND * value.to_failing(group) / _slope(evaluator, scale, value, group))
    while True:
        number = scale.number(here - step)
        number = beside.number if scale.coordinate(number) >= scale.coordinate(beside.number) else number
        evaluation = evaluator.at(number)
        if evaluation is not None and evaluation.failing(group) is not None:
            return _search_nearer_failing_value(evaluator, scale, undecided, evaluation, group)
        if evaluation is None or evaluation.number == scale.first:
            return None
        undecided, step = evaluation, step * FURTHER


def _search_nearer_failing_value(
    evaluator: Evaluator, scale: Scale, undecided: PointEvaluation, failing: PointEvaluation, group: Sequence[int]
) -> PointEvaluation:
    # the secant rule between a value at which the enclosure contains the limit and one at which a target fails
    for _ in range(REFINED):
        near, far = scale.coordinate(undecided.number), scale.coordinate(failing.number)
        missing, beyond = undecided.to_failing(group), failing.to_failing(group)
        share = BEYOND * missing / (missing - beyond) if missing < math.inf and beyond > -math.inf else 0.5
        number = scale.number(near + min(share, 0.9) * (far - near))
        if scale.are_neighbours(undecided.number, failing.number) or number in (undecided.number, failing.number):
            break
        evaluation = evaluator.at(number)
        if evaluation is None:
            break
        undecided, failing = (evaluation, failing) if evaluation.failing(group) is None else (undecided, evaluation)
    return failing


def _slope(evaluator: Evaluator, scale: Scale, value: PointEvaluation, group: Sequence[int]) -> float:
    # how much the largest height falls per unit of the coordinate, by the nearest other evaluation with a positive
    # slope
    here = scale.coordinate(value.number)
    slopes = [
        (value.height(group) - evaluation.height(group)) / (scale.coordinate(evaluation.number) - here)
        for evaluation in sorted(
            evaluator.evaluations.values(), key=lambda evaluation: abs(scale.coordinate(evaluation.number) - here)
        )
        if not scale.are_neighbours(evaluation.number, value.number)
    ]
    return next((slope for slope in slopes if 0 < slope < math.inf), math.inf)
