"""Sums over the nodes of trapezoid rules for M(z) = E0 e^{zL}, for steps of any law, without cancellation.

L is the loss of one step in nats, w = e^L its likelihood ratio, and E0 the expectation under H0, without the record.
Arrays have the dimensions P (parts, each a number of equal steps) and n (nodes). `null_weight` is the weight of H0 at a
node. `weights` are those of the law tilted by e^{theta L}, of sum 1, and E_theta is its expectation. A tilt is one
number for all parts, or an array (P, 1) where each part is a run of its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from service.privacy.composition.summands.abstract import ValuesOnContour
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import ComplexArray, multiples

_LARGEST_EXPONENT = 300.0
"""Moment sums whose largest exponent exceeds this are scaled, so that nothing overflows."""

_ROUNDING_FLOOR = 1e-15
"""Resolution of |M|^2/M(theta)^2. Moduli are raised to the root of this floor, and the raise is part of the error."""

_TOGETHER = 30_000
"""Number of powers of nodes that are held in memory together, so that their arrays fit into caches."""


def tilted(loss: FloatArray, log_weight: FloatArray, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weights e^{log_weight + sL - shift}, shape (tilts, parts, nodes), and the shift, shape (tilts, parts).

    `loss` holds L and `log_weight` ln of the weights at the nodes, shape (parts, nodes). `tilts` holds the tilts s,
    shape (tilts, 1) or (tilts, parts). The shift keeps the weights from overflowing; it is 0 unless an exponent exceeds
    a limit.
    """
    joint = tilts[:, :, None] * loss
    joint += log_weight
    if joint.max() <= _LARGEST_EXPONENT:
        return np.exp(joint, out=joint), np.zeros(joint.shape[:-1])
    top = joint.max(axis=-1)
    shift = np.where(top > _LARGEST_EXPONENT, top, 0.0)
    return np.exp(joint - shift[:, :, None]), shift


def untilting(
    loss: FloatArray, alternative_weight: FloatArray, tilt: float | FloatArray, weights: FloatArray, total: FloatArray
) -> FloatArray:
    """Return an upper bound of |e^{sL} - e^L| null_weight/total at the nodes, shape (parts, nodes).

    L is the loss of a node and s the tilt. `weights` is null_weight e^{sL}/total, and `alternative_weight` is
    null_weight e^L. `total` has the shape (parts,). An error of L is multiplied by this bound in the second-order sums
    of E_s(L), and by s times this bound in those of M(s) = E0 e^{sL}.
    """
    exponent = np.abs((1 - tilt) * loss)
    return np.where(exponent < 1, 2 * weights * exponent, weights + alternative_weight / total[:, None])


