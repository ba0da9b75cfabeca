"""Upper bounds of the privacy profile of the best of K runs.

Each run gives an output with a score. The run with the best score is released, ties by an independent coin. K does not
depend on the data, phi is its generating function, and E K = phi'(1) is finite. P and Q are the laws of one run, score
included, l = dP/dQ, and T(u) is the largest power of a test of Q against P at rate u. E = e^eps >= 1.

Theorem. delta_selected(eps) <= E_Q h(l) = int delta(ln k) dh'(k) with h(l) = sup_u (l phi'(T(u)) - E phi'(u))_+.

Proof. Let F_P(s), F_Q(s) be the laws of the score. The best of K has the law phi(F), so that the released output has the
density phi'(F_P(s(x))) P(dx) (a coin beside the score removes ties); nothing is released with probability phi(0) in both
cases. "Score at most s" is a test of rate F_Q(s), so F_P <= T(F_Q), and phi' does not decrease. So the positive part of
P_selected - E Q_selected at x is at most (l phi'(T(u)) - E phi'(u))_+ Q(dx) with u = F_Q(s(x)), hence at most h(l) Q(dx).
h is a maximum of linear functions, convex, with h(0) = 0, so that h(l) = int (l - k)_+ dh'(k).

Fixed K with different configurations, each under T. The output of run j has the density prod_{i != j} F_{P,i}. Let T+ be
a function above T whose logarithm is concave in ln u. Then prod T+(u_i) <= T+(u)^{K-1} with u the geometric mean of the
u_i, and prod u_i = u^{K-1}. So the theorem holds with T+. For random K, a configuration drawn inside each run is a part of
that run.

Cells. With A(u) = phi'(T(u)) and B(u) = phi'(u), h is the support function of the points (B, A) and of (0, 0), so it only
depends on their concave hull. Between two rates the curve (B, A) lies below its steepest line through the left point and
its flattest line through the right point, so it lies below the hull of both points and of the apex where the lines meet.
Let the hull have edges with rise dA_j and slope r_j = dA_j/dB_j. Then h(l) = sum_j dA_j (l - E/r_j)_+ and

    delta_selected(eps) <= sum_j dA_j delta(eps - ln r_j).

delta is convex in k = e^c, so chords between thresholds bound it from above. All terms are positive.
"""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.selection.hull import upper_hull
from service.privacy.trade_off.selection.nodes import ROUNDING, Nodes, differences, nodes_of
from service.privacy.trade_off.selection.trial_counts import SLACK, TrialCounts

LARGEST: Final = 690.0
"""Largest threshold (nats): its exponential and products with numbers of trials are doubles."""
REFINEMENTS: Final = 3
OVERSHOOT: Final = 3e-4
"""Distance of an apex above the chord of its cell, relative to its height, from which the cell is divided."""
PARTS: Final = 4
MOST_DIVIDED: Final = 200
APART: Final = 1e-9
"""Smallest distance of thresholds (nats)."""


@final
class SelectionBound:
    """Upper bound of the privacy profile of the best of K runs in one direction.

    Parameters
    ----------
    curve : AbstractTradeOff
        Trade-off curve of one run, or of a pair that dominates each run.
    counts : TrialCounts
        Law of K.

    Notes
    -----
    The bound exceeds E_Q h(l) by less than 1e-3 of delta for Gaussian runs (tested).
    """

    def __init__(self, curve: AbstractTradeOff, counts: TrialCounts) -> None:
        self.nodes, rate_side, power_side = _refined(curve, counts)
        rises, runs = np.diff(power_side), np.diff(rate_side)
        with np.errstate(divide="ignore"):
            self._log_slopes = np.where(runs > 0, np.log(rises) - np.log(np.maximum(runs, 1e-320)), np.inf)
        self._rises = rises
        self._thresholds, self._deltas = _profile(curve, self.nodes)

    @property
    def thresholds(self) -> FloatArray:
        """Epsilons >= 0 at which lines of the bound determine it well, rising, shape (m,)."""
        steepest = self._log_slopes[np.isfinite(self._log_slopes)].max(initial=0.0)
        moved = np.concatenate((self._thresholds, self._thresholds + steepest))
        inside = np.unique(moved[(moved > 0) & (moved < LARGEST)])
        return np.concatenate(([0.0], inside))

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """Return upper bounds of delta at epsilons >= 0, shape (m,)."""
        logs = np.where(np.isfinite(self._log_slopes), self._log_slopes, 1e300)
        moved = epsilons[:, None] - logs[None, :]
        total = self._profile_above(moved) @ self._rises
        return np.minimum(total * (1 + 1e-10), 1.0)

    def _profile_above(self, c: FloatArray) -> FloatArray:
        """Return the chords of delta over e^c, which are at least delta, at thresholds `c` of any shape."""
        known, delta = self._thresholds, self._deltas
        right = np.searchsorted(known, c)
        low = np.maximum(right - 1, 0)
        high = np.minimum(right, len(known) - 1)
        gaps = np.append(np.expm1(np.diff(known)), 1.0)
        with np.errstate(all="ignore"):
            share = np.clip(np.expm1(c - known[low]) / gaps[low], 0.0, 1.0)
            first = np.exp(np.minimum(c - known[0], 0.0))
        inside = delta[low] + (delta[high] - delta[low]) * share
        return np.where(right == 0, 1 - (1 - delta[0]) * first, np.where(right == len(known), delta[-1], inside))


