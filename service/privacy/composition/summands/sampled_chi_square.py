"""Moment generating functions of sampled steps whose statistic has a chi-square law, with every error bounded.

Notation and map of `sampled_chi_square_grid.py`. M(z) = E0 w^z is a trapezoid sum in s, which is compared to
the integral on a rectangle whose sides are half way between nodes: its long sides, Im s = -+a, weigh e^{-2 pi a/h}, its
short ones 1/(1 + e^{2 pi |q|/h}). The law is cut where T is small, that is where losses are large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import RealCumulants, RunScale, TruncatedSummand, in_chunks
from service.privacy.composition.summands.node_sums import excess, tilted, untilting
from service.privacy.composition.summands.sampled_chi_square_grid import (
    LEAST_PLACE,
    ChiSquareGrid,
    ChiSquareStep,
    ChiSquareSteps,
)
from service.privacy.composition.summands.sampled_chi_square_strips import ChiSquareStrip, strip_at
from service.privacy.composition.summands.trapezoid import highest_turn, log_error, smooth_spacing
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_STRIPS = np.array([0.12, 0.25, 0.45, 0.7, 0.9])
"""Widths of strips over the widest."""
_ROUNDS = 60
_MOST_NODES = 8_000
"""Of finer grids."""


class SampledChiSquareParts(TruncatedSummand):
    """N equal steps, 0 < p < 1, as one summand of a run's K. Arrays: one part, nodes."""

    def __init__(self, steps: ChiSquareSteps, deviation: float, digits: float, halvings: int = 0) -> None:
        """`deviation`: about the standard deviation of the run's loss. The law is cut on the side of large losses,
        where all steps together have less than about 10^-digits of the mass of H0 and of H1 left. `halvings`: how often
        the step of the grid is halved.
        """
        self._given, self._halvings = (steps, deviation, digits), halvings
        self.law = law = ChiSquareStep.of(steps)
        self.count = np.array([float(steps.count)])
        self._need = math.log(steps.count) + 42.0
        goal = digits * math.log(10) + math.log(2 * steps.count)
        self._low = max(_place(lambda s: self._is_dropped(s, goal), law.center, -1), LEAST_PLACE)
        share = 12.0 / math.sqrt(steps.count)
        reach = 0.5 * (math.sqrt(2 * self._need) + 2.0 + share) ** 2
        self._high = _place(lambda s: law.log_tail(s, upper=True) <= -reach, law.center, 1)
        smooth = float(smooth_spacing(self._need, steps.count))
        widest = min(0.7 * math.pi / law.spread, 12.0 if self._low >= 4 else 1.4)
        step = min(smooth, 2 * math.pi * widest / (self._need + 15.0 + self._growth(deviation)))
        self._step = max(math.floor(step * 2.0**20), 1) * 2.0 ** (-20 - halvings)
        self.log_dropped_null = np.array([law.log_tail(self._low)])
        alternative = math.log(law.rate) + law.log_tail(self._low, present=True)
        self.log_dropped_alternative = np.logaddexp(self.log_dropped_null, alternative)
        """ln of the mass of H0 and of H1 beyond the cut, per step; shape (1,)."""

    @classmethod
    @override
    def of_group(cls, group: tuple[ChiSquareSteps, ...], digits: float, scale: RunScale) -> SampledChiSquareParts:
        return SampledChiSquareParts(group[0], scale.deviation, digits)

    @property
    @override
    def log_dropped(self) -> tuple[FloatArray, FloatArray]:
        counts = np.log(self.count)
        return counts + self.log_dropped_null, counts + self.log_dropped_alternative

    @cached_property
    def finer(self) -> SampledChiSquareParts | None:
        """The same with half the step, as high lines need; None where that would be too many nodes."""
        return SampledChiSquareParts(*self._given, self._halvings + 1) if 2 * self.size <= _MOST_NODES else None

    def _is_dropped(self, s: float, goal: float) -> bool:
        present = math.log(self.law.rate) + self.law.log_tail(s, present=True)
        return max(self.law.log_tail(s), present) <= -goal

    def _growth(self, deviation: float) -> float:
        """See `highest_turn`."""
        law, number = self.law, float(self.count[0])
        falls = math.sqrt(88 / number) * law.spread + 0.5 * law.spread**2 - math.log(law.rate)
        return float(highest_turn(9.0 / max(deviation, 1e-3), number, law.rate * number, falls))

    @property
    def size(self) -> int:
        """Number of nodes: the unit of this engine's cost."""
        return math.ceil((self._high - self._low) / self._step) + 1

    @property
    def line_size(self) -> int:
        """What one node of a line costs."""
        return self.size

    @cached_property
    def grid(self) -> ChiSquareGrid:
        """Nodes, losses and weights; built on first use. The cut is half a step beyond its last node."""
        half = 0.5 * self._step
        return ChiSquareGrid.build(self.law, self._low + half, self._high, self._step)

    @cached_property
    def strips(self) -> tuple[ChiSquareStrip, ...]:
        """Strips behind trapezoid errors; none is as wide as to turn w by pi."""
        widest = min(self.grid.widest, 0.95 * math.pi / self.law.spread, 0.95 * 2 * math.pi / self.grid.spacing)
        return tuple(one for one in (strip_at(self.grid, float(a)) for a in widest * _STRIPS) if one.valid)

    def trapezoid_errors(self, tilts: FloatArray, log_weights: FloatArray, heights: FloatArray) -> FloatArray:
        """Bounds of |M_h - M| at tilt + i height, relative to M(tilt), and of what the same does to M(tilt) itself,
        added up; shape (S,). `log_weights`: of the tilted law, (S, nodes).

        Up to a node J the rectangle rule; on the side at J the integrand is at most e^{q (t near + Q a)} times the term
        of its cell over h: both halves are below 4/pi terms where that grows slower than 3/4 of e^{2 pi q/h}, and below
        2 a/h terms of what it grows faster else. From J on the sizes of sum and integral. The best J serves.
        """
        h, kept = self.grid.spacing, self.grid.kept
        best = np.full(len(tilts), np.inf)
        log_weights = log_weights[:, :kept]
        tilt, t = tilts[:, None], heights[:, None]
        for strip in self.strips:
            near = strip.near[:kept]
            flat = 0.5 * h * (1 + 1e-9) * (self.grid.log_slope[0, :kept] + np.abs(tilt) * near)
            settled = log_weights + strip.growth[:kept] * strip.a**2 + tilt * strip.log_modulus[:kept] + flat
            turned = t * (strip.argument[:kept] + 0.5 * h * (1 + 1e-9) * near)
            kernel = 1.001 * math.exp(-2 * math.pi * strip.a / h) if strip.a > 1.2 * h else math.inf
            inside = kernel * np.cumsum(np.exp(settled + turned) + np.exp(settled), axis=1)
            grows = strip.a * np.maximum(t * near + strip.growth[:kept] * strip.a - 1.5 * math.pi / h, 0.0)
            raised = np.maximum(tilt, 0.0) * strip.log_raise[:kept] + np.minimum(tilt, 0.0) * strip.log_least[:kept]
            side = (1.3 + 2 * strip.a / h * (grows > 0)) * np.exp(log_weights + flat + grows + raised)
            sizes = np.exp(log_weights) + np.exp(log_weights + flat)
            beyond = np.zeros_like(sizes)
            beyond[:, :-1] = np.cumsum(sizes[:, :0:-1], axis=1)[:, ::-1]
            best = np.fmin(best, (inside + side + beyond).min(axis=1) + side[:, 0])
        return 2 * best * (1 + 1e-9)

    def left_out(self, tilts: FloatArray, log_totals: FloatArray) -> FloatArray:
        """What lies beyond the grid where T is large, relative to M, shape (S,)."""
        loss, least = float(self.grid.loss[0, 0]), math.log1p(-self.law.rate)
        tail = self.law.log_tail(float(self.grid.places[0]) + 0.5 * self.grid.spacing, upper=True)
        return np.exp(tail + np.maximum(tilts * loss, tilts * least) - log_totals)

    @cached_property
    def identity_error(self) -> float:
        """Error per step of the sums at tilts 0 and 1 behind E0(w - 1) = 0."""
        tilts = np.array([0.0, 1.0])
        log_weights, log_totals = self.grid.log_tilted(tilts)
        errors = self.trapezoid_errors(tilts, log_weights, np.zeros(2)) + self.left_out(tilts, log_totals)
        dropped = np.exp(self.log_dropped_null) + np.exp(self.log_dropped_alternative)
        return float((errors * np.exp(log_totals)).sum() + dropped[0])

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """K, K', K'' at real tilts, shape (S,), with a bound of the error of K, infinite where the grid ends too early.

        Plain sums, as for sampled Gaussian steps: the error grows like N u; a line's prefactor takes `value` instead.
        """
        return in_chunks(self._cumulants, tilts, self.size * len(_STRIPS))

    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def _cumulants(self, tilts: FloatArray) -> RealCumulants:
        grid, count = self.grid, self.count[0]
        log_weights, log_total = grid.log_tilted(tilts)
        weights, loss = np.exp(log_weights), grid.loss[0]
        total = weights.sum(axis=1)
        mean = weights @ loss / total
        square = (weights * (loss - mean[:, None]) ** 2).sum(axis=1) / total
        rounding = weights @ grid.relative_error[0] + np.abs(tilts) * (weights @ grid.loss_error[0])
        rounding += 2 * grid.loss.shape[1] * UNIT_ROUNDOFF
        truncation = self.trapezoid_errors(tilts, log_weights, np.zeros_like(tilts)) + self.left_out(tilts, log_total)
        relative = rounding + truncation
        error = log_error(relative, log_total)
        return RealCumulants(count * log_total, count * mean, count * square, count * error * 1.001, count * truncation)

    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def value(self, theta: float) -> tuple[float, float, FloatArray, float, float]:
        """K(theta) and a bound of its error, which does not grow with the number of steps; the tilted weights of sum 1,
        ln M(theta), and the error of their sum.

        M(s) - 1 = E0(e^{sL} - 1 - s(e^L - 1)), because E0(w - 1) = 0: every summand is second order in L.
        """
        grid, tilt = self.grid, np.array([theta])
        all_weights, shifts = tilted(grid.loss, grid.log_weight, tilt[:, None])
        weights, shift = all_weights[0], float(shifts[0, 0])
        summands, size = excess(grid.loss, grid.weight, grid.growth, theta, weights)
        if shift == 0:
            total = 1 + float(summands.sum())
            log_total = math.log1p(max(float(summands.sum()), -1 + 1e-300))
            moved = untilting(grid.loss, grid.alternative, theta, weights, np.ones(1))
        else:
            total, size, moved = float(weights.sum()), weights, weights
            log_total = shift + math.log(total)
        rounding = float(np.sum(size * grid.relative_error + 1.1 * abs(theta) * grid.loss_error * moved)) / total
        rounding += shift * UNIT_ROUNDOFF
        log_weights, log_sums = grid.log_tilted(tilt)
        errors = self.trapezoid_errors(tilt, log_weights, np.zeros(1)) + self.left_out(tilt, log_sums)
        # The sums behind the identity have errors too: 1 - M_h(0) counts once, M_h(1) - M_h(0) s times.
        identity = 2 * (1 + abs(theta)) * self.identity_error * math.exp(min(-log_total, 700.0))
        relative = rounding + float(errors[0]) + identity
        error = (1.1 * relative if relative < 0.1 else math.inf) + 8 * FUNCTION_ERROR * abs(log_total)
        number = float(self.count[0])
        return number * log_total, number * error * 1.001, weights / total, log_total, rounding


def _place(is_far: Callable[[float], bool], center: float, side: int) -> float:
    """About the nearest s on one side of the center that is far; the farthest tried where none is."""
    inside, stride = center, 1.0
    outside = center + side * stride
    while not is_far(outside) and abs(outside - center) < 2000.0:
        inside, stride = outside, 2 * stride
        outside = center + side * stride
        if outside < LEAST_PLACE:
            outside = LEAST_PLACE
            break
    return bisected(is_far, inside, outside, _ROUNDS, close=1e-2)[1]
