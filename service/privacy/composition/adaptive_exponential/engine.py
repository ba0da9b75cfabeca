"""Compositions with several exponential steps, whose worst shifts depend on earlier results.

The loss of an exponential step lies in an interval of length epsilon, whose position (shift) an adversary may choose.
delta is the profile of the run, delta_0 that without any step, and T and D_others are operators on profiles that add
steps. The bounds combine three theorems. T: the worst case over adaptive shifts is the recursion of `recursion.py`. D:
a step, or several consecutive steps, may be replaced by an independent draw of the pair with the profile of their worst
case (Zhu, Dong, Wang 2022, Theorem 10). Averages: an average over losses that the adversary does not choose may be
moved out of a supremum, so T D <= D T. For exponential steps beside others, in any order, this gives

    delta <= D_others T ... T delta_0.

The bound is attained if the other steps come first. For different epsilons, the upper bound allows any order, even an
order chosen during the run (`any_order`). The lower bound uses the best known order. Numerically both bounds agree. A
mechanism has no stated order, so the worst order counts.

Runs with more than MOST_STEPS steps, or with too many different steps, have a bracket. The upper bound uses blocks of
equal epsilon by T, each as a pair, and D for all other steps. The lower bound uses the same share of epsilon as the
shift of every step that T does not cover (`fixed_shifts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from service.privacy.composition.adaptive_exponential.adaptive_run import (
    MOST_STEPS,
    SOURCE,
    ExponentialRun,
    ExponentialRunTradeOff,
)
from service.privacy.composition.adaptive_exponential.fixed_shifts import FixedShifts, Groups
from service.privacy.composition.adaptive_exponential.nodes import grid_for
from service.privacy.composition.lattice.engine import discretised_pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.planning.parts import exponentials
from service.privacy.mechanisms.abstract import Steps, merged
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.pure_dp import PureDp
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair

FEWEST_STEPS: Final = 50
"""Smallest number of steps of a block. A divisor of the steps in this range avoids a block of another size."""
FINEST: Final = 1e-5
"""Smallest relative width beside other steps. The nodes of the recursion are not accurate enough for finer lattices."""
FINEST_BRACKET: Final = 1e-3
"""Smallest relative width if the bounds come from different theorems, which differ by a few percent."""
SMALLEST_EPSILON: Final = 1e-250
"""Smallest epsilon of a recursion. Products of smaller epsilons underflow, so such steps are composed like others."""


DOMINATING: Final = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs)"
BRACKET: Final = (
    "bracket: upper bounds compose blocks of exponential steps as dominating pairs "
    f"({DOMINATING}). Lower bounds are attained by an attack whose shift is the same share of "
    f"epsilon in every step ({SOURCE})."
)
ORDER_BRACKET: Final = (
    "bracket: upper bounds use the recursion in which the order of the steps is chosen "
    f"adaptively ({SOURCE}). Lower bounds use the recursion with epsilons in increasing order. No "
    "theorem shows that this order is the worst."
)
SAMPLED_BRACKET: Final = (
    f"bracket: upper bounds compose exponential steps as dominating pairs ({DOMINATING}). Lower "
    "bounds are attained by an attack whose shift is half of epsilon in every step, which is "
    f"randomised response ({SOURCE})."
)
Engine = Callable[[Steps, EngineOptions], TradeOffPair]


def adaptive_exponential_pair(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Build the trade-off curves of a run with several exponential steps.

    Enclosures hold for the worst case over adaptively chosen shifts, the positions of the steps' loss intervals.
    `steps` has pairs (mechanism, number of steps). Of the `options`, `relative_tolerance` is the relative width aimed
    at.
    """
    groups = tuple(sorted((float(epsilon), count) for epsilon, count in exponentials(steps) if epsilon > 0))
    others = tuple((step, count) for step, count in steps if step.adaptive_range is None)
    inside = _recursion_groups(groups)
    left = tuple(group for group in groups if group not in inside)
    reason = (
        "discretised: the worst shift of every exponential step is chosen after all earlier results, "
        "with the steps in the worst order."
    )
    if inside and not left:
        options = options.no_finer_than(FINEST)
        one = ExponentialRun(inside, options.relative_tolerance)
        ordered = ORDER_BRACKET if len(inside) > 1 else None
        if not others:
            pair = one.curves()
            return TradeOffPair(pair.add, pair.remove, SOURCE, (reason,), bracket=ordered)
        pair = discretised_pair(((one, 1), *others), options)
        return TradeOffPair(pair.add, pair.remove, f"{SOURCE}; {pair.source}", (reason, *pair.notes), bracket=ordered)
    options = options.no_finer_than(FINEST_BRACKET)
    above = discretised_pair((*_blocks(inside, groups, options), *others), options)
    run: Steps = ((ExponentialRun(inside, options.relative_tolerance), 1),) if inside else ()
    below = FixedShifts(left, (*run, *others), above.add, _curve_of_first_steps(groups, inside), options)
    add = Bracketed(below, above.add)
    mirrors = [step.curves() for step, _ in others]
    remove = add if all(curves.add is curves.remove for curves in mirrors) else add.reversed()
    return TradeOffPair(add, remove, f"{SOURCE}; {above.source}", (reason, *above.notes), bracket=BRACKET)


