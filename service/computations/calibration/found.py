"""The result of a search, made of the looks at both sides of the number at which the targets begin to be met."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, final

from service.computations.calibration.looks import Look, Looks
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
    value: Look
    group: tuple[int, ...]
    beside: Look | None = None
    failing: Look | None = None
    refused: Exception | None = None
    witnessed: bool = False
    whole: bool = False
    proved: bool = False
    side: int | None = None
    theorem: str = ""
    notes: tuple[str, ...] = ()


def crossing_of(looks: Looks, scale: Scale, group: Sequence[int], *known: Look) -> Crossing:
    """Return the search for the least private number of the scale at which the group is met. `known`: looks made."""
    return Crossing(_seeing(looks, lambda look: _met(look, group)), scale, [_met(look, group) for look in known])


def _seeing(looks: Looks, see: Callable[[Look], Evaluation]) -> Callable[[float], Evaluation | None]:
    def seen(number: float) -> Evaluation | None:
        look = looks.at(number)
        return None if look is None else see(look)

    return seen


def _met(look: Look, group: Sequence[int]) -> Evaluation:
    return Evaluation(look.number, holds=look.meets(group), height=look.height(group))


def ended(looks: Looks, crossing: Crossing, group: tuple[int, ...], *, proved: bool) -> SearchResult:
    """Return the result of a search that came to its end. `proved`: what fails at the last number fails at all."""
    inside, outside, scale = crossing.inside, crossing.outside, crossing.scale
    if inside is None:
        last = looks.made[outside.at] if outside is not None else next(iter(looks.made.values()))
        fails = last.failing(group) is not None
        return not_met(last, group, proved=proved and fails and last.number == scale.last)
    value = looks.made[inside.at]
    if outside is None:
        return SearchResult("trivially_met", value, group)
    beside = looks.at(outside.at)
    if beside is None:
        return SearchResult("met", value, group, refused=looks.refusals[outside.at], whole=scale.whole)
    failing = _failing(looks, scale, value, beside, group)
    near = failing is not None and scale.are_neighbours(value.number, failing.number)
    return SearchResult("met", value, group, beside, failing, witnessed=near, whole=scale.whole)


def not_met(best: Look, group: tuple[int, ...], *, proved: bool) -> SearchResult:
    """Return a result without a number that meets the group. `proved`: there is none."""
    fails = best.failing(group) is not None
    status = "infeasible" if proved else "undecided"
    return SearchResult(status, best, group, failing=best if fails else None, witnessed=proved and fails)


def _failing(looks: Looks, scale: Scale, value: Look, beside: Look, group: Sequence[int]) -> Look | None:
    """A look at which a target fails for sure: the neighbour, or one within the tolerance, or, as where the ends of
    enclosures come from two theorems, one that is not much further from the value than need be.
    """
    if beside.failing(group) is not None:
        return beside
    here, undecided = scale.coordinate(value.number), value
    step = max(EDGE * scale.reach, BEYOND * value.to_failing(group) / _slope(looks, scale, value, group))
    while True:
        number = scale.number(here - step)
        number = beside.number if scale.coordinate(number) >= scale.coordinate(beside.number) else number
        look = looks.at(number)
        if look is not None and look.failing(group) is not None:
            return _nearer(looks, scale, undecided, look, group)
        if look is None or look.number == scale.first:
            return None
        undecided, step = look, step * FURTHER


def _nearer(looks: Looks, scale: Scale, undecided: Look, failing: Look, group: Sequence[int]) -> Look:
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
        look = looks.at(number)
        if look is None:
            break
        undecided, failing = (look, failing) if look.failing(group) is None else (undecided, look)
    return failing


def _slope(looks: Looks, scale: Scale, value: Look, group: Sequence[int]) -> float:
    """How fast the height falls with the coordinate, by the looks next to the value that are no neighbours of it."""
    here = scale.coordinate(value.number)
    slopes = [
        (value.height(group) - look.height(group)) / (scale.coordinate(look.number) - here)
        for look in sorted(looks.made.values(), key=lambda look: abs(scale.coordinate(look.number) - here))
        if not scale.are_neighbours(look.number, value.number)
    ]
    return next((slope for slope in slopes if 0 < slope < math.inf), math.inf)
