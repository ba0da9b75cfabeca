"""The search for the least private number that meets all targets, and for the neighbour that fails one for sure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal, final

from api_schemas.calibrations import ABSENT, CalibrationsRequest
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
SEVERAL: Final = "the answers go up and down along the numbers that were looked at: the value is the one near the start"
ONCE: Final = "; the targets change from failing to being met once among them"


@final
@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. `beside`: the number next to the value at which not every target is known to be met, where
    it was looked at; `failing`: the nearest one at which a target of the group provably fails. `refused`: why nothing
    can be said of the number next to the value.
    """

    status: Literal["met", "trivially_met", "infeasible"]
    value: Look
    group: tuple[int, ...]
    beside: Look | None = None
    failing: Look | None = None
    refused: Exception | None = None
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
    found = _along(looks, scale, start, known)
    _check_order(request, looks, known)
    return found


def _along(looks: Looks, scale: Scale, start: float, known: Directions) -> Found:
    """Where it is known on which side the targets are met."""
    group = known.group
    if looks.at(start) is None:
        start = _served(looks, scale, start)
    crossing = _crossing(looks, scale, group)
    crossing.run(start)
    found = _ended(looks, crossing, group)
    if found.status != "infeasible" and not found.value.meets(known.others):
        failing = found.value if found.value.failing(known.others) is not None else None
        found = replace(found, status="infeasible", failing=failing, group=known.others)
    return replace(found, side=scale.side, theorem=known.theorem or NOT_PROVED)


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
        failing = last if last.failing(group) is not None else None
        return Found("infeasible", last, group, failing=failing)
    value = looks.made[inside.at]
    if outside is None:
        return Found("trivially_met", value, group)
    beside = looks.at(outside.at)
    if beside is None:
        return Found("met", value, group, refused=looks.refusals[outside.at])
    return Found("met", value, group, beside, _failing(looks, crossing.scale, value, beside, group))


def _failing(looks: Looks, scale: Scale, value: Look, beside: Look, group: Sequence[int]) -> Look | None:
    """A look at which a target fails for sure: the neighbour, or one within the tolerance, or, as where the ends of
    enclosures come from two theorems, one less than FURTHER times as far from the value as need be.
    """
    if beside.failing(group) is not None:
        return beside
    here = scale.coordinate(value.number)
    step = FURTHER if scale.whole else EDGE * scale.reach
    while True:
        moved = value.number - scale.side * step if scale.whole else scale.number(here - step)
        look = looks.at(min(max(moved, scale.low), scale.high))
        if look is None or look.failing(group) is not None or look.number == scale.first:
            return look if look is not None and look.failing(group) is not None else None
        step *= FURTHER


def _by_looking(looks: Looks, scale: Scale, start: float, group: tuple[int, ...]) -> Found:
    """Where nothing is known: the change from failing to being met that is nearest to the start."""
    numbers = sorted({start, *scale.spread(PLACES)})
    seen = [look for look in map(looks.at, numbers) if look is not None]
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
        return Found("infeasible", best, group, failing=best if best.failing(group) is not None else None, theorem=told)
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
