"""Poisson-sampled Laplace steps on a contour Re z = theta: values of K, their errors, and majorants of |M|.

The likelihood ratio w, the loss v without sampling and its range [-e, e] are those of `sampled_laplace.py`; L = ln w is
the loss of a step. M(z) = E0 e^{zL} is the transform of one step, N the number of steps, and K the sum of ln M over all
steps. The law of a step tilted by e^{theta L} has the expectation E_theta. It has atoms of mass A together and a smooth
part of mass C = 1 - A. Its density g in L satisfies g L' = e^{-(v+e)/2} w^theta/(4 M(theta)), with L' = dL/dv, and ln g
has a monotone derivative. The total variation of g is at most the sum of its values at both ends l0 and l1 of the
losses. Integration by parts gives

    |M(theta + it)|/M(theta) <= A + min(C, V/t),    V = 2 (g(l0) + g(l1)).

The transform of N steps does not vanish as t grows, but its difference to that of the atoms does: |M^N - atoms^N| <= (A
+ V/t)^N - A^N.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands import node_sums
from service.privacy.composition.summands.abstract import SummandOnContour, ValuesOnContour
from service.privacy.composition.summands.sampled_laplace import SampledLaplaceParts
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import ComplexArray
from service.privacy.numerics.work import count_work

_ENOUGH = 55.0
"""Nats below which majorants of all steps need not fall: e^-55 is enough."""
_A_MODULUS = 2e-3
"""Approximate work of a node at a height, microseconds."""
_MOST_CELLS, _FEW_CELLS, _FEW_PERIODS = 40_000, 500, 20
"""Cells of the grid on which |M| is tabulated.

