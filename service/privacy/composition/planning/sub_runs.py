"""Lower bounds of a run from its sub-runs (some of its steps) whose own curves cost little.

A composition is at least as easy to attack as each of its sub-runs.
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

MOST_GROUPS: Final = 16
"""Maximal number of groups of equal steps that give sub-runs. Each sub-run is evaluated wherever the whole is wide."""

CurvesOfSubRun = Callable[[Steps], TradeOffPair | None]
"""Function that returns the curves of a sub-run by a closed form or a contour; None where it has neither."""


def with_sub_runs(whole: TradeOffPair, steps: Steps, curves_of: CurvesOfSubRun) -> TradeOffPair:
    """Return the curves `whole` of a run, bounded from below where they are wide by the curves of its sub-runs.

    The sub-runs are: all steps that contours compose, taken together; every group of equal steps; and a single step of
    each group. Without sub-runs the curves are returned unchanged.
    """
    if sum(count for _, count in steps) == 1 or not whole.add.evidence.is_certain:
        return whole

    def sub_runs() -> Sequence[AbstractTradeOff]:
        found: list[AbstractTradeOff] = []
        for group in _groups(steps):
            try:
                known = curves_of(group)
            except UnsupportedCombination:
                continue
            if known is not None and known.add.evidence.is_certain:
                found.append(known.add)
        return found

    add = DataProcessingBound(whole.add, sub_runs)
    remove = add if whole.remove is whole.add else add.reversed()
    return replace(whole, add=add, remove=remove)


def _groups(steps: Steps) -> list[Steps]:
    """Return the sub-runs of a run that give lower bounds, without the whole run.

    A sub-run has some of the run's steps.
    """
    if len(steps) == 1:
        step, count = steps[0]
        return [((step, 1),)] if count > 1 else []
    on_contours = tuple(each for each in steps if contour_parts((each,)) is not None)
    alone: list[Steps] = []
    for step, count in steps[:MOST_GROUPS]:
        alone += [((step, count),), ((step, 1),)]
    return [group for group in dict.fromkeys((on_contours, *alone)) if group and group != steps]
