"""Lower bounds of a run by those of its parts whose own curves cost little.

A composition is at least as easy to attack as each of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.parts import contour_parts
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.data_processing_bound import DataProcessingBound
from service.privacy.trade_off.pair import TradeOffPair

MOST_PARTS: Final = 16
"""Maximal number of parts, the first of longer lists. Each part is evaluated wherever the whole is wide."""

CurvesOfPart = Callable[[Steps], TradeOffPair | None]
"""Function that returns the curves of a part of a run by a closed form or a contour; None where it has neither."""


def with_parts(whole: TradeOffPair, steps: Steps, curves_of: CurvesOfPart) -> TradeOffPair:
    """Return the curves of a run, bounded from below where they are wide by the curves of its parts.

    The parts are: all steps that contours compose, taken together; every group of equal steps; and a single step of
    each group. Without parts the curves are returned unchanged.
    """
    if sum(count for _, count in steps) == 1 or not whole.add.evidence.is_certain:
        return whole

    def parts() -> Sequence[AbstractTradeOff]:
        found: list[AbstractTradeOff] = []
        for group in _groups(steps):
            try:
                known = curves_of(group)
            except UnsupportedCombination:
                continue
            if known is not None and known.add.evidence.is_certain:
                found.append(known.add)
        return found

    add = DataProcessingBound(whole.add, parts)
    remove = add if whole.remove is whole.add else add.reversed()
    return replace(whole, add=add, remove=remove)


def _groups(steps: Steps) -> list[Steps]:
    """Return the parts of a run that are not the whole run."""
    if len(steps) == 1:
        step, count = steps[0]
        return [((step, 1),)] if count > 1 else []
    on_lines = tuple(each for each in steps if contour_parts((each,)) is not None)
    alone: list[Steps] = []
    for step, count in steps[:MOST_PARTS]:
        alone += [((step, count),), ((step, 1),)]
    return [group for group in dict.fromkeys((on_lines, *alone)) if group and group != steps]