def excess(
    loss: FloatArray,
    null_weight: FloatArray,
    weight_difference: FloatArray,
    tilt: float | FloatArray,
    weights: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the summands null_weight (e^{sL} - 1 - s(e^L - 1)) of M(s) - 1, and the sizes of their terms; (P, n) each.

    M(s) = E0 e^{sL} is the transform of the loss L at the tilt s. `weight_difference` is null_weight (e^L - 1), and
    `weights` is null_weight e^{sL}. Where max(1, |s|) |L| < 0.4 the summands are power series to order 14. The
    remainder is below 2e-16 of them, far inside the relative error of a weight. P is the number of parts of the run,
    and n that of nodes.
    """
    tilt = _one_number(tilt)
    linear = tilt * weight_difference
    scale = np.maximum(1.0, np.abs(tilt))
    # a^n - a b^(n - 1) = a (a - b) sum a^k b^{n-2-k}, a - b = (s - 1)/scale: near s = 1 a difference loses its digits.
    ratio, least = tilt / scale, 1 / scale
    leading = ratio * (tilt - 1) / scale
    coefficients: list[Any] = []
    quotient, power = 1.0, 1.0  # the sum for n, and least^(n - 2)
    for n in range(2, 15):
        coefficients.append(leading * quotient / math.factorial(n))
        power = power * least
        quotient = ratio * quotient + power
    scaled = loss * scale
    small = np.abs(scaled) < 0.4
    scaled = np.where(small, scaled, 0.0)
    series = null_weight * scaled**2 * _polynomial(scaled, coefficients)
    summands = np.where(small, series, weights - null_weight - linear)
    return summands, np.where(small, np.abs(series), weights + null_weight + np.abs(linear))


def mean_excess(
    loss: FloatArray, weight_difference: FloatArray, weights: FloatArray, theta: float | FloatArray, total: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the summands of E_theta(L) = E_theta(L - e^{-theta L}(e^L - 1)), and the sizes of their terms.

    All arrays have the shape (parts, nodes). E_theta is the expectation under the law tilted by e^{theta L}. `weights`
    are its weights of sum 1, `weight_difference` is null_weight (e^L - 1), and `total` is M(theta) = E0 e^{theta L},
    shape (parts,). The summands are power series where (1 + |theta|) |L| < 0.5. L is the loss.
    """
    theta = _one_number(theta)
    scale = 1 + abs(theta)
    upper, lower = (1 - theta) / scale, -theta / scale  # differ by 1/scale: a^n - b^n = (a - b) sum a^k b^{n-1-k}
    coefficients: list[Any] = []
    quotient, power = 1.0, 1.0  # the sum for n, and lower^(n - 1)
    for n in range(2, 16):
        power = power * lower
        quotient = upper * quotient + power
        coefficients.append(quotient / (scale * math.factorial(n)))
    scaled = loss * scale
    small = np.abs(scaled) < 0.5
    scaled = np.where(small, scaled, 0.0)
    series = -(scaled**2) * _polynomial(scaled, coefficients)
    direct = weights * loss
    exponential = weight_difference / total[:, None]
    terms = np.where(small, weights * series, direct - exponential)
    return terms, np.where(small, np.abs(terms), np.abs(direct) + np.abs(exponential))


def _one_number(tilt: float | FloatArray) -> float | FloatArray:
    return float(np.reshape(tilt, ())) if np.size(tilt) == 1 else tilt


def _polynomial(x: FloatArray, coefficients: list[Any]) -> FloatArray:
    found = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        found *= x
        found += coefficient
    return found


def tilted_differences(
    weights: FloatArray,
    loss: FloatArray,
    mean: FloatArray,
    step: float | FloatArray,
    nodes: int,
    last: IndexArray | None = None,
) -> ComplexArray:
    """Return d_k = E_theta(e^{i t_k L} - 1) at t_k = k step for all parts, shape (parts, nodes + 1).

    E_theta is the expectation over the nodes with the given weights, and L the loss of a node.

    Parameters
    ----------
    weights, loss : (parts, n)
        Weights of the law tilted by e^{theta L}, of sum 1, and losses L; n is a multiple of `SUM_BLOCK`.
    mean : (parts,)
        E_theta(L - e^{-theta L}(e^L - 1)).
    step : float or (parts, 1)
        Distance of the heights t_k, for all parts or for each part.
    nodes : int
        Number of heights above 0.
    last : (parts,) or None
        Last k of each part; values beyond it may be 0. None if all parts need all heights.

    Notes
    -----
    E0(w - 1) = 0 for the likelihood ratio w = e^L, so d = E_theta(e^{itL} - 1 - itL) + it E_theta(L - e^{-theta L}(e^L
    - 1)). Every summand is O(L^2), and rounding does not grow with the number of steps. Let k = a columns + b and E(x)
    = e^{ix} - 1 = ix + E'(x). Then E(x+y) - i(x+y) = E(x) E(y) + E'(x) + E'(y), and the sums over nodes become one
    matrix product.
    """
    if last is not None and len(weights) > 1:
        return _by_pieces(weights, loss, mean, np.broadcast_to(step, (len(weights), 1)), last)
    rows = max(1, math.isqrt(nodes + 1))
    columns = -(-(nodes + 1) // rows)
    blocks = (len(weights), weights.shape[1] // SUM_BLOCK, 1, SUM_BLOCK)
    weights, loss = weights.reshape(blocks), loss.reshape(blocks)
    phase = loss * np.asarray(step)[..., None, None]
    (outer, inner), rest = multiples(np.stack([phase * columns, phase]), columns)
    total = np.matmul(weights * outer[..., :rows, :], inner.swapaxes(-1, -2)).sum(axis=1)
    of_rows, of_columns = np.matmul(rest, weights.swapaxes(-1, -2))[..., 0].sum(axis=2)
    total += of_rows[:, :rows, None]
    total += of_columns[:, None, :]
    t = np.arange(nodes + 1) * step
    return total.reshape(len(weights), -1)[:, : nodes + 1] + 1j * t * mean[:, None]


def _by_pieces(
    weights: FloatArray, loss: FloatArray, mean: FloatArray, step: FloatArray, last: IndexArray
) -> ComplexArray:
    """Return E_theta(e^{i t_k L} - 1) at t_k = k `step` for P parts, shape (P, largest `last` + 1).

    The values and the arguments are those of `tilted_differences`: tilted `weights` and `loss` of shape (P, n), `mean`
    and `last` of shape (P,). Here `step` has the shape (P, 1). Values of a part beyond its index `last` may be 0. Parts
    with similar `last` are evaluated together, in groups whose tables of powers fit into the processor's cache. A part
    is a number of equal steps of a run, and L the loss of a step.
    """
    order = np.argsort(last, kind="stable")
    powers = np.sqrt(last[order] + 1) * weights.shape[1]
    found = np.zeros((len(last), int(last.max()) + 1), dtype=np.complex128)
    first = 0
    while first < len(order):
        after = first + 1
        while after < len(order) and (after + 1 - first) * powers[after] <= _TOGETHER:
            after += 1
        own, nodes = order[first:after], int(last[order[after - 1]])
        found[own, : nodes + 1] = tilted_differences(weights[own], loss[own], mean[own], step[own], nodes)
        first = after
    return found


def values_on_contour(counts: FloatArray, d: ComplexArray, error: FloatArray, together: int = 0) -> ValuesOnContour:
    """Return sum N ln(1 + d) over the parts, which is K(theta + it) - K(theta) of a run, and its error bound.

    K(z) = ln E0 e^{zS} is the log-moment function of the run's loss S. The error is that of `ValuesOnContour`.

    Parameters
    ----------
    counts : (parts,)
        Numbers of steps N.
    d, error : (parts, heights)
        Differences d = M(theta + it)/M(theta) - 1 of the transform M of one step at heights t, and bounds of
        their absolute error.
    together : int
        Number of consecutive parts that are a run of their own; the result then has the shape (runs, heights). With 0
        all parts are one run.

    Notes
    -----
    N is an integer, so the branch of the logarithm does not matter to e^K. An error e of d is a relative error e/|1 +
    d| of each of the N factors of e^K, and (1 + e/|1 + d|)^N = e^{N log1p(e/|1 + d|)}.
    """
    count = counts[:, None]
    log_modulus = 0.5 * np.log1p(np.maximum(2 * d.real + (d.real**2 + d.imag**2), _ROUNDING_FLOOR - 1))
    # |M|^2 - 1 near -1 has lost its digits: its error u is u/|M|^2 relative to |M|, and that of 1 + d is u/|M|.
    modulus = np.hypot(1 + d.real, d.imag)
    log_modulus = np.where(modulus < 0.5, np.log(np.maximum(modulus, math.sqrt(_ROUNDING_FLOOR))), log_modulus)
    angle = np.arctan2(d.imag, 1 + d.real)
    error = error + 2 * math.sqrt(_ROUNDING_FLOOR) * (log_modulus <= 0.49 * math.log(_ROUNDING_FLOOR))
    relative = np.log1p(error / np.exp(log_modulus))
    relative += 2 * FUNCTION_ERROR * (np.abs(log_modulus) + np.abs(angle))
    sizes = count * (np.abs(log_modulus) + np.abs(angle))
    values, errors = count * (log_modulus + 1j * angle), count * relative
    if together == 1:
        return ValuesOnContour(values, errors * 1.001 + 3 * UNIT_ROUNDOFF * sizes)
    if together:
        values, errors, sizes = (
            each.reshape(-1, together, d.shape[1]).swapaxes(0, 1) for each in (values, errors, sizes)
        )
    summation = (2 + len(values)) * UNIT_ROUNDOFF * sizes.sum(axis=0)
    return ValuesOnContour(values.sum(axis=0), errors.sum(axis=0) * 1.001 + summation)


def significant(weights: FloatArray) -> slice:
    """Return the range of nodes, in whole blocks, outside which the tilted weights (parts, nodes) are below 1e-30.

    The bound is relative to the largest weight of each part.
    """
    alive = np.flatnonzero((weights > weights.max(axis=-1, keepdims=True) * 1e-30).any(axis=0))
    first = int(alive[0]) // SUM_BLOCK * SUM_BLOCK
    return slice(first, -(-(int(alive[-1]) + 1) // SUM_BLOCK) * SUM_BLOCK)


def outside(weights: FloatArray, window: slice) -> FloatArray:
    """Return the sum of the weights (parts, nodes) outside the range `window` of nodes, shape (parts,)."""
    return weights[:, : window.start].sum(axis=-1) + weights[:, window.stop :].sum(axis=-1)