def _profile(curve: AbstractTradeOff, nodes: Nodes) -> tuple[FloatArray, FloatArray]:
    """Return thresholds (nats, rising) and upper bounds of delta at each: the slopes of chords between the nodes.

    At the largest log-likelihood ratio, delta is the mass of infinite ratios. At the smallest ratio c it is 1 - e^c.
    """
    with np.errstate(all="ignore"):
        slopes = np.log(differences(nodes.power[1], nodes.error[0])) - np.log(nodes.widths)
    largest, smallest = curve.largest_log_ratio.upper, curve.smallest_log_ratio.lower
    found = np.unique(np.append(slopes[np.isfinite(slopes)], 0.0))
    found = found[(np.abs(found) < LARGEST) & (found > smallest + APART) & (found < largest - APART)]
    found = found[np.append(np.diff(found) > APART, [True])] if found.size else found
    delta = np.minimum(curve.profile(found).upper, 1.0) if found.size else found
    if smallest > -LARGEST:
        found, delta = np.append(smallest, found), np.append(-math.expm1(smallest) * (1 + ROUNDING), delta)
    if largest < LARGEST and largest > smallest:
        found, delta = np.append(found, largest), np.append(delta, curve.singular_power.upper)
    return (found, delta) if found.size else (np.zeros(1), np.minimum(curve.profile(np.zeros(1)).upper, 1.0))


def _refined(curve: AbstractTradeOff, counts: TrialCounts) -> tuple[Nodes, FloatArray, FloatArray]:
    """Return nodes, divided where an apex is high, and the vertices (B, A) of the hull, from (0, 0)."""
    nodes = nodes_of(curve)
    rate_side, power_side, wide = _vertices(nodes, counts)
    for _ in range(REFINEMENTS):
        if not wide.size:
            break
        left, right = nodes.score[wide], nodes.score[wide + 1]
        inner = left[:, None] + (right - left)[:, None] * (np.arange(1, PARTS) / PARTS)
        nodes = nodes.with_scores(curve, inner.ravel())
        rate_side, power_side, wide = _vertices(nodes, counts)
    return nodes, rate_side, power_side


