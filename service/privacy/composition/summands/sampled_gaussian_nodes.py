"""Nodes in y behind the moments of Poisson-sampled Gaussian steps: losses, weights, and rounding errors.

A step has the noise multiplier sigma and the sampling rate p. Its outcome is y ~ N(0, 1) under H0, and its loss is L =
ln(1 - p + p e^v) with v = y/sigma - 1/(2 sigma^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.composition.summands.trapezoid import TrapezoidNodes
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF, sum_error

_BY_PART = ("step", "start", "stop", "sigma", "rate")
_BY_NODE = ("x", "loss", "log_null_weight", "null_weight", "responsibility", "loss_error", "relative_error")
_Positions = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Outcomes y and losses v without sampling at nodes, with bounds of their absolute errors in the same order."""

_SHARES = np.arange(13) / 12
"""Positions between the start of the far jumps and the end of a grid."""


def _loss(v: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the privacy loss L = ln(1 - p + p e^v) in nats for the sampling rate p = `rate`, in the shape of v.

    The loss without sampling is v. The result is accurate for tiny p, small v and v beyond the range of exp.
    """
    moderate = np.log1p(rate * np.expm1(np.minimum(v, 600.0)))
    # ln(1 - x) loses digits where x is near 1: there both summands are positive and 1 - p is exact.
    moderate = np.where((v < -1) & (rate > 0.5), np.log((1 - rate) + rate * np.exp(np.minimum(v, 0.0))), moderate)
    return np.where(v > 600.0, np.logaddexp(np.log1p(-rate), np.log(rate) + v), moderate)


@dataclass(frozen=True, slots=True)
class GaussianNodeLayout:
    """Positions of the nodes of a grid: (first + j) spacing for j < nodes.

    The positions are values of the outcome y, or of u = v + ln(p/(1 - p)) where `in_u` is set. Here v = y/sigma - 1/(2
    sigma^2), sigma is the noise multiplier and p the sampling rate. With the loss L = ln(1 - p) + ln(1 + e^u) all steps
    have the same losses at the same u, except for a constant. Their exponentials, the most expensive part, are then
    needed once for all parts.

    Attributes
    ----------
    spacing, first : (1,), or (parts,) where each part is a run of its own
        Spacing and index of the first node.
    nodes : int
        Number of nodes.
    steps : (parts,)
        Spacing in y of each part.
    kept : (parts,)
        Number of nodes of each part before its truncation.
    in_u : bool
        Whether the positions are values of u.
    """

    spacing: FloatArray
    first: FloatArray
    nodes: int
    steps: FloatArray
    kept: IndexArray
    in_u: bool

    def of(self, parts: IndexArray) -> GaussianNodeLayout:
        """Return the layout of the parts with the given indices, where each part is a run of its own."""
        kept = self.kept[parts]
        nodes = min(self.nodes, int(kept.max()) + -int(kept.max()) % SUM_BLOCK)
        return GaussianNodeLayout(self.spacing[parts], self.first[parts], nodes, self.steps[parts], kept, self.in_u)


@dataclass(frozen=True, kw_only=True)
class SampledGaussianNodes(TrapezoidNodes):
    """Nodes x = y of Poisson-sampled Gaussian steps, with y ~ N(0, 1) under H0; arrays of shape (parts, nodes).

    `responsibility` is r = p e^v/(1 - p + p e^v) with v = y/sigma - 1/(2 sigma^2) and u = v + ln(p/(1 - p)). `sigma`,
    the noise multiplier, and `rate`, the sampling rate p, have the shape (parts,).
    """

    responsibility: FloatArray
    sigma: FloatArray
    rate: FloatArray
    soft: FloatArray | None
    """ln(1 + e^u) at the nodes u that all parts share, shape (nodes,); None where they share y."""

    def of(self, parts: IndexArray, nodes: int) -> SampledGaussianNodes:
        """Return the first `nodes` nodes of the parts with the given indices, where each part is a run of its own."""
        by_node = {name: getattr(self, name)[parts, :nodes] for name in _BY_NODE}
        return SampledGaussianNodes(**by_node, **{name: getattr(self, name)[parts] for name in _BY_PART}, soft=None)

    @staticmethod
    def build(
        sigma: FloatArray, rate: FloatArray, rate_error: FloatArray, layout: GaussianNodeLayout
    ) -> SampledGaussianNodes:
        """Return the nodes of a layout; the first `kept` nodes of each part carry weight.

        Parameters
        ----------
        sigma, rate, rate_error : (parts,)
            Noise multiplier, sampling rate p, and relative error of the sampling rate.
        layout : GaussianNodeLayout
            Positions of the nodes.

        Notes
        -----
        The loss is L = ln w with w = 1 - p + p e^v and r = p e^v/w. The error of the rate moves the loss by dL/d ln p =
        p (e^v - 1)/w = r (1 - e^-v). Sums of s = ln(1 + e^u) and ln(1 - p) in place of L move by at most 1/(1 - p) of
        themselves.
        """
        p, nodes, step = rate[:, None], layout.nodes, layout.steps[:, None]
        # The products are exact: small integers times a dyadic step.
        shared = (layout.first[:, None] + np.arange(nodes, dtype=np.float64)) * layout.spacing[:, None]
        y, v, y_error, v_error = (_at_shared_u if layout.in_u else _at_shared_y)(shared, sigma[:, None], p)
        loss = _loss(v, p)
        log_weight = -0.5 * y**2 + np.log(step / math.sqrt(2 * math.pi))
        log_weight[np.arange(nodes) >= layout.kept[:, None]] = -np.inf
        responsibility = np.exp(np.minimum(np.log(p) + v - loss, 0.0))
        loss_error = responsibility * v_error + 2 * FUNCTION_ERROR * np.abs(loss)
        loss_error = loss_error + np.where((v < -1) & (p > 0.5), 12 * UNIT_ROUNDOFF, 0.0)
        relative = UNIT_ROUNDOFF * (y**2 + 8) + 4 * FUNCTION_ERROR + sum_error(nodes)
        relative = relative + 1.01 * np.abs(y) * y_error
        if rate_error.any():
            slope = responsibility * -np.expm1(-np.maximum(v, 0.0)) - p * np.expm1(np.minimum(v, 0.0)) * np.exp(-loss)
            loss_error = loss_error + 1.01 * rate_error[:, None] * slope
            relative = relative + (1.01 * rate_error / (1 - rate))[:, None] * layout.in_u
        return SampledGaussianNodes(
            x=y,
            step=step,
            start=np.zeros_like(layout.kept),
            stop=layout.kept,
            loss=loss,
            log_null_weight=log_weight,
            null_weight=np.exp(log_weight),
            loss_error=loss_error,
            relative_error=relative,
            responsibility=responsibility,
            sigma=sigma,
            rate=rate,
            soft=np.logaddexp(0.0, shared[0]) if layout.in_u else None,
        )


def _at_shared_u(u: FloatArray, sigma: FloatArray, p: FloatArray) -> _Positions:
    """Return y, v = u - ln(p/(1 - p)) and bounds of their absolute errors, at nodes u of steps of rate p.

    y is the outcome and v the log-likelihood ratio of the noise, for the noise multipliers `sigma`. The order is y, v,
    error of y, error of v.
    """
    log_odds = np.log(p) - np.log1p(-p)
    v = u - log_odds
    y = sigma * v + 0.5 / sigma
    v_error = 4 * UNIT_ROUNDOFF * (np.abs(u) + np.abs(np.log(p)) + np.abs(np.log1p(-p)))
    return y, v, sigma * v_error + UNIT_ROUNDOFF * (1 / sigma + np.abs(y)), v_error


def _at_shared_y(y: FloatArray, sigma: FloatArray, p: FloatArray) -> _Positions:
    """Return y, v = y/sigma - 1/(2 sigma^2) and bounds of their absolute errors, at exact nodes y.

    v is the log-likelihood ratio of the noise, for the noise multipliers `sigma`. The order is y, v, error of y, error
    of v. The rates `p` do not enter.
    """
    y = y + np.zeros_like(sigma)
    v = y / sigma - 0.5 / sigma**2
    return y, v, np.zeros_like(p), 3 * UNIT_ROUNDOFF * (np.abs(y) / sigma + 0.5 / sigma**2)


def last_nodes_are_negligible(
    sigma: FloatArray, rate: FloatArray, count: FloatArray, digits: FloatArray, theta: FloatArray
) -> BoolArray:
    """Return where the last node of each run of equal steps has negligible weight under a tilted law.

    `sigma`, `rate` and `count` are noise multiplier, sampling rate and number of steps, and about 10^-digits of the
    mass is truncated. The weight is judged at the tilt `theta` (density e^{theta L} for the loss L), or at the smallest
    tilt at which far jumps dominate. All arrays have one shape, and the result has it too. No bound depends on it.
    """
    steps_log = np.log(count)
    goal = digits * math.log(10) + math.log(2) + steps_log
    end = np.maximum(np.sqrt(2 * goal), 1 / sigma + np.sqrt(2 * np.maximum(goal + np.log(rate), 0.0)))
    start = np.sqrt(2 * (steps_log + 8))
    y = start + (end - start) * _SHARES.reshape(-1, *(1 for _ in sigma.shape))
    exponent = y / sigma - 0.5 / sigma**2
    moderate = np.log1p(rate * np.expm1(np.minimum(exponent, 600.0)))
    loss = np.where(exponent < 600, moderate, exponent + np.log(rate))
    with np.errstate(divide="ignore", invalid="ignore"):
        heaviest = np.where(loss > 0, (0.5 * y * y - steps_log) / loss, np.inf)
        at_end = np.where(loss[-1] > 0, (0.5 * end * end - steps_log - 30.0) / loss[-1], np.inf)
    return np.asarray(at_end >= np.minimum(theta, heaviest.min(axis=0)))
