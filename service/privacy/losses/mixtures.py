"""Loss law of a mixture of shifted Gaussians against N(0, 1), or against its mirror image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from service.privacy.losses.law import MOST_PAIRS, Hypothesis, LossLaw, NodeLossLaw
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

REACH = 20.0
"""Distance around every mode, in standard deviations of the noise, because tilts move the modes (`steps.py`)."""
SPACING = 1 / 16
"""Distance h of nodes for moderate distances of components. The trapezoidal error is e^{-2 pi^2 / h^2}, or that of the
nearest branch point of the loss, which is at least pi/distance from the real line.
"""
MOST_NODES = 1 << 16
HALVINGS, FARTHEST = 80, 1e9
LARGEST_EXPONENT = 600.0
WEAK = 1e-3
"""Total weight of shifted components below which the loss is summed as a difference from 0."""
ROUNDING = 8 * UNIT_ROUNDOFF
"""Relative error of a loss that counts as equal. Where the loss is flat, every argument is valid."""
TABLE = 2049
"""Count of points that bracket the inverse of a loss."""


def gaussian_mixture_loss(distances: Sequence[float], weights: Sequence[float], *, mirrored: bool) -> LossLaw:
    """Return the law of the loss of N(0, 1) against sum w_i N(d_i, 1).

    Parameters
    ----------
    distances : sequence of float
        d_i >= 0, not all 0.
    weights : sequence of float
        w_i > 0 with the sum 1. A weight may underflow.
    mirrored : bool
        Whether sum w_i N(-d_i, 1) replaces N(0, 1).

    Returns
    -------
    LossLaw
        Law of the loss by quadrature nodes.
    """
    d, w = np.array(distances), np.array(weights)
    with np.errstate(divide="ignore"):  # a weight may be too small for a double
        log_w = np.log(w)
    rows = max(MOST_PAIRS // len(d), 1)
    farthest, seldom = float(d.max()), math.fsum(w[d > 0])
    is_weak = seldom < WEAK

    def log_density(y: FloatArray) -> FloatArray:
        """Return ln of the density of sum w_i N(d_i, 1) over that of N(0, 1) at each y.

        w_i are the weights and d_i the distances.
        """
        parts = (np.multiply.outer(y[at : at + rows], d) - 0.5 * d * d for at in range(0, len(y), rows))
        return np.concatenate([_log_weak(part, w, log_w) if is_weak else _log_sum(part + log_w) for part in parts])

    def loss(y: FloatArray) -> FloatArray:
        return log_density(y) - log_density(-y) if mirrored else log_density(y)

    low, high = -REACH - (2 * farthest if mirrored else 0.0), REACH + 2 * farthest
    step = max(min(SPACING, 1 / (4 * farthest)), (high - low) / MOST_NODES)
    nodes = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step
    log_weights = -0.5 * nodes * nodes + math.log(step / math.sqrt(2 * math.pi))
    if mirrored:
        log_weights = log_weights + log_density(-nodes)
    silent = 0.0 in distances and not mirrored
    smallest = (math.log1p(-seldom) if is_weak else float(log_w[d == 0].max())) if silent else -math.inf

    def distribution(losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        found = np.asarray(losses, dtype=np.float64)
        y = _inverse(loss, np.ravel(found), seldom if is_weak else 1.0)
        if hypothesis == 0 and not mirrored:
            return ndtr(y).reshape(found.shape)
        side = 1.0 if hypothesis else -1.0
        parts = (y[at : at + rows, np.newaxis] - side * d for at in range(0, max(len(y), 1), rows))
        return np.concatenate([np.exp(logsumexp(log_w + log_ndtr(part), axis=-1)) for part in parts]).reshape(
            found.shape
        )

    return NodeLossLaw(loss(nodes), log_weights, smallest, math.inf, distribution)


def _log_sum(exponents: FloatArray) -> FloatArray:
    top = exponents.max(axis=-1)
    exponents -= top[:, np.newaxis]
    return top + np.log(np.exp(exponents, out=exponents).sum(axis=-1))


def _log_weak(exponents: FloatArray, weights: FloatArray, log_weights: FloatArray) -> FloatArray:
    """Return ln sum_i w_i e^(exponent_i) along the last axis, with full relative accuracy near 0.

    The weights w_i = `weights` sum to 1, and `log_weights` are their logarithms.
    """
    change = np.expm1(np.minimum(exponents, LARGEST_EXPONENT)) @ weights
    small = (np.abs(change) < 0.5) & (exponents.max(axis=-1) < LARGEST_EXPONENT)
    found = np.log1p(np.where(small, change, 0.0))
    if not small.all():
        found[~small] = _log_sum(exponents[~small] + log_weights)
    return found


def _inverse(loss: Callable[[FloatArray], FloatArray], losses: FloatArray, size: float) -> FloatArray:
    """Return the points y at which the increasing function `loss` has the values `losses`; infinite beyond its limits.

    Points and losses (nats) have one shape. The rounding error of `loss` is proportional to `size`.
    """
    low, high = -1.0, 1.0
    finite = losses[np.isfinite(losses)]
    if finite.size == 0:
        return losses.copy()
    for _ in range(HALVINGS):
        ends = loss(np.array([low, high]))
        short, far = ends[0] > finite.min(), ends[1] < finite.max()
        if not (short or far) or max(-low, high) > FARTHEST:
            break
        low, high = (2 * low if short else low), (2 * high if far else high)
    # Points are dense near 0, where the modes are. Far from 0 a loss is nearly affine and its root is found fast.
    places = np.sinh(np.linspace(math.asinh(low), math.asinh(high), TABLE))
    known = np.maximum.accumulate(loss(places))
    right = np.clip(np.searchsorted(known, losses), 1, TABLE - 1)
    within = (losses >= known[0]) & (losses <= known[-1])
    found = np.where(losses < known[0], -math.inf, math.inf)
    if within.any():
        requested, at = losses[within], right[within]
        rounding = ROUNDING * (size + np.abs(requested))

        def short_of(y: FloatArray) -> FloatArray:
            missing = requested - loss(y)
            return np.where(np.abs(missing) <= rounding, 0.0, missing)

        found[within] = bracketed_roots(short_of, places[at - 1], places[at])
    return found