def approximated(engine: Engine, steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Return the curves of an engine without bounds that composes dominating pairs, with a note on this approximation.

    `engine` builds the curves of `steps` with the `options` of the request. A dominating pair is at least as easy to
    distinguish as the output of the step on any neighbouring data sets.
    """
    pair = engine(steps, options)
    note = (
        "exponential: the approximation composes dominating pairs, which take the worst shift in "
        "every step at once. Several steps do not attain these pairs. Method `auto` gives bounds on "
        "the attained worst case."
    )
    return replace(pair, notes=(*pair.notes, note))


def sampled(engine: Engine, steps: Steps, options: EngineOptions) -> TradeOffPair:
    """Return the curves of the Monte Carlo engine for runs with exponential steps, with separate draws for both bounds.

    `engine` draws the losses of `steps` with the `options` of the request. The upper bounds draw the dominating pair of
    each exponential step, and the lower bounds a step with the fixed shift epsilon/2, whose loss is +-epsilon/2.
    """
    options = options.for_components(2)
    above = engine(steps, options)
    halves = merged(
        (step if step.adaptive_range is None else PureDp(epsilon=0.5 * step.adaptive_range), count)
        for step, count in steps
    )
    add = Bracketed(engine(halves, options).add, above.add)
    return TradeOffPair(add, add.reversed(), above.source, above.notes, bracket=SAMPLED_BRACKET)


def _curve_of_first_steps(groups: Groups, inside: Groups) -> AbstractTradeOff | None:
    """Return the curve of up to MOST_STEPS equal exponential steps of a longer run, or None.

    Ignoring the other steps makes no attack stronger, so the power and delta of the curve are lower bounds for the run.
    `groups` has pairs (epsilon, count) of all exponential steps, and `inside` those that the recursion covers. The
    steps are those of the group with the largest variance of the loss. The result is None if `inside` is not empty, or
    if epsilon of the steps is below SMALLEST_EPSILON.
    """
    epsilon, count = _main(groups)
    if inside or epsilon < SMALLEST_EPSILON:
        return None
    return ExponentialRunTradeOff(((epsilon, min(count, MOST_STEPS)),), FINEST_BRACKET)


def _recursion_groups(groups: Groups) -> Groups:
    """Return the groups (epsilon, count) of equal steps that a single recursion covers.

    The groups with the largest variance of the loss come first, as long as at most MOST_STEPS steps and a grid of
    allowed size (`grid_for`) suffice. The result is empty if the group with the largest variance does not fit and has
    more variance than all that fit: blocks of that group (`_blocks`) then give smaller upper bounds of delta.
    """
    found: Groups = ()
    for group in sorted(groups, key=_weight, reverse=True):
        tried = tuple(sorted((*found, group)))
        if (
            group[0] >= SMALLEST_EPSILON
            and sum(count for _, count in tried) <= MOST_STEPS
            and grid_for(tried) is not None
        ):
            found = tried
    # Blocks of the group with the largest weight give a smaller bound than a recursion without that group.
    return () if found and _weight(_main(groups)) > math.fsum(map(_weight, found)) else found


def _weight(group: tuple[float, int]) -> float:
    return group[1] * group[0] ** 2


def _main(groups: Groups) -> tuple[float, int]:
    return max(groups, key=_weight)


def _blocks(inside: Groups, groups: Groups, options: EngineOptions) -> Steps:
    """Return steps that together dominate all exponential steps of a run.

    `groups` has pairs (epsilon, count). The result has the steps of one recursion (`inside`), or blocks of equal
    epsilon, and single steps for the rest. The recursions aim at the relative width of `options`.
    """
    tolerance = options.relative_tolerance
    if inside:
        left = tuple(group for group in groups if group not in inside)
        return ((ExponentialRun(inside, tolerance), 1), *_single_steps(left))
    main = epsilon, count = _main(groups)
    left = tuple(group for group in groups if group != main)
    if epsilon < SMALLEST_EPSILON or count < MOST_STEPS:
        return _single_steps(groups)
    size = next((size for size in range(MOST_STEPS, FEWEST_STEPS - 1, -1) if count % size == 0), MOST_STEPS)
    blocks: Steps = ((ExponentialRun(((epsilon, size),), tolerance), count // size),)
    rest = count % size
    if rest > 1:
        blocks = (*blocks, (ExponentialRun(((epsilon, rest),), tolerance), 1))
    elif rest:
        blocks = (*blocks, *_single_steps(((epsilon, 1),)))
    return (*blocks, *_single_steps(left))


def _single_steps(groups: Groups) -> Steps:
    return tuple((Exponential(epsilon=epsilon), count) for epsilon, count in groups)
