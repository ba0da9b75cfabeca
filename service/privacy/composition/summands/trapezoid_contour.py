"""Trapezoid sums on an inversion contour Re z = theta: values of K, their errors, and majorants of |M|.

The notation is that of `trapezoid.py`: phi a and phi b are the densities of H1 and H0 at x, L = ln a - ln b is the loss
and M(z) = E0 e^{zL} the transform of a step. K(z) is the sum of ln M over the steps of a run. E_theta is the
expectation under the law tilted by e^{theta L}, so that M(theta + it)/M(theta) = E_theta e^{itL}. With A(x, q) = a(x +
iq)/a(x), B likewise and D(x, q) = arg A - arg B, the integrand satisfies

    |a^z b^{1-z}| (x + iq) = (a^theta b^{1-theta})(x) |A|^theta |B|^{1-theta} e^{-tD}.

In a mirrored step b(x + iq) is the conjugate of a(-x + iq). Then |B(x, q)| = |A(-x, q)| and D(x, q) = arg A(x, q) + arg
A(-x, q). In every other step |B| = 1 and D = arg A.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeVar

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands import node_sums
from service.privacy.composition.summands.abstract import SummandOnContour, ValuesOnContour
from service.privacy.composition.summands.trapezoid import TrapezoidNodes, TruncatedTrapezoid
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import ComplexArray

_NEGLIGIBLE = 2e-14
"""A trapezoid error of the whole run below this needs no sharper bound."""

_LARGEST_SHARE = 3.0
"""Majorants serve heights up to this multiple of the height for which they are built."""

ETA_FACTORS = np.array([0.5, 0.65, 0.8, 0.95, 1.15, 1.5, 2.2, 5.0, 30.0])
"""Multiples of the approximate best eta at the first height. Large multiples serve large heights."""


LawT = TypeVar("LawT", bound=TruncatedTrapezoid)
"""Truncated law of the parts on a contour."""


@dataclass(frozen=True, slots=True)
class StripField:
    """Bounds of the integrand |a^z b^{1-z}| on strips |Im x| <= q, relative to its value on the real axis.

    phi a and phi b are the densities of H1 and H0 with the normal density phi, and z = theta + it is on the contour. At
    x + iq the relative value is |A|^theta |B|^{1-theta} e^{-tD}. Here A(x, q) = a(x + iq)/a(x), B likewise, and D = arg
    A - arg B. The *size* of the integrand is the relative value without e^{-tD}. Arrays have the shape (E, parts,
    nodes) for E half-widths q. All attributes but `density_growth` leave out the factor |phi(x + iq)|/phi(x).
    `size_slope` includes the slope of phi on the real axis.
    """

    log_size: FloatArray
    """ln |A|^theta |B|^{1-theta} at the nodes, at the height q."""
    turn: FloatArray
    """D at the nodes, at the height q."""
    log_largest: FloatArray
    """Upper bound of ln of the size, over the cells and all heights up to q."""
    size_slope: FloatArray
    """Upper bound of |d ln(phi a^theta b^{1-theta} size)/dx| over the cells."""
    turn_slope: FloatArray
    """Upper bound of |dD/dx| over the cells, for all heights up to q."""
    turn_rate: FloatArray
    """Upper bound of |dD/dq| over the cells, for all heights up to q."""
    density_growth: FloatArray | float = 0.5
    """Q: |phi(x + iq)| is at most e^{Q q^2} phi(x)."""


class EtaMajorants(Protocol):
    """Majorants B_eta(t)/M(theta) on the paths Im x = eta, with |M(theta + it')| <= B_eta(t) for all t' >= t.

    M is the transform of one step, and theta the tilt of the contour.
    """

    @property
    def eta(self) -> FloatArray:
        """Heights eta of the integration paths Im x = eta, shape (paths, parts)."""
        ...

    def log_bounds(self, heights: FloatArray) -> FloatArray:
        """Return upper bounds of ln B_eta(t)/M(theta), at most 0, at the heights t; shape (heights, paths, parts).

        B_eta(t) is the majorant of `EtaMajorants`. `heights` has the shape (heights, 1) or (heights, parts). M is the
        transform of one step, and theta the tilt.
        """
        ...


class TrapezoidOnContour(SummandOnContour, Generic[LawT]):
    """Log-moment function K of a run on a contour by trapezoid sums; or of separate runs, each at its own tilt.

    At the outcome x, H1 has the density phi a and H0 the density phi b, with the normal density phi. L = ln a - ln b is
    the loss and M(z) = E0 e^{zL} the transform of a step, and K(z) the sum of ln M over all steps. Parts are groups of
    equal steps of a run, equally many in separate runs. E_theta is the expectation under the tilted law. The contour is
    Re z = theta, t is a height on it, and h the distance of the nodes x. A strip is |Im x| <= q. The tilts of separate
    runs all have one sign. For separate runs, sums over the parts of a run have one value per run along the last axis,
    and so have steps, nodes and heights. A subclass supplies the half-widths of strips, bounds on them (`field`), the
    terms of the variation, and the majorants on shifted paths.
    """

    def __init__(self, law: LawT, theta: float | FloatArray) -> None:
        self.law: LawT = law
        self.grid: TrapezoidNodes = law.grid
        self.theta = law.of_parts(np.atleast_1d(np.asarray(theta, dtype=np.float64)))
        self.tilt = self.theta[:, None] if law.separate else float(self.theta[0])
        low, high = float(self.theta.min()), float(self.theta.max())
        self.is_lowered = low < 0 or (self.grid.mirrored and high > 1)
        """Whether a lower bound of |A| or |B| enters the size on strips."""
        moments = law.moments(self.tilt)
        self._origin = law.value(moments)
        self.tilted_weights = moments.tilted_weights / moments.total[:, None]
        self.log_tilted_weights = self.tilt * self.grid.loss + self.grid.log_null_weight - moments.log_total[:, None]
        self.rounding_of_total, self.end_error = moments.rounding, moments.end_error
        self._at_origin = moments.quadrature + moments.end_error
        self.window = node_sums.significant(self.tilted_weights)
        # The 1e-30 stands for weights that underflowed.
        self.omitted = node_sums.outside(self.tilted_weights, self.window) + 1e-30
        self.total = np.exp(np.minimum(moments.log_total, 700.0))  # only ever divides: too small is safe
        self._majorants: EtaMajorants | None = None
        self._made_for = self._chosen_height = np.zeros(1)

    @property
    def origins(self) -> tuple[FloatArray, FloatArray]:
        """Tuple of K(theta) of each separate run at its tilt theta, and of absolute error bounds, shape (runs,) each.

        K is the log-moment function.
        """
        return self._origin

    @abstractmethod
    def field(self, height: FloatArray) -> StripField:
        """Return bounds of the integrand on strips |Im x| <= q, where `height` holds q, shape (strips, parts).

        The integrand is |a^z b^{1-z}| at x + iq, where a and b are the densities of H1 and H0 over the normal density.
        """

    @property
    @abstractmethod
    def half_widths(self) -> FloatArray:
        """Half-widths q of the strips |Im x| <= q of outcomes x that bound trapezoid errors, shape (strips, parts)."""

    @property
    @abstractmethod
    def variation_terms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Terms of `log_variations`: ln dL/dx, an upper bound of its |slope|, the variation left of the first node.

        L is the loss of a step. The terms are ln dL/dx at the nodes and a bound of |d ln(dL/dx)/dx| over the cells,
        both of shape (parts, nodes). The last is the total variation of psi left of the first node over its value
        there, shape (parts,). psi = phi a^theta b^{1-theta}/(dL/dx), with the densities phi a of H1 and phi b of H0 and
        the normal density phi.
        """

    @abstractmethod
    def build_majorants(self, height: FloatArray, center: FloatArray | None) -> EtaMajorants:
        """Return majorants of |M(theta + it)/M(theta)| for heights t from about `height` on, on paths Im x = eta.

        `center` is the approximate best eta at `height`, shape (parts,); None if it is unknown. M is the transform of
        one step, and theta the tilt.
        """

    @override
    def values(self, step: float | FloatArray, nodes: int, last: IndexArray | None = None) -> ValuesOnContour:
        """Return K(theta + i t_k) - K(theta) at t_k = k step, k = 0..nodes, and its error bound.

        K is the log-moment function of a run. The difference is sum N ln(1 + d_k) with d_k = E_theta(e^{i t_k L} - 1),
        for N steps of loss L. Separate runs have a `step` each, shape (runs, 1), and a `last` node up to which the
        bound holds, shape (runs,). None stands for one run and all nodes. theta is the tilt.
        """
        if last is not None:
            step, last = self.law.of_parts(np.asarray(step).T).T, np.repeat(last, self.law.together)
        t = np.arange(nodes + 1, dtype=np.float64) * step
        top = t[-1:] if last is None else last.astype(np.float64) * np.asarray(step)[:, 0]
        d = self.differences(step, nodes, last)
        size = np.abs(d)
        # The total, by which the weights are divided, has an error too.
        error = self.rounding_error(t) + (1.01 * self.rounding_of_total)[:, None] * size
        error = error + 6 * UNIT_ROUNDOFF * size * (2 + size) + self._quadrature_error(t, top)
        return node_sums.values_on_contour(self.law.count, d, error, self.law.together if self.law.separate else 0)

    def differences(self, step: float | FloatArray, nodes: int, last: IndexArray | None) -> ComplexArray:
        """Return d_k = E_theta(e^{i t_k L} - 1) at t_k = k step for all parts, shape (parts, nodes + 1).

        E_theta is the expectation under the tilted law of the loss L. `last` is the last k of each part, or None for
        all.
        """
        weights, loss = self.tilted_weights[:, self.window], self.grid.loss[:, self.window]
        return node_sums.tilted_differences(weights, loss, self._mean.value, step, nodes, last)

    @cached_property
    def _mean(self) -> MeanLoss:
        return MeanLoss.of(self.grid, self.tilt, self.tilted_weights, self.total)

    def rounding_error(self, t: FloatArray) -> FloatArray:
        """Return a bound of the absolute rounding error of d_k = E_theta(e^{i t_k L} - 1), shape (parts, nodes + 1).

        The error of the total M(theta), by which the weights are divided, is not included. `t` holds the heights t_k. L
        is the loss of a step, and theta the tilt.
        """
        identity = (2 * self.law.identity_error / self.total)[:, None]
        return difference_rounding(self.grid, self.tilt, self.tilted_weights, self._mean, t) + t * identity

    def _quadrature_error(self, t: FloatArray, top: FloatArray) -> FloatArray:
        """Return a bound of the absolute trapezoid and truncation errors of d_k = E_theta(e^{i t_k L} - 1).

        The shape is (parts, nodes + 1). `t` holds the heights t_k, and `top` the largest height of each part. The bound
        grows with t. The bound is evaluated at the top if it is small there, else at a few heights. E_theta is the
        expectation under the law tilted by e^{theta L}. The truncation omits some mass of this law. The omitted mass
        changes e^{itL} - 1, which is at most 2, and the total that divides it. Both changes together are at most 3
        times the omitted mass, counted as 4. L is the loss of a step.
        """
        q, heights = self.half_widths, top[None]
        best = self.strip_errors(heights, q[-1:])[0]
        if not np.all(self.law.over_run(best) < _NEGLIGIBLE):
            heights = np.array([[0.15], [0.3], [0.5], [0.7], [1.0]]) * top
            strips = np.split(q, len(q)) if self.law.separate else [q]  # arrays of one strip fit into caches
            best = np.fmin.reduce([np.fmin.reduce(self.strip_errors(heights, each), axis=0) for each in strips])
        best = best + 4 * (self.end_error + self.omitted)
        if not self.law.separate:
            return best[np.searchsorted(heights[:, 0] * (1 + 1e-12), t)].T
        above = (t[:, None, :] > heights[:-1].T[:, :, None] * (1 + 1e-12)).sum(axis=1)
        return np.take_along_axis(best.T, above, axis=1)

    def strip_errors(self, heights: FloatArray, q: FloatArray) -> FloatArray:
        """Return bounds of the trapezoid error of M(theta + it) and of M(theta) together, from strips |Im x| <= q.

        M(z) = E0 e^{zL} is the transform of a step.

        Parameters
        ----------
        heights : (T, 1) or (T, parts)
            Heights t.
        q : (E, parts)
            Half-widths of the strips.

        Returns
        -------
        (E, T, parts)
            Bounds in units of M(theta).

        Notes
        -----
        The rectangle rule holds between two nodes J. `size` and D are those of `StripField`, h is the distance of
        nodes, and s the height on a side. Both horizontal sides together have at most e^{q^2/2} int size (e^{t|D|} +
        1), by an upper Riemann sum. On the two vertical sides e^{t|D|} grows by t dD/dq against 1/(1 + e^{2 pi |s|/h}).
        Beyond the nodes J far jumps may turn too fast for the step; there the sizes of the sum and of the integral
        count themselves. The best J serves on either side of the largest weight.
        """
        h, t, field = self.grid.step, heights[:, :, None], self.field(q)
        q = q[..., None]
        exponent = field.density_growth * q**2 - 2 * math.pi * q / h + 1e-3
        settled = self.log_tilted_weights + field.log_size + 0.5 * h * field.size_slope + exponent
        turned = np.abs(field.turn) + 0.5 * h * field.turn_slope
        inside = np.exp(settled[:, None] + t * turned[:, None]) + np.exp(settled)[:, None]
        log_ends = self.log_tilted_weights + field.log_largest + 0.5 * h * self.outward
        rate = t * field.turn_rate[:, None] + (field.density_growth * q)[:, None]
        sides = side_terms(log_ends[:, None], rate, q[:, None], h)
        sides = np.where(self.grid.inside, sides, np.inf)
        return least_over_last_nodes(inside, sides, self._sizes, self.middle) + self._at_origin

    @cached_property
    def _sizes(self) -> FloatArray:
        """Terms of the trapezoid sum plus bounds of the integral over the cell, at every node, shape (parts, nodes).

        Both are taken of the modulus of the integrand, in units of M(theta). They bound the error of nodes that no
        strip covers. M(theta) is the transform of one step at the tilt.
        """
        return self.tilted_weights + np.exp(
            np.minimum(self.log_tilted_weights + 0.5 * self.grid.step * self.slope, 700.0)
        )

    @cached_property
    def slope(self) -> FloatArray:
        """Upper bound of |d ln(phi a^theta b^{1-theta})/dx| over the cells, shape (parts, nodes).

        phi a and phi b are the densities of H1 and H0 at the outcome x with the normal density phi, and theta is the
        tilt.
        """
        left, right = self._slopes
        return np.maximum(left, right)

    @cached_property
    def outward(self) -> FloatArray:
        """Upper bound of the slope of ln(phi a^theta b^{1-theta}) over the cells, away from the middle node.

        The shape is (parts, nodes). phi a and phi b are the densities of H1 and H0 at the outcome x with the normal
        density phi, and theta is the tilt.
        """
        left, right = self._slopes
        is_left: BoolArray = np.less(np.arange(left.shape[-1], dtype=np.float64), self.middle)
        return np.where(is_left, left, right)

    @cached_property
    def _slopes(self) -> tuple[FloatArray, FloatArray]:
        return self.law.slopes(self.tilt)

    @cached_property
    def middle(self) -> int:
        """Index of a node near the largest tilted weights that every part keeps after its truncation."""
        return min(int(np.argmax(self.tilted_weights.sum(axis=0))), int(self.grid.stop.min()) - 1)

    @override
    def log_variation(self) -> float:
        return float(self.log_variations().min())

    def log_variations(self) -> FloatArray:
        """Return ln V with |M(theta + it)/M(theta)| <= V/t for every t > 0, for each part, shape (parts,).

        M(z) = E0 e^{zL} is the transform of a step with loss L. Integration by parts in x bounds t |M| by int |psi'|
        and the values of psi at both ends, with psi = phi a^theta b^{1-theta}/L' and L' = dL/dx. phi a and phi b are
        the densities of H1 and H0 with the normal density phi. An upper Riemann sum bounds the integral. theta is the
        tilt.
        """
        grid, h = self.grid, self.grid.step
        log_rate, bent, first = self.variation_terms
        steep = self.slope + bent
        psi = np.exp(self.log_tilted_weights - np.log(h) - log_rate + 0.5 * h * steep)
        ends = grid.at_ends(psi)
        variation = np.sum(np.where(grid.inside, h * steep * psi, 0.0), axis=-1) + ends[:, 0] * first + ends[:, 1]
        return np.log(variation) + 1e-9

    @override
    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds U(t) of ln |M(theta + it')/M(theta)|, summed over all steps, for all t' >= t.

        M(z) = E0 e^{zL} is the transform of a step. At x, H1 has the density phi a and H0 the density phi b, with the
        normal density phi.

        Parameters
        ----------
        heights : (H,), or (H, runs) for separate runs
            Heights t.

        Returns
        -------
        bounds, least : arrays of the shape of the heights
            U(t), and the least summand of U(t).

        Notes
        -----
        Let A(x, q) = a(x + iq)/a(x), B likewise, and D = arg A - arg B. For every eta with D(x, q) >= 0 for all x and 0
        <= q <= eta, |M(theta + it)| <= B_eta(t) with:

            B_eta(t) = e^{eta^2/2} int phi a^theta b^{1-theta} |A|^theta |B|^{1-theta} e^{-tD}  at  Im x = eta.

        The vertical paths between the real axis and Im x = eta at both ends add to this bound. B_eta decreases in t.
        The best of a few eta serves each height.
        """
        heights = self.law.of_parts(heights) if self.law.separate else heights[:, None]
        share = heights[0] / np.maximum(self._made_for, 1e-300)
        if self._majorants is None or not ((share >= 0.9) & (share <= _LARGEST_SHARE)).all():
            known = self._majorants is not None  # the best eta grows slower than the height
            center = self._chosen_eta * np.sqrt(heights[0] / self._chosen_height) if known else None
            self._made_for, self._majorants = heights[0], self.build_majorants(heights[0], center)
        bounds = self._majorants.log_bounds(heights)
        best = bounds.min(axis=1)
        self._chosen_eta = self._majorants.eta[bounds[-1].argmin(axis=0), np.arange(bounds.shape[-1])]
        self._chosen_height = heights[-1]
        return self.law.over_run(best), self.law.least_of_run(best)


@dataclass(frozen=True, slots=True)
class MeanLoss:
    """Mean `value` = E_theta(L) of the loss L of a step under the law tilted by e^{theta L}, in nats; shape (parts,).

    The value comes from the more accurate of second-order and plain summands. `null_weight` is the weight of H0 at a
    node.
    """

    value: FloatArray
    by_weight: FloatArray
    """Upper bound of the error of `value` from relative errors of weights."""
    by_loss: FloatArray
    """Upper bound of the error of `value` from errors of losses."""
    by_difference: FloatArray
    """sum |null_weight (e^L - 1)| relative error/M(theta) where the second-order summands serve; else 0."""

    @staticmethod
    def of(grid: TrapezoidNodes, tilt: float | FloatArray, weights: FloatArray, total: FloatArray) -> MeanLoss:
        """Return the mean of the loss L under the tilted `weights` (parts, nodes), whose sum is 1.

        `grid` has the nodes. `total` is M(theta) = E0 e^{theta L}, shape (parts,), or less beyond the range of doubles.
        The mean enters the differences d = E_theta(e^{itL} - 1 - itL) + it E_theta(L) on a contour. An error of L
        changes a summand of d by at most itself times |theta| |e^{itL} - 1| + t |e^{itL} - 1| + t |1 - e^{(1-theta)L}|.
        If the mean is summed plainly, t replaces the last term. The terms without a factor e^{itL} - 1 are counted
        here.
        """
        terms, size = node_sums.mean_excess(grid.loss, grid.weight_difference, weights, tilt, total)
        moved = node_sums.untilting(grid.loss, grid.alternative_weight, tilt, weights, total)
        direct, relative, error = weights * grid.loss, grid.relative_error, 1.01 * grid.loss_error
        second = (size * relative).sum(axis=-1), (error * moved).sum(axis=-1)
        plain = (np.abs(direct) * relative).sum(axis=-1), (error * weights).sum(axis=-1)
        better: BoolArray = np.asarray(sum(second) < sum(plain))
        by_difference = (np.abs(grid.weight_difference) * relative).sum(axis=-1) / total
        pairs = ((terms.sum(axis=-1), direct.sum(axis=-1)), *zip(second, plain, strict=True), (by_difference, 0.0))
        return MeanLoss(*(np.asarray(np.where(better, *pair), dtype=np.float64) for pair in pairs))


def difference_rounding(
    grid: TrapezoidNodes, tilt: float | FloatArray, weights: FloatArray, mean: MeanLoss, t: FloatArray
) -> FloatArray:
    """Return a bound of the rounding error of d = E_theta(e^{itL} - 1 - itL) + it E_theta(L) at the heights t.

    E_theta is the expectation of the loss L of the nodes `grid` under the tilted `weights`, shape (parts, nodes of x),
    and M(theta) their total before division. `mean` has E_theta(L) and its errors, and `tilt` is theta. The result has
    the shape of t, (parts, heights).

    Let E(x) = e^{ix} - 1, E'(x) = E(x) - ix and x + y = t|L|. Rounding of products acts on |E(x)E(y)| + |E'(x)| +
    |E'(y)| <= min((x + y)^2/2, 3(x + y)). Relative errors of weights act on |e^{itL} - 1 - itL| <= min((tL)^2/2,
    2t|L|), beside those of the mean. The errors of weights may also be counted for both terms together: on |e^{itL} -
    1| <= min(t|L|, 2) and on t |null_weight (e^L - 1)|/M(theta). An error of L changes a summand by at most itself
    times (|theta| + t) |e^{itL} - 1|, beside the errors of the mean.
    """
    theta, size = np.abs(tilt), np.abs(grid.loss)
    relative = grid.relative_error + UNIT_ROUNDOFF * theta * size
    loss_error = grid.loss_error + 4 * UNIT_ROUNDOFF * size
    columns = (size, size**2, relative, relative * size, relative * size**2)
    columns = np.stack((*columns, loss_error, loss_error * size, loss_error**2), axis=-1)
    sums = np.matmul(weights[:, None], columns)[:, 0]
    first, second, constant, linear, quadratic, flat, steep, square = (sums[:, k][:, None] for k in range(8))
    # Powers of e^{ix} by repeated multiplication: 4 u for each of about 2 sqrt(nodes) factors.
    products = 8 * math.sqrt(t.shape[-1]) * UNIT_ROUNDOFF * np.minimum(0.505 * t**2 * second, 3.03 * t * first)
    apart = np.minimum(0.505 * t**2 * quadratic, 2.02 * t * linear) + t * mean.by_weight[:, None]
    together = 1.01 * np.minimum(t * linear, 2 * constant) + t * mean.by_difference[:, None]
    through_loss = (theta + t) * np.minimum(t * steep, 2 * flat) + square * (1 + theta + t) ** 2
    return products + np.minimum(apart, together) + 1.01 * through_loss + t * mean.by_loss[:, None]


def side_terms(
    log_ends: FloatArray, rate: FloatArray, q: FloatArray, h: FloatArray, more: FloatArray | float = 0.0
) -> FloatArray:
    """Return an upper bound of the integral on a vertical side half a cell from each node, in units of M(theta).

    The integrand is the density of H0 times e^{zL} at a complex outcome x, for the loss L of a step and z = theta + it.
    Its trapezoid sum at z = theta, the tilt, is M(theta). The side belongs to the rectangle |Im x| <= q around nodes of
    distance h. `log_ends` are ln of upper bounds of h |integrand|/M(theta) at the foot of the side. A term is
    e^{log_ends}. The result adds `more` times this term, and has the shape of `log_ends`.

    The `rate` is g = t |dD/dq| + Q q. D is the difference of the angles by which the densities of H1 and H0 turn
    between the real axis and the height q. The factor e^{Q q^2} bounds the growth of the normal density (`StripField`).
    On the side |integrand| <= e^{log_ends}/h e^{s g}, against e^{-2 pi s/h} for 0 <= s <= q. Let g be below 3/4 of 2
    pi/h. Then the two halves of a side add up to (4 + ln 2)/(2 pi) < 0.75 terms. The side at t = 0 adds ln 2/pi < 0.25
    of them, or 0.5 with e^{Q s^2}: 1.3 in all. For larger g, the growing half has an exponent that is convex in s. That
    half is below q/h times the larger of its values at s = 0 and s = q. A bound of e^700 is useless and stands for any
    larger one.
    """
    terms = (1.3 + more) * np.exp(log_ends)
    fast: BoolArray = np.greater(rate, 1.5 * math.pi / h)
    if not fast.any():
        return terms
    grown = np.exp(np.minimum(log_ends + q * np.maximum(rate - 2 * math.pi / h, 0.0), 700.0))
    return terms + q / h * fast * grown


def least_over_last_nodes(inside: FloatArray, sides: FloatArray, beyond: FloatArray, middle: int) -> FloatArray:
    """Return the smallest error bound over all choices of the last node J, summed over both sides of the middle node.

    On each side, the bound is the sum of `inside` from the middle up to J, `sides` at J, and the sum of `beyond` after
    J. Nodes are along the last axis, which the result does not have.
    """
    left, right = slice(middle, None, -1), slice(middle, None)
    ends = [_least_over_last_node(inside[..., part], sides[..., part], beyond[..., part]) for part in (left, right)]
    return ends[0] + ends[1]


def _least_over_last_node(inside: FloatArray, side: FloatArray, beyond: FloatArray) -> FloatArray:
    rest = np.zeros_like(beyond)
    rest[..., :-1] = np.cumsum(beyond[..., :0:-1], axis=-1)[..., ::-1]
    return np.fmin.reduce(np.cumsum(inside, axis=-1) + side + rest, axis=-1)