Where other steps make the contour end, few cells near the axis suffice.
"""
_RULE_HEIGHTS = 33
_KNOWN = 1e-4
"""Error of the quadrature rules of tabulated values."""


class SampledLaplaceOnContour(SummandOnContour):
    """Sampled Laplace parts of a run under the law tilted by e^{theta L}, on the contour Re z = theta.

    L is the loss of one step, M(z) = E0 e^{zL} its transform, E the expectation under the tilted law, and m the tilted
    mean of L. A is the mass of the two atoms of the tilted law and V/t the bound of its smooth part at the height t. N
    is the number of steps of a part.
    """

    def __init__(self, parts: SampledLaplaceParts, theta: float) -> None:
        self.parts, self.theta = parts, theta
        tilt = np.array([theta])
        cumulants = parts.cumulants(tilt)
        self._origin = cumulants.value[0], cumulants.error[0]
        weights, log_total, _ = parts.tilted(tilt)
        self._weights, self._log_total = weights[0], log_total[0]
        self._mean = (self._weights * parts.loss).sum(axis=-1)
        self._centred = parts.loss - self._mean[:, None]
        self._spread = (self._weights * np.abs(self._centred)).sum(axis=-1)
        self._loss_error = 2 * parts.loss_error + 4 * UNIT_ROUNDOFF * np.abs(parts.loss)

    @override
    def work(self, height: float) -> int:
        return self.parts.refined_size(self.theta, height)

    def values(self, step: float, nodes: int) -> ValuesOnContour:
        """Return K(theta + i t_k) - K(theta) at t_k = k step, shape (nodes + 1,), and bounds of the errors.

        K is the log-moment function of all steps. The difference is sum N (i t m + ln(1 + d_k)), where d_k = E(e^{it(L
        - m)} - 1) and m is the tilted mean of the loss L. Rounding is relative to E|L - m| t, so it grows only like the
        root of the number of steps.
        """
        finer = self.parts.refined(self.theta, step * nodes)
        if finer is not self.parts:
            return SampledLaplaceOnContour(finer, self.theta).values(step, nodes)
        count = self.parts.count
        t = np.arange(nodes + 1, dtype=np.float64) * step
        found = node_sums.values_on_contour(count, self._differences(step, nodes), self._error(t))
        moved = float(count @ self._mean) * t
        rounding = (6 + len(count)) * UNIT_ROUNDOFF * (float(count @ np.abs(self._mean)) * t + np.abs(found.difference))
        return ValuesOnContour(found.difference + 1j * moved, found.error + rounding)

    def _differences(self, step: float, nodes: int) -> ComplexArray:
        """Return d_k = E(e^{i t_k (L - m)} - 1) at t_k = k step, shape (parts, nodes + 1).

        E is the expectation under the tilted law of the loss L, and m its mean. Let k = a columns + b and F(x) = e^{ix}
        - 1. The identity F(x + y) = F(x) F(y) + F(x) + F(y) gives one matrix product for each part. Each loss needs
        only 2 sqrt(nodes) exponentials.
        """
        rows = max(1, math.isqrt(nodes + 1))
        columns = -(-(nodes + 1) // rows)
        found: list[ComplexArray] = []
        for losses, weights in zip(self._centred, self._weights, strict=True):
            outer = _unit_circle(losses * (np.arange(rows, dtype=np.float64) * (columns * step))[:, None])
            inner = _unit_circle(losses * (np.arange(columns, dtype=np.float64) * step)[:, None])
            weighted = outer * weights
            total = weighted @ inner.T + weighted.sum(axis=-1)[:, None] + (inner * weights).sum(axis=-1)
            found.append(total.ravel()[: nodes + 1])
        return np.stack(found)

    def _error(self, t: FloatArray) -> FloatArray:
        """Return a bound of the absolute error of d = E(e^{it(L - m)} - 1) at T heights t, shape (parts, T).

        The bound has parts from weights, losses L, sums and the quadrature rule; m is the tilted mean of L. Relative
        errors of weights, at most q each, change a quotient of two sums of them by 2 q of the sum of sizes. The three
        terms of every loss are together below 4 times t |L - m| and 4 times 2.
        """
        parts, theta = self.parts, abs(self.theta)
        nodes = parts.loss.shape[1]
        relative = parts.mass_error + theta * (parts.loss_error + 2 * UNIT_ROUNDOFF * np.abs(parts.loss))
        relative = 2 * relative + 4 * FUNCTION_ERROR + (2 * nodes + 16) * UNIT_ROUNDOFF
        linear = (self._weights * relative * np.abs(self._centred)).sum(axis=-1)[:, None]
        bounded = 2 * (self._weights * relative).sum(axis=-1)[:, None]
        through_loss = (self._weights * self._loss_error).sum(axis=-1)[:, None] * t
        # The bound of the rule's error increases with the height, so that each height has that of the next of a few.
        heights = float(t.max()) * np.linspace(0.0, 1.0, _RULE_HEIGHTS)
        log_rule = parts.log_quadrature_error(np.array([self.theta]), heights[None])[0] - self._log_total
        rule = np.exp(np.minimum(log_rule, 700.0))
        both = rule[0] + rule[np.minimum(np.searchsorted(heights, t), _RULE_HEIGHTS - 1)]
        return 8 * np.minimum(linear * t, bounded) + through_loss + 2 * both.T

    @cached_property
    def _law(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Upper bounds of A and V, and the height from which A + V/t is small enough, shape (parts,) each.

        The transform M of one step satisfies |M(theta + it)/M(theta)| <= A + V/t, with the mass A of the tilted atoms
        at the tilt theta. Losses may be so small that no height in the range of doubles makes a part fall. Such a step
        counts as atoms only: A is 1 and V is 0. Then |M^N - (atoms^N of the others) M'| <= (A + V/t)^N - A^N, with M'
        of these steps below 1.
        """
        parts = self.parts
        ends = np.stack([-parts.scale, parts.scale])
        losses = parts.loss[:, [0, -1]].T
        # 1/L' = w e^-v/p at both ends.
        log_density = (self.theta + 1) * losses - 1.5 * ends - 0.5 * parts.scale - np.log(4 * parts.rate)
        atoms = np.minimum((self._weights[:, 0] + self._weights[:, -1]) * (1 + 1e-12), 1.0)
        with np.errstate(over="ignore", divide="ignore"):
            variation = 2 * np.exp(log_density - self._log_total).sum(axis=0) * (1 + 1e-9)
            far = variation / self._room(atoms)
            still = np.isinf(_FEW_PERIODS * (math.pi / np.ptp(parts.loss, axis=-1)))
        still |= np.isinf(far) & parts.decay_alone
        return np.where(still, 1.0, atoms), np.where(still, 0.0, variation), np.where(still, 0.0, far)

    @property
    def _atoms(self) -> FloatArray:
        return self._law[0]

    @property
    def log_atoms(self) -> float:
        """ln of the tilted probability that all losses of the steps are atoms of their laws: the sum of N ln A.

        N is the number of steps of a part, and A the tilted mass of the atoms of one step.
        """
        return float(self.parts.count @ np.log(self._atoms))

    @property
    def _variation(self) -> FloatArray:
        return self._law[1]

    @property
    def _far(self) -> FloatArray:
        return self._law[2]

    def _room(self, atoms: FloatArray) -> FloatArray:
        """Return how much a bound of |M(theta + it)/M(theta)| may exceed the atoms' mass A, shape (parts,).

        The bound of all steps together is then negligible, so that a contour may end, unless the atoms alone make it
        larger. M is the transform of one step, and theta the tilt.
        """
        smooth = np.maximum(1 - atoms, 1e-300)
        return np.maximum(math.exp(-_ENOUGH / float(self.parts.count.sum())) - atoms, 0.1 * smooth)

    @cached_property
    def _looked_up(self) -> list[tuple[FloatArray, FloatArray]]:
        """Tables for each part: increasing heights, and ln of upper bounds of |M(theta + it)/M(theta)| beyond each.

        A bound holds at its height and at all greater heights. M is the transform of one step. If the Laplace steps
        alone have to make the transform decay, their tables have many heights. Other tables have a few heights near the
        real axis. theta is the tilt of the contour.
        """
        falls = self.parts.count * np.log(self._atoms)
        order = np.argsort(falls)
        before = np.concatenate([[0.0], np.cumsum(falls[order])[:-1]])
        ruling = set(order[before > -2 * _ENOUGH].tolist()) if self.parts.decay_alone else set[int]()
        return [self._bounds_of(part, is_ruling=part in ruling) for part in range(len(falls))]

    def _bounds_of(self, part: int, *, is_ruling: bool) -> tuple[FloatArray, FloatArray]:
        if self._atoms[part] == 1 and self._variation[part] == 0:
            return np.zeros(1), np.zeros(1)
        first, last = math.pi / float(np.ptp(self.parts.loss[part])), float(self._far[part])
        most = _MOST_CELLS if is_ruling else _FEW_CELLS
        if not is_ruling:
            last = min(last, _FEW_PERIODS * first)
        spread, room = float(self._spread[part]), float(min(self._room(self._atoms)[part], 0.2))
        cells = math.ceil(min(max((last - first) * spread / (0.5 * room), 1.0), most))
        heights = np.linspace(first, max(last, first), cells + 1)
        line = SampledLaplaceOnContour(
            self.parts.only(part).refined(self.theta, float(heights[-1]), _KNOWN), self.theta
        )
        size = line._moduli(heights) + line._error(heights)[0]
        step = float(heights[1] - heights[0])
        # Between two heights |M| rises by at most half their distance times E|L - m|.
        cell = np.append(np.maximum(size[:-1], size[1:]) + 0.5 * step * spread * (1 + 1e-9), 0.0)
        least = float(self._atoms[part]) + float(self._variation[part]) / float(heights[-1])
        bound = np.maximum(np.maximum.accumulate(cell[::-1])[::-1], least)
        return heights, np.minimum(np.log(bound), 0.0)

    def _moduli(self, heights: FloatArray) -> FloatArray:
        """Return |M(theta + it)|/M(theta) of a single part at evenly spaced heights t, shape (heights,).

        M is the transform of one step. The products are those of `_differences`. theta is the tilt of the contour.
        """
        count_work(_A_MODULUS * len(heights) * self._centred.shape[-1])
        rows = max(1, math.isqrt(len(heights)))
        columns = -(-len(heights) // rows)
        step = (heights[-1] - heights[0]) / max(len(heights) - 1, 1)
        outer = np.exp(1j * self._centred[0] * (heights[0] + np.arange(rows) * (columns * step))[:, None])
        inner = np.exp(1j * self._centred[0] * (np.arange(columns) * step)[:, None])
        return np.abs((outer * self._weights[0]) @ inner.T).ravel()[: len(heights)]

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds of ln |P(theta + it')/P(theta)| over all t' >= t, at each height t; and zeros.

        P is the product of the transforms M of all steps, and theta the tilt. The zeros are the trivial bounds for one
        step. Both arrays have the shape of `heights`. Let L and L' be independent copies of the loss of a step under
        the tilted law. Then 1 - |M(theta + it)/M(theta)|^2 = E(1 - cos t(L - L')). The expectation is >= 4 t^2 Var
        L/pi^2 while t times the range of L is at most pi.
        """
        variance = (self._weights * self._centred**2).sum(axis=-1) * (1 - 1e-9)
        total = np.zeros_like(heights)
        for part, (known_heights, bounds) in enumerate(self._looked_up):
            quadratic = 0.5 * np.log1p(-np.minimum(4 / math.pi**2 * heights**2 * variance[part], 1 - 1e-9))
            near = np.maximum(quadratic + 1e-15, bounds[0])
            cell = np.clip(np.searchsorted(known_heights, heights, side="right") - 1, 0, len(known_heights) - 1)
            far = np.log(self._atoms[part] + np.minimum(self._variation[part] / heights, 1.0))
            log_bound = np.where(
                heights < known_heights[0], near, np.where(heights < known_heights[-1], bounds[cell], far)
            )
            total += self.parts.count[part] * np.minimum(log_bound, 0.0)
        return total, np.zeros_like(total)

    @property
    def last_height(self) -> float:
        """Height t from which |M^N - atoms^N| at theta + it falls at least like 1/t.

        M is the transform of one step, `atoms` that of its two atoms, and N the number of steps. theta is the tilt of
        the contour.
        """
        return max(float(self._far.max()), *(float(heights[-1]) for heights, _ in self._looked_up))


def _unit_circle(phase: FloatArray) -> ComplexArray:
    found = np.empty(phase.shape, dtype=np.complex128)
    found.real, found.imag = -2 * np.sin(0.5 * phase) ** 2, np.sin(phase)
    return found
