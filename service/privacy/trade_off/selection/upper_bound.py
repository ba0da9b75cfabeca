"""Upper bounds of the privacy profile of the best of K runs.

Each run gives an output with a score. The run with the best score is released, ties by an independent coin. K does not
depend on the data, phi is its generating function, and E K = phi'(1) is finite. P and Q are the laws of one run, score
included, l = dP/dQ, and T(u) is the largest power of a test of Q against P at rate u. E = e^eps >= 1.

Theorem. delta_selected(eps) <= E_Q h(l) = int delta(ln k) dh'(k) with h(l) = sup_u (l phi'(T(u)) - E phi'(u))_+.

Proof. Let F_P(s), F_Q(s) be the laws of the score. The best score of K has the law phi(F), so that the released output
has the density phi'(F_P(s(x))) P(dx) (a coin beside the score removes ties). Nothing is released with probability
phi(0) under both laws. "Score at most s" is a test of rate F_Q(s), so F_P <= T(F_Q), and phi' does not decrease. So the
positive part of P_selected - E Q_selected at x is at most (l phi'(T(u)) - E phi'(u))_+ Q(dx) with u = F_Q(s(x)), hence
at most h(l) Q(dx). h is a maximum of linear functions, convex, with h(0) = 0, so that h(l) = int (l - k)_+ dh'(k).

Fixed K with different configurations, each under T. The output of run j has the density prod_{i != j} F_{P,i}. Let T+
be a function above T whose logarithm is concave in ln u. Then prod T+(u_i) <= T+(u)^{K-1} with u the geometric mean of
the u_i, and prod u_i = u^{K-1}. So the theorem holds with T+. For random K, a configuration drawn inside each run is a
part of that run.

Cells. With A(u) = phi'(T(u)) and B(u) = phi'(u), h is the support function of the points (B, A) and of (0, 0), so it
only depends on their concave hull. Between two rates the curve (B, A) lies below its steepest line through the left
point and its flattest line through the right point. So it lies below the hull of both points and of the apex where the
lines meet. Let the hull have edges with rise dA_j and slope r_j = dA_j/dB_j. Then h(l) = sum_j dA_j (l - E/r_j)_+ and

    delta_selected(eps) <= sum_j dA_j delta(eps - ln r_j).

delta is convex in k = e^c, so chords between thresholds bound it from above. All terms are positive.

The Renyi bound of Papernot and Steinke (arXiv 2110.03620, Theorem 2) is not computed. Over 300 random cases of
Gaussian, Laplace and pure DP runs (tested) it is never smaller for shapes s >= -1/2. For s = -0.9 and means above
about 100 it is smaller: phi' then rises mostly at 1 - u < 1e-16, within the last cell.
"""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.trade_off.selection.hull import thinned, upper_hull
from service.privacy.trade_off.selection.nodes import ROUNDING, Nodes, differences
from service.privacy.trade_off.selection.trial import LARGEST, TrialCurve
from service.privacy.trade_off.selection.trial_counts import SLACK, TrialCounts

REFINEMENTS: Final = 3
OVERSHOOT: Final = 3e-5
"""Distance of an apex above the chord of its cell, relative to its height, from which the cell is divided."""
PARTS: Final = 4
MOST_DIVIDED: Final = 300
NEAR: Final = -8.5
"""Smallest normal score of rates whose cells are divided for a fixed number of trials."""
SUB_CELLS: Final = 8
"""Number of parts of a cell within which concavity bounds the curve of one run."""
ROUGH, FINE = 120, 400
"""Numbers of epsilons over the whole range, and between FAINT and PLAIN."""
FAINT, PLAIN = 1e-14, 0.95
"""Range of delta with most epsilons."""


