"""Free numbers that determine the number of steps: answers are monotone only while that number stays constant.

A larger batch has a larger rate and takes fewer steps for the same epochs. The number of steps is an integer. The
number of steps is rounded up. Privacy falls as the batch grows while the number of steps stays constant (a *plateau*),
and rises where it changes. The smallest batch of a plateau, mostly a divisor of the data, is the most private one.
Therefore the search continues into the next plateaus. Within a plateau the answer is monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from api_schemas.free_parameters import DOES_NOT_FIT
from api_schemas.pointers import Place, place_of
from service.privacy.calibration import monotone
from service.privacy.calibration.scale import Scale
from service.resources.calibration.evaluator import Evaluator, PointEvaluation
from service.resources.calibration.found import SearchResult, crossing_of, finished_search

MISSES: Final = 2
"""Successive plateaus whose first number misses the targets, after which the search ends."""
ROUNDED: Final = (
    "The steps follow from the epochs and are rounded up, so the answers are not monotone in {name}. The value "
    "is the best number among the neighbouring ranges of equal steps. A number further away may also meet the "
    "targets."
)
FAILS_TOO: Final = "A target fails at {number}, which has a lower sampling rate than the value and needs more steps."

Steps = int | tuple[int, ...]


def steps_follow(place: Place) -> bool:
    """Return whether the calibrated parameter determines the number of training steps.

    The answers are then not monotone in the parameter. `place` is the position of the parameter in the request.
    """
    return monotone.steps_follow(place.kind, place.name, place.owner.__dict__)


def beyond_plateau(evaluator: Evaluator, scale: Scale, found: SearchResult) -> SearchResult:
    """Return the result at the least private value of further plateaus that meets the targets, or `found`.

    A plateau is a range of the calibrated parameter with a constant number of training steps. The search ends after two
    plateaus in turn without a value that meets the targets, and where a value cannot be answered. Notes are added to
    the result. Coordinates of `scale` fall towards less privacy.
    """
    best, at, misses = found, found.value.number, 0
    while misses < MISSES:
        plateau = _next_plateau(evaluator, scale, at)
        if plateau is None or not (scale.whole or not scale.are_neighbours(*plateau)):
            break
        first, at = plateau
        evaluation = evaluator.at(first)
        if evaluation is None:
            break
        if best.beside is None and best.refused is None:  # the whole previous plateau meets the targets
            best = _with_neighbour(best, evaluation, scale)
        misses = 0 if evaluation.meets(found.group) else misses + 1
        if misses == 0:
            best = _search_plateau(
                evaluator, replace(scale, low=min(plateau), high=max(plateau)), evaluation, found.group
            )
    return replace(best, notes=(ROUNDED.format(name=evaluator.place.name), *_fails_too(evaluator, scale, best)))


def _search_plateau(evaluator: Evaluator, scale: Scale, first: PointEvaluation, group: tuple[int, ...]) -> SearchResult:
    if scale.low == scale.high:
        return SearchResult("met", first, group, whole=scale.whole)
    crossing = crossing_of(evaluator, scale, group)
    crossing.run(first.number)
    return replace(finished_search(evaluator, crossing, group, proved=False), status="met")


def _with_neighbour(best: SearchResult, beside: PointEvaluation, scale: Scale) -> SearchResult:
    fails = beside.failing(best.group) is not None
    near = fails and scale.are_neighbours(best.value.number, beside.number)
    return replace(best, beside=beside, failing=beside if fails else None, witnessed=near)


def _fails_too(evaluator: Evaluator, scale: Scale, best: SearchResult) -> tuple[str, ...]:
    mirrored = replace(scale, side=-scale.side)
    plateau = _next_plateau(evaluator, mirrored, best.value.number)
    evaluation = None if plateau is None else evaluator.at(plateau[0])
    if evaluation is None or evaluation.failing(best.group) is None:
        return ()
    return (FAILS_TOO.format(number=evaluator.typed(evaluation.number)),)


def _next_plateau(evaluator: Evaluator, scale: Scale, at: float) -> tuple[float, float] | None:
    here, end = _training_steps(evaluator, at), scale.first
    first = _first_where(lambda number: _training_steps(evaluator, number) != here, at, end, whole=scale.whole)
    there = None if first is None else _training_steps(evaluator, first)
    if first is None or there is None:
        return None
    beyond = _first_where(lambda number: _training_steps(evaluator, number) != there, first, end, whole=scale.whole)
    return first, end if beyond is None else _before(beyond, first, whole=scale.whole)


def _first_where(holds: Callable[[float], bool], start: float, end: float, *, whole: bool) -> float | None:
    # `holds` changes at most once, from false to true; None: it is false at `end`
    if not holds(end):
        return None
    outside, inside = start, end
    while (middle := _middle(outside, inside, whole=whole)) not in (outside, inside):
        outside, inside = (outside, middle) if holds(middle) else (middle, inside)
    return inside


def _middle(one: float, other: float, *, whole: bool) -> float:
    return (int(one) + int(other)) // 2 if whole else one + (other - one) / 2


def _before(number: float, start: float, *, whole: bool) -> float:
    if whole:
        return number + (1 if start > number else -1)
    return math.nextafter(number, start)


def _training_steps(evaluator: Evaluator, number: float) -> Steps | None:
    try:
        owner: Any = place_of(evaluator.with_number(number), evaluator.place.pointer).owner
    except DOES_NOT_FIT:
        return None
    return owner.steps
