"""Upper bounds of the privacy profile of the best of K runs by the composition of all runs, for each number of runs.

The best of n runs is a function of the outputs of n runs, so that its delta is at most that of their composition. The
law of K is the same under both hypotheses, and delta is jointly convex in both laws. So delta_selected(eps) <= E
delta_K(eps) with delta_n the profile of n composed runs. delta_n rises with n. So the largest number of a block of
numbers of runs stands for the block.

This bound is better than that of `upper_bound.py` for epsilons near 0, and for runs that reveal little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.selection.trial_counts import TrialCounts

MOST: Final = 100_000
"""Largest number of runs whose probabilities are computed."""
SINGLE: Final = 8
"""Largest number of runs that is a block of its own."""
BLOCKS: Final = 28
"""Number of further blocks."""
MISSED: Final = 1e-16
"""Probability of larger numbers of runs than the last block, for which delta is at most 1."""
SLACK: Final = 1e-9
"""Relative error of probabilities: sums of at most MOST logarithms and exponentials."""


def blocks_of(counts: TrialCounts) -> tuple[list[int], FloatArray, float] | None:
    """Return the largest number of runs in each block, the probability of each block, and that of more runs.

    A block is a range of numbers of runs with the law `counts`. The probabilities are upper bounds. The result is None
    if 50 times the mean number of runs exceeds a limit, if one run has probability 0, or if the probabilities do not
    fall like a geometric series.
    """
    mean, first = counts.mean_count, counts.least_slope
    if not first > 0 or 50 * mean + 1_000 > MOST:
        return None
    n = np.arange(1.0, math.ceil(50 * mean) + 1_000)
    ratio = counts.ratio(n)
    rest = max(float(ratio[-1]), float(counts.ratio(np.array([1e300]))[0]))
    with np.errstate(divide="ignore"):
        chances = np.exp(np.log(first) + np.concatenate(([0.0], np.cumsum(np.log(ratio[:-1])))))
    if not rest < 1:
        return None
    beyond = np.append(np.cumsum(chances[::-1])[::-1][1:], 0.0) + chances[-1] * rest / (1 - rest)
    last = int(n[min(int((beyond > MISSED).sum()), len(n) - 1)])
    tops = np.unique(np.rint(np.concatenate((np.arange(1.0, SINGLE + 1), np.geomspace(SINGLE, last, BLOCKS)))))
    tops = tops[tops <= last].astype(np.intp)
    sums = np.diff(np.concatenate(([0.0], np.cumsum(chances)[tops - 1])))
    # Sums of small blocks at the end have the error of the largest sums.
    return tops.tolist(), (sums + 1e-15) * (1 + SLACK), (float(beyond[last - 1]) + 1e-300) * (1 + SLACK)


def deltas_given_count(
    counts: TrialCounts, composed: Callable[[int], AbstractTradeOff], epsilons: FloatArray
) -> FloatArray | None:
    """Return upper bounds of the profile of the best of K runs, or None for laws without blocks (`blocks_of`).

    Parameters
    ----------
    counts : TrialCounts
        Law of K.
    composed : callable
        Function of n that returns a curve that dominates n composed runs.
    epsilons : array of shape (m,)
        Numbers of nats.

    Returns
    -------
    array of shape (m,) or None
        Sums over blocks of the probability times the delta of the largest number of runs in the block.
    """
    known = blocks_of(counts)
    if known is None:
        return None
    tops, chances, rest = known
    total = np.full_like(epsilons, rest)
    for top, chance in zip(tops, chances.tolist(), strict=True):
        total += chance * composed(top).profile(epsilons).upper
    return np.minimum(total * (1 + SLACK), 1.0)
