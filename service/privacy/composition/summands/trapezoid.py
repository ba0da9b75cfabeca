"""Truncated laws whose moments M(z) = E0 e^{zL} are trapezoid sums, with every error bounded.

At the point x, H0 (without the record) has the density phi b and H1 (with the record) the density phi a. Here phi is
the normal density, and the loss L = ln a - ln b increases with x. For a mirrored step b(x) = a(-x) and M(1 - z) = M(z);
for every other step b = 1. M(0) = M(1) = 1. All moments are those of the truncated law. All steps together leave out
less than about 10^-digits of the mass of H0 and of H1.

The sum over nodes of distance h, M_h, is compared to the integral on the rectangle |Im x| <= q, where a and b have no
zero. The sides of the rectangle are half way between nodes. With A(x, q) = a(x + iq)/a(x), B likewise, and |phi(x +
iq)| = e^{q^2/2} phi(x), the error at a real tilt s is bounded:

    |M_h - M| <= 2 e^{q^2/2 - 2 pi q/h} int phi a^s b^{1-s} |A|^s |B|^{1-s}/(1 - e^{-2 pi q/h}) + sides.

|A|^s <= 1 for s >= 0. For s < 0 it is at most the smallest |A| to the power s. The same holds for B and 1 - s. A law
with another density f than phi overrides both bounds on strips, with |f(x + iq)| <= e^{Q q^2} f(x). Each law provides
its nodes, lower bounds of |A| on three strips |Im x| <= q, and bounds of slopes over the cells of the nodes. The cell
of a node is the interval of half a node distance around it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands import node_sums
from service.privacy.composition.summands.abstract import RealCumulants, in_chunks
from service.privacy.composition.summands.part_arrays import PartArrays
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_LARGEST_LOSS = 600.0
"""Losses above which e^L is not computed without the weight of its node."""

_NEGLIGIBLE = 1e-14
"""A bound of K's trapezoid error below this needs no sharper one."""

_SIDES = np.array([0.5005, 0.5005])
"""Shares of the terms of the end nodes that bound their sides, with room for rounding."""

FEW_STEPS = 100
"""Runs with fewer steps have transforms that fall slowly. Their contours are long and need finer spacing."""

FEW_SAMPLED = 5.0
"""Expected number of steps that use the record below which a transform of many steps also falls slowly."""

_LONG_SHARE, _LONG_TURN = 2.5, 1000.0
"""`highest_turn` of rare runs that are evaluated together: a multiple of the height of a normal law, and its limit.

Such runs have long contours instead of deformed ones, and the cores of their laws are wider than about normal. A core
of many steps falls within this height; for few steps the height of `falls` counts, too.
"""


