"""The search for the least private number that meets all targets, and for the neighbour that fails one for sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal, final

from api_schemas.calibrations import CalibrationsRequest
from api_schemas.free_numbers import ABSENT
from api_schemas.targets import value_range, widest
from service.computations.calibration.directions import NOT_PROVED, Directions, rise
from service.computations.calibration.looks import Look, Looks
from service.privacy.calibration.crossing import Crossing, Seen
from service.privacy.calibration.scale import TINY, Scale
from service.privacy.errors import NumericalFailure

PLACES: Final = 9
"""Numbers that are looked at before anything else, where it is not known which way to go."""
EDGE: Final = 0.999
"""How far from the value, in tolerances, a neighbour is looked for where the nearest one is undecided ..."""
FURTHER: Final = 4
"""... and how many times as far each time, where that is undecided too."""
BEYOND: Final = 1.02
"""How much further than the slope of the heights says."""
REFINED: Final = 2
"""Looks between the last undecided number and one that fails."""
SEVERAL: Final = "the answers go up and down along the numbers that were looked at: the value is the one near the start"
ONCE: Final = "; the targets change from failing to being met once among them"


@final
@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. `group`: the targets that decide. `beside`: the number next to the value at which not every
    target is known to be met, where it was looked at; `failing`: the nearest one at which a target of the group
    provably fails, a neighbour where the value is `witnessed`. `refused`: why nothing can be said of the number next to
    the value. `side`: on which side of the value the targets are met.
    """

    status: Literal["met", "trivially_met", "infeasible"]
    value: Look
    group: tuple[int, ...]
    beside: Look | None = None
    failing: Look | None = None
    refused: Exception | None = None
    witnessed: bool = False
    side: int | None = None
    theorem: str = ""


def search(request: CalibrationsRequest, looks: Looks, known: Directions) -> Found:
    """Raises PrivacyComputationError where nothing that was looked at can be answered."""
    low, high = request.interval
    whole = looks.place.shape.kind == "integer"
    low = max(low, TINY) if looks.place.shape.minimum_excluded and low == 0 else low
    side = known.side
    scale = Scale(low=low, high=high, whole=whole, side=side or 1, tolerance=request.relative_tolerance)
    number = looks.place.number
    start = min(max(ABSENT[looks.place.name] if number is None else number, low), high)
    if side is None:
        return _by_looking(looks, scale, start, tuple(range(len(request.targets))))
    found = _along(request, looks, scale, start, known)
    _check_order(request, looks, known)
    return found


def _along(request: CalibrationsRequest, looks: Looks, scale: Scale, start: float, known: Directions) -> Found:
    """Where it is known on which side the targets are met."""
    group = known.group
    if all(_is_met_whatever(request, index) for index in group):
        start = scale.first
    if looks.at(start) is None:
        start = _served(looks, scale, start)
    crossing = _crossing(looks, scale, group)
    crossing.run(start)
    found = _ended(looks, crossing, group)
    if found.status != "infeasible" and not found.value.meets(known.others):
        found = _infeasible(found.value, known.others)
    return replace(found, side=scale.side, theorem=known.theorem or NOT_PROVED)


def _is_met_whatever(request: CalibrationsRequest, index: int) -> bool:
    """Whether the limit of a target is beyond all answers to its question, so that nothing need be searched for."""
    target = request.targets[index]
    free = request.place.steps[:3] == ("targets", index, "question")
    least, most = widest(target.question) if free else value_range(target)
    return target.limit <= least if target.at_most is None else target.limit >= most


def _crossing(looks: Looks, scale: Scale, group: Sequence[int]) -> Crossing:
    return Crossing(_seeing(looks, lambda look: _met(look, group)), scale, [])


def _seeing(looks: Looks, see: Callable[[Look], Seen]) -> Callable[[float], Seen | None]:
    def seen(number: float) -> Seen | None:
        look = looks.at(number)
        return None if look is None else see(look)

    return seen


def _met(look: Look, group: Sequence[int]) -> Seen:
    return Seen(look.number, holds=look.meets(group), height=look.height(group))


