"""Bounds of a run from its sub-runs (some of its steps) whose own curves cost little.

A composition is at least as easy to attack as each of its sub-runs, and the guarantees of its sub-runs add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.parts import contour_parts
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import Steps
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.combinators.data_processing_bound import DataProcessingBound
from service.privacy.trade_off.combinators.sum_of_guarantees import Guarantees, SumOfGuarantees
from service.privacy.trade_off.pair import TradeOffPair

MOST_GROUPS: Final = 16
"""Maximal number of groups of equal steps that give sub-runs. Each sub-run is evaluated wherever the whole is wide."""

CurvesOfSubRun = Callable[[Steps], TradeOffPair | None]
"""Function that returns the curves of a sub-run by a closed form or a contour; None where it has neither."""


def with_sub_runs(whole: TradeOffPair, steps: Steps, curves_of: CurvesOfSubRun) -> TradeOffPair:
    """Return the curves `whole` of a run, bounded from below where they are wide by the curves of its sub-runs.

    The sub-runs are: all steps that contours compose, taken together; every group of equal steps; and a single step of
    each group. `curves_of` returns the curves of a sub-run, or None. A single step, and approximate curves without
    proved bounds, are returned unchanged.
    """
    if sum(count for _, count in steps) == 1 or not whole.add.evidence.is_certain:
        return whole

    def sub_runs() -> Sequence[AbstractTradeOff]:
        known = [_certain(group, curves_of) for group in _groups(steps)]
        return [each for each in known if each is not None]

    add = DataProcessingBound(whole.add, sub_runs)
    remove = add if whole.remove is whole.add else add.reversed()
    return replace(whole, add=add, remove=remove)


def with_guarantees(whole: TradeOffPair, steps: Steps, curves_of: CurvesOfSubRun) -> TradeOffPair:
    """Return the curves `whole` of a run, bounded from above where they are wide by the guarantees of its sub-runs.

    The sub-runs are: all steps that contours compose, and every group of the other equal steps. A group of N equal
    steps has the smaller epsilon of two: that of its own curves, and N times that of one step. `curves_of` returns the
    curves of a sub-run, or None. Estimates, runs of more than `MOST_GROUPS` groups, and single steps are returned
    unchanged.
    """
    if sum(count for _, count in steps) == 1 or len(steps) > MOST_GROUPS or not whole.add.evidence.is_certain:
        return whole

    def parts() -> list[list[tuple[AbstractTradeOff, int]]]:
        on_contours = tuple(each for each in steps if contour_parts((each,)) is not None)
        together = _certain(on_contours, curves_of) if 1 < len(on_contours) < len(steps) else None
        found = [] if together is None else [[(together, 1)]]
        for step, count in steps if together is None else [each for each in steps if each not in on_contours]:
            alone = _certain(((step, count),), curves_of) if count > 1 and len(steps) > 1 else None
            found.append([(step.curves().add, count), *(() if alone is None else ((alone, 1),))])
        return found

    known = whole.add
    if isinstance(known, Bracketed):
        add = Bracketed(known.attained, SumOfGuarantees(known.dominating, Guarantees(parts)))
    else:
        add = SumOfGuarantees(known, Guarantees(parts))
    return replace(whole, add=add, remove=add if whole.remove is known else add.reversed())


def _certain(sub_run: Steps, curves_of: CurvesOfSubRun) -> AbstractTradeOff | None:
    """Return the curve of a sub-run in the add direction, or None if it is unknown or has no proved bounds.

    `curves_of` returns the curves of a sub-run, or None.
    """
    try:
        known = curves_of(sub_run)
    except UnsupportedCombination:
        return None
    return None if known is None or not known.add.evidence.is_certain else known.add


def _groups(steps: Steps) -> list[Steps]:
    """Return the sub-runs of a run that give lower bounds, without the whole run.

    These are the steps that contours compose together, each of the first `MOST_GROUPS` groups of equal steps, and one
    step of each of these groups. For a run of two or more equal steps, the only sub-run is one step.
    """
    if len(steps) == 1:
        step, count = steps[0]
        return [((step, 1),)] if count > 1 else []
    on_contours = tuple(each for each in steps if contour_parts((each,)) is not None)
    alone: list[Steps] = []
    for step, count in steps[:MOST_GROUPS]:
        alone += [((step, count),), ((step, 1),)]
    return [group for group in dict.fromkeys((on_contours, *alone)) if group and group != steps]
