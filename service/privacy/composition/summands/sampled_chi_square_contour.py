"""Sampled steps with a chi-square statistic on a contour Re z = theta: values of K, errors, and majorants of |M|.

The statistic T, its density f_T, the likelihood ratio w, its slope constant B and the node variable s are those of
`sampled_chi_square_grid.py`; L = ln w is the loss of a step and r = p e^v/w the responsibility. M(z) = E0 e^{zL} is the
transform of one step under H0, and K the sum of ln M over all steps. E_theta is the expectation under the law tilted by
e^{theta L}, so that M(theta + it)/M(theta) = E_theta e^{itL}. Three bounds hold for its modulus at all heights from t
on:

    values at heights t_k. With m the mean, |E_theta e^{it(L - m)}| changes per unit of t by at most
    min(sqrt(Var L), t Var L). Between two heights it rises by at most that over half of their distance;
    the integral on Im s = -eta, where arg w >= 0. It is the sum over cells of weights e^{Q eta^2} |w/w(s)|^theta
    e^{-t arg w}, which falls with t. Q bounds the growth of the density (`sampled_chi_square_strips.py`);
    V/t. Integration by parts bounds t |M| by |psi| at both ends + int |psi'|, psi = f_T w^theta/(r B).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.abstract import ValuesOnContour
from service.privacy.composition.summands.sampled_chi_square import TruncatedSampledChiSquare
from service.privacy.composition.summands.sampled_chi_square_grid import mean_slope
from service.privacy.composition.summands.trapezoid_contour import StripField, TrapezoidOnContour
from service.privacy.numerics.arrays import FloatArray, IndexArray

_ETAS = np.array([0.05, 0.09, 0.15, 0.25, 0.4, 0.6, 0.8])
"""Heights of the paths of majorants, over the largest height that turns w by less than pi."""
_LARGEST_ETA = 6.0
_MANY_HEIGHTS = np.geomspace(1e-4, 1.0, 20)
"""Heights, over the highest, at which trapezoid errors are evaluated; the errors increase with the height."""
_NEGLIGIBLE = 1e-13
"""Trapezoid error of the whole run, without that on the real axis, below which no finer nodes are needed."""
_FALL, _LEAST_FALL = 60.0, 1.5
"""Decrease (nats) of the majorant of all steps on the heights with values, and the maximal decrease for one step."""
_RATIO, _SHARE = 1.08, 0.15
"""Ratio of neighbouring heights with values near the axis, and their distance times E|L - m| further up."""
_MOST_CELLS = 3_000
_AT_ONCE = 200_000
"""Number of heights times nodes evaluated together."""
_GAIN_STEPS = np.geomspace(1.0, 1e4, 400)


class SampledChiSquareOnContour(TrapezoidOnContour[TruncatedSampledChiSquare]):
    """Equal steps with a chi-square statistic under the law tilted by e^{theta L}, on the contour Re z = theta.

    L is the loss of one step.
    """

    @property
    @override
    def half_widths(self) -> FloatArray:
        return self.law.half_widths

    @override
    def field(self, height: FloatArray) -> StripField:
        """Return bounds of the tilted integrand on strips of half-width `height`, shape (strips, 1)."""
        theta, strips = float(self.theta[0]), [self.law.strip(float(a)) for a in height[:, 0]]
        near = np.array([[strip.near] for strip in strips])
        return StripField(
            theta * np.array([[strip.log_modulus] for strip in strips]),
            np.array([[strip.argument] for strip in strips]),
            np.array([[max(theta, 0.0) * strip.log_raise + min(theta, 0.0) * strip.log_least] for strip in strips]),
            self.law.grid.log_slope + abs(theta) * near,
            near,
            near,
            np.array([[strip.density_growth] for strip in strips]),
        )

    @override
    @np.errstate(over="ignore", invalid="ignore", under="ignore")
    def strip_errors(self, heights: FloatArray, q: FloatArray) -> FloatArray:
        return super().strip_errors(heights, q)

    @override
    def values(self, step: float | FloatArray, nodes: int, last: IndexArray | None = None) -> ValuesOnContour:
        """Return K(theta + i k step) - K(theta) for k = 0..nodes with error bounds; see `TrapezoidOnContour.values`.

        K is the log-moment function of all steps, and theta the tilt. `last` is the largest k that is needed, or None
        for all. If the contour is too high for the law's grid, a grid with half the node distance serves.
        """
        missed = np.fmin.reduce(self.strip_errors(np.array([[nodes]]) * step, self.half_widths))
        if self.law.over_run(missed - self._at_origin).max() > _NEGLIGIBLE and self.law.finer is not None:
            return SampledChiSquareOnContour(self.law.finer, float(self.theta[0])).values(step, nodes)
        return super().values(step, nodes, last)

    @property
    @override
    def variation_terms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Terms of `TrapezoidOnContour.log_variations`, with derivatives of the loss L in the node variable.

        The first two arrays, of shape (1, nodes), are ln L' with L' = r B T', and a bound (1 - r) B T' + |T''/T'| of
        |L''/L'|. The third, of shape (1,), is the variation of psi = f w^theta/(r B) beyond the first node relative to
        psi at this node. T is the statistic with the density f, -B is the slope of the exponent v in T, and r = p e^v/w
        is the responsibility with the sampling rate p.

        For T above the grid, d ln psi/dT <= d ln f/dT + B (1 + max(-theta, 0) r). This bound falls with T, and psi
        falls from where the bound is negative. So ln psi gains at most the sum of the positive values of the bound over
        steps in T. If B is at least 1/2, the bound is never negative, and V is infinite.
        """
        law, s, r, half = (
            self.law.grid.law,
            self.law.grid.points,
            self.law.grid.responsibility,
            0.5 * self.law.grid.spacing,
        )
        speed = 1 / (1 + np.exp(-(s + half)))
        bent = law.spread * speed + 1 / (1 + np.exp(np.minimum(s - half, 700.0)))
        statistic = law.deviation * float(np.logaddexp(0.0, s[0])) * _GAIN_STEPS
        near = min(1.0, float(r[0, 0]) * math.exp(half * law.spread))
        slope = max(0.5 * law.degrees - 1, 0.0) / statistic - 0.5 + mean_slope(law, statistic)[1]
        slope = slope + law.steepness * (1 + max(-float(self.theta[0]), 0.0) * near)
        gain = float((np.maximum(slope[:-1], 0.0) * np.diff(statistic)).sum()) * (1 + 1e-9)
        first = 2 * math.exp(min(gain, 700.0)) if slope[-1] <= -1e-9 else math.inf
        return np.log(law.spread * r) - np.logaddexp(0.0, -s), bent[None], np.array([first])

    @override
    def build_majorants(self, height: FloatArray, center: FloatArray | None) -> ChiSquareMajorants:
        return self._all_majorants

    @cached_property
    def _all_majorants(self) -> ChiSquareMajorants:
        return ChiSquareMajorants(self)