def _served(looks: Looks, scale: Scale, start: float) -> float:
    """A number that can be answered, where the start cannot. Raises why not where none was found."""
    for number in sorted(scale.spread(PLACES), key=lambda each: abs(scale.coordinate(each) - scale.coordinate(start))):
        if looks.at(number) is not None:
            return number
    raise looks.refusals[start]


def _ended(looks: Looks, crossing: Crossing, group: tuple[int, ...]) -> Found:
    """What a search that came to its end says."""
    inside, outside = crossing.inside, crossing.outside
    if inside is None:
        last = looks.made[outside.at] if outside is not None else next(iter(looks.made.values()))
        return _infeasible(last, group)
    value = looks.made[inside.at]
    if outside is None:
        return Found("trivially_met", value, group)
    beside = looks.at(outside.at)
    if beside is None:
        return Found("met", value, group, refused=looks.refusals[outside.at])
    failing = _failing(looks, crossing.scale, value, beside, group)
    near = failing is not None and crossing.scale.are_neighbours(value.number, failing.number)
    return Found("met", value, group, beside, failing, witnessed=near)


def _infeasible(best: Look, group: tuple[int, ...]) -> Found:
    fails = best.failing(group) is not None
    return Found("infeasible", best, group, failing=best if fails else None, witnessed=fails)


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


def _spread(looks: Looks, scale: Scale, start: float) -> list[Look]:
    """Looks from end to end of the range, or, where not all of it is served, of what is about served of it."""
    numbers = {start, *scale.spread(PLACES)}
    served = sorted(number for number in numbers if looks.at(number) is not None)
    if served and len(served) < len(numbers):
        beyond = min((number for number in numbers if number > served[-1]), default=served[-1])
        if beyond > served[0]:
            numbers |= {*replace(scale, low=served[0], high=beyond).spread(PLACES)}
    return [look for look in map(looks.at, sorted(numbers)) if look is not None]


def _by_looking(looks: Looks, scale: Scale, start: float, group: tuple[int, ...]) -> Found:
    """Where nothing is known: the change from failing to being met that is nearest to the start."""
    seen = _spread(looks, scale, start)
    if not seen:
        raise looks.refusals[start]
    here = scale.coordinate(start)
    near = sorted(seen, key=lambda look: abs(scale.coordinate(look.number) - here))
    changes = [pair for pair in pairwise(seen) if pair[0].meets(group) != pair[1].meets(group)]
    told = SEVERAL if len(changes) > 1 else NOT_PROVED + ONCE * (len(changes) == 1)
    if not changes:
        if near[0].meets(group):
            return Found("trivially_met", near[0], group, theorem=told)
        best = min(seen, key=lambda look: look.height(group))
        return replace(_infeasible(best, group), theorem=told)
    low, high = min(changes, key=lambda pair: min(abs(scale.coordinate(look.number) - here) for look in pair))
    side = 1 if high.meets(group) else -1
    inner = replace(scale, low=low.number, high=high.number, side=side)
    crossing = Crossing(
        _seeing(looks, lambda look: _met(look, group)), inner, [_met(look, group) for look in (low, high)]
    )
    crossing.run(start)
    return replace(_ended(looks, crossing, group), side=side, theorem=told)


def _check_order(request: CalibrationsRequest, looks: Looks, known: Directions) -> None:
    """Raises NumericalFailure where enclosures contradict the theorem that the answers rise, or fall."""
    if not known.theorem:
        return
    ordered = [looks.made[number] for number in sorted(looks.made)]
    for index, (need, target) in enumerate(zip(known.needs, request.targets, strict=True)):
        way = rise(need, target)
        ends = [(look.targets[index].lower, look.targets[index].upper) for look in ordered][:: way or 1]
        highest = -math.inf
        for lower, upper in ends if way else ():
            if upper < highest:
                raise NumericalFailure(f"answers that rise by a theorem fall: {upper!r} after {highest!r}")
            highest = max(highest, lower)
