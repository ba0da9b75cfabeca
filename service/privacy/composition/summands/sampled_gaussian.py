"""Poisson-sampled Gaussian steps: trapezoid sums in y, with their bounds off the real axis.

One step with noise multiplier sigma and sampling rate p has the outcome y ~ N(0, 1) under H0 (without the record). Its
likelihood ratio is w(y) = 1 - p + p e^v with v = y/sigma - 1/(2 sigma^2), and L = ln w is its loss. The ratio w is `a`
of `trapezoid.py`. All parts of a heterogeneous run are evaluated together: arrays have shape (parts, nodes). L is
analytic on the strip |Im y| < pi sigma. With the responsibility r = p e^v / w in (0, 1) and phi = q/sigma, these facts
give the bounds:

    w(y + iq) = w(y) (1 - r + r e^{i phi})            |w(y + iq)| <= w(y)
    |w(y + iq)| >= w(y) cos(phi/2)                    |d ln w(y + iq)/dy| <= r / (sigma cos(phi/2)).

The law is truncated on the right only, where losses are large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import RunScale, Summand
from service.privacy.composition.summands.sampled_gaussian_nodes import (
    GaussianNodeLayout,
    SampledGaussianNodes,
    last_nodes_are_negligible,
)
from service.privacy.composition.summands.sampled_gaussian_shared import moment_sums
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.composition.summands.trapezoid import NormalTrapezoid, highest_turn, smooth_spacing
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import SUM_BLOCK

_SHARED_GAIN = 20
"""Ratio of the costs of a separate number and of a product with a shared number."""

_FEWEST_SHARED = 4
"""Minimal number of parts of similar noise that share the nodes' losses. Fewer parts are faster with own nodes."""

LARGEST_ETA = 20.0
"""Largest shift of the paths behind majorants."""

_MOST_TOGETHER = 512
"""Maximal number of different steps that are evaluated together; it bounds the memory."""


@dataclass(frozen=True, slots=True)
class SampledGaussianSteps(Summand):
    """Equal Gaussian steps, `count` of them, each on a Poisson sample of the records with 0 < sample_rate < 1.

    The exact rate is `sample_rate` + `rate_rest`, where the rest is at most half a unit in the last place.
    `noise_multiplier` is the standard deviation of the noise over the sensitivity.
    """

    rank = 0

    noise_multiplier: float
    sample_rate: float
    count: int
    rate_rest: float = 0.0

    @property
    @override
    def spread(self) -> float:
        return self.sample_rate / self.noise_multiplier

    @property
    @override
    def loss_range(self) -> tuple[float, float]:
        return self.log_prob_never_sampled, math.inf

    @property
    @override
    def sampled(self) -> float:
        return self.sample_rate * self.count

    @property
    @override
    def batch(self) -> tuple[int]:
        return self.order[:1]

    @property
    @override
    def sampled_step(self) -> SampledStep:
        return SampledStep(self.noise_multiplier, self.sample_rate, self.count, self.rate_rest)

    @property
    @override
    def least_loss_error(self) -> float:
        return 1.01 * self.count * abs(self.rate_rest) / (1 - self.sample_rate)

    @property
    @override
    def log_prob_never_sampled(self) -> float:
        return self.count * math.log1p(-self.sample_rate)

    @property
    @override
    def gdp_mu_squared(self) -> float:
        return self.count / self.noise_multiplier**2

    @property
    @override
    def order(self) -> tuple[int, float, float, int, float]:
        return self.rank, self.noise_multiplier, self.sample_rate, self.count, self.rate_rest

    @override
    def joins(self, group: Sequence[Self]) -> bool:
        """Return whether these steps share the nodes of the `group`, whose first steps have the smallest noise.

        They do if their noise multiplier is at most 1.6 times that of the first steps, and the group has room.
        """
        return self.noise_multiplier <= 1.6 * group[0].noise_multiplier and len(group) < _MOST_TOGETHER

    @classmethod
    @override
    def last_nodes_are_negligible(
        cls, groups: Sequence[tuple[Self, ...]], digits: FloatArray, theta: FloatArray
    ) -> BoolArray:
        steps = [
            min(group, key=lambda step: step.noise_multiplier - 1e-3 * math.log(step.sample_rate)) for group in groups
        ]
        known = np.array([(step.noise_multiplier, step.sample_rate, float(step.count)) for step in steps]).T
        columns = (np.broadcast_to(each, (len(digits), len(groups))) for each in (*known, digits[:, None], theta))
        return last_nodes_are_negligible(*columns)