class ChiSquareMajorants:
    """Majorants of |M(theta + it')/M(theta)| over t' >= t, for the transform M of one step.

    theta is the tilt of the contour Re z = theta. The majorants are the best of values at many heights, integrals on
    the paths Im s = -eta, and the bound V/t with V the total variation of the integrand. s is the node variable, and t
    a height. The module docstring of `sampled_chi_square_contour.py` proves all three.
    """

    eta = np.zeros((1, 1))

    def __init__(self, contour: SampledChiSquareOnContour) -> None:
        self._contour = contour
        self._log_variation = contour.log_variation()

    @cached_property
    def _paths(self) -> list[tuple[FloatArray, FloatArray, float]]:
        """Terms of the integral on each path Im s = -eta: `(log_terms, turns, remainder)`.

        s is the node variable. `log_terms` are ln of the terms of the cells at height t = 0, and `turns` the least arg
        w of each cell, for the likelihood ratio w. At the height t the integral is at most sum e^{log_terms - t turns}
        + remainder. Both arrays have one entry for each cell that matters.
        """
        contour, law, grid = self._contour, self._contour.law, self._contour.law.grid
        widest = min(grid.widest, 0.9 * math.pi / grid.law.spread, _LARGEST_ETA)
        etas = np.array([[eta] for eta in widest * _ETAS if law.strip(float(eta)).valid]).reshape(-1, 1)
        if not len(etas):
            return []
        field, half = contour.field(etas), 0.5 * grid.spacing
        flat = contour.log_tilted_weights + half * field.size_slope + field.density_growth * etas[:, None] ** 2
        # Vertical paths from the real axis to Im s = -eta at the first and last node.
        sides = np.exp(grid.at_ends(flat + field.log_largest)[:, 0]).sum(axis=-1) * etas[:, 0] / grid.spacing
        all_terms, all_turns = flat + field.log_size, np.maximum(field.turn - half * field.turn_slope, 0.0)
        found: list[tuple[FloatArray, FloatArray, float]] = []
        for terms, turn, side in zip(all_terms[:, 0], all_turns[:, 0], sides, strict=True):
            alive = terms > terms.max() - 80.0
            found.append((terms[alive], turn[alive], float(side + contour.end_error[0] + np.exp(terms[~alive]).sum())))
        return found

    @np.errstate(over="ignore", under="ignore")
    def _log_far(self, heights: FloatArray) -> FloatArray:
        """Return ln of an upper bound of |M(theta + it')/M(theta)| for t' >= t, from the paths Im s = -eta and V/t.

        The result has the shape (heights,) of the heights t. M is the transform of one step, and theta the tilt.
        """
        with np.errstate(divide="ignore"):
            best = np.minimum(self._log_variation - np.log(heights), 0.0)
        for terms, turn, constant in self._paths:
            sums = np.exp(terms - heights[:, None] * turn).sum(axis=1) + constant
            best = np.minimum(best, np.log(sums) + 1e-9)
        return best

    def _trapezoid_error(self, heights: FloatArray) -> FloatArray:
        """Return bounds of the trapezoid errors of M(theta + it)/M(theta) at increasing heights t, shape (heights,).

        M is the transform of one step, and theta the tilt of the contour. The bound increases with t. The bound is
        evaluated at a few heights, and each t takes the bound of the next height evaluated.
        """
        few = heights[-1] * _MANY_HEIGHTS
        errors = np.fmin.reduce(self._contour.strip_errors(few[:, None], self._contour.half_widths))[:, 0]
        return errors[np.minimum(np.searchsorted(few * (1 + 1e-12), heights), len(few) - 1)]

    @cached_property
    def _looked_up(self) -> tuple[FloatArray, FloatArray]:
        """Table of increasing heights t, and of ln of upper bounds of |M(theta + it')/M(theta)| for t' >= t.

        M is the transform of one step, and theta the tilt. Both arrays have one axis of the same length.
        """
        contour, window = self._contour, self._contour.window
        number, left_out = float(contour.law.count[0]), float((contour.end_error + contour.omitted)[0])
        loss, weights = contour.grid.loss[0], contour.tilted_weights[0]
        centred = loss - float(weights @ loss)
        # The sum is a trapezoid sum too. On the strips |L - m| exceeds its real value by the change of ln |w| and pi.
        farthest = float(np.abs(centred).max()) + 40.0
        missed = float(self._trapezoid_error(np.zeros(1))[0]) + left_out
        variance = float(weights @ centred**2) * (1 + 1e-9) + missed * farthest**2
        spread = math.sqrt(variance) * (1 + 1e-9)
        first = 0.2 / (spread * math.sqrt(number))
        candidates = first * np.geomspace(1.0, 1e7, 100)
        far = self._log_far(candidates)
        enough = np.flatnonzero(far <= -min(_FALL / number, _LEAST_FALL))
        last = float(candidates[enough[0]]) if len(enough) else float(candidates[-1])
        turn = max(_SHARE / ((_RATIO - 1) * spread * first), 2.0)
        near = first * _RATIO ** np.arange(math.ceil(math.log(turn) / math.log(_RATIO)), dtype=np.float64)
        near = near[near < last]
        start, stride = float(near[-1]), _SHARE / spread
        count = min(math.ceil((last - start) / stride), _MOST_CELLS)
        further = start + stride * np.arange(1, count + 1, dtype=np.float64)
        heights = np.concatenate([near, further])
        rows = max(1, _AT_ONCE // len(loss[window]))
        pieces = (heights[i : i + rows, None] * centred[window] for i in range(0, len(heights), rows))
        modulus = np.abs(np.concatenate([np.exp(1j * phases) @ weights[window] for phases in pieces]))
        modulus += contour.rounding_error(heights)[0] + self._trapezoid_error(heights) + 4 * left_out
        slope = np.minimum(spread, heights[1:] * variance)
        cells = np.maximum(modulus[:-1], modulus[1:]) + 0.5 * np.diff(heights) * slope * (1 + 1e-9)
        far = self._log_far(heights)
        logs = np.append(np.minimum(np.log(np.maximum(cells, 1e-300)), far[:-1]), far[-1])
        return heights, np.minimum(np.maximum.accumulate(logs[::-1])[::-1], 0.0)

    def log_bounds(self, heights: FloatArray) -> FloatArray:
        """Return ln of the best upper bound of |M(theta + it')/M(theta)| over t' >= t at each height t, (H, 1, 1).

        M is the transform of one step, and theta the tilt of the contour Re z = theta. H is the number of heights.
        """
        heights = heights[:, 0]
        known_heights, bounds = self._looked_up
        cell = np.searchsorted(known_heights, heights, side="right") - 1
        looked = np.where(cell < 0, 0.0, bounds[np.clip(cell, 0, len(known_heights) - 1)])
        return np.minimum(looked, self._log_far(heights))[:, None, None]
