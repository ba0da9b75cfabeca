"""The result of a search, made of the looks at both sides of the number at which the targets begin to be met."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from service.computations.calibration.evaluator import Evaluator, PointEvaluation
from service.privacy.calibration.crossing import Crossing, Evaluation
from service.privacy.calibration.scale import Scale

EDGE: Final = 0.999
"""How far from the value, in tolerances, a neighbour is looked for where the nearest one is undecided ..."""
FURTHER: Final = 4
"""... and how many times as far each time, where that is undecided too."""
BEYOND: Final = 1.02
"""How much further than the slope of the heights says."""
REFINED: Final = 2
"""Looks between the last undecided number and one that fails."""


@final
@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    `group`: the targets that decide. `beside`: the number next to the value at which not every target is known to be
    met, where it was looked at; `failing`: the nearest number at which a target of the group provably fails, a
    neighbour where the value is `witnessed`. `refused`: why the number next to the value cannot be answered. `whole`:
    whether the numbers are. `proved`: whether `theorem` says that the answers are monotone. `side`: the side of the
    value on which all numbers meet the targets, where that is proved. `notes`: what the search found beside.
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
    """Return the search for the least private number of the scale at which the group is met. `known`: looks made."""
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
    """Return the result of a search that came to its end. `proved`: what fails at the last number fails at all."""
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
    failing = _failing(evaluator, scale, value, beside, group)
    near = failing is not None and scale.are_neighbours(value.number, failing.number)
    return SearchResult("met", value, group, beside, failing, witnessed=near, whole=scale.whole)


def unmet_result(best: PointEvaluation, group: tuple[int, ...], *, proved: bool) -> SearchResult:
    """Return a result without a number that meets the group. `proved`: there is none."""
    fails = best.failing(group) is not None
    status = "infeasible" if proved else "undecided"
    return SearchResult(status, best, group, failing=best if fails else None, witnessed=proved and fails)


def _failing(
    evaluator: Evaluator, scale: Scale, value: PointEvaluation, beside: PointEvaluation, group: Sequence[int]
) -> PointEvaluation | None:
    """A look at which a target fails for sure: the neighbour, or one within the tolerance, or, as where the ends of
    enclosures come from two theorems, one that is not much further from the value than need be.
    """
    if beside.failing(group) is not None:
        return beside
    here, undecided = scale.coordinate(value.number), value
    step = max(EDGE * scale.reach, BEYOND * value.to_failing(group) / _slope(evaluator, scale, value, group))
    while True:
        number = scale.number(here - step)
        number = beside.number if scale.coordinate(number) >= scale.coordinate(beside.number) else number
        evaluation = evaluator.at(number)
        if evaluation is not None and evaluation.failing(group) is not None:
            return _nearer(evaluator, scale, undecided, evaluation, group)
        if evaluation is None or evaluation.number == scale.first:
            return None
        undecided, step = evaluation, step * FURTHER


def _nearer(
    evaluator: Evaluator, scale: Scale, undecided: PointEvaluation, failing: PointEvaluation, group: Sequence[int]
) -> PointEvaluation:
    """A look nearer to an undecided one at which a target fails, by the secant; the one that is known where there is
    none.
    """
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
    """How fast the height falls with the coordinate, by the looks next to the value that are no neighbours of it."""
    here = scale.coordinate(value.number)
    slopes = [
        (value.height(group) - evaluation.height(group)) / (scale.coordinate(evaluation.number) - here)
        for evaluation in sorted(
            evaluator.evaluations.values(), key=lambda evaluation: abs(scale.coordinate(evaluation.number) - here)
        )
        if not scale.are_neighbours(evaluation.number, value.number)
    ]
    return next((slope for slope in slopes if 0 < slope < math.inf), math.inf)