def _vertices(nodes: Nodes, counts: TrialCounts) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return B and A of the vertices of the hull, and the indices of cells to divide."""
    rate_side, power_side, steepest, flattest = _curve(nodes, counts) if counts.identical else _steeper(nodes, counts)
    with np.errstate(all="ignore"):
        run, rise = np.diff(rate_side), np.diff(power_side)
        before = np.clip((rise - flattest * run) / (steepest - flattest), 0.0, run)
    before = np.nan_to_num(before)
    height = power_side[1:] - flattest * (run - before)
    slack = SLACK * (power_side[1:] + np.where(np.isfinite(steepest), steepest, flattest) * rate_side[1:])
    height = np.minimum(height + slack, power_side[1:]) * (1 + SLACK)
    x = np.concatenate(([0.0], _merged(rate_side, rate_side[:-1] + before)))
    y = np.concatenate(([0.0], _merged(power_side * (1 + SLACK), height)))
    x = np.maximum.accumulate(x * (1 - SLACK))
    kept = upper_hull(x, y)
    with np.errstate(all="ignore"):
        chord = power_side[:-1] + rise * np.nan_to_num(before / run)
        high = height > chord * (1 + OVERSHOOT)
    on_hull = np.zeros(len(x) + 1, dtype=np.bool_)
    on_hull[kept] = True
    cells = np.flatnonzero(high & on_hull[2 : 2 * len(height) + 1 : 2])
    if not counts.identical:
        cells = cells[:0]
    finite = np.isfinite(nodes.score[cells]) & np.isfinite(nodes.score[cells + 1])
    return x[kept], y[kept], cells[finite][:MOST_DIVIDED]


def _merged(nodes: FloatArray, inner: FloatArray) -> FloatArray:
    """Return the sequence node, inner, node, inner, ..., node."""
    merged = np.empty(len(nodes) + len(inner))
    merged[::2], merged[1::2] = nodes, inner
    return merged


def _curve(nodes: Nodes, counts: TrialCounts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return B and upper bounds of A at the nodes, and the steepest and flattest slope dA/dB of every cell."""
    rate_side = counts.slope(nodes.rate, nodes.rest)
    power_side = counts.slope(nodes.power[1], nodes.error[0])
    bend = counts.curvature(nodes.rate, nodes.rest)
    above = counts.curvature(nodes.power[1], nodes.error[0])
    below = counts.curvature(nodes.power[0], nodes.error[1])
    flat, steep = nodes.slopes
    with np.errstate(all="ignore"):
        steepest = above[1:] * steep / bend[:-1] * (1 + 4 * SLACK)
        flattest = below[:-1] * flat / bend[1:] * (1 - 4 * SLACK)
    return rate_side, power_side, np.nan_to_num(steepest, nan=np.inf, posinf=np.inf), np.nan_to_num(flattest)


def _steeper(nodes: Nodes, counts: TrialCounts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the numbers of `_curve` for the least function above T whose logarithm is concave in ln u.

    The number of trials is K = `counts`. A line through two points with a positive value at u = 0 is convex in these
    logarithms, so chords of the logarithms are above it. Between two vertices T+ = C u^b, and A = const B^b.
    """
    rate, power = _apices(nodes)
    with np.errstate(all="ignore"):
        x = np.where(rate[0] < 0.5, np.log(rate[0]), np.log1p(-rate[1]))
        y = np.where(power[0] < 0.5, np.log(power[0]), np.log1p(-power[1]))
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite] + ROUNDING
    kept = upper_hull(x, y)
    x, y = np.minimum(x[kept], 0.0), np.minimum(y[kept], 0.0)
    rate_side = counts.slope(np.exp(x), -np.expm1(x))
    power_side = counts.slope(np.exp(y), -np.expm1(y))
    with np.errstate(all="ignore"):
        order = np.nan_to_num(np.diff(y) / np.diff(x), posinf=np.inf)
        steepest = order * power_side[:-1] / rate_side[:-1] * (1 + 1e-9)
        flattest = order * power_side[1:] / rate_side[1:] * (1 - 1e-9)
    steepest = np.where(order <= 1, np.nan_to_num(steepest, nan=np.inf, posinf=np.inf), np.inf)
    flattest = np.where(order <= 1, np.nan_to_num(flattest), 0.0)
    # If a rate is below the first vertex, the product of the powers is at most the power there.
    start = float(counts.slope(np.ones(1), np.zeros(1))[0]) * math.exp(float(y[0]))
    return (
        np.concatenate(([0.0], rate_side)),
        np.concatenate(([start], np.maximum(power_side, start))),
        np.concatenate(([np.inf], steepest)),
        np.concatenate(([0.0], flattest)),
    )


def _apices(nodes: Nodes) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return (rate, rest) and (power, error) of the nodes and of the apices between them, whose hull is above T."""
    run = nodes.widths
    rise = differences(nodes.power[1], nodes.error[0])
    flattest, steepest = nodes.slopes
    with np.errstate(all="ignore"):
        before = np.nan_to_num(np.clip((rise - flattest * run) / (steepest - flattest), 0.0, run))
    behind = run - before
    power = np.minimum(nodes.power[1, 1:] - flattest * behind + ROUNDING * nodes.power[1, 1:], nodes.power[1, 1:])
    error = np.maximum(nodes.error[0, 1:] + flattest * behind * (1 - ROUNDING) - ROUNDING * nodes.error[0, 1:], 0.0)
    return (
        (_merged(nodes.rate, nodes.rate[:-1] + before), _merged(nodes.rest, nodes.rest[1:] + behind)),
        (_merged(nodes.power[1], power), _merged(nodes.error[0], np.maximum(error, nodes.error[0, 1:]))),
    )
