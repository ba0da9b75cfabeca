"""Lower bounds for the best of K runs: attacks on scores in zones.

The notation is that of `upper_bound.py`: phi generates K, and T(u) is the power of the best test of one run at rate u.
Order the outcomes of a run by their likelihood ratio.

Three zones. The q most telling outcomes (by their Q-mass) get scores in a middle zone, the u next most telling outcomes
lower scores, and all others higher scores. Below the top of the middle zone lies the mass u + q under Q and T(u + q)
under P, of which the middle zone has q and T(q). The best score is in the middle zone with probability

    phi(u + q) - phi(u) under Q,    phi(T(u + q)) - phi(T(u + q) - T(q)) under P.

This is the (rate, power) of the test "the released outcome is in the middle zone".

Many zones. Cut the q most telling outcomes into cells at the rates 0 = a_0 < a_1 < ... < a_n = q. The scores of the
cells fall with j: the most telling outcomes have the highest scores. The outcomes that are not tested lie between the
cells, and the more telling ones have lower scores. Cell j has all tested outcomes beyond the rate a_j below its top,
and untested outcomes up to the rate v_j >= q, v_0 >= v_1 >= ... So the mass below its top is v_j - a_j under Q and
T(v_j) - T(a_j) under P. The released outcome is tested with probability

    sum_j phi(v_j - a_j) - phi(v_j - a_{j+1}) under Q,
    sum_j phi(T(v_j) - T(a_j)) - phi(T(v_j) - T(a_{j+1})) under P.

The power rises with every value of T: its derivative in T(a_j) is phi'(T(v_{j-1}) - T(a_j)) - phi'(T(v_j) - T(a_j)),
and is not negative. So lower bounds of T give lower bounds of the power. Each cell is placed near the best rate for its
likelihood ratio alone, which the upper bound gives to each outcome. So the attack nearly attains that bound.

An output that carries an independent uniform coin makes every rate attainable. For each slope the best tests on a grid
are taken, so that the curve is a polygon below the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.selection.hull import upper_hull
from service.privacy.trade_off.selection.nodes import Nodes, differences
from service.privacy.trade_off.selection.trial_counts import SLACK, TrialCounts

RAREST: Final = 1e-280
"""Smallest rate of a test; smaller rates are raised to it, which only weakens the test."""
STRIDE: Final = 8
NEAR: Final = np.arange(-STRIDE, STRIDE + 1, 2)
CLOSE: Final = np.arange(-1, 2)
NARROWEST: Final = 1e-4
"""Smallest width of a cell relative to its rate, so that differences of rates keep their digits."""
SHIFTS: Final = (0.0, 1.0)
"""Tried shares of the rate a_j of a tested cell that are added to the best rate of its likelihood ratio."""


_ENDS: Final = np.array([0.0, 1.0])
GUESSING: Final = PolygonTradeOff(Corners(_ENDS, _ENDS[::-1], _ENDS, _ENDS[::-1]))
"""Curve of an attacker who guesses, the lower bound without a known attack."""


def attacked(
    ahead: Nodes, back: Nodes, counts: TrialCounts, epsilons: FloatArray, swapped_epsilons: FloatArray
) -> AbstractTradeOff:
    """Return the curve of attacks on the best of K runs.

    Each attack gives the outcomes of a run scores in zones. It tests whether the best score is in one of some zones.

    Parameters
    ----------
    ahead, back : Nodes
        Points of the trade-off curve of one run, and of the curve of the swapped hypotheses.
    counts : TrialCounts
        Law of K.
    epsilons : array of shape (m,)
        Log slopes >= 0 (nats), rising, for each of which the best test is searched.
    swapped_epsilons : array of shape (n,)
        Log slopes of tests of the swapped hypotheses, likewise. They only count if `back` is not `ahead`.

    Returns
    -------
    AbstractTradeOff
        Lower bound of the worst case: a polygon of tests that some score attains.
    """
    first = _all_tests(ahead, counts, epsilons)
    second = first if back is ahead else _all_tests(back, counts, swapped_epsilons)
    # A test of the swapped hypotheses that accepts instead of rejecting.
    rate = np.concatenate((first[0], 1 - second[1]))
    rest = np.concatenate((1 - first[0], second[1]))
    power = np.concatenate((first[1], 1 - second[0]))
    error = np.concatenate((1 - first[1], second[0]))
    if not rate.size:
        return GUESSING
    order = np.lexsort((power, -rest, rate))
    return PolygonTradeOff(Corners.hull(*(column[order] for column in (rate, rest, power, error))))


def _all_tests(nodes: Nodes, counts: TrialCounts, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (rates, powers) of tests with three and with many zones, as in `_tests`.

    A fixed number of trials has tests with three zones only: its best rates are below all rates of tested outcomes.
    `nodes` are points of the curve of one trial, `counts` is the law of the number of trials, and `epsilons` are the
    log slopes (nats).
    """
    found = _tests(nodes, counts, epsilons)
    if counts.fixed is not None:
        return found
    rate, power = _tests_of_cells(_Cells.of(nodes, counts), counts, epsilons)
    return np.concatenate((found[0], rate)), np.concatenate((found[1], power))


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


