"""Moment generating functions of sampled steps with a chi-square statistic, with every error bounded.

The statistic T, the map T(s) and the likelihood ratio w are those of `sampled_chi_square_grid.py`. M(z) = E0 w^z, with
the expectation under H0 (without the record), is a trapezoid sum in s with the node distance h. It is compared to the
integral on a rectangle whose short sides are half way between nodes. The long sides, Im s = -+a, have the weight e^{-2
pi a/h}, and the short ones 1/(1 + e^{2 pi |q|/h}) at the height q. The law is truncated where T is small, that is where
losses are large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import RunScale
from service.privacy.composition.summands.sampled_chi_square_grid import (
    LEAST_S,
    ChiSquareGrid,
    ChiSquareStep,
    ChiSquareSteps,
)
from service.privacy.composition.summands.sampled_chi_square_strips import ChiSquareStrip, strip_at
from service.privacy.composition.summands.trapezoid import TruncatedTrapezoid, highest_turn, smooth_spacing
from service.privacy.composition.summands.trapezoid_contour import side_terms
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected

_STRIPS = np.array([0.12, 0.25, 0.45, 0.7, 0.9])
"""Half-widths of strips over the largest one."""
_ROUNDS = 60
_MOST_NODES = 8_000
"""Maximal number of nodes of finer grids."""


class TruncatedSampledChiSquare(TruncatedTrapezoid):
    """Truncated law of N equal steps with a chi-square statistic T, sampled at a rate 0 < p < 1.

    The law is a summand of the run's log-moment function K(z) = ln E0 e^{zS}. Nodes are points s of the map T(s) in
    `sampled_chi_square_grid.py`, with the distance h. w is the likelihood ratio of a step at T(s). A strip holds bounds
    between the real axis and the path s - ia, and A is w at s - iq over w(T(s)). Arrays have the shape (1, nodes),
    because there is one part.
    """

    def __init__(self, steps: ChiSquareSteps, deviation: float, digits: float, halvings: int = 0) -> None:
        """Choose the nodes and the truncation on the side of large losses.

        Parameters
        ----------
        steps : ChiSquareSteps
            Equal steps.
        deviation : float
            Approximate standard deviation of the run's loss, nats.
        digits : float
            All steps together have less than about 10^-digits of the mass of H0 and of H1 beyond the truncation.
        halvings : int
            How often the distance of the nodes is halved.
        """
        self._given, self._halvings = (steps, deviation, digits), halvings
        self.law = law = ChiSquareStep.of(steps)
        self.count = np.array([float(steps.count)])
        self._need = math.log(steps.count) + 42.0
        goal = digits * math.log(10) + math.log(2 * steps.count)
        self._low = max(_farthest_point(lambda s: self._is_dropped(s, goal), law.center, -1), LEAST_S)
        share = 12.0 / math.sqrt(steps.count)
        need = 0.5 * (math.sqrt(2 * self._need) + 2.0 + share) ** 2
        self._high = _farthest_point(lambda s: law.log_tail(s, upper=True) <= -need, law.center, 1)
        smooth = float(smooth_spacing(self._need, steps.count))
        widest = min(0.7 * math.pi / law.spread, 12.0 if self._low >= 4 else 1.4)
        step = min(smooth, 2 * math.pi * widest / (self._need + 15.0 + self._highest_turn(deviation)))
        self._step = max(math.floor(step * 2.0**20), 1) * 2.0 ** (-20 - halvings)
        self.log_truncated_null = np.array([law.log_tail(self._low)])
        alternative = math.log(law.rate) + law.log_tail(self._low, present=True)
        self.log_truncated_alternative = np.logaddexp(self.log_truncated_null, alternative)
        self._known: dict[float, ChiSquareStrip] = {}

    @classmethod
    @override
    def of_group(cls, group: tuple[ChiSquareSteps, ...], digits: float, scale: RunScale) -> TruncatedSampledChiSquare:
        return TruncatedSampledChiSquare(group[0], scale.deviation, digits)

    @cached_property
    def finer(self) -> TruncatedSampledChiSquare | None:
        """Law on nodes of half the distance, for high contours; None if there would be too many nodes."""
        return TruncatedSampledChiSquare(*self._given, self._halvings + 1) if 2 * self.size <= _MOST_NODES else None

    def _is_dropped(self, s: float, goal: float) -> bool:
        present = math.log(self.law.rate) + self.law.log_tail(s, present=True)
        return max(self.law.log_tail(s), present) <= -goal

    def _highest_turn(self, deviation: float) -> float:
        law, number = self.law, float(self.count[0])
        falls = math.sqrt(88 / number) * law.spread + 0.5 * law.spread**2 - math.log(law.rate)
        return float(highest_turn(9.0 / max(deviation, 1e-3), number, law.rate * number, falls))

    @property
    def size(self) -> int:
        """Number of quadrature nodes of the law, the unit of this engine's cost."""
        return math.ceil((self._high - self._low) / self._step) + 1

    @cached_property
    def grid(self) -> ChiSquareGrid:
        """Nodes of the trapezoid sum with losses and weights, built on first use.

        The truncation is half a node distance beyond the last node.
        """
        half = 0.5 * self._step
        return ChiSquareGrid.build(self.law, self._low + half, self._high, self._step)

    @cached_property
    def _strips(self) -> list[ChiSquareStrip]:
        """Strips between the real axis and the paths s - ia that bound trapezoid errors, for some half-widths a.

        The likelihood ratio w turns by less than pi on all of them, and e^{-2 pi a/h} < 1e-3 for the node distance h.
        Without such a strip the list has one strip with infinite bounds.
        """
        widest = min(self.grid.widest, 0.95 * math.pi / self.law.spread, 0.95 * 2 * math.pi / self._step)
        strips = [self.strip(float(a)) for a in widest * _STRIPS]
        usable = [strip for strip in strips if strip.valid and strip.a > 1.2 * self._step]
        if not usable:
            none = replace(strips[0], density_growth=np.full_like(strips[0].density_growth, np.inf), valid=False)
            self._known[none.a] = none
            usable = [none]
        return usable

    def strip(self, a: float) -> ChiSquareStrip:
        """Return bounds on the strip of complex s between the real axis and s - ia, for the half-width `a`.

        The bounds are kept for all tilts.
        """
        if a not in self._known:
            self._known[a] = strip_at(self.grid, a)
        return self._known[a]

    @cached_property
    def half_widths(self) -> FloatArray:
        """Half-widths a of the strips of complex nodes on which trapezoid errors are bounded, shape (strips, 1)."""
        return np.array([[strip.a] for strip in self._strips])

    @cached_property
    def strip_exponents(self) -> FloatArray:
        """Exponents -2 pi a/h of the trapezoid error on strips of half-width a, for the node distance h.

        The shape is (strips, 1).
        """
        return -2 * math.pi * self.half_widths / self._step

    @cached_property
    def log_least(self) -> FloatArray:
        """ln of lower bounds of |w(s - iq)/w(s)| on the strips over the cells, shape (strips, 1, nodes).

        w is the likelihood ratio of a step as a function of the node variable s, and q a height of at most the
        half-width of the strip.
        """
        return np.array([[strip.log_least] for strip in self._strips])

    @cached_property
    def least_everywhere(self) -> FloatArray:
        """Minimum of `log_least` over the kept nodes, shape (strips, 1): ln of a lower bound of |w(s - iq)/w(s)|.

        w is the likelihood ratio of a step as a function of the node variable s, and q a height of at most the
        half-width of the strip.
        """
        return self.log_least[..., : self.grid.kept].min(axis=-1)

    @cached_property
    def _log_largest(self) -> FloatArray:
        """ln of upper bounds of |w(s - iq)/w(s)| on the strips over the cells, shape (strips, 1, nodes).

        w is the likelihood ratio of a step as a function of the node variable s, and q a height of at most the
        half-width of the strip.
        """
        return np.array([[strip.log_raise] for strip in self._strips])

    @cached_property
    def _log_density_growth(self) -> FloatArray:
        """Exponents Q a^2 on the strips over the cells, shape (strips, 1, nodes).

        s is the node variable, and a the half-width of the strip. On the path s - ia the density of T times dT/ds is at
        most e^{Q a^2} times its value on the real axis. T is the chi-square statistic of a step.
        """
        return np.array([[strip.density_growth * strip.a**2] for strip in self._strips])

    @override
    def log_strip_bound(self, tilt: FloatArray, strip: int) -> FloatArray:
        raised = np.maximum(tilt, 0.0) * self._log_largest[strip]
        return super().log_strip_bound(tilt, strip) + raised + self._log_density_growth[strip]

    @override
    def coarse_log_strip_bound(self, tilts: FloatArray) -> FloatArray:
        largest, density = (x[..., : self.grid.kept].max(-1) for x in (self._log_largest, self._log_density_growth))
        return super().coarse_log_strip_bound(tilts) + np.maximum(tilts, 0.0) * largest[:, None] + density[:, None]

    @cached_property
    def _ends(self) -> tuple[FloatArray, ...]:
        """Properties of the first and last node that bound the sides of the strips, each of shape (strips, 1, 1, 2).

        They are the loss, ln of the weight, a bound of |d ln w/ds|, lower and upper bounds of ln |A|, and Q a. w is the
        likelihood ratio as a function of the node variable s, and A its value on a strip over that on the real axis. a
        is the half-width, and e^{Q q^2} bounds the growth of the density at the height q.
        """
        grid, ends = self.grid, [0, self.grid.kept - 1]
        log_weight = grid.log_null_weight + 0.5 * self._step * grid.log_slope
        near = np.array([[strip.near] for strip in self._strips])
        rate = np.array([[strip.density_growth * strip.a] for strip in self._strips])
        columns = (grid.loss[None], log_weight[None], near, self.log_least, self._log_largest, rate)
        return tuple(column[:, :, None, ends] for column in columns)

    @override
    def sides(self, tilts: FloatArray, shift: FloatArray) -> FloatArray:
        loss, log_weight, near, least, largest, rate = self._ends
        s = tilts[:, :, None]
        size = np.maximum(s, 0.0) * largest + np.minimum(s, 0.0) * least + 0.5 * self._step * np.abs(s) * near
        ends = s * loss + log_weight + size - shift[:, :, None]
        return side_terms(ends, rate, self.half_widths[..., None, None], self.grid.step).sum(axis=-1)

    @override
    def slopes(self, tilt: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        slope = self.grid.log_slope + np.abs(tilt) * self._strips[0].near
        return slope, slope

    @override
    def end_error(self, tilts: FloatArray, shift: FloatArray) -> FloatArray:
        """Return a bound of the moment of H0 beyond the grid at large statistics, times e^{-shift}, shape (tilts, 1).

        `tilts` holds the tilts s of M(s) = E0 e^{sL} for the loss L of a step.
        """
        loss, least = float(self.grid.loss[0, 0]), math.log1p(-self.law.rate)
        tail = self.law.log_tail(float(self.grid.points[0]) + 0.5 * self._step, upper=True)
        return np.exp(tail + np.maximum(tilts * loss, tilts * least) - shift)


def _farthest_point(is_far: Callable[[float], bool], center: float, side: int) -> float:
    """Return about the point nearest to `center` on one side (-1 or 1) at which `is_far` is true.

    If no tried point is far, the result is the farthest one tried.
    """
    inside, stride = center, 1.0
    outside = center + side * stride
    while not is_far(outside) and abs(outside - center) < 2000.0:
        inside, stride = outside, 2 * stride
        outside = center + side * stride
        if outside < LEAST_S:
            outside = LEAST_S
            break
    return bisected(is_far, inside, outside, _ROUNDS, close=1e-2)[1]