@dataclass(frozen=True, kw_only=True)
class TrapezoidNodes:
    """Nodes x of a trapezoid sum, with everything that does not depend on the tilt; arrays of shape (parts, nodes).

    At x, H0 has the density phi b and H1 the density phi a, with the normal density phi. The loss is L = ln a - ln b. b
    is 1, or a(-x) for a mirrored law. h is the distance of nodes. Nodes outside [start, stop) have no weight: the law
    is truncated half a cell outside of that range. The nodes of a mirrored law are symmetric about 0. `null_weight` is
    e^log_null_weight. `relative_error` bounds the relative errors of the weights, and `loss_error` the errors of L in
    nats.
    """

    x: FloatArray
    step: FloatArray
    """h, shape (parts, 1)."""
    start: IndexArray
    stop: IndexArray
    loss: FloatArray
    """L, nats."""
    log_null_weight: FloatArray
    """ln(phi b h), -inf where there is no weight."""
    null_weight: FloatArray
    loss_error: FloatArray
    """Absolute error of L, nats."""
    relative_error: FloatArray
    """Relative error of a weight and of adding it up, with its loss taken as exact."""
    mirrored: bool = False

    @cached_property
    def weight_difference(self) -> FloatArray:
        """Difference null_weight (e^L - 1) of the weights of H1 and H0 at each node, with the loss L; (parts, nodes).

        Its sum over the nodes approximates E0(e^L - 1) = 0.
        """
        moderate = self.null_weight * np.expm1(np.minimum(self.loss, _LARGEST_LOSS))
        large = np.exp(np.minimum(self.log_null_weight + self.loss, _LARGEST_LOSS))
        return np.where(self.loss > _LARGEST_LOSS, large, moderate)

    @cached_property
    def alternative_weight(self) -> FloatArray:
        """Weight null_weight e^L of each node under H1, at most 1, with the loss L; shape (parts, nodes)."""
        return np.exp(np.minimum(self.log_null_weight + self.loss, 0.0))

    @cached_property
    def columns(self) -> FloatArray:
        """Factors 1, L, L^2, `relative_error` and `loss_error` of the sums over nodes, shape (parts, nodes, 5).

        L is the loss at a node. Their sums with tilted weights give a moment, its two derivatives and its error.
        """
        parts = [np.ones_like(self.loss), self.loss, self.loss**2, self.relative_error, self.loss_error]
        return np.stack(parts, axis=-1)

    @cached_property
    def inside(self) -> BoolArray:
        """Mask of the nodes that have weight, shape (parts, nodes)."""
        return np.isfinite(self.log_null_weight)

    def tilted(self, tilts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weights phi b h e^{sL - shift}, shape (tilts, parts, nodes), and the shift, shape (tilts, parts).

        phi b is the density of H0 with the normal density phi, h the distance of nodes and L the loss. `tilts` holds
        the tilts s, shape (tilts, 1) or (tilts, parts). The shift keeps the weights from overflowing.
        """
        return node_sums.tilted(self.loss, self.log_null_weight, tilts)

    def at_ends(self, values: FloatArray) -> FloatArray:
        """Return `values` at each part's first and last node with weight.

        `values` has the shape (..., parts, nodes), and the result (..., parts, 2).
        """
        return values[..., *self._end_indices]

    @cached_property
    def _end_indices(self) -> tuple[IndexArray, IndexArray]:
        return np.arange(len(self.start))[:, None], np.stack([self.start, self.stop - 1], axis=-1)

    def both(self, of_a: FloatArray) -> FloatArray:
        """Return the sum of a quantity of a (`of_a`) and the same quantity of b, shape (..., parts, nodes).

        phi a and phi b are the densities of H1 and H0 with the normal density phi. The quantity of b is that of a at -x
        for a mirrored law, else 0.
        """
        return of_a + of_a[..., ::-1] if self.mirrored else of_a

    def mixed(self, theta: FloatArray | float, of_a: FloatArray) -> FloatArray:
        """Return the tilt theta times a quantity of a plus 1 - theta times that of b, in the shape of `of_a`.

        phi a and phi b are the densities of H1 and H0 with the normal density phi. The quantity of b is that of a at -x
        for a mirrored law, else 0.
        """
        return theta * of_a + (1 - theta) * of_a[..., ::-1] if self.mirrored else theta * of_a

    def sized(self, theta: FloatArray | float, of_a: FloatArray) -> FloatArray:
        """Return |theta| times a quantity of a plus |1 - theta| times that of b, in the shape of `of_a`.

        phi a and phi b are the densities of H1 and H0 with the normal density phi. The quantity of b is that of a at -x
        for a mirrored law, else 0. theta is the tilt.
        """
        size = np.abs(theta)
        return size * of_a + np.abs(1 - theta) * of_a[..., ::-1] if self.mirrored else size * of_a

    def lowered(self, theta: FloatArray | float, of_a: FloatArray) -> FloatArray:
        """Return min(theta, 0) times a quantity of a plus min(1 - theta, 0) times that of b, in the shape of `of_a`.

        phi a and phi b are the densities of H1 and H0 with the normal density phi. The quantity of b is that of a at -x
        for a mirrored law, else 0. From ln of lower bounds of |A| and |B| the result is ln of an upper bound of
        |A|^theta |B|^{1-theta}, since |A| and |B| are at most 1 (`trapezoid.py`). theta is the tilt.
        """
        low = np.minimum(theta, 0.0)
        return low * of_a + np.minimum(1 - theta, 0.0) * of_a[..., ::-1] if self.mirrored else low * of_a


@dataclass(frozen=True, slots=True)
class TiltedMoments:
    """Law of one step tilted by e^{sL} at one tilt s, a number or of shape (parts, 1); L is the loss.

    Attributes
    ----------
    tilted_weights : (parts, nodes)
        Weights of the nodes, scaled by e^{-shift}.
    shift : (parts,)
        Logarithm of the scale; all arrays below have the same shape.
    total, log_total : (parts,)
        M(s) e^{-shift} for the transform M(s) = E0 e^{sL}, and ln M(s).
    rounding, end_error, quadrature
        Upper bounds of the error of `total` relative to it: from rounding, from the truncation of the nodes, and from
        the trapezoid rule.
    """

    tilt: float | FloatArray
    tilted_weights: FloatArray
    shift: FloatArray
    total: FloatArray
    log_total: FloatArray
    rounding: FloatArray
    end_error: FloatArray
    quadrature: FloatArray


class TruncatedTrapezoid(PartArrays):
    """Truncated law of parts of a run, each of them N_i equal steps of one kind, whose moments are trapezoid sums.

    The law is a summand of the log-moment function K(z) = ln E0 e^{zS} of one run, or of separate runs (`PartArrays`).
    At the node x, H0 has the density phi b and H1 the density phi a, with the normal density phi. L = ln a - ln b is
    the loss of a step and M(z) = E0 e^{zL} its transform. h is the distance of nodes, and the cell of a node is the
    interval of half that distance around it. A strip |Im x| <= q has the half-width q. A = a(x + iq)/a(x) and B = b(x +
    iq)/b(x). This class computes moments and cumulants with error bounds. A subclass supplies the nodes, bounds on some
    strips, bounds of slopes, and the error of the truncation.
    """

    @cached_property
    @abstractmethod
    def grid(self) -> TrapezoidNodes:
        """Nodes of the law with losses and weights, built on first use."""

    @cached_property
    @abstractmethod
    def strip_exponents(self) -> FloatArray:
        """Exponents q^2/2 - 2 pi q/h of the trapezoid error on strips of half-width q, shape (strips, parts).

        h is the distance of nodes. Laws whose `log_strip_bound` includes the term in q^2 have -2 pi q/h.
        """

    @cached_property
    @abstractmethod
    def least_everywhere(self) -> FloatArray:
        """ln of a lower bound of |A| = |a(x + iq)/a(x)| on each strip at all nodes, shape (strips, parts).

        phi a is the density of H1 at the outcome x with the normal density phi, and q the half-width of the strip.
        """

    @cached_property
    @abstractmethod
    def log_least(self) -> FloatArray:
        """ln of lower bounds of |A| = |a(x + iq)/a(x)| on the strips over the cells, shape (strips, parts, nodes).

        phi a is the density of H1 at the outcome x with the normal density phi, and q the half-width of the strip.
        """

    @abstractmethod
    def slopes(self, tilt: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds of -g' and of g' over the cell of each node, for g = ln(phi a^s b^{1-s}) at the tilt s.

        phi a and phi b are the densities of H1 and H0 with the normal density phi. Both arrays have the shape (parts,
        nodes) or (tilts, parts, nodes).
        """

    def log_strip_bound(self, tilt: FloatArray, strip: int) -> FloatArray:
        """Return ln of an upper bound of |A|^s |B|^{1-s} on a strip over the cells, shape (tilts, parts, nodes).

        A = a(x + iq)/a(x) and B = b(x + iq)/b(x) for the densities phi a of H1 and phi b of H0 with the normal density
        phi. `tilt` holds the tilts s and `strip` is the index of the strip |Im x| <= q.
        """
        return self.grid.lowered(tilt, self.log_least[strip])

    def coarse_log_strip_bound(self, tilts: FloatArray) -> FloatArray:
        """Return an upper bound of `log_strip_bound` over all nodes, faster than their maximum; (strips, S, parts).

        S is the number of tilts.
        """
        low = np.minimum(tilts, 0.0)
        if self.grid.mirrored:
            low = low + np.minimum(1 - tilts, 0.0)
        return low * self.least_everywhere[:, None]

    def sides(self, tilts: FloatArray, shift: FloatArray) -> FloatArray | None:  # noqa: ARG002 - mostly the same
        """Return upper bounds of the integrals of |phi a^s b^{1-s}| on the sides of each strip, times e^{-shift}.

        The shape is (strips, tilts, parts). phi a and phi b are the densities of H1 and H0 with the normal density phi,
        and s is the tilt. The result is None for laws whose `end_error` includes the sides.
        """
        return None

    @abstractmethod
    def end_error(self, tilts: FloatArray, shift: FloatArray) -> FloatArray:
        """Return a bound of the error of M(s) from the truncation of the nodes, times e^{-shift}, shape (tilts, parts).

        M(s) = E0 e^{sL} is the transform of a step at the tilts s.
        """

    def shared_sums(self, tilts: FloatArray) -> FloatArray | None:  # noqa: ARG002 - mostly none
        """Return the sums over the nodes of `columns`, with the weights e^{sL} at the tilts s, shape (tilts, parts, 5).

        The result is None unless the parts share their losses L.
        """
        return None

    @property
    @override
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        counts = np.log(self.count)
        return counts + self.log_truncated_null, counts + self.log_truncated_alternative

    @override
    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return K(s) = ln E0 e^{sS} of the steps' total loss S, with K', K'' and an error bound of K.

        K is the log-moment function under H0. `tilts` holds the real tilts s, shape (tilts,), or (tilts, runs) for
        separate runs. The bound is infinite where the nodes end too early. The sums are plain, and the error of K grows
        like N UNIT_ROUNDOFF for N steps. Chernoff bounds and the choice of contours tolerate that error; the prefactor
        of a contour uses `value` instead.
        """
        return in_chunks(self._cumulants, tilts, self.size)

    def _cumulants(self, tilts: FloatArray) -> RealCumulants:
        at = self.of_parts(tilts) if self.separate else tilts[:, None]
        weights, sums = None, self.shared_sums(tilts)
        if sums is None:
            weights, shift = self.grid.tilted(at)
            sums = np.matmul(weights.swapaxes(0, 1), self.grid.columns).swapaxes(0, 1)  # (S, parts, 5)
        else:
            shift = np.zeros(sums.shape[:2])
        total = sums[:, :, 0]
        mean, square = sums[:, :, 1] / total, sums[:, :, 2] / total
        log_total = shift + np.log(total)
        nodes = self.grid.x.shape[1]
        rounding = (sums[:, :, 3] + np.abs(at) * sums[:, :, 4]) / total + 2 * nodes * UNIT_ROUNDOFF
        discretisation = self._quadrature_error(at, weights, total, shift) + self.end_error(at, shift) / total
        error = log_error(rounding + discretisation, log_total)
        return RealCumulants(
            self.over_run(log_total),
            self.over_run(mean),
            self.over_run(square - mean**2),
            self.over_run(error) * 1.001,
            self.over_run(discretisation),
        )

    def moments(self, tilt: float | FloatArray) -> TiltedMoments:
        """Return the law tilted by e^{sL}, with its total M(s) from the more accurate of two sums for each part.

        L is the loss of a step, w = e^L its likelihood ratio, and M(s) = E0 e^{sL}.

        Parameters
        ----------
        tilt : float or (parts, 1)
            Real tilt s.

        Notes
        -----
        M(s) - 1 = E0(e^{sL} - 1 - s(e^L - 1)), because E0(w - 1) = 0. Every summand is of second order in L, and
        rounding does not grow with the number of steps. The sums behind this identity have errors: 1 - M_h(0) counts
        once and M_h(1) - M_h(0) counts s times, where M_h is the sum over nodes. An error of L changes a summand by at
        most |s| |e^{sL} - e^L| times itself, and by second order. Where losses are so large that the digits of e^L are
        worse than those of M, M itself is summed.
        """
        grid, size = self.grid, np.abs(tilt)
        tilts = np.reshape(tilt, (1, -1))
        all_weights, all_shifts = grid.tilted(tilts)
        weights, shift = all_weights[0], all_shifts[0]
        plain = weights.sum(axis=-1)
        error = np.sum(weights * (grid.relative_error + 1.01 * size * grid.loss_error), axis=-1)
        error = error / plain + (shift + 2 * grid.x.shape[1]) * UNIT_ROUNDOFF
        summands, sizes = node_sums.excess(grid.loss, grid.null_weight, grid.weight_difference, tilt, weights)
        other = size * node_sums.untilting(grid.loss, grid.alternative_weight, tilt, weights, np.ones_like(plain))
        other = other + (weights + grid.alternative_weight) * (1 + size**2) * grid.loss_error
        second = np.sum(sizes * grid.relative_error + 1.1 * grid.loss_error * other, axis=-1)
        second = second + 2 * (1 + np.abs(tilts[0])) * self.identity_error
        change = summands.sum(axis=-1)
        total = 1 + change
        better: BoolArray = np.asarray((shift == 0) & (total > 0) & (second < error * total))
        total = np.asarray(np.where(better, total, plain), dtype=np.float64)
        summed = np.log1p(np.maximum(change, -1 + 1e-300))
        log_total = shift + np.asarray(np.where(better, summed, np.log(plain)), dtype=np.float64)
        rounding = np.asarray(np.where(better, second / total, error), dtype=np.float64)
        end_error = self.end_error(tilts, shift[None])[0] / total
        quadrature = self._quadrature_error(tilts, all_weights, total, shift[None])[0]
        return TiltedMoments(tilt, weights, shift, total, log_total, rounding, end_error, quadrature)

    def value(self, moments: TiltedMoments) -> tuple[FloatArray, FloatArray]:
        """Return K(s) at the tilt s of the moments and a bound of its absolute error, one number each or shape (runs,).

        K(s) = ln E0 e^{sS} is the log-moment function of all steps. The bound does not grow with the number of steps.
        """
        error = log_error(moments.rounding + moments.quadrature + moments.end_error, moments.log_total)
        return self.over_run(moments.log_total), self.over_run(error) * 1.001

    @cached_property
    def identity_error(self) -> FloatArray:
        """Upper bound of the error of E0(e^L - 1) = 0 in one step's sums over the nodes, shape (parts,).

        L is the loss of a step. The sums are those at the tilts 0 and 1. The bound has terms for the trapezoid rule,
        the truncation, and the sides of the strips.
        """
        tilts, none = np.array([[0.0], [1.0]]), np.zeros((2, len(self.count)))
        truncated = np.exp(np.logaddexp(self.log_truncated_null, self.log_truncated_alternative))
        quadrature = self._quadrature_error(tilts, None, none + 1, none).max(axis=0)
        return quadrature + truncated + self.end_error(tilts, none).sum(axis=0)

    def _quadrature_error(
        self, tilts: FloatArray, weights: FloatArray | None, total: FloatArray, shift: FloatArray
    ) -> FloatArray:
        """Return a bound of the trapezoid error of M(s) without `end_error`, relative to M(s), shape (tilts, parts).

        M(s) = E0 e^{sL} is the transform of a step. `tilts` has the shape (tilts, 1) or (tilts, parts); `weights`
        (None: computed here if needed) and `total` are scaled by e^{-shift}. The factor 2.1 stands for 2/(1 - e^{-2 pi
        q/h}), with the half-width q of the strip and the node distance h: wherever the bound is below 0.05, 2 pi q/h is
        at least 3. An upper Riemann sum serves where the smallest |A| of all nodes (`TruncatedTrapezoid`) is too
        coarse. The best strip is used.
        """
        grid = self.grid
        sides = self.sides(tilts, shift)
        sides = np.zeros((len(self.strip_exponents), 1, 1)) if sides is None else sides / total
        coarse = 2.1 * np.exp(self.strip_exponents[:, None] + self.coarse_log_strip_bound(tilts))
        error = np.min(coarse + sides, axis=0)
        large = self.over_run(error) >= _NEGLIGIBLE
        if not large.any():
            return error
        large = large.reshape(len(tilts), -1).any(axis=1)
        s, total = tilts[large][:, :, None], np.broadcast_to(total, error.shape)[large]
        weights = np.exp(s * grid.loss + grid.log_null_weight) if weights is None else weights[large]
        slope = np.maximum(*self.slopes(s))
        for strip, exponent in enumerate(self.strip_exponents):
            factor = np.exp(self.log_strip_bound(s, strip) + 0.5 * grid.step * slope)
            summed = np.sum(np.where(weights > 0, weights * factor, 0.0), axis=-1) / total
            sharp = 2.1 * np.exp(exponent) * np.maximum(summed, 1.0)
            error[large] = np.fmin(error[large], sharp + np.broadcast_to(sides[strip], error.shape)[large])
        return error


class NormalTrapezoid(TruncatedTrapezoid):
    """Truncated law of steps whose H0 has the normal density phi, so that the sides are the same for all strips.

    phi a and phi b are the densities of one outcome x under H1 and H0, with the normal density phi. A side is a
    vertical edge of the rectangle around the nodes that bounds the error of the trapezoid sum. This class computes
    `end_error`. Its objects may hold many separate runs, of which `of` selects some.
    """

    @abstractmethod
    def of(self, runs: IndexArray, times: FloatArray) -> Self:
        """Return the separate runs with the given indices, which repeat their steps `times` times.

        The repetitions must not be more than before, because the nodes stay.
        """

    @property
    def real(self) -> NormalTrapezoid:
        """Law of the same runs on fewer nodes, which suffice at real tilts but not on contours.

        The object may hold several runs that are not composed with each other.
        """
        return self

    @property
    @abstractmethod
    def lengths(self) -> IndexArray:
        """Number of quadrature nodes of each part, before nodes without weight are omitted, shape (parts,)."""

    @cached_property
    @abstractmethod
    def end_slopes(self) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of |d ln a/dx| over the cells, and ln of lower bounds of |a(x + iq)/a(x)| on all strips.

        All arrays have the shape (parts, nodes). phi a is the density of H1 at the outcome x with the normal density
        phi, and q a height.
        """

    def beyond(self, tilts: FloatArray, shift: FloatArray) -> FloatArray | float:  # noqa: ARG002 - mostly none
        """Return an upper bound of M(s) e^{-shift} beyond nodes where the law is not truncated.

        M(s) = E0 e^{sL} is the transform of a step.

        Parameters
        ----------
        tilts : array
            Real tilts s.
        shift : array
            Logarithms of the scale.

        Returns
        -------
        array or float
            Bounds, shape (tilts, parts).
        """
        return 0.0

    @cached_property
    def _ends(self) -> tuple[FloatArray, ...]:
        """Properties of the first and last nodes that bound the sides of a strip at a tilt s, shape (parts, 2) each.

        They are ln of the weight, and the coefficients of max(s, 0) and min(s, 0) in the exponent of a side. A mirrored
        law adds the coefficients of max(1 - s, 0) and min(1 - s, 0).
        """
        grid, (steep, least) = self.grid, self.end_slopes
        half = 0.5 * grid.step * steep
        columns = [grid.log_null_weight, grid.loss + half, grid.loss - half + least]
        if grid.mirrored:
            columns += [half[:, ::-1], (least - half)[:, ::-1]]
        return tuple(grid.at_ends(column) for column in columns)

    @override
    def end_error(self, tilts: FloatArray, shift: FloatArray) -> FloatArray:
        """Return a bound of the error of the trapezoid rule at its ends, times e^{-shift}.

        The shape is (tilts, parts). A side is half a cell from the last node, with the weight 1/(1 + e^{2 pi |Im x|/h})
        for the node distance h. As e^{q^2/2}, the growth of phi at the height q, stays below the root of the growth of
        that weight, the side is less than half a term. phi falls outwards.
        """
        log_weight, above, below, *flipped = self._ends
        s = tilts[:, :, None]
        exponents = np.maximum(s, 0.0) * above + np.minimum(s, 0.0) * below + log_weight
        if flipped:
            exponents += np.maximum(1 - s, 0.0) * flipped[0] + np.minimum(1 - s, 0.0) * flipped[1]
        return np.exp(exponents - shift[:, :, None]) @ _SIDES + self.beyond(tilts, shift)


def log_error(relative: FloatArray, log_total: FloatArray) -> FloatArray:
    """Return a bound of the error of ln M for a relative error of a moment M, in the shape of `relative`.

    `log_total` is ln M. The bound uses |ln(1 + x)| <= 1.1 |x| for |x| < 0.1; for larger relative errors it is infinite.
    The result adds the rounding of ln M.
    """
    return np.where(relative < 0.1, 1.1 * relative, np.inf) + 8 * FUNCTION_ERROR * np.abs(log_total)


def highest_turn(
    highest: FloatArray | float,
    total: FloatArray | float,
    sampled: FloatArray | float,
    falls: FloatArray | float,
    *,
    separate: bool = False,
) -> FloatArray:
    """Return about how much (nats) e^{t arg a} grows off the real axis of outcomes at the greatest height t.

    a is the density of H1 over that of H0, continued to complex outcomes in a strip around the real axis. A contour of
    the transform is the line theta + it, for heights t. The spacing of nodes depends on the result, and no bound does.

    Parameters
    ----------
    highest : float or array
        Height up to which a contour needs values if the loss is nearly normal: 9 over about its standard deviation.
    total : float or array
        Number of steps of the run.
    sampled : float or array
        Approximate number of steps that use the record. Where it is below 5, the transform falls slowly with the
        height, because the record is often not used at all.
    falls : float or array
        ln of the height at which the transform of few steps becomes negligible.
    separate : bool
        Whether the arrays hold several runs that are evaluated together. If so, runs that seldom use the record have
        long contours instead of deformed ones.
    """
    rare = np.asarray(sampled) < FEW_SAMPLED
    many = np.minimum(np.where(rare, 1.35, 0.9) * highest, np.where(rare, 180.0, 120.0))
    end = np.exp(np.minimum(falls, 20.0))
    few = np.minimum(0.9 * np.maximum(highest, end), 300.0)
    has_many = np.asarray(total) >= FEW_STEPS
    turn = np.where(has_many, many, few)
    core = _LONG_SHARE * highest
    long = np.minimum(np.where(has_many, core, np.maximum(core, end)), _LONG_TURN)
    return np.where(rare & separate, long, turn)


def smooth_spacing(need: FloatArray | float, total: FloatArray | float) -> FloatArray:
    """Return the node distance, in standard deviations, with a trapezoid error of e^-need for a normal density.

    `total` is the number of steps N. On a contour, the integrand of one of N steps turns by up to 9/sqrt(N) radians for
    each standard deviation of the outcome, and its peak moves by up to as many deviations. Few steps therefore need a
    finer spacing. The result has the shape of `need` and `total`.
    """
    return 2 * math.pi / (np.sqrt(2 * need) / 0.9 + 12.0 / np.sqrt(total))
