"""The parts of a run whose own curves cost little: what a composition is at least as easy to attack as."""

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
"""Most parts that are looked at, the first of longer lists: each is read wherever the whole is wide."""

Cheaply = Callable[[Steps], TradeOffPair | None]
"""Curves of a part of a run by a closed form or a line; None where it has neither."""


def with_parts(whole: TradeOffPair, steps: Steps, cheaply: Cheaply) -> TradeOffPair:
    """The curves of a run, where they are wide no lower than those of its parts; the same where there is no part.

    Parts: what lines compose, taken together; every equal step with its count; and a single one of it.
    """
    if sum(count for _, count in steps) == 1 or not whole.add.evidence.is_certain:
        return whole

    def parts() -> Sequence[AbstractTradeOff]:
        found: list[AbstractTradeOff] = []
        for group in _groups(steps):
            try:
                known = cheaply(group)
            except UnsupportedCombination:
                continue
            if known is not None and known.add.evidence.is_certain:
                found.append(known.add)
        return found

    add = DataProcessingBound(whole.add, parts)
    remove = add if whole.remove is whole.add else add.reversed()
    return replace(whole, add=add, remove=remove)


def _groups(steps: Steps) -> list[Steps]:
    """Parts of a run that are not all of it."""
    if len(steps) == 1:
        step, count = steps[0]
        return [((step, 1),)] if count > 1 else []
    on_lines = tuple(each for each in steps if contour_parts((each,)) is not None)
    alone: list[Steps] = []
    for step, count in steps[:MOST_PARTS]:
        alone += [((step, count),), ((step, 1),)]
    return [group for group in dict.fromkeys((on_lines, *alone)) if group and group != steps]
