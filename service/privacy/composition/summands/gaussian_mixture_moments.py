"""Moments of mixtures of shifted Gaussians at one tilt, and what errors of losses do to them.

M(s) - 1 = E0(e^{sL} - 1 - s(e^L - 1)), because E0(w - 1) = 0: every summand is second order in L, and rounding does not
grow with the number of steps. Where losses are so large that the digits of e^L are worse than that, M itself is summed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.privacy.composition.summands.gaussian_mixture_grid import Grid
from service.privacy.composition.summands.node_sums import excess, mean_excess, untilting
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF


@dataclass(frozen=True, slots=True)
class TiltedMoments:
    """The law tilted by e^{sL} at one tilt s: weights of shape (parts, nodes), the rest of shape (parts,).

    `total` is M(s) e^{-shift}, the scale of the weights; `error` bounds its error but for quadrature and cut, relative
    to it.
    """

    tilt: float
    weights: FloatArray
    shift: FloatArray
    total: FloatArray
    log_total: FloatArray
    error: FloatArray


def tilted_moments(grid: Grid, tilt: float, identity_error: FloatArray) -> TiltedMoments:
    """The better of both sums, for each part. `identity_error`: of the sums at tilts 0 and 1, shape (parts,).

    1 - M_h(0) counts once, M_h(1) - M_h(0) s times. An error of L changes a summand by at most |s| |e^{sL} - e^L| times
    itself, and by second order.
    """
    all_weights, all_shifts = grid.tilted(np.array([tilt]))
    weights, shift = all_weights[0], all_shifts[0]
    plain = weights.sum(axis=-1)
    error = np.sum(weights * (grid.relative_error + 1.01 * abs(tilt) * grid.loss_error), axis=-1)
    error = error / plain + (shift + 2 * grid.x.shape[1]) * UNIT_ROUNDOFF
    summands, size = excess(grid.loss, grid.weight, grid.growth, tilt, weights)
    other = abs(tilt) * untilting(grid.loss, grid.alternative, tilt, weights, np.ones_like(plain))
    other = other + (weights + grid.alternative) * (1 + tilt**2) * grid.loss_error
    second = np.sum(size * grid.relative_error + 1.1 * grid.loss_error * other, axis=-1)
    second = second + 2 * (1 + abs(tilt)) * identity_error
    change = summands.sum(axis=-1)
    total = 1 + change
    better: BoolArray = np.asarray((shift == 0) & (total > 0) & (second < error * total))
    total = np.asarray(np.where(better, total, plain), dtype=np.float64)
    summed = np.log1p(np.maximum(change, -1 + 1e-300))
    log_total = shift + np.asarray(np.where(better, summed, np.log(plain)), dtype=np.float64)
    error = np.asarray(np.where(better, second / total, error), dtype=np.float64)
    return TiltedMoments(tilt, weights, shift, total, log_total, error)


def mean_loss(
    grid: Grid, moments: TiltedMoments, weights: FloatArray, total: FloatArray, identity_error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """E_theta(L) per part, by second-order summands or plainly, whichever is better, and the error that it causes in
    d = E_theta(e^{itL} - 1 - itL) + it E_theta(L), per unit of t; shape (parts,) each.

    `weights`: of sum 1; `total`: M(theta), or less where it is beyond the range of doubles. An error of L changes a
    summand by at most itself times |theta| |e^{itL} - 1| + t |e^{itL} - 1| + t |1 - e^{(1-theta)L}|, or, if summed
    plainly, t in place of the last: what has no factor e^{itL} - 1 is counted here.
    """
    terms, size = mean_excess(grid.loss, grid.growth, weights, moments.tilt, total)
    moved = untilting(grid.loss, grid.alternative, moments.tilt, weights, total)
    error = np.sum(size * grid.relative_error + 1.01 * grid.loss_error * moved, axis=-1) + 2 * identity_error / total
    direct = weights * grid.loss
    plain = np.sum(np.abs(direct) * grid.relative_error + 1.01 * grid.loss_error * weights, axis=-1)
    better: BoolArray = np.asarray(error < plain)
    mean = np.asarray(np.where(better, terms.sum(axis=-1), direct.sum(axis=-1)), dtype=np.float64)
    least = np.asarray(np.where(better, error, plain), dtype=np.float64)
    return mean, least + moments.error * np.abs(direct).sum(axis=-1)
