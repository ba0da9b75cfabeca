"""The grid in y behind the moments of Poisson-sampled Gaussian steps: nodes, losses, weights, and rounding errors.

Notation of `sampled_gaussian.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.privacy.composition.summands import node_sums
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, SUM_BLOCK, UNIT_ROUNDOFF, sum_error

_BY_NODE = ("y", "loss", "log_weight", "weight", "responsibility", "loss_error", "relative_error")
"""What a grid holds of each node."""


def _loss(v: FloatArray, rate: FloatArray) -> FloatArray:
    """L = ln(1 - p + p e^v), accurate for tiny p, small v and v beyond the range of exp."""
    moderate = np.log1p(rate * np.expm1(np.minimum(v, 600.0)))
    # ln(1 - x) loses digits where x is near 1: there both summands are positive and 1 - p is exact.
    moderate = np.where((v < -1) & (rate > 0.5), np.log((1 - rate) + rate * np.exp(np.minimum(v, 0.0))), moderate)
    return np.where(v > 600.0, np.logaddexp(np.log1p(-rate), np.log(rate) + v), moderate)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the nodes of a grid are: at (first + j) spacing, j < nodes, of y, or of u = v + ln(p/(1 - p)) (`in_u`).
    `spacing` and `first` of shape (1,), or (parts,) where each part is a run of its own.

    With L = ln(1 - p) + ln(1 + e^u) all steps have the same losses at the same u, but for a constant: what costs most,
    their exponentials, is then needed once for all parts. `steps`: the spacing in y of each part; `kept`: of each part
    the nodes before its cut; both of shape (parts,).
    """

    spacing: FloatArray
    first: FloatArray
    nodes: int
    steps: FloatArray
    kept: IndexArray
    in_u: bool

    def of(self, parts: IndexArray) -> Layout:
        """That of some parts, each of which is a run of its own."""
        kept = self.kept[parts]
        nodes = min(self.nodes, int(kept.max()) + -int(kept.max()) % SUM_BLOCK)
        return Layout(self.spacing[parts], self.first[parts], nodes, self.steps[parts], kept, self.in_u)


@dataclass(frozen=True)
class Grid(node_sums.Nodes):
    """Trapezoid nodes in y with everything that does not depend on the tilt; arrays of shape (parts, nodes)."""

    y: FloatArray
    loss: FloatArray
    log_weight: FloatArray
    weight: FloatArray
    responsibility: FloatArray
    loss_error: FloatArray
    relative_error: FloatArray
    """Relative error of a weight, its loss taken as exact, and of summing it up; `loss_error` is that of L (nats)."""
    step: FloatArray
    """Spacing of each part, shape (parts, 1)."""
    sigma: FloatArray
    rate: FloatArray
    kept: IndexArray
    """Nodes before the cut of each part; the rest has no weight."""
    soft: FloatArray | None
    """ln(1 + e^u) at the nodes u that all parts share, shape (nodes,); None where they share y."""

    def of(self, parts: IndexArray, nodes: int) -> Grid:
        """The first nodes of some parts, each of which is a run of its own."""
        held = {name: getattr(self, name)[parts, :nodes] for name in _BY_NODE}
        sigma, rate, kept, step = self.sigma[parts], self.rate[parts], self.kept[parts], self.step[parts]
        return Grid(**held, step=step, sigma=sigma, rate=rate, kept=kept, soft=None)

    @cached_property
    def columns(self) -> FloatArray:
        """1, L, L^2, and the two error columns, last axis: what plain moments sum up."""
        parts = [np.ones_like(self.loss), self.loss, self.loss**2, self.relative_error, self.loss_error]
        return np.stack(parts, axis=-1)

    def tilted(self, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights phi h e^{sL - shift}, shape (S, parts, nodes), and the shift, shape (S, parts). `tilts`: (S, 1), or
        (S, parts).
        """
        return node_sums.tilted(self.loss, self.log_weight, tilts)

    def at_ends(self, values: FloatArray) -> FloatArray:
        """The columns of an array (..., parts, nodes) at each part's first and last node, shape (..., parts, 2)."""
        return values[..., *self._ends]

    @cached_property
    def _ends(self) -> tuple[IndexArray, IndexArray]:
        """Part and node of the first and the last nodes, shape (parts, 1) and (parts, 2)."""
        return np.arange(len(self.kept))[:, None], np.stack([np.zeros_like(self.kept), self.kept - 1], axis=-1)

    @staticmethod
    def build(sigma: FloatArray, rate: FloatArray, layout: Layout) -> Grid:
        """The grid of nodes (first + j) step, j < nodes, of which the first `kept` of each part carry weight."""
        column, p = sigma[:, None], rate[:, None]
        nodes, step = layout.nodes, layout.steps[:, None]
        # Exact: small integers times a dyadic step.
        shared = (layout.first[:, None] + np.arange(nodes, dtype=np.float64)) * layout.spacing[:, None]
        if layout.in_u:
            log_odds = np.log(p) - np.log1p(-p)
            v = shared - log_odds
            y = column * v + 0.5 / column
            v_error = 4 * UNIT_ROUNDOFF * (np.abs(shared) + np.abs(np.log(p)) + np.abs(np.log1p(-p)))
            y_error = column * v_error + UNIT_ROUNDOFF * (1 / column + np.abs(y))
        else:
            y = shared + np.zeros_like(column)
            v = y / column - 0.5 / column**2
            v_error = 3 * UNIT_ROUNDOFF * (np.abs(y) / column + 0.5 / column**2)
            y_error = 0.0
        loss = _loss(v, p)
        log_weight = -0.5 * y**2 + np.log(step / math.sqrt(2 * math.pi))
        log_weight[np.arange(nodes) >= layout.kept[:, None]] = -np.inf
        responsibility = np.exp(np.minimum(np.log(p) + v - loss, 0.0))
        loss_error = responsibility * v_error + 2 * FUNCTION_ERROR * np.abs(loss)
        loss_error = loss_error + np.where((v < -1) & (p > 0.5), 12 * UNIT_ROUNDOFF, 0.0)
        relative = UNIT_ROUNDOFF * (y**2 + 8) + 4 * FUNCTION_ERROR + sum_error(nodes)
        relative = relative + 1.01 * np.abs(y) * y_error
        return Grid(
            y,
            loss,
            log_weight,
            np.exp(log_weight),
            responsibility,
            loss_error,
            relative,
            step,
            sigma,
            rate,
            layout.kept,
            np.logaddexp(0.0, shared[0]) if layout.in_u else None,
        )
