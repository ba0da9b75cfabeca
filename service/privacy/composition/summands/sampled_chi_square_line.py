"""Sampled steps with a chi-square statistic on a vertical line Re z = theta: values of K, errors, and majorants of |M|.

Notation of `sampled_chi_square_grid.py`. E_theta is the expectation under the law tilted by e^{theta L}, so that
M(theta + it)/M(theta) = E_theta e^{itL}. Its modulus for all heights from t on is bounded in three ways:

    by values on heights t_k: between two of them |E_theta e^{it(L - m)}|, m the mean, changes per unit of t by at most
    min(sqrt(Var L), t Var L), and by that over half of their distance from the larger end;
    by the integral on Im s = -eta, where arg w >= 0: the sum over cells of weights e^{Q eta^2} |w/w(s)|^theta
    e^{-t arg w}, which falls with t;
    by V/t: t |M| <= |psi| at the ends + int |psi'|, psi = f_T w^theta/(r B), integrating by parts.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from service.privacy.composition.summands.abstract import LineSummand, LineValues
from service.privacy.composition.summands.node_sums import (
    line_values,
    outside,
    significant,
    tilted_differences,
)
from service.privacy.composition.summands.sampled_chi_square import SampledChiSquareParts
from service.privacy.composition.summands.sampled_chi_square_strips import strip_at
from service.privacy.composition.summands.trapezoid_contour import MeanLoss, difference_rounding
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

_ETAS = np.array([0.05, 0.09, 0.15, 0.25, 0.4, 0.6, 0.8])
"""Lines of majorants, over the largest that turns w by less than pi."""
_LARGEST_ETA = 6.0
_HEIGHTS, _MANY_HEIGHTS = np.array([0.1, 0.22, 0.45, 0.7, 1.0]), np.geomspace(1e-4, 1.0, 20)
"""Heights, over the highest, at which trapezoid errors are taken: they grow."""
_NEGLIGIBLE = 1e-13
"""A trapezoid error of the whole run, on the real scale, below this needs no finer nodes."""
_FALL, _LEAST_FALL = 60.0, 1.5
"""Nats that the majorant of all steps should fall by on the heights with values, and the most for one step."""
_RATIO, _SHARE = 1.08, 0.15
"""Neighbouring heights with values: their ratio near the axis, and their distance times E|L - m| further up."""
_MOST_CELLS = 3_000
_AT_ONCE = 200_000
"""Heights times nodes evaluated at once."""
_GAIN_STEPS = np.geomspace(1.0, 1e4, 400)


class SampledChiSquareLine(LineSummand):
    """The steps of a run, tilted by theta."""

    def __init__(self, parts: SampledChiSquareParts, theta: float) -> None:
        self.parts, self.grid, self.theta = parts, parts.grid, theta
        value, error, self._weights, self._log_total, self._total_error = parts.value(theta)
        self._origin = value, error
        self._log_weights, _ = self.grid.log_tilted(np.array([theta]))
        self._window = significant(self._weights)
        # The 1e-30 stands for weights that underflowed.
        self._omitted = float(outside(self._weights, self._window)[0]) + 1e-30
        self._left_out = float(parts.left_out(np.array([theta]), np.array([self._log_total]))[0])
        self._total = np.exp(np.minimum(np.array([self._log_total]), 700.0))  # only ever divides: too small is safe
        centred = self.grid.loss - float((self._weights * self.grid.loss).sum())
        self._centred = centred
        # The sum is a trapezoid sum too: on the strips |L - m| is larger by at most what ln |w| changes and pi.
        farthest = float(np.abs(centred[:, : self.grid.kept]).max()) + 40.0
        missed = float(self._strip_errors(np.zeros(1))[0]) + self._left_out
        self._variance = float((self._weights * centred**2).sum()) * (1 + 1e-9) + missed * farthest**2
        self._spread = math.sqrt(self._variance) * (1 + 1e-9)

    @property
    def origin(self) -> tuple[float, float]:
        """K(theta) and a bound of its error."""
        return self._origin

    def values(self, step: float, nodes: int) -> LineValues:
        """K(theta + i t_k) - K(theta) = N ln(1 + d_k) with d_k = E_theta(e^{i t_k L} - 1), and its error bound; finer
        nodes serve where the line is too high for these.
        """
        if self._strip_errors(np.array([step * nodes]))[0] * float(self.parts.count[0]) > _NEGLIGIBLE:
            finer = self.parts.finer
            if finer is not None:
                return SampledChiSquareLine(finer, self.theta).values(step, nodes)
        t = np.arange(nodes + 1, dtype=np.float64) * step
        weights, loss = self._weights[:, self._window], self.grid.loss[:, self._window]
        d = tilted_differences(weights, loss, self._mean.value, step, nodes)
        size = np.abs(d)
        # The total that the weights are divided by has an error, too.
        error = self._rounding_error(t) + (6 * UNIT_ROUNDOFF * (2 + size) + 1.01 * self._total_error) * size
        error = error + self._quadrature_error(t)
        return line_values(self.parts.count, d, error)

    @cached_property
    def _mean(self) -> MeanLoss:
        return MeanLoss.of(self.grid, self.theta, self._weights, self._total)

    def _rounding_error(self, t: FloatArray) -> FloatArray:
        return difference_rounding(self.grid, self.theta, self._weights, self._mean, t)

    def _quadrature_error(self, t: FloatArray, fractions: FloatArray = _HEIGHTS) -> FloatArray:
        """Bound of the trapezoid errors of d_k and of what is left out, shape (1, nodes + 1).

        It grows with t: each height has that of the next of a few. What is left out changes e^{itL} - 1, at most 2, and
        the total it is divided by: 3 of it, taken as 4.
        """
        heights = fractions * float(t[-1])
        errors = self._strip_errors(heights)
        errors = errors + 4 * (self._left_out + self._omitted) + 2 * heights * self.parts.identity_error / self._total
        return errors[np.minimum(np.searchsorted(heights * (1 + 1e-12), t), len(heights) - 1)][None]

    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def _strip_errors(self, heights: FloatArray) -> FloatArray:
        log_weights = np.broadcast_to(self._log_weights, (len(heights), self._log_weights.shape[1]))
        errors = self.parts.trapezoid_errors(np.full(len(heights), self.theta), log_weights, heights)
        return np.where(np.isnan(errors), np.inf, errors)

    def log_variation(self) -> float:
        """ln V with |M(theta + it)/M(theta)| <= V/t for every t > 0; see the module.

        |psi'/psi| <= |d ln f/ds| + |theta| r B T' + (1 - r) B T'. Where T is larger than on the grid d ln psi/dT <=
        d ln f/dT + B (1 + max(-theta, 0) r) falls, and psi with it from where that is negative: ln psi gains at most
        the sum of its positive values over steps in T. It never is negative where N <= 2, and V is infinite.
        """
        grid, law, h = self.grid, self.parts.law, self.grid.spacing
        kept, r = grid.kept, grid.responsibility[0, : grid.kept]
        s = grid.places[:kept]
        speed = 1 / (1 + np.exp(-(s + 0.5 * h)))
        log_psi = self._log_weights[0, :kept] + np.logaddexp(0.0, -s) - np.log(h * law.spread * r)
        near = np.minimum(1.0, r * np.exp(0.5 * h * law.spread * speed))
        steep = grid.density_slope[0, :kept] + (abs(self.theta) * near + 1) * law.spread * speed
        inside = float(np.sum(h * steep * np.exp(log_psi + 0.5 * h * steep)))
        ends = np.exp(log_psi[[0, -1]] + 0.5 * h * steep[[0, -1]])
        statistic = law.deviation * float(np.logaddexp(0.0, s[0])) * _GAIN_STEPS
        nu, m = 0.5 * law.degrees - 1, law.noncentrality
        curve = 0.5 * m / (nu + 0.5 + np.sqrt(m * statistic + (nu + 0.5) ** 2))
        slope = max(nu, 0.0) / statistic - 0.5 + curve
        slope = slope + law.steepness * (1 + max(-self.theta, 0.0) * float(near[0]))
        if slope[-1] > -1e-9:
            return math.inf
        gain = float((np.maximum(slope[:-1], 0.0) * np.diff(statistic)).sum()) * (1 + 1e-9)
        return math.log(inside + 2 * float(ends[0]) * math.exp(min(gain, 700.0)) + float(ends[1])) + 1e-9

    @cached_property
    def _lines(self) -> list[tuple[FloatArray, FloatArray, float]]:
        """For each eta: ln of the terms at t = 0, the least arg w of each cell, and what does not fall."""
        grid, h, kept = self.grid, self.grid.spacing, self.grid.kept
        widest = min(grid.widest, 0.9 * math.pi / self.parts.law.spread, _LARGEST_ETA)
        found: list[tuple[FloatArray, FloatArray, float]] = []
        for eta in widest * _ETAS:
            strip = strip_at(grid, float(eta))
            if not strip.valid:
                continue
            near, log_weights = strip.near[:kept], self._log_weights[0, :kept]
            flat = 0.5 * h * (1 + 1e-9) * (grid.log_slope[0, :kept] + abs(self.theta) * near)
            terms = log_weights + strip.growth[:kept] * eta**2 + self.theta * strip.log_modulus[:kept] + flat
            turn = np.maximum(strip.argument[:kept] - 0.5 * h * (1 + 1e-9) * near, 0.0)
            raised = max(self.theta, 0.0) * strip.log_raise[:kept] + min(self.theta, 0.0) * strip.log_least[:kept]
            # From the real axis to the line at both ends.
            sides = np.exp((log_weights + flat + strip.growth[:kept] * eta**2 + raised)[[0, -1]]).sum() * eta / h
            alive = terms > terms.max() - 80.0
            lost = float(np.exp(terms[~alive]).sum())
            found.append((terms[alive], turn[alive], float(sides) + self._left_out + lost))
        return found

    @np.errstate(over="ignore", under="ignore")
    def _log_far(self, heights: FloatArray) -> FloatArray:
        """ln of a bound of |M/M(theta)| from each height on, by the lines Im s = -eta and by V/t."""
        with np.errstate(divide="ignore"):
            best = np.minimum(self.log_variation() - np.log(heights), 0.0)
        for terms, turn, constant in self._lines:
            sums = np.exp(terms - heights[:, None] * turn).sum(axis=1) + constant
            best = np.minimum(best, np.log(sums) + 1e-9)
        return best

    @cached_property
    def _looked_up(self) -> tuple[FloatArray, FloatArray]:
        """Heights, and ln of bounds of |M/M(theta)| from each of them on."""
        number, deviation = float(self.parts.count[0]), math.sqrt(self._variance)
        first = 0.2 / (deviation * math.sqrt(number))
        candidates = first * np.geomspace(1.0, 1e7, 100)
        far = self._log_far(candidates)
        enough = np.flatnonzero(far <= -min(_FALL / number, _LEAST_FALL))
        last = float(candidates[enough[0]]) if len(enough) else float(candidates[-1])
        turn = max(_SHARE / ((_RATIO - 1) * self._spread * first), 2.0)
        near = first * _RATIO ** np.arange(math.ceil(math.log(turn) / math.log(_RATIO)), dtype=np.float64)
        near = near[near < last]
        start, stride = float(near[-1]), _SHARE / self._spread
        count = min(math.ceil((last - start) / stride), _MOST_CELLS)
        further = start + stride * np.arange(1, count + 1, dtype=np.float64)
        heights = np.concatenate([near, further])
        loss, weights = self._centred[0, self._window], self._weights[0, self._window]
        rows = max(1, _AT_ONCE // len(loss))
        pieces = (heights[i : i + rows, None] * loss for i in range(0, len(heights), rows))
        modulus = np.abs(np.concatenate([np.exp(1j * phases) @ weights for phases in pieces]))
        modulus += self._rounding_error(heights)[0] + self._quadrature_error(heights, _MANY_HEIGHTS)[0]
        step = np.diff(heights)
        slope = np.minimum(self._spread, heights[1:] * self._variance)
        cells = np.maximum(modulus[:-1], modulus[1:]) + 0.5 * step * slope * (1 + 1e-9)
        far = self._log_far(heights)
        logs = np.append(np.minimum(np.log(np.maximum(cells, 1e-300)), far[:-1]), far[-1])
        return heights, np.minimum(np.maximum.accumulate(logs[::-1])[::-1], 0.0)

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of the sum of ln |M(theta + it')/M(theta)| over all steps, t' >= t, at each height t, and of
        what one step adds.
        """
        places, bounds = self._looked_up
        cell = np.searchsorted(places, heights, side="right") - 1
        looked = np.where(cell < 0, 0.0, bounds[np.clip(cell, 0, len(places) - 1)])
        best = np.minimum(looked, self._log_far(heights))
        return float(self.parts.count[0]) * best, best
