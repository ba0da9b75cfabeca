"""Sums over nodes that several sampled Gaussian parts share, with one exponential for all parts.

The notation is that of `sampled_gaussian.py`: p is the sampling rate, sigma the noise multiplier, and v the exponent of
the likelihood ratio 1 - p + p e^v. In u = v + ln(p/(1 - p)) the loss is L = ln(1 - p) + s with s = ln(1 + e^u). The
responsibility is r = e^{u - s}, for every sigma and p. With nodes at the same u, all that depends on the tilt and on
the height of a contour is common to the parts. The parts differ in their weights only, and every sum is a matrix
product. A run whose steps all differ a little then costs little more than a run of equal steps. Array dimensions are
parts P, nodes n, heights or tilts T, and strips A.

Sums of s in place of L lose digits where L is smaller than s: the relative error grows to UNIT_ROUNDOFF/p. The loss is
of first order, so that rounding grows like the root of the number of steps.
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.composition.summands.sampled_gaussian_nodes import SampledGaussianNodes
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import ComplexArray

LARGEST_EXPONENT = 300.0
"""Largest exponent of what parts share. Beyond it, products with weights might leave the range of doubles."""

_BLOCK = 16
"""Number of nodes between the positions at which the rectangle of a strip may end."""


def moment_sums(grid: SampledGaussianNodes, soft: FloatArray, tilts: FloatArray) -> FloatArray | None:
    """Return sums over the nodes of weights e^{sL} times 1, L, L^2 and the two error columns of the grid.

    L = ln(1 - p + p e^v) is the loss at a node, with the sampling rate p and the loss v without sampling. u is v +
    ln(p/(1 - p)). The columns are those of `TrapezoidNodes.columns`.

    Parameters
    ----------
    grid : SampledGaussianNodes
        Nodes at the same u for all parts.
    soft : (n,)
        ln(1 + e^u) at the nodes.
    tilts : (tilts,)
        Real tilts s.

    Returns
    -------
    (tilts, parts, 5) or None
        The sums at each tilt for each part. None where exponents are too large to be shared.
    """
    unsampled = np.log1p(-grid.rate)
    if float(np.abs(tilts).max()) * max(float(soft.max()), -float(unsampled.min())) > LARGEST_EXPONENT:
        return None
    powers = np.exp(tilts[:, None] * soft)
    # The rounding of the exponent adds to that of the weights.
    relative = grid.relative_error + (8 * UNIT_ROUNDOFF) * float(np.abs(tilts).max()) * soft
    parts = len(grid.sigma)
    weight = _normal(grid.null_weight)
    plain = weight @ np.concatenate([powers, powers * soft, powers * soft**2]).T
    error = np.concatenate([weight * relative, weight * grid.loss_error]) @ powers.T
    total, first, second = plain.reshape(parts, 3, len(tilts)).transpose(1, 2, 0)
    turned = np.exp(tilts[:, None] * unsampled)
    columns = (
        total,
        first + unsampled * total,
        second + unsampled * (2 * first + unsampled * total),
        error[:parts].T,
        error[parts:].T,
    )
    return np.stack(columns, axis=-1) * turned[:, :, None]


def differences(weights: FloatArray, soft: FloatArray, unsampled: FloatArray, step: float, nodes: int) -> ComplexArray:
    """Return d_k = E(e^{i t_k L} - 1) at t_k = k step, k = 0..nodes, for each part; shape (parts, nodes + 1).

    The expectation E is taken under the `weights` of each part (parts, n), whose sum is 1. The loss at a node is L =
    ln(1 - p) + s, with `soft` = s, shape (n,), and `unsampled` = ln(1 - p) for the sampling rates p, shape (parts,).
    With F(x) = e^{ix} - 1, the identity d = e^{it ln(1-p)} E F(ts) + F(t ln(1 - p)) holds.
    """
    rows = max(1, math.isqrt(nodes + 1))
    columns = -(-(nodes + 1) // rows)
    outer = _turns(np.arange(rows)[:, None] * (columns * step) * soft)[:, None]
    inner = _turns(np.arange(columns)[:, None] * step * soft)
    turns = (outer * inner + (outer + inner)).reshape(rows * columns, -1)[: nodes + 1]
    both = np.concatenate([turns.real, turns.imag])
    weights, sums = _normal(weights), np.zeros((len(weights), 2 * (nodes + 1)))
    for first in range(0, len(soft), SUM_BLOCK):  # short sums: rounding grows with their length
        block = slice(first, first + SUM_BLOCK)
        sums += weights[:, block] @ both[:, block].T
    total = sums[:, : nodes + 1] + 1j * sums[:, nodes + 1 :]
    turn = _turns(unsampled[:, None] * (np.arange(nodes + 1) * step))
    return total * (1 + turn) + turn


def difference_slope(weights: FloatArray, soft: FloatArray, unsampled: FloatArray, relative: FloatArray) -> FloatArray:
    """Return a bound of the rounding error of `differences` per unit of the height t, shape (parts,).

    `soft` is s = ln(1 + e^u) at the nodes u (n,), `unsampled` is ln(1 - p) for the sampling rates p (parts,), and
    `relative` the relative error of the weights (parts, n). With F(x) = e^{ix} - 1, the bound uses |F(a)F(b)| + |F(a)|
    + |F(b)| <= 3 (a + b) for a, b >= 0, and |F(t ln(1-p))| <= t |ln(1-p)|. The bound counts 80 units of rounding for
    losses, phases and products, and adds the length of one sum and the number of sums.
    """
    relative = relative + (80 + SUM_BLOCK + len(soft) / SUM_BLOCK) * UNIT_ROUNDOFF
    kept = weights * relative
    return 1.01 * (3 * (kept @ soft) + np.abs(unsampled) * (kept.sum(axis=-1) + 40 * FUNCTION_ERROR))


def strip_errors(
    grid: SampledGaussianNodes,
    log_weights: FloatArray,
    theta: float,
    heights: FloatArray,
    a: FloatArray,
    base: FloatArray,
    log_least: FloatArray | None,
) -> FloatArray:
    """Return the bounds of `TrapezoidOnContour.strip_errors` for strips of equal width in u; shape (A, T, P).

    u = v + ln(p/(1 - p)) is the variable of the nodes that the P parts share, with the loss v without sampling and the
    sampling rate p. w is the likelihood ratio of a step.

    Parameters
    ----------
    grid, log_weights, theta, heights
        Nodes, ln of their tilted weights (P, n), tilt, and heights of the contour (T,).
    a : (A, P)
        Half-widths of the strips |Im y| <= a, with the same a/sigma for every part.
    base : (A, P)
        Upper bound of the integral of the size on the strip, at least 1.
    log_least : (A, P, n) or None
        ln of lower bounds of |w(y + iq)/w(y)|, needed for theta < 0; None for theta >= 0.

    Notes
    -----
    The rectangle may end at the last nodes of blocks only. Weights that underflow are below 1e-308. Their terms grow by
    less than e^600 where the bound is finite.
    """
    h, sigma = grid.step, grid.sigma[:, None]
    width = float((h / sigma).max())
    phi = (a / grid.sigma).max(axis=-1)[:, None]
    r, cosine = grid.responsibility[0], np.cos(0.5 * phi)
    sine_squared = np.sin(0.5 * phi) ** 2
    log_modulus = 0.5 * np.log1p(-4 * r * (1 - r) * sine_squared)
    argument = np.arctan2(r * np.sin(phi), 1 - 2 * r * sine_squared)
    steep = np.minimum(1.0, r * np.exp(0.5 * width)) * width / cosine  # h near
    settled = theta * log_modulus + 0.5 * abs(theta) * steep
    # The shared factor has the largest weight at each node, so that both factors stay in the range of doubles.
    largest = log_weights.max(axis=0)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    shared = largest + settled[:, None] + heights[:, None] * (argument + 0.5 * steep)[:, None]
    shared = np.where(shared < LARGEST_EXPONENT, np.exp(np.minimum(shared, LARGEST_EXPONENT)), np.inf)
    flat = 0.5 * h * (np.abs(grid.x) + 0.5 * h)
    own = _normal(np.exp(log_weights - largest + flat))
    blocks = len(r) // _BLOCK
    at = np.arange(1, blocks + 1) * _BLOCK - 1
    known = np.isfinite(shared).reshape(len(a), len(heights), blocks, _BLOCK).all(axis=-1)
    finite = np.where(np.isfinite(shared), shared, 0.0).reshape(-1, blocks, _BLOCK).transpose(1, 2, 0)
    inside = np.cumsum(own.reshape(-1, blocks, _BLOCK).transpose(1, 0, 2) @ finite, axis=0)  # (blocks, P, A T)
    inside = inside.reshape(blocks, -1, len(a), len(heights)).transpose(2, 3, 1, 0)
    inside = np.where(np.logical_and.accumulate(known, axis=-1)[:, :, None], inside, np.inf)
    scale = np.exp(0.5 * a**2 - 2 * math.pi * a / h[:, 0]) * 1.001
    spread = a[..., None] * (steep[:, None, at] / h)  # a near, (A, P, blocks)
    slack = a * (0.5 * a - 1.5 * math.pi / h[:, 0])
    excess = np.maximum(heights[:, None, None] * spread[:, None] + slack[:, None, :, None], 0.0)
    grown = excess if log_least is None else excess + theta * log_least[..., at][:, None]
    side = (1.3 + 2 * (a / h[:, 0])[:, None, :, None] * (excess > 0)) * np.exp(log_weights[:, at] + grown)
    sizes = np.exp(log_weights) + np.exp(log_weights + flat + 0.5 * abs(theta) * steep[:, None])
    summed = sizes.reshape(*sizes.shape[:-1], blocks, _BLOCK).sum(axis=-1)
    beyond = np.zeros_like(summed)
    beyond[..., :-1] = np.cumsum(summed[..., :0:-1], axis=-1)[..., ::-1]
    bound = 2 * scale[:, None, :, None] * (inside + base[:, None, :, None]) + side + beyond[:, None]
    return 1.001 * bound.min(axis=-1)


def _normal(weights: FloatArray) -> FloatArray:
    """Return the quadrature weights with 0 in place of tiny ones, in their shape: products would be subnormal and slow.

    The omitted weights stay below 1e-40 of any sum, even times e^300.
    """
    return np.where(weights > 1e-170, weights, 0.0)


def _turns(phase: FloatArray) -> ComplexArray:
    sine = np.sin(0.5 * phase)
    return 2j * sine * (np.cos(0.5 * phase) + 1j * sine)
