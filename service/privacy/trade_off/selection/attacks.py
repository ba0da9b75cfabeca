"""Lower bounds for the best of K runs: attacks on scores in three zones.

The notation is that of `upper_bound.py`: phi generates K, and T(u) is the power of the best test of one run at rate u.
Order the outcomes of a run by their likelihood ratio. The q most telling outcomes (by their Q-mass) get scores in a
middle zone, the u next most telling outcomes lower scores, and all others higher scores. Below the top of the middle
zone lies the mass u + q under Q and T(u + q) under P, of which the middle zone has q and T(q). The best score is in the
middle zone with probability

    phi(u + q) - phi(u) under Q,    phi(T(u + q)) - phi(T(u + q) - T(q)) under P.

This is the (rate, power) of the test "the released outcome is in the middle zone". An output that carries an
independent uniform coin makes every rate attainable. For each slope the best test on a grid of (u + q, q) is taken, so
that the curve is a polygon below the truth.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.selection.nodes import Nodes
from service.privacy.trade_off.selection.trial_counts import SLACK, TrialCounts

RAREST: Final = 1e-280
"""Smallest rate of a test; smaller rates are raised to it, which only weakens the test."""
STRIDE: Final = 8
NEAR: Final = np.arange(-STRIDE, STRIDE + 1, 2)
CLOSE: Final = np.arange(-1, 2)


_ENDS: Final = np.array([0.0, 1.0])
GUESSING: Final = PolygonTradeOff(Corners(_ENDS, _ENDS[::-1], _ENDS, _ENDS[::-1]))
"""Curve of an attacker who guesses, the lower bound without a known attack."""


def attacked(ahead: Nodes, back: Nodes, counts: TrialCounts, epsilons: FloatArray) -> AbstractTradeOff:
    """Return the curve of attacks on the best of K runs.

    Each attack gives the outcomes of a run scores in three zones. It tests whether the best score is in the middle one.

    Parameters
    ----------
    ahead, back : Nodes
        Points of the trade-off curve of one run, and of the curve of the swapped hypotheses.
    counts : TrialCounts
        Law of K.
    epsilons : array of shape (m,)
        Log slopes >= 0 (nats), rising, for each of which the best test is searched.

    Returns
    -------
    AbstractTradeOff
        Lower bound of the worst case: a polygon of tests that some score attains.
    """
    first = _tests(ahead, counts, epsilons)
    second = _tests(back, counts, epsilons)
    # A test of the swapped hypotheses that accepts instead of rejecting.
    rate = np.concatenate((first[0], 1 - second[1]))
    rest = np.concatenate((1 - first[0], second[1]))
    power = np.concatenate((first[1], 1 - second[0]))
    error = np.concatenate((1 - first[1], second[0]))
    if not rate.size:
        return GUESSING
    order = np.lexsort((power, -rest, rate))
    return PolygonTradeOff(Corners.hull(*(column[order] for column in (rate, rest, power, error))))


def _tests(nodes: Nodes, counts: TrialCounts, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (rates, powers) of the best tests for each log slope, as upper bounds of rates and lower bounds of powers.

    A test rejects H0 if the best score, which is the released one, is in a middle zone of scores. The best test for a
    slope m has the largest power - m rate. `nodes` are points of the curve of one trial, `counts` is the law of the
    number of trials, and `epsilons` are the log slopes (nats). Tests whose power is not above their rate are left out,
    so both arrays may be shorter than `epsilons`.
    """
    slopes = np.exp(epsilons)
    coarse = np.arange(1, len(nodes.rate), STRIDE)
    coarse = np.unique(np.append(coarse, len(nodes.rate) - 1))
    top, middle = (index.ravel() for index in np.meshgrid(coarse, np.append(0, coarse)))
    top, middle = top[middle <= top], middle[middle <= top]
    rate, power = _test(nodes, counts, top, middle)
    with np.errstate(all="ignore"):
        best = np.argmax(np.nan_to_num(power - slopes[:, None] * rate, nan=-np.inf), axis=1)
    top, middle = top[best], middle[best]
    for around in (NEAR, CLOSE):
        shift_top, shift_middle = (shift.ravel() for shift in np.meshgrid(around, around))
        last = len(nodes.rate) - 1
        tops = np.clip(top[:, None] + shift_top, 1, last)
        middles = np.minimum(np.clip(middle[:, None] + shift_middle, 0, last), tops)
        rate, power = _test(nodes, counts, tops, middles)
        with np.errstate(all="ignore"):
            best = np.argmax(np.nan_to_num(power - slopes[:, None] * rate, nan=-np.inf), axis=1)
        row = np.arange(len(slopes))
        top, middle = tops[row, best], middles[row, best]
    rate, power = _test(nodes, counts, top, middle)
    rate = np.maximum(rate, RAREST)
    telling = power > rate
    return rate[telling], power[telling]


def _test(nodes: Nodes, counts: TrialCounts, top: IndexArray, middle: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return an upper bound of the rate and a lower bound of the power of tests with three zones of scores.

    The test rejects H0 if the best score is in the middle zone. `nodes` are points of the curve of one trial, and
    `counts` is the law of the number of trials. `top` are the indices of nodes at the upper end of the middle zone.
    `middle` are those of nodes whose rate is the probability of this zone in one trial.
    """
    rate = counts.rise(nodes.rate[top], nodes.rest[top], nodes.rate[middle])
    power = counts.rise(
        nodes.power[0, top], nodes.error[1, top], np.minimum(nodes.power[0, middle], nodes.power[0, top])
    )
    return np.minimum(rate * (1 + 4 * SLACK) + 1e-290, 1.0), np.maximum(power * (1 - 4 * SLACK) - 1e-290, 0.0)
