"""Runs whose composed pairs give only an upper bound, and the attained runs that give the lower bound.

The pair of a step is its law without and with the record, in the worst case over data sets. The pair is attained if
some data sets have this pair of laws. Steps are a tuple of (step, number of such steps).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from service.privacy.mechanisms.abstract import AbstractStep, Steps, merged
from service.privacy.mechanisms.discrete.discrete_laplace import DiscreteLaplaceStep
from service.privacy.mechanisms.discrete.fixed_shift import fixed_shifts
from service.privacy.mechanisms.domain import DISCRETE_SCALE, WHOLE_SENSITIVITY
from service.privacy.mechanisms.groups import GroupOfStated
from service.privacy.mechanisms.stated_divergences import StatedDivergences
from service.privacy.numerics.rounding import rounded

MOST_POLYGONS: Final = 4
MOST_POLYGONS_OF_DIFFERENT_ORDERS: Final = 12
ENGINES_OF_BRACKETS: Final = ("auto", "discretised")
"""Methods that can compose a dominating pair that has neither a contour nor a law of one loss."""
FEW_SHIFTS: Final = 3
"""Largest number of attacks on exponential steps with fixed shifts, beside other steps."""


def is_single(steps: Steps) -> bool:
    """Return whether the run consists of one step only, so that nothing is composed."""
    return len(steps) == 1 and steps[0][1] == 1


def is_bracket(steps: Steps) -> bool:
    """Return whether no single pair of data sets is known to attain the worst case of every step.

    If so, composing the dominating pairs of laws gives only an upper bound, and `attained` gives the lower bound.
    """
    found = [known for step, _ in steps if (known := step.attained()) is not None]
    if is_single(steps):
        return any(known.alone is not None for known in found)
    return bool(found) and (any(_may_shift(step) for step, _ in steps) or not _one_comes_last(steps))


def _may_shift(step: AbstractStep) -> bool:
    """Return whether a step is an exponential step, whose shift is chosen after earlier results.

    The shift is the position of the interval of the losses.
    """
    return (step.adaptive_range or 0.0) > 0


def _one_comes_last(steps: Steps) -> bool:
    """Return whether one step may come last, and all other steps attain their own pairs."""
    found = [(known, count) for step, count in steps if (known := step.attained()) is not None]
    return len(found) == 1 and found[0][1] == 1 and found[0][0].may_come_last


def either_way(steps: Steps) -> bool:
    """Return whether the attained runs of one direction (record added) also attain the other (record removed).

    A run is attained if some data sets have its pair of output laws. Steps whose own pair is attained must be
    symmetric. If one step is easier to attack in one direction, the run with swapped hypotheses belongs to the other
    direction.
    """
    found = [(step, step.attained()) for step, _ in steps]
    return all(step.is_symmetric if known is None else known.either_way for step, known in found)


def attained(steps: Steps) -> tuple[Steps, ...]:
    """Return the runs whose pairs of output laws some data sets attain, one for each known attack.

    These runs give lower bounds. Parameters are rounded to doubles so that each run reveals no more than the exact run.
    """
    if is_single(steps) and (known := steps[0][0].attained()) is not None and known.alone is not None:
        return ((known.alone, 1),), *(() if known.includes_choices else _choices(*steps[0]))
    runs = _runs([_choices(step, count) for step, count in steps])
    if any(_may_shift(step) for step, _ in steps) and _one_comes_last(steps):
        # The choice by score comes last instead of the exponential steps, which then have fixed shifts.
        fixed = [fixed_shifts(*each)[0][0] if _may_shift(each[0]) else each for each in steps]
        runs += _runs([(((step, count),),) for step, count in fixed])
    return runs


def attained_by_one_choice(steps: Steps) -> tuple[Steps, ...]:
    """Return the runs whose pairs single choices of data sets attain as a whole, one for each known attack.

    Two points of one of these runs belong to one choice, also for a single step. Parameters are rounded as by
    `attained`.
    """
    # Further shifts of exponential steps narrow answers little beside other steps, and every run costs a composition.
    shifts = None if len(steps) == 1 else FEW_SHIFTS
    return _runs([fixed_shifts(*each)[:shifts] if _may_shift(each[0]) else _choices(*each) for each in steps])


def _runs(found: Sequence[tuple[Steps, ...]]) -> tuple[Steps, ...]:
    """Return runs with one of the choices of every step, as many as the longest list of choices in `found` has."""
    runs = [[each[min(index, len(each) - 1)] for each in found] for index in range(max(map(len, found)))]
    return tuple(merged((step.rounded(-1), count) for part in run for step, count in part) for run in runs)


def _choices(step: AbstractStep, count: int) -> tuple[Steps, ...]:
    """Return runs of `count` equal steps whose pairs are attained, one for each known attack on the step."""
    known = step.attained()
    if known is None:
        return (((step, count),),)
    return (((known.step, count),),) if known.choices is None else known.choices(count)


def dominating(steps: Steps) -> Steps:
    """Return the steps with their dominating pairs, for upper bounds.

    A dominating pair is at least as easy to distinguish as any pair of neighbouring data sets. Parameters are rounded
    to doubles so that each step reveals no less than the exact step.
    """
    return merged((step.rounded(1), count) for step, count in steps)


def is_attained_as_a_whole(steps: Steps) -> bool:
    """Return whether one choice of data sets attains the whole trade-off curve of a run, also of a single step."""
    return all(step.attained() is None and sides(step) is None and not _may_shift(step) for step, _ in steps)


def sides(step: AbstractStep) -> tuple[Steps, AbstractStep, str | None] | None:
    """Return `(attained, above, sentence)`, which bound a step from both sides; None if the step is known exactly.

    `attained` are steps that are no easier to attack than the step, and `above` is a step that is no harder to attack.
    `sentence` names both theorems, or is None. The pair of k records under pure eps-DP is that of discrete Laplace
    noise of scale 1/eps, shifted by k. The noise attains the pair in every step. Two roundings of the scale enclose it.
    """
    if not isinstance(step, GroupOfStated) or step.delta > 0 or step.records not in WHOLE_SENSITIVITY:
        return step.sides()
    scale = 1 / Fraction(step.epsilon)
    if float(scale) not in DISCRETE_SCALE:
        return step.sides()
    more, less = (DiscreteLaplaceStep(scale=rounded(scale, side), shift=step.records) for side in (1, -1))
    return ((more, 1),), less, None


def added(steps: Steps) -> Steps:
    """Return the run with one step in place of several steps whose stated bounds add up, also of different steps.

    Stated bounds are those of zCDP and Renyi DP, for example. The run is unchanged if no steps have such bounds, or if
    the sum is out of their domain.
    """
    known: list[tuple[AbstractStep, int]] = []
    for step, count in steps:
        together = (step, count) if (total := step.added(count)) is None else (total, 1)
        for number, (earlier, times) in enumerate(known):
            if times == together[1] == 1 and (total := earlier.plus(together[0])) is not None:
                known[number] = (total, 1)
                break
        else:
            known.append(together)
    return merged(known)


def most_polygons(steps: Steps) -> int:
    """Return the largest number of different steps with stated bounds whose dominating pairs are composed.

    Their composition is a second upper bound, and the sum of the stated bounds is the first. If the steps have bounds
    of the same orders, this sum is nearly always smaller, so that the limit is lower.
    """
    orders = {step.stated_orders for step, _ in steps if isinstance(step, StatedDivergences)}
    return MOST_POLYGONS if len(orders) <= 1 else MOST_POLYGONS_OF_DIFFERENT_ORDERS


def sentence(steps: Steps) -> str:
    """Return the sentences that name the theorems of both bounds, for steps with unattained pairs of laws.

    They are parts of the note of the answer. A pair of laws is attained if some data sets have it.
    """
    found = (step.attained() for step, _ in steps)
    return " ".join(dict.fromkeys(known.bracket for known in found if known is not None))
