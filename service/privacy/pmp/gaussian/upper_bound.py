"""Upper bound of the PMP parameter of the Gaussian mechanism: Lowy et al. 2023, Proposition 12.

PMP is practical membership privacy: the attacker does not know which records were drawn.

Let delta(epsilon; r) be the privacy profile of the Gaussian mechanism for two data sets at a distance of r standard
deviations. For a sum or mean query, the two mixtures of a point x (data with x, data without x) are (epsilon,
delta)-close if

    mean over x' != x of delta(epsilon; r(x, x')) <= delta.

Proof: draw a uniform n-subset with x, and replace x by a uniform one of the N - n other points. The two subsets are a
uniform subset with x and a uniform subset without x. The hockey-stick divergence is jointly convex, so the mean bounds
the divergence of the mixtures. The proof holds for every N > n. The parameter is at most the smallest epsilon at which
all N points meet the condition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.privacy.numerics.arrays import FloatArray
from service.privacy.pmp.gaussian.points import QueryPoints
from service.privacy.pmp.gaussian.profile import log_delta

FIRST_ROWS = 64
"""Number of the farthest points that are solved before the table checks all points."""
LARGEST_EXACT_WORK = 6_000_000
"""Limit of pairs of points times 1 + d/200.

Beyond this limit, the table alone proves the condition for the remaining points, at a slightly larger epsilon.
"""
TABLE_CELLS = 2**15
BLOCK_NUMBERS = 2**21
LARGEST_SHARE = 1e30
MOST_NEWTON_STEPS = 200
CONVERGED = 1e-14


@final
@dataclass(frozen=True, slots=True)
class ExposureUpperBound:
    """Upper bound of the parameter of practical membership privacy (PMP), over all points.

    Attributes
    ----------
    epsilon : float
        Upper bound of the parameter in nats.
    point : int
        Index of the point that determines the bound.
    """

    epsilon: float
    point: int


def exposure_upper_bound(points: QueryPoints, delta: float) -> ExposureUpperBound:
    """Compute an upper bound of the PMP parameter of a Gaussian mechanism (Lowy et al. 2023, Proposition 12).

    PMP is practical membership privacy: the attacker does not know which records were drawn. The parent set is the
    population from which the data are drawn.

    Parameters
    ----------
    points : QueryPoints
        The parent set.
    delta : float
        0 < delta <= 1.

    Returns
    -------
    ExposureUpperBound
        The smallest epsilon (nats), rounded up, at which every point meets the condition of the proposition.

    Notes
    -----
    The result exceeds the smallest epsilon by about 1e-12, relatively. If more points are nearly equally exposed than
    the work limit allows to solve one by one, the excess is about 1e-4. The memory is about 30 N d bytes and some tens
    of megabytes. The cost is a pass over all pairs, and a further pass for each round of raised epsilons.
    """
    search = _Search(points, math.log(delta))
    order = np.argsort(-points.radii, kind="stable")
    search.solve(order[:FIRST_ROWS])
    left, allowed = order[FIRST_ROWS:], int(LARGEST_EXACT_WORK / (points.count * (1 + points.dimension / 200)))
    while left.size:
        shares = _shares(points, left, search.epsilon, search.log_target)
        left = left[shares > 1][np.argsort(-shares[shares > 1], kind="stable")]
        solved = min(len(left), FIRST_ROWS if search.raised else allowed)
        search.raised = False
        if solved > 0 and allowed > 0:
            search.solve(left[:solved])
            left, allowed = left[solved:], allowed - solved
        elif left.size:
            search.widen()
    return ExposureUpperBound(search.epsilon, search.point)


@final
class _Search:
    """Search for the smallest epsilon at which all points solved so far meet a condition on delta.

    The condition, Proposition 12 of Lowy et al. 2023, is that the mean of delta(epsilon; r) over the distances r to all
    other points is at most delta.
    """

    def __init__(self, points: QueryPoints, log_target: float) -> None:
        self.log_target = log_target
        self.epsilon = 0.0
        self.point = 0
        self.raised = True
        self._points = points
        self._widening = 5e-6

    def solve(self, rows: NDArray[np.intp]) -> None:
        """Increase epsilon until each point with an index in `rows` meets the condition on delta.

        The condition is that the mean of delta(epsilon; r) over the distances r to all other points is at most delta,
        where delta(epsilon; r) is the privacy profile of the Gaussian mechanism.
        """
        for row in rows.tolist():
            ratios = self._points.ratios(row)
            if _log_mean_upper(self.epsilon, ratios) <= self.log_target:
                continue
            root = max(_root(ratios, self.log_target), self.epsilon)
            unit, slack = max(root, min(1.0, float(ratios.max()))), 0.0
            while _log_mean_upper(root + slack * unit, ratios) > self.log_target:
                slack = max(1e-14, 4 * slack)
            self.epsilon, self.point, self.raised = root + slack * unit, row, True

    def widen(self) -> None:
        """Increase the bound `epsilon` (nats) found so far by a small amount, which doubles with each call."""
        self._widening *= 2
        self.epsilon += self._widening * max(self.epsilon, min(1.0, self._points.unit))


def _log_mean_upper(epsilon: float, ratios: FloatArray) -> float:
    """Return an upper bound of ln of the mean of delta(epsilon; r) over the distances r = `ratios`.

    delta(epsilon; r) is the privacy profile of the Gaussian mechanism for data sets at a distance of r standard
    deviations.
    """
    logs = log_delta(epsilon, ratios)[1]
    largest = float(logs.max())
    # The relative error of the mean is below 1e-13 for any N, because numpy adds pairwise.
    return largest if largest == -math.inf else largest + math.log(float(np.exp(logs - largest).mean())) + 1e-13


def _root(ratios: FloatArray, log_target: float) -> float:
    """Estimate the epsilon at which the mean of delta(epsilon; r) over r in `ratios` is e^`log_target`.

    delta(epsilon; r) is the privacy profile of the Gaussian mechanism at a distance of r standard deviations. The
    method is Newton's. No bound depends on the result.
    """
    moved = ratios[ratios > 0]
    log_share = math.log(len(moved) / len(ratios))
    largest = float(moved.max())
    # At this epsilon the profile of the largest r meets the target.
    quantile = -float(special.ndtri_exp(min(log_target, -1e-16)))
    low, high = 0.0, 0.5 * largest**2 + largest * max(quantile, 0.0)
    epsilon = high
    for _ in range(MOST_NEWTON_STEPS):
        value, slope = _log_mean_and_slope(epsilon, moved)
        value += log_share - log_target
        low, high = (epsilon, high) if value > 0 else (low, epsilon)
        step = epsilon - value / slope
        before, epsilon = epsilon, step if low <= step <= high else 0.5 * (low + high)
        if abs(epsilon - before) <= CONVERGED * epsilon:
            break
    return epsilon


def _log_mean_and_slope(epsilon: float, ratios: FloatArray) -> tuple[float, float]:
    """Return ln of the mean of delta(epsilon; r) over r in `ratios`, and its derivative in epsilon.

    delta(epsilon; r) is the privacy profile of the Gaussian mechanism at a distance of r standard deviations, Phi(-u) -
    phi(u) M(u + r), with u = epsilon/r - r/2 and the Mills ratio M. The derivative of each profile is -phi(u) M(u + r).
    """
    left = epsilon / ratios - 0.5 * ratios
    exponents = 0.5 * np.maximum(left, 0.0) ** 2
    least = float(exponents.min())  # positive only if every u is positive
    scaled = np.exp(least - exponents)
    tail = np.where(left > 0, 0.5 * scaled * special.erfcx(math.sqrt(0.5) * np.maximum(left, 0.0)), special.ndtr(-left))
    right = special.erfcx(math.sqrt(0.5) * (epsilon / ratios + 0.5 * ratios))
    right_tail = 0.5 * np.where(left > 0, scaled, np.exp(-0.5 * left**2)) * right
    total, fall = float(np.maximum(tail - right_tail, 0.0).mean()), float(right_tail.mean())
    return (math.log(total) - least, -max(fall / total, 1e-300)) if total > 0 else (-math.inf, -1.0)


def _shares(points: QueryPoints, rows: NDArray[np.intp], epsilon: float, log_target: float) -> FloatArray:
    """Return upper bounds of the mean of delta(epsilon; r) for the points with indices `rows`, divided by the target.

    delta(epsilon; r) is the privacy profile of the Gaussian mechanism at a distance of r standard deviations. The mean
    is over the distances r of a point to all others, and the target is e^`log_target`.
    """
    # Cell k holds the values at r = (k + 1) steps. All r are below 2.01 units.
    steps = TABLE_CELLS / 2.01
    edges: FloatArray = points.unit * (1 + 1e-12) / steps * np.arange(1.0, TABLE_CELLS + 1)
    shares = np.exp(np.minimum(log_delta(epsilon, edges)[1] - log_target, math.log(LARGEST_SHARE)))
    table = (shares * (1 + 1e-6) + 1e-30).astype(np.float32)
    found = np.empty(len(rows))
    block = max(1, BLOCK_NUMBERS // points.count)
    for start in range(0, len(rows), block):
        squares = points.padded_squares(rows[start : start + block])
        cells = (np.sqrt(squares, out=squares) * np.float32(steps)).astype(np.int32)
        found[start : start + block] = table[cells].sum(axis=1, dtype=np.float64)
    return found / (points.count - 1)
