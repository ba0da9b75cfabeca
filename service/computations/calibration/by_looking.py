"""The search where no direction is known in which the targets are met: looks from end to end of the range."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from service.computations.calibration.directions import NOT_PROVED
from service.computations.calibration.found import SearchResult, crossing_of, ended, not_met
from service.computations.calibration.looks import Look, Looks
from service.privacy.calibration.scale import Scale

PLACES: Final = 9
"""Numbers that are looked at before anything else."""
SEVERAL: Final = "the answers go up and down along the numbers that were looked at: the value is the one near the start"
ONCE: Final = "; the targets change from failing to being met once among them"


def _spread(looks: Looks, scale: Scale, start: float) -> list[Look]:
    """Return looks from end to end of the range, or of about the part of the range that is served."""
    numbers = {start, *scale.spread(PLACES)}
    served = sorted(number for number in numbers if looks.at(number) is not None)
    if served and len(served) < len(numbers):
        beyond = min((number for number in numbers if number > served[-1]), default=served[-1])
        if beyond > served[0]:
            numbers |= {*replace(scale, low=served[0], high=beyond).spread(PLACES)}
    return [look for look in map(looks.at, sorted(numbers)) if look is not None]


def by_looking(looks: Looks, scale: Scale, start: float, group: tuple[int, ...]) -> SearchResult:
    """Return the change from failing to being met that is nearest to the start. Raises PrivacyComputationError."""
    seen = _spread(looks, scale, start)
    if not seen:
        raise looks.refusals[start]
    here = scale.coordinate(start)
    near = sorted(seen, key=lambda look: abs(scale.coordinate(look.number) - here))
    changes = [pair for pair in pairwise(seen) if pair[0].meets(group) != pair[1].meets(group)]
    told = SEVERAL if len(changes) > 1 else NOT_PROVED + ONCE * (len(changes) == 1)
    if not changes:
        if near[0].meets(group):
            return SearchResult("met", near[0], group, theorem=told)
        best = min(seen, key=lambda look: look.height(group))
        return replace(not_met(best, group, proved=_all_fail(scale, seen, group)), theorem=told)
    low, high = min(changes, key=lambda pair: min(abs(scale.coordinate(look.number) - here) for look in pair))
    side = 1 if high.meets(group) else -1
    inner = replace(scale, low=low.number, high=high.number, side=side)
    crossing = crossing_of(looks, inner, group, low, high)
    crossing.run(start)
    return replace(ended(looks, crossing, group, proved=False), theorem=told)


def _all_fail(scale: Scale, seen: list[Look], group: tuple[int, ...]) -> bool:
    """Return whether a target provably fails at every number there is, which are few whole ones."""
    every = scale.whole and len(seen) == scale.high - scale.low + 1
    return every and all(look.failing(group) is not None for look in seen)
