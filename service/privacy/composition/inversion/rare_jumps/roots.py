"""Epsilon of a run at a tiny delta, where one rare large loss of a step (jump) determines the profile."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from service.privacy.composition.inversion.rare_jumps.jump_law import JumpLaw
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.roots import bisected

_LARGEST = 50.0
_STEPS = 6
"""Maximal number of Newton's steps, which end with a relative change of `_SETTLED`."""

_SETTLED = 1e-5
_ATTEMPTS = 3
"""Maximal number of attempts to prove a bound, each four times as far from the root as the one before."""

_LEAST_MARGIN = 1e-10
"""Smallest distance of ln delta at a proved bound from its target."""

LogProfile = Callable[[float], tuple[float, float] | None]


def jump_epsilon(step: SampledStep, delta: float) -> float:
    """Return an approximate epsilon with N delta_1(epsilon) = `delta`, for N steps of the privacy profile delta_1 each.

    Parameters
    ----------
    step : SampledStep
        The equal steps of the run.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        epsilon in nats, without an error bound. It is too large where `delta` is not tiny, because the bound of delta_1
        that stands for delta_1 is 1 at small losses.
    """
    law, level = JumpLaw(step), math.log(delta) - math.log(step.count)
    with np.errstate(all="ignore"):
        return bisected(lambda x: float(law.log_profile(np.array([x]))[0]) <= level, 0.0, _LARGEST, 60)[1]


@np.errstate(all="ignore")
def enclosed_root(step: SampledStep, delta: float, log_profile: LogProfile) -> tuple[float, float] | None:
    """Return proved bounds of the epsilon (nats) at which the privacy profile of a run of equal steps is `delta`.

    Parameters
    ----------
    step : SampledStep
        The equal steps of the run.
    delta : float
        In (0, 1).
    log_profile : callable
        Function of epsilon that returns bounds of ln delta(epsilon), or None.

    Returns
    -------
    (float, float) or None
        Lower and upper bound in nats. None if `log_profile` has no bounds at a needed epsilon, or no attempt proves a
        bound.

    Notes
    -----
    The profile falls, so that its bounds at two epsilons prove the enclosure.
    """
    law, level, at = JumpLaw(step), math.log(delta), jump_epsilon(step, delta)
    known, slope = (-math.inf, math.inf), 0.0
    for _ in range(_STEPS):
        found, slope = log_profile(at), law.pull(at)
        if found is None or not (math.isfinite(found[0] + found[1]) and slope > 0):
            return None
        known, move = found, (0.5 * (found[0] + found[1]) - level) / slope
        if abs(move) <= _SETTLED * at:
            break
        at = min(max(at + move, 0.5 * at), 2 * at)
    lower = _proved(at, (known[0] - level) / slope, -1.0, slope, lambda x: _holds(log_profile(x), level, -1.0))
    upper = _proved(at, (known[1] - level) / slope, 1.0, slope, lambda x: _holds(log_profile(x), level, 1.0))
    return None if lower is None or upper is None else (lower, upper)


def _holds(found: tuple[float, float] | None, level: float, side: float) -> bool:
    """Return whether delta is proved to be at least (`side` -1) or at most (`side` 1) its target e^`level`.

    `found` has the bounds of ln delta at one epsilon, or is None where they are unknown; the result is then False.
    """
    if found is None:
        return False
    slack = 1e-15 * (1 + abs(level))
    return found[0] >= level + slack if side < 0 else found[1] <= level - slack


def _proved(at: float, move: float, side: float, slope: float, holds: Callable[[float], bool]) -> float | None:
    """Return a proved bound of epsilon (nats) near `at` + `move`, on one side of the root; None if no attempt succeeds.

    `side` is -1 for a lower bound and 1 for an upper bound. `slope` is about -d ln delta/d epsilon. `holds` is whether
    delta at an epsilon is proved to lie on the right side of its target.
    """
    # Newton's slope is that of one step, and about that of the run.
    margin = 0.1 * abs(move) + _LEAST_MARGIN / slope
    for _ in range(_ATTEMPTS):
        bound = at + move + side * margin
        if bound > 0 and holds(bound):
            return bound
        margin *= 4
    return None