@final
@dataclass(frozen=True)
class _Cells:
    """Cells between n rates of the curve of one trial, from the most telling outcomes on.

    Attributes
    ----------
    rate, rest, power, error : array of shape (n,)
        Rates a_0 = 0, a_1, ... and their complements, lower bounds T of the powers, and 1 - T.
    run, rise : array of shape (n - 1,)
        Differences of the rates and of the powers.
    best : array of shape (n - 1,)
        Indices of the rates on the concave hull of the points (phi'(a), phi'(T)).
    edges : array of shape (k,)
        Log slopes of the hull after each of these rates, falling.
    """

    rate: FloatArray
    rest: FloatArray
    power: FloatArray
    error: FloatArray
    run: FloatArray
    rise: FloatArray
    best: IndexArray
    edges: FloatArray

    @property
    def log_ratios(self) -> FloatArray:
        """Falling logarithms of the ratios rise/run, shape (n - 1,): those of the concave hull of the powers.

        Lower bounds of powers may be so small, or so close to 1, that the ratios of single cells do not fall.
        """
        kept = upper_hull(self.rate, self.power)
        rise, run = (
            differences(number[kept], rest[kept]) for number, rest in ((self.power, self.error), (self.rate, self.rest))
        )
        with np.errstate(all="ignore"):
            ratios = np.nan_to_num(np.log(rise) - np.log(run), nan=-np.inf)
        return np.repeat(np.minimum.accumulate(ratios), np.diff(kept))

    @staticmethod
    def of(nodes: Nodes, counts: TrialCounts) -> _Cells:
        """Return the cells between `nodes`, with the hull of the law `counts` of the number of trials."""
        wide = np.append([True], nodes.widths >= NARROWEST * np.minimum(nodes.rate, nodes.rest)[1:])
        wide[-1] = True
        rate, rest = nodes.rate[wide], nodes.rest[wide]
        power, error = np.maximum.accumulate(nodes.power[0, wide]), np.minimum.accumulate(nodes.error[1, wide])
        power, error = np.where(power > 0.5, 1 - error, power), np.where(power > 0.5, error, 1 - power)
        if power[0] > 0:  # a first cell of rate 0
            rate, power = np.append(0.0, rate), np.append(0.0, power)
            rest, error = np.append(1.0, rest), np.append(1.0, error)
        with np.errstate(all="ignore"):
            x, y = counts.slope(rate, rest), counts.slope(power, error)
            kept = upper_hull(np.append(0.0, x), np.append(0.0, y))
            best = kept[kept > 0] - 1
            edges = np.log(np.diff(y[best])) - np.log(np.diff(x[best]))
        edges = np.minimum.accumulate(np.nan_to_num(edges, nan=np.inf, posinf=np.inf, neginf=-np.inf))
        return _Cells(rate, rest, power, error, differences(rate, rest), differences(power, error), best, edges)


def _tests_of_cells(cells: _Cells, counts: TrialCounts, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (rates, powers) of a test of many zones for each log slope, as in `_tests`.

    A cell with the likelihood ratio l is tested at the log slope eps if the hull of the `cells` has a point (B, A) with
    l A > e^eps B. `counts` is the law of the number of trials, and `epsilons` are the log slopes (nats).
    """
    with np.errstate(all="ignore"):
        wanted = epsilons[:, None] - cells.log_ratios
        best = cells.best[np.searchsorted(-cells.edges, -wanted)]
        gain = np.log(counts.slope(cells.power, cells.error)) - np.log(counts.slope(cells.rate, cells.rest))
        tested = np.logical_and.accumulate(gain[best] > wanted, axis=1)
    row, cell = np.nonzero(tested)
    end = tested.sum(axis=1)
    rates, powers = np.zeros((2, len(epsilons))), np.zeros((2, len(epsilons)))
    for at, shift in enumerate(SHIFTS):
        top = best
        if shift:
            shifted = np.minimum(cells.rate[best] + shift * cells.rate[:-1], 1.0)
            top = np.minimum(np.searchsorted(cells.rate, shifted * (1 - NARROWEST)), len(cells.rate) - 1)
        top = np.minimum.accumulate(np.maximum(top, end[:, None]), axis=1)[row, cell]
        rate = _of_cells(counts, (cells.rate, cells.rest), cells.run, top, cell)
        power = _of_cells(counts, (cells.power, cells.error), cells.rise, top, cell)
        rates[at] = np.bincount(row, rate, len(epsilons))
        powers[at] = np.bincount(row, power, len(epsilons))
    choice = np.argmax(powers - np.exp(epsilons) * rates, axis=0), np.arange(len(epsilons))
    rate = np.minimum(rates[choice] * (1 + 8 * SLACK) + 1e-290, 1.0)
    power = np.maximum(powers[choice] * (1 - 8 * SLACK) - 1e-290, 0.0)
    rate = np.maximum(rate, RAREST)
    telling = power > rate
    return rate[telling], power[telling]


def _of_cells(
    counts: TrialCounts, numbers: tuple[FloatArray, FloatArray], widths: FloatArray, top: IndexArray, cell: IndexArray
) -> FloatArray:
    """Return phi(x - y) - phi(x - y - width) for the number x at the index `top` and the number y at the index `cell`.

    `numbers` has the numbers and their complements, and phi is the generating function of the law `counts`.
    """
    number, rest = numbers
    z = np.where(number[cell] > 0.5, rest[cell] - rest[top], number[top] - number[cell])
    return counts.rise(z, np.minimum(rest[top] + number[cell], 1.0), np.minimum(widths[cell], z))