@final
class SelectionBound:
    """Upper bound of the privacy profile of the best of K runs in one direction.

    Parameters
    ----------
    trial : TrialCurve
        Trade-off curve of one run, or of a pair that dominates each run.
    counts : TrialCounts
        Law of K.

    Notes
    -----
    The bound is that of the theorem in the docstring of `upper_bound.py`, evaluated from above on finitely many cells.
    For Gaussian runs this evaluation adds less than 1e-3 of delta (tested).
    """

    def __init__(self, trial: TrialCurve, counts: TrialCounts) -> None:
        self._rises, self._log_slopes = _refined(trial, counts)
        self._thresholds, self._deltas = trial.profile

    def lines(self) -> tuple[FloatArray, FloatArray]:
        """Return epsilons >= 0 (nats) that rise from 0, and upper bounds of delta there, each of shape (m,).

        Most epsilons are where delta is neither tiny nor near 1.
        """
        steepest = self._log_slopes[np.isfinite(self._log_slopes)].max(initial=0.0)
        most = min(float(self._thresholds[-1] + steepest) * (1 + ROUNDING), LARGEST)
        if most <= 0:
            return np.zeros(1), self.deltas(np.zeros(1))
        rough = most * np.linspace(0.0, 1.0, ROUGH) ** 2
        known = self.deltas(rough)
        left = rough[max(int((known >= PLAIN).sum()) - 1, 0)]
        right = rough[min(int((known - known[-1] > FAINT).sum()), ROUGH - 1)]
        fine: FloatArray = np.linspace(float(left), float(right), FINE)
        epsilons: FloatArray = np.unique(np.concatenate((rough, fine)))
        return epsilons, self.deltas(epsilons)

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """Return upper bounds of the privacy profile of the best of K runs at epsilons >= 0 (nats), shape (m,)."""
        logs = np.where(np.isfinite(self._log_slopes), self._log_slopes, 1e300)
        moved = epsilons[:, None] - logs[None, :]
        total = self._profile_above(moved) @ self._rises
        return np.minimum(total * (1 + 1e-10), 1.0)

    def _profile_above(self, c: FloatArray) -> FloatArray:
        """Return upper bounds of delta of one run at thresholds `c` (nats) of any shape, by chords over e^c."""
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


def _refined(trial: TrialCurve, counts: TrialCounts) -> tuple[FloatArray, FloatArray]:
    """Return the rises and log slopes of the edges of the concave hull, from (0, 0).

    The hull is that of the points B(u) = phi'(u), A(u) = phi'(T(u)). Here phi is the generating function of the number
    of trials (`counts`), and T(u) the power of one run at the rate u. A cell between two nodes is divided where its
    apex, the point at which its steepest and flattest lines meet, is high above the hull.
    """
    nodes = trial.nodes
    for _ in range(REFINEMENTS):
        wide = _wide(nodes, counts)
        if not wide.size:
            break
        left, right = nodes.score[wide], nodes.score[wide + 1]
        inner = left[:, None] + (right - left)[:, None] * (np.arange(1, PARTS) / PARTS)
        nodes = nodes.with_scores(trial.curve, inner.ravel())
    x, y, _ = _vertices(nodes.divided(SUB_CELLS) if counts.fixed is None else nodes, counts)
    return thinned(x, y)


def _wide(nodes: Nodes, counts: TrialCounts) -> IndexArray:
    """Return the indices of the cells to divide: those whose apex may lie far above the hull, the farthest first.

    A cell is the interval of rates between two nodes, and its apex the point at which its steepest and flattest lines
    meet. Only cells that the final hull may use count, and at most MOST_DIVIDED are returned. `counts` is the law of
    the number of trials.
    """
    _, _, on_hull = _vertices(nodes, counts)
    flattest, steepest = nodes.slopes
    run = nodes.widths
    with np.errstate(all="ignore"):
        rise = differences(nodes.power[1], nodes.error[0])
        before = np.clip((rise - flattest * run) / (steepest - flattest), 0.0, run)
        over = np.nan_to_num(rise * (1 - before / run) - flattest * (run - before))
        bend = counts.curvature(nodes.power[1], nodes.error[0])[1:] / counts.slope(nodes.power[1], nodes.error[0])[1:]
        excess = np.nan_to_num(over * bend)
    high = excess > OVERSHOOT
    inside = np.isfinite(nodes.score[:-1]) & np.isfinite(nodes.score[1:])
    inside &= on_hull if counts.fixed is None else nodes.score[:-1] > NEAR
    found = np.flatnonzero(high & inside)
    return found[np.argsort(-excess[found], kind="stable")[:MOST_DIVIDED]]