class TruncatedSampledGaussian(NormalTrapezoid):
    """Truncated law of parts of a run, each of them N_i equal Poisson-sampled Gaussian steps.

    Part i has the noise multiplier sigma_i and the sampling rate 0 < p_i < 1. The law is a summand of the run's
    log-moment function K(z) = ln E0 e^{zS}. y ~ N(0, 1) is the outcome of a step under H0, with the density phi. w(y) =
    1 - p + p e^{y/sigma - 1/(2 sigma^2)} is the likelihood ratio, and r = 1 - (1 - p)/w is the responsibility. h is the
    distance of nodes in y, and a strip is the set |Im y| <= q. Arrays have the shape (parts,) or (parts, nodes).
    """

    is_gaussian = True

    def __init__(
        self,
        steps: tuple[SampledGaussianSteps, ...],
        deviation: float | FloatArray | None,
        digits: float | FloatArray,
        *,
        times: FloatArray | None = None,
    ) -> None:
        """Choose the nodes and the truncation.

        Parameters
        ----------
        steps : tuple of SampledGaussianSteps
            Steps of similar noise.
        deviation : float, (runs,) or None
            Approximate standard deviation of the whole run's loss in nats, rather too small. It only chooses the
            spacing of the nodes. None for a law that is evaluated at real tilts only.
        digits : float or (runs,)
            All steps together have less than about 10^-digits of the mass of H0 and of H1 beyond the truncation on the
            right. Without a truncation, the rare large losses of steps that use the record would dominate the moments
            at large tilts.
        times : (runs,) or None
            How many times each of several separate runs repeats its steps; None for one run.
        """
        self.sigma = np.array([step.noise_multiplier for step in steps])
        self.rate = np.array([step.sample_rate for step in steps])
        self.take(np.array([step.count for step in steps], dtype=np.float64), times)
        self._rate_error = np.array([abs(step.rate_rest) / step.sample_rate for step in steps])
        total = self.of_parts(self.over_run(np.ones_like(self.count))) + np.zeros_like(self.count)
        # Nats: trapezoid errors of e^-need per step are below 1e-18 for the whole run.
        self._need = np.log(total) + 42.0
        if self.separate:
            self._given = steps, digits, times
            deviation = None if deviation is None else self.of_parts(np.asarray(deviation))
            digits = self.of_parts(np.asarray(digits))
        self._settle(self._laid_out(total, deviation, digits))

    @classmethod
    @override
    def of_group(
        cls, group: tuple[SampledGaussianSteps, ...], digits: float, scale: RunScale
    ) -> TruncatedSampledGaussian:
        return TruncatedSampledGaussian(group, scale.deviation, digits)

    def _settle(self, layout: GaussianNodeLayout) -> None:
        """Set the spacing of the nodes and the bounds of the truncated mass of H0 and H1 from the `layout` of nodes.

        A normal tail is bounded by Phi(-x) <= e^{-x^2/2}/2.
        """
        self._layout, self.step = layout, layout.steps
        """Spacing of the nodes in y, shape (parts,)."""
        end = (layout.first + layout.kept - 0.5) * layout.spacing
        if layout.in_u:
            end = (self.sigma * (end - self._log_odds) + 0.5 / self.sigma) * (1 - 1e-13)
        log_null = np.asarray(-0.5 * end**2 - math.log(2), dtype=np.float64)
        self.log_truncated_null = log_null
        self.log_truncated_alternative = np.logaddexp(
            log_null, np.log(0.5 * self.rate) - 0.5 * np.maximum(end - 1 / self.sigma, 0.0) ** 2
        )

    @property
    def _log_odds(self) -> FloatArray:
        return np.log(self.rate) - np.log1p(-self.rate)

    @override
    def of(self, runs: IndexArray, times: FloatArray) -> Self:
        parts = self.parts_of(runs)
        chosen = object.__new__(type(self))
        chosen.sigma, chosen.rate = self.sigma[parts], self.rate[parts]
        chosen.take(self.unit[parts], times)
        chosen._need = self._need[parts]
        chosen._settle(self._layout.of(parts))
        chosen.grid = self.grid.of(parts, chosen._layout.nodes)
        return chosen

    def _laid_out(
        self, total: FloatArray, deviation: float | FloatArray | None, digits: float | FloatArray
    ) -> GaussianNodeLayout:
        """Return the positions of the nodes: in y, or in u if several parts share their exponentials.

        u is v + ln(p/(1 - p)) for the sampling rate p. y is the outcome of a step and v = y/sigma - 1/(2 sigma^2) for
        the noise multiplier sigma. `total` is the number of steps of the run of each part. About 10^-digits of the mass
        is truncated; `deviation` is that of the tilted loss of the run, or None for nodes that serve real tilts only.
        """
        smooth_step = smooth_spacing(self._need, total)
        turn = 0.0 if deviation is None else self._highest_turn(total, deviation)
        strip_share = 2 * math.pi * 0.7 * math.pi / (self._need + 15.0 + turn)
        goal = digits * math.log(10) + np.log(2 * self.count)
        right = np.maximum(np.sqrt(2 * goal), 1 / self.sigma + np.sqrt(2 * np.maximum(goal + np.log(self.rate), 0.0)))
        left = np.sqrt(2 * self._need) + 2.0 + 12.0 / np.sqrt(total)
        in_u = len(self.sigma) >= _FEWEST_SHARED and not self.separate
        if in_u:
            wanted = np.minimum(smooth_step / self.sigma.max(), strip_share)[:1]
            origin = self._log_odds - 0.5 / self.sigma**2
            low, high = np.min(origin - left / self.sigma, keepdims=True), origin + right / self.sigma
        elif self.separate:
            wanted, low, high = np.minimum(smooth_step, strip_share * self.sigma), -left, right
        else:
            wanted = np.minimum(smooth_step, strip_share * self.sigma.min())[:1]
            low, high = -left[:1], np.full_like(self.sigma, right.max())
        spacing = np.maximum(np.floor(wanted * 2.0**20), 1) * 2.0**-20
        first = np.floor(low / spacing)
        kept = (np.ceil(high / spacing) - first).astype(np.intp) + 1
        nodes = int(kept.max())
        steps = self.sigma * spacing if in_u else spacing + np.zeros_like(self.sigma)
        # The number of nodes is a multiple of a block; the added nodes have no weight.
        return GaussianNodeLayout(spacing, first, nodes + -nodes % SUM_BLOCK, steps, kept, in_u)

    def _highest_turn(self, total: FloatArray, deviation: float | FloatArray) -> FloatArray:
        """Return about how much (nats) e^{t arg w} grows on a strip at the greatest height t of a contour.

        The shape is (parts,). The spacing of the nodes depends on the result of `highest_turn`. `total` is the number
        of steps of a run, and `deviation` the standard deviation of its tilted loss in nats. For few steps the
        transform |M(theta + it)| falls only like exp(-sigma^2 ln^2(t p e^{-1/(2 sigma^2)})/2). Here p is the sampling
        rate, sigma the noise multiplier, w the likelihood ratio, and theta the tilt.
        """
        falls = np.sqrt(88 / total) / self.sigma + 0.5 / self.sigma**2 - np.log(self.rate)
        falls = self.of_parts(self.least_of_run(falls))
        highest, sampled = 9.0 / np.maximum(deviation, 1e-3), self.of_parts(self.over_run(self.rate))
        return highest_turn(highest, total, sampled, falls, separate=self.separate)

    @property
    @override
    def real(self) -> TruncatedSampledGaussian:
        steps, digits, times = self._given
        return TruncatedSampledGaussian(steps, None, digits, times=times)

    @property
    @override
    def lengths(self) -> IndexArray:
        return self._layout.kept

    @property
    @override
    def size(self) -> int:
        return self._layout.nodes * len(self.sigma)

    @property
    @override
    def contour_size(self) -> int:
        """Cost of one node of a contour, in array elements (the unit of `size`).

        It is smaller than `size` where parts share exponentials: multiplication and addition cost less than an
        exponential.
        """
        shared = self._layout.nodes * (1 + len(self.sigma) // _SHARED_GAIN)
        return shared if self._layout.in_u else self.size

    @cached_property
    def grid(self) -> SampledGaussianNodes:
        """Nodes of the trapezoid sum with losses and weights, built on first use."""
        return SampledGaussianNodes.build(self.sigma, self.rate, self._rate_error, self._layout)

    @override
    def shared_sums(self, tilts: FloatArray) -> FloatArray | None:
        return None if self.grid.soft is None else moment_sums(self.grid, self.grid.soft, tilts)

    @cached_property
    def _strips(self) -> FloatArray:
        return np.array([[0.3], [0.6], [0.9]]) * np.minimum(2 * math.pi / self.step, math.pi * self.sigma)

    @cached_property
    def strip_exponents(self) -> FloatArray:
        """Exponents q^2/2 - 2 pi q/h of the trapezoid error on strips |Im y| <= q, for the node distance h.

        y is the outcome of a step. The shape is (strips, parts).
        """
        return 0.5 * self._strips**2 - 2 * math.pi * self._strips / self.step

    @cached_property
    def least_everywhere(self) -> FloatArray:
        """Lower bounds ln cos(q/(2 sigma)) of ln |w(y + iq)/w(y)| at all nodes y, shape (strips, parts).

        w is the likelihood ratio of a step with noise multiplier sigma, and q the half-width of the strip.
        """
        return np.log(np.cos(0.5 * self._strips / self.sigma))

    @cached_property
    def log_least(self) -> FloatArray:
        """ln of lower bounds of |w(y + iq)/w(y)| on the strips over the cells of the nodes y.

        The shape is (strips, parts, nodes). w is the likelihood ratio of a step, and q the half-width of the strip.
        """
        return self.log_least_modulus(self._strips)

    def log_least_modulus(self, a: FloatArray) -> FloatArray:
        """Return ln of a lower bound of |w(y + iq)/w(y)| for |q| <= a < pi sigma; shape (..., parts, nodes).

        w is the likelihood ratio of a step at the node y. |w(y + iq)/w(y)| = |1 - r + r e^{iq/sigma}| with the
        responsibility r. Both 1 - 2 r sin^2(a/(2 sigma)) and cos(a/(2 sigma)) are lower bounds of it. The
        responsibility r is taken half a node further right, so that the bound holds over the cell. The noise multiplier
        is sigma.
        """
        half = (0.5 * a / self.sigma)[..., None]
        return np.log(np.maximum(1 - 2 * self.near * np.sin(half) ** 2, np.cos(half)))

    @cached_property
    def near(self) -> FloatArray:
        """Upper bounds of the responsibility r = p e^v/w within half a node distance of each integration node.

        w = 1 - p + p e^v is the likelihood ratio of a step with sampling rate p, and v its logarithm without sampling.
        The shape is (parts, nodes).
        """
        return np.minimum(1.0, self.grid.responsibility * np.exp(0.5 * self.step / self.sigma)[:, None])

    @cached_property
    def end_slopes(self) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of |d ln w/dy| over the cells, and ln of lower bounds of |w(y + iq)/w(y)|.

        Both have the shape (parts, nodes). w is the likelihood ratio of a step at the outcome y, and q a height. The
        bounds hold on all strips and all paths of majorants.
        """
        widest = np.maximum(self._strips[-1], np.minimum(LARGEST_ETA, 0.9 * math.pi * self.sigma))
        return self.near / self.sigma[:, None], self.log_least_modulus(widest)

    @override
    def slopes(self, tilt: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        x, half, near = self.grid.x, 0.5 * self.grid.step, self.near / self.sigma[:, None]
        return x + half - np.minimum(tilt, 0.0) * near, half - x + np.maximum(tilt, 0.0) * near

    @cached_property
    def normal_slope(self) -> FloatArray:
        """Upper bound of |d ln phi/dy| over the cells of the nodes y, for the normal density phi.

        The shape is (parts, nodes).
        """
        return np.abs(self.grid.x) + 0.5 * self.grid.step

    @cached_property
    def _left_end(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """Properties of the first node y0, shape (parts,) each, which bound the mass left of it.

        They are its loss and weight, ln(1 - p), and -ln of an upper bound of Phi(y0). The last is the largest |s| for
        which phi falls at least as fast left of y0 as w^s can rise. phi is the normal density, Phi its integral, w the
        likelihood ratio and s a tilt.
        """
        grid = self.grid
        first, fallen = grid.x[:, 0], 0.5 * grid.x[:, 0] ** 2 + math.log(2)
        steepest = grid.responsibility[:, 0] / self.sigma * (1 + 1e-9) + 1e-300
        return grid.loss[:, 0], grid.null_weight[:, 0], np.log1p(-self.rate), fallen, np.maximum(-first, 0.0) / steepest

    @override
    def beyond(self, tilts: FloatArray, shift: FloatArray) -> FloatArray:
        """Return an upper bound of the integral and the sum of phi w^s left of the first node y0, times e^{-shift}.

        The shape is (tilts, parts). phi is the normal density, w the likelihood ratio and s a tilt. The integral is at
        most Phi(y0) max(w^s, (1-p)^s), with w = w0 at y0. Left of y0 the slope of ln w is below its slope r0/sigma at
        y0, for the responsibility r0. With a = |s| r0/sigma and a <= -y0 the integral is at most w0^s e^{a y0 + a^2/2}
        Phi(y0 + a) <= w0^s e^{-y0^2/2}/2.
        """
        loss, weight, least_loss, fallen, moderate = self._left_end
        farthest = np.where(np.abs(tilts) <= moderate, tilts * loss, np.maximum(tilts * loss, tilts * least_loss))
        return np.exp(farthest - (fallen + shift)) + weight

    @cached_property
    def majorant_stride(self) -> int:
        """Stride k such that every k-th node suffices for the sums of majorants: 1, 2 or 4.

        Majorants bound the transform along a contour and need few digits; those of few steps need more. The trapezoid
        error of the sum over every k-th node decides.
        """
        enough = -6 - 70 / (self.count if self.separate else self.count.sum())
        for stride in (4, 2):
            h = stride * self.step
            s = np.minimum(0.5 * math.pi * self.sigma, 2 * math.pi / h)
            if (0.5 * s**2 - 2 * math.pi * s / h + np.log(self.count) < enough).all():
                return stride
        return 1
