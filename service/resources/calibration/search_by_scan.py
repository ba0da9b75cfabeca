"""Search of a calibration without a known direction: evaluations across the whole range, followed by a bisection."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from service.privacy.calibration.scale import Scale
from service.resources.calibration.directions import NOT_PROVED
from service.resources.calibration.evaluator import Evaluator, PointEvaluation
from service.resources.calibration.found import SearchResult, crossing_of, finished_search, unmet_result

PLACES: Final = 9
"""Numbers that are evaluated before any others."""
SEVERAL: Final = "the answers are not monotone at the evaluated numbers; the value is the change nearest to the start"
ONCE: Final = "; the targets change once from failing to being met"


def _evaluate_across_range(evaluator: Evaluator, scale: Scale, start: float) -> list[PointEvaluation]:
    numbers = {start, *scale.spread(PLACES)}
    served = sorted(number for number in numbers if evaluator.at(number) is not None)
    if served and len(served) < len(numbers):
        beyond = min((number for number in numbers if number > served[-1]), default=served[-1])
        if beyond > served[0]:
            numbers |= {*replace(scale, low=served[0], high=beyond).spread(PLACES)}
    return [evaluation for evaluation in map(evaluator.at, sorted(numbers)) if evaluation is not None]


def search_by_scan(evaluator: Evaluator, scale: Scale, start: float, group: tuple[int, ...]) -> SearchResult:
    """Search the range `scale` for the change between values that meet some targets and others, nearest to `start`.

    `group` has the indices of these targets. If all values of the scan meet them, return the nearest one. Raises
    PrivacyComputationError if the service can answer at no value of the scan.
    """
    scanned = _evaluate_across_range(evaluator, scale, start)
    if not scanned:
        raise evaluator.refusals[start]
    here = scale.coordinate(start)
    near = sorted(scanned, key=lambda evaluation: abs(scale.coordinate(evaluation.number) - here))
    changes = [pair for pair in pairwise(scanned) if pair[0].meets(group) != pair[1].meets(group)]
    theorem_text = SEVERAL if len(changes) > 1 else NOT_PROVED + ONCE * (len(changes) == 1)
    if not changes:
        if near[0].meets(group):
            return SearchResult("met", near[0], group, theorem=theorem_text)
        best = min(scanned, key=lambda evaluation: evaluation.height(group))
        return replace(unmet_result(best, group, proved=_all_fail(scale, scanned, group)), theorem=theorem_text)
    low, high = min(
        changes, key=lambda pair: min(abs(scale.coordinate(evaluation.number) - here) for evaluation in pair)
    )
    side = 1 if high.meets(group) else -1
    inner = replace(scale, low=low.number, high=high.number, side=side)
    crossing = crossing_of(evaluator, inner, group, low, high)
    crossing.run(start)
    return replace(finished_search(evaluator, crossing, group, proved=False), theorem=theorem_text)


def _all_fail(scale: Scale, scanned: list[PointEvaluation], group: tuple[int, ...]) -> bool:
    every = scale.whole and len(scanned) == scale.high - scale.low + 1
    return every and all(evaluation.failing(group) is not None for evaluation in scanned)