def _vertices(nodes: Nodes, counts: TrialCounts) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return B and A of the vertices of the hull, rising from (0, 0), and which cells have a point on the hull.

    The hull is the concave hull of the points B(u) = phi'(u), A(u) = phi'(T(u)). Here phi is the generating function of
    the number of trials (`counts`), and T(u) the power of one run at the rate u. A cell is the interval of rates
    between two nodes.
    """
    rate_side, power_side, steepest, flattest = (
        _curve(nodes, counts) if counts.fixed is None else _steeper(nodes, counts)
    )
    with np.errstate(all="ignore"):
        run, rise = np.diff(rate_side), np.diff(power_side)
        before = np.nan_to_num(np.clip((rise - flattest * run) / (steepest - flattest), 0.0, run))
    height = power_side[1:] - flattest * (run - before)
    slack = SLACK * (power_side[1:] + np.where(np.isfinite(steepest), steepest, flattest) * rate_side[1:])
    height = np.minimum(height + slack, power_side[1:]) * (1 + SLACK)
    x = np.concatenate(([0.0], _merged(rate_side, rate_side[:-1] + before)))
    y = np.concatenate(([0.0], _merged(power_side * (1 + SLACK), height)))
    x = np.maximum.accumulate(x * (1 - SLACK))
    kept = upper_hull(x, y)
    on_hull = np.zeros(len(x) + 2, dtype=np.bool_)
    on_hull[kept + 1] = True
    cells = on_hull[2:-2:2] | on_hull[3:-1:2] | on_hull[4::2]
    return x[kept], y[kept], cells


def _merged(nodes: FloatArray, inner: FloatArray) -> FloatArray:
    """Return the sequence nodes[0], inner[0], nodes[1], inner[1], ..., nodes[-1], which alternates both arrays."""
    merged = np.empty(len(nodes) + len(inner))
    merged[::2], merged[1::2] = nodes, inner
    return merged


def _curve(nodes: Nodes, counts: TrialCounts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return B and upper bounds of A at the nodes, and the steepest and flattest slope dA/dB of every cell.

    A(u) = phi'(T(u)) and B(u) = phi'(u), with the generating function phi of the number of trials (`counts`) and the
    power T(u) at the rate u. A cell is the interval between two nodes.
    """
    rate_side = counts.slope(nodes.rate, nodes.rest)
    power_side = counts.slope(nodes.power[1], nodes.error[0])
    bend = counts.curvature(nodes.rate, nodes.rest)
    above = counts.curvature(nodes.power[1], nodes.error[0])
    below = counts.curvature(nodes.power[0], nodes.error[1])
    flat, steep = nodes.slopes
    least, most = _quotients(nodes, counts)
    with np.errstate(all="ignore"):
        steepest = np.fmin(above[1:] / bend[:-1], most) * steep * (1 + 4 * SLACK)
        flattest = np.fmax(below[:-1] / bend[1:], least) * flat * (1 - 4 * SLACK)
    return rate_side, power_side, np.nan_to_num(steepest, nan=np.inf, posinf=np.inf), np.nan_to_num(flattest)


def _quotients(nodes: Nodes, counts: TrialCounts) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds of phi''(T(u))/phi''(u) in every cell, which are narrow if T(u) - u is small.

    phi is the generating function of the number of trials (`counts`), u a rate and T(u) the power of one run. A cell is
    the interval between two `nodes`. The logarithm of the quotient is the integral of g = (ln phi'')' from u to T(u),
    and g is monotone. T(u) - u is concave: it is at least the smaller value of both ends of a cell, and at most each
    line of an end with a bound of the slope.
    """
    flat, steep = nodes.slopes
    small = nodes.rate < 0.5
    low = np.where(small, nodes.power[0, :] - nodes.rate, nodes.rest - nodes.error[1, :])
    high = np.where(small, nodes.power[1, :] - nodes.rate, nodes.rest - nodes.error[0, :])
    first = counts.growth(nodes.rate, nodes.rest)[:-1]
    last = counts.growth(nodes.power[1], nodes.error[0])[1:]
    slowest, fastest = np.where(first < last, first, last), np.where(first < last, last, first)
    margin = ROUNDING * nodes.rate[1:]
    with np.errstate(all="ignore"):
        ahead = high[:-1] + np.clip(steep - 1, 0.0, None) * nodes.widths
        behind = high[1:] + np.clip(1 - flat, 0.0, None) * nodes.widths
        most = np.where(ahead < behind, ahead, behind) + margin
        least = np.clip(np.where(low[:-1] < low[1:], low[:-1], low[1:]) - margin, 0.0, None)
        return np.exp(least * slowest * (1 - 2 * SLACK)), np.exp(most * fastest * (1 + 2 * SLACK))


def _steeper(nodes: Nodes, counts: TrialCounts) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return B, upper bounds of A, and the steepest and flattest slope dA/dB of each cell, for a function T+ >= T.

    T(u) is the power of one run at the rate u, A(u) = phi'(T+(u)) and B(u) = phi'(u), with the generating function phi.
    T+(u) is the least such function whose logarithm is concave in ln u. A line through two points with a positive value
    at u = 0 is convex in these logarithms, so chords of the logarithms are above T. Between two vertices T+ = C u^b,
    and A is proportional to B^b. `counts` is the law of the number of trials.
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
    """Return (rate, rest) and (power, error) of the nodes and of the apices between them, whose hull is above T.

    An apex is the point at which the steepest and the flattest line of a cell meet. T is the power of one run.
    """
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
