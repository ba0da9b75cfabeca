"""The loss law of a mixture of shifted Gaussians against N(0, 1), or against its mirror image."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from service.privacy.losses.law import Hypothesis, LossLaw, NodeLossLaw
from service.privacy.numerics.arrays import FloatArray

REACH = 20.0
"""Standard deviations of the noise around every hump, as tilts move them: see `steps.py`."""
SPACING = 1 / 16
"""Of nodes, where the distances of humps are moderate: the trapezoidal error is e^{-2 pi^2 / h^2}, or that of the
nearest branch of the loss, which lies pi/distance or more off the real line.
"""
MOST_NODES = 1 << 16
HALVINGS = 80


def gaussian_mixture_loss(distances: Sequence[float], weights: Sequence[float], *, mirrored: bool) -> LossLaw:
    """N(0, 1) against sum w_i N(d_i, 1), d_i >= 0 not all 0; mirrored: sum w_i N(-d_i, 1) against it."""
    d, log_w = np.array(distances), np.log(np.array(weights))
    farthest = float(d.max())

    def log_density(y: FloatArray) -> FloatArray:
        """ln of sum w_i N(d_i, 1) over N(0, 1) at y."""
        return np.asarray(logsumexp(log_w + np.multiply.outer(y, d) - 0.5 * d * d, axis=-1))

    def loss(y: FloatArray) -> FloatArray:
        return log_density(y) - log_density(-y) if mirrored else log_density(y)

    low, high = -REACH - (2 * farthest if mirrored else 0.0), REACH + 2 * farthest
    step = max(min(SPACING, 1 / (4 * farthest)), (high - low) / MOST_NODES)
    nodes = np.arange(math.floor(low / step), math.ceil(high / step) + 1, dtype=np.float64) * step
    log_weights = -0.5 * nodes * nodes + math.log(step / math.sqrt(2 * math.pi))
    if mirrored:
        log_weights = log_weights + log_density(-nodes)
    silent = 0.0 in distances and not mirrored
    smallest = float(log_w[list(distances).index(0.0)]) if silent else -math.inf

    def distribution(losses: FloatArray, hypothesis: Hypothesis) -> FloatArray:
        found = np.asarray(losses, dtype=np.float64)
        y = _inverse(loss, np.ravel(found)).reshape(found.shape)
        if hypothesis == 0 and not mirrored:
            return ndtr(y)
        side = 1.0 if hypothesis else -1.0
        return np.exp(logsumexp(log_w + log_ndtr(y[..., np.newaxis] - side * d), axis=-1))

    return NodeLossLaw(loss(nodes), log_weights, smallest, math.inf, distribution)


def _inverse(loss: Callable[[FloatArray], FloatArray], losses: FloatArray) -> FloatArray:
    """y where an increasing loss is as asked, by halving; infinite beyond its limits."""
    low, high = np.full_like(losses, -1.0), np.full_like(losses, 1.0)
    for _ in range(HALVINGS):
        short, far = loss(low) > losses, loss(high) < losses
        if not (short.any() or far.any()) or max(-low.min(), high.max()) > 1e9:
            break
        low, high = np.where(short, 2 * low, low), np.where(far, 2 * high, high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        above = loss(middle) > losses
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return 0.5 * (low + high)
