"""A vertical line Re z = theta: tails and profile of the loss S near one threshold, with every error bounded.

Several lines of as many runs are evaluated together: arrays have one entry for each line, R, at the end, and one line
is an array of one.

With kernels 1/z, 1/(z-1), 1/(z(z-1)) the inversion integrals are

    I0(c) = (1/2 pi i) int e^{K(z) - z c} dz/z                 = P0(S > c),  or  -P0(S <= c) for theta < 0
    I1(c) = (1/2 pi i) int e^{K(z) - (z-1) c} dz/(z-1)         = P1(S > c),  or  -P1(S <= c) for theta < 1
    ID(c) = (1/2 pi i) int e^{K(z) - (z-1) c} dz/(z(z-1))      = delta(c)  (theta > 1),  delta(c) - 1  (0 < theta < 1),
                                                                 delta(c) - 1 + e^c  (theta < 0)

The trapezoid sum with nodes t_k = k h is, exactly, sum_m e^{theta m T} I(c + m T) with T = 2 pi/h (Poisson). The alias
terms m != 0 are moved to a tilt s further out, where |I_s(x)| <= e^{K(s) - s x} (Chernoff); the poles passed on the way
are known and subtracted.
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.composition.contour.line_runs import LineRuns
from service.privacy.composition.readings import Integrals
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import FourierSums

_POLES_ROW = np.array([0, 1, 2, 2])
_POLES_AT = np.array([[0.0], [1.0], [0.0], [1.0]])
_POLES_RESIDUE = np.array([[1.0], [1.0], [-1.0], [1.0]])
_POLES_SCALED = np.array([[[0.0]], [[0.0]], [[1.0]], [[0.0]]])
"""The poles of the kernels: integral (tail under H0, tail under H1, profile), place, residue, whether e^c scales it."""

_SCALE_POLES = np.array([[[0.0]], [[1.0]], [[1.0]], [[0.0]]])
"""Integral q carries the scale e^{K(theta) - (theta - pole) c}; the fourth is the density under H0."""

_ALIAS_DISTANCES = np.array([0.4, 0.9, 1.6, 2.6, 4.0, 5.5, 7.5, 10.0, 13.0])
_FEW_ALIAS_DISTANCES = np.array([2.2, 4.5, 8.0])
"""Distances |s - theta| of the Chernoff tilts, over 1/deviation of the tilted loss; few serve near-Gaussian losses."""

_SHORT_PERIOD = 14.0
"""Standard deviations: a period that the few tilts bring below this needs no more tilts."""

_HEIGHTS_TRIED = np.array([1.0, 1.15, 1.35, 1.7])
_HEIGHT_ROUNDS = 12
"""Multiples of a Gaussian loss's height at which a line may end, and how often they are raised."""

_BLOCK_RATIO = 8.0
_BLOCKS = np.array([1.0, _BLOCK_RATIO, _BLOCK_RATIO**2])
_BLOCK_ROUNDS = 5
"""Blocks of heights [t, 8t] behind the last node are bounded two at a time."""

_MOST_OF_A_POLE = 4.0
"""Times the sum of the sizes of a line's terms, which bounds sums and, nearly, integrals: their difference is less."""


_AliasSide = tuple[FloatArray, FloatArray, FloatArray]
"""Tilts s on one side, s - theta, and what the exponents of their bounds have in common; (S, R)."""


class ContourLine:
    """The nodes of lines and the bounds of what they leave out; `integrals` evaluates them at any thresholds.

    Thresholds of one line are any array; of several, those of an array (..., R) are one for each.
    """

    def __init__(self, runs: LineRuns, center: FloatArray, deviation: FloatArray, reach: FloatArray) -> None:
        """Lines at `runs.theta`, laid out for thresholds center +- reach (valid, if wider, beyond); all of shape (R,).

        `center` = K'(theta) and `deviation` = sqrt K''(theta) steer the layout; nothing is proved from them.
        """
        self.theta, self.center, self.deviation = runs.theta, center, deviation
        self._lay_out(runs, center - reach, center + reach)
        self._prepare_aliases()
        line = runs.values(self.step, self.counts)
        t = self.step[:, None] * np.arange(self.nodes + 1)
        z = self.theta[:, None] + 1j * t
        kernels = np.stack([1 / z, 1 / (z - 1), 1 / (z * (z - 1))])
        # What lies beyond a line's own nodes is theirs who need more.
        own = np.arange(self.nodes + 1) <= self.counts[:, None]
        factor = np.where(own, (self.step / math.pi)[:, None], 0.0)
        factor[:, 0] *= 0.5
        # e^{K(z) - K(theta)} at the nodes, turned so that thresholds near the center need small phases only.
        log_size = np.where(own, line.difference.real, -np.inf)
        value = np.where(own, np.exp(line.difference - 1j * t * center[:, None]), 0.0)
        weighted = value * factor
        self._sums = FourierSums(np.concatenate([kernels * weighted, [weighted]]), self.step)
        sizes = np.abs(kernels)
        size = sizes * (np.exp(np.maximum(log_size, -745.0)) * factor)
        # |F_true - F| <= |F| (e^error - 1), which keeps its digits for small errors and never overflows into 0 * inf.
        error = np.where(own, line.error, 0.0)
        small = np.exp(log_size) * np.expm1(np.minimum(error, 1.0))
        uncertain = np.where(error < 1, small, np.exp(log_size + error))
        self._node_error = np.sum(sizes * (uncertain * factor), axis=-1) * (1 + 1e-9)
        self._size = size.sum(axis=-1)
        self._phase_size = (size * t).sum(axis=-1)
        self._log_dropped = runs.log_dropped
        # The transform of what is summed has no frozen part: that of the run has, at every node.
        frozen = np.exp(runs.log_frozen(self.theta))
        self._frozen = frozen * (1 + np.sum(sizes * factor, axis=-1)) * (1 + 1e-9)
        ends = np.zeros_like(self.theta)
        self._frozen_poles = 2 * (np.exp(runs.log_frozen(ends)) + np.exp(runs.log_frozen(ends + 1)))
        self._truncation = _truncation(runs, self.step, (self.counts + 1) * self.step)

    def _lay_out(self, runs: LineRuns, low: FloatArray, high: FloatArray) -> None:
        """Choose the step h (aliases below e^-goal over [low, high]) and the nodes (majorant below e^-goal)."""
        theta, sd = self.theta, self.deviation
        self.value, self.value_error = runs.origin
        goal = 44.0 + np.log1p(np.abs(theta) * sd) + np.log1p(np.abs(theta - 1) * sd)
        for distances in (_FEW_ALIAS_DISTANCES, _ALIAS_DISTANCES):
            offsets = np.concatenate([-distances[::-1], distances])[:, None] / sd
            self._tilts = theta + offsets
            self._log_bound = runs.log_bounds(self._tilts)
            reach = self._log_bound - self.value - offsets * np.where(offsets > 0, low, high) + goal
            periods = reach / np.abs(offsets)
            period = np.maximum(periods[: len(distances)].min(axis=0), periods[len(distances) :].min(axis=0))
            if (period < _SHORT_PERIOD * sd).all():
                break
        # Where no tilt further out can be evaluated the aliases stay unbounded, and the readings say so.
        period = np.maximum(period, 8.0 * sd)
        self.step = 2 * math.pi / np.where(np.isfinite(period), np.minimum(period, 1e4 * sd), 1e4 * sd)
        most, few = runs.most_nodes
        heights = _height(runs, sd, goal, most * self.step)
        self.ends = np.isfinite(heights) & (heights <= most * self.step) & runs.is_affordable(heights, self.step)
        """Whether the transform becomes next to nothing within reach: else no line of the run has many digits."""
        nodes = np.where(self.ends, heights / self.step, few)
        self.counts = np.maximum(4, np.ceil(nodes)).astype(np.intp)
        self.nodes = int(self.counts.max())

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Enclosures of I0(c), I1(c), ID(c) for each threshold c."""
        c = thresholds.reshape(-1, len(self.theta))
        shift = c - self.center
        found = self._sums.real(shift)
        sums, density = found[:3], found[3]
        pole = _SCALE_POLES[:3]
        log_scale = self.value - (self.theta - pole) * c
        alias, known, known_size = self._aliases(c, log_scale)
        # What sums lose, and 60 u for a node's kernel, exponentials and phase.
        arithmetic = (self._sums.rounding(len(c)) + 60) * UNIT_ROUNDOFF * self._size
        # Of t, of its products with the center and with the shift, and of the shift itself.
        phases = 4 * UNIT_ROUNDOFF * (np.abs(self.center) + 2 * np.abs(shift)) * self._phase_size[:, None]
        error = (self._node_error + arithmetic + self._truncation + self._frozen)[:, None] + phases + alias
        # The moments are those of the law cut at far jumps: what it leaves out is added back as an uncertainty.
        null, alternative = self._log_dropped
        left_out = np.broadcast_to(np.stack([null, alternative, alternative + math.log(2)])[:, None], error.shape)
        # ID is E0(e^c - w)_+ where theta < 0; else (w - e^c)_+ <= w keeps the mass of H0 out of it.
        mirrored = np.where(self.theta < 0, np.logaddexp(alternative, null + c), left_out[2])
        left_out = np.stack([left_out[0], left_out[1], mirrored])
        # Pole terms are exponentials of rounded exponents, for a law of mass 1 instead of that of the cut law.
        exponents = np.abs(log_scale) + np.abs(c) + np.abs(self._pole_logs).max(axis=0)
        pole_error = 1e-14 + 4 * UNIT_ROUNDOFF * exponents + 2 * np.exp(np.logaddexp(null, alternative))
        pole_error = pole_error + self._frozen_poles
        error = error + pole_error * known_size + np.exp(left_out - log_scale)
        # e^{K(theta)} scales the sums, not the pole terms: its error acts on what was summed, before anything cancels.
        sizes = np.abs(self.value) + np.abs((self.theta - pole) * c)
        scale_error = self.value_error + 4 * UNIT_ROUNDOFF * sizes + 1e-15
        margin = error + (np.abs(sums) + error) * np.expm1(scale_error)
        lower, upper = sums - known - margin, sums - known + margin
        lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
        whole = (3, *thresholds.shape)
        ends = lower.reshape(whole), upper.reshape(whole)
        return Integrals(log_scale.reshape(whole), *ends, density.reshape(thresholds.shape))

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """I0, I1, ID and the P0-density of S, shape (4, ...), and ln of their scales: to find roots, without bounds."""
        c = thresholds.reshape(-1, len(self.theta))
        sums = self._sums.real(c - self.center)
        log_scale = self.value - (self.theta - _SCALE_POLES) * c
        terms = self._pole_terms(c, log_scale)
        # A pole that no alias term is moved across is in no sum, nor is one beyond what a sum and its integral can be.
        within = self._crossing(c)[1] & (np.abs(terms) <= _MOST_OF_A_POLE * self._size[_POLES_ROW, None])
        sums[:3] -= _by_integral(np.where(within, terms, 0.0))
        whole = (4, *thresholds.shape)
        return sums.reshape(whole), log_scale.reshape(whole)

    def _pole_terms(self, c: FloatArray, log_scale: FloatArray) -> FloatArray:
        """What each pole adds to the trapezoid sum of its integral, relative to that integral's scale; (4, M, R)."""
        exponents = _POLES_SCALED * c - log_scale[_POLES_ROW] + self._pole_logs[:, None]
        return self._pole_signs[:, None] * np.exp(exponents)

    def _prepare_aliases(self) -> None:
        """What the bounds of the alias terms need of the tilts, of the period and of the poles."""
        period = 2 * math.pi / self.step
        distance = np.abs(self._tilts - self.theta)
        base = self._log_bound - self.value - distance * period - np.log(-np.expm1(-distance * period))
        half = len(base) // 2
        sides = (slice(half, None), slice(half))
        self._alias_sides = [(self._tilts[side], self._tilts[side] - self.theta, base[side]) for side in sides]
        gaps = _POLES_AT - self.theta
        self._pole_signs, self._pole_is_right = -np.sign(gaps) * _POLES_RESIDUE, gaps > 0
        # ln 1/(e^{|gap| T} - 1): either factor alone may leave the range of doubles.
        self._pole_logs = -np.abs(gaps) * period - np.log(-np.expm1(-np.abs(gaps) * period))

    def _aliases(self, c: FloatArray, log_scale: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bound of the alias terms, the pole terms known among them and these terms' sizes, shape (3, M, R) each.

        All are relative to e^{log_scale}. Known are the poles between theta and the tilt s of the best Chernoff bound.
        """
        bound, crossed = self._crossing(c)
        terms = np.where(crossed, self._pole_terms(c, log_scale), 0.0)
        return bound, _by_integral(terms), _by_integral(np.abs(terms))

    def _crossing(self, c: FloatArray) -> tuple[FloatArray, BoolArray]:
        """The best Chernoff bound of the alias terms, (M, R), and the poles on the way to its tilts, (4, M, R)."""
        bound_right, right = _best_tilts(self._alias_sides[0], c)
        bound_left, left = _best_tilts(self._alias_sides[1], c)
        poles, is_right = _POLES_AT[:, None], self._pole_is_right[:, None]
        crossed = np.where(is_right, right > poles, left < poles)
        return bound_right + bound_left, crossed


def _by_integral(poles: FloatArray) -> FloatArray:
    """The poles of each integral added up: (3, M, R) from (4, M, R)."""
    return np.stack([poles[0], poles[1], poles[2] + poles[3]])


def _best_tilts(side: _AliasSide, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least Chernoff bound of the alias terms on one side, and the tilt it is taken at, for each threshold."""
    tilts, offset, base = side
    exponent = base[:, None] - offset[:, None] * c
    best = exponent.argmin(axis=0)
    least = np.take_along_axis(exponent, best[None], axis=0)[0]
    chosen = np.take_along_axis(np.broadcast_to(tilts[:, None], exponent.shape), best[None], axis=0)[0]
    return np.exp(least) * (1 + 1e-9), chosen


def _height(runs: LineRuns, deviation: FloatArray, goal: FloatArray, highest: FloatArray) -> FloatArray:
    """Heights above which the majorant is about e^-goal; infinite where a few tries find none up to the highest: they
    steer, nothing rests on them.
    """
    heights = _HEIGHTS_TRIED[:, None] * np.sqrt(2 * goal) / deviation
    found = np.full_like(goal, np.inf)
    for tries in range(_HEIGHT_ROUNDS):
        reached = -runs.log_majorants(heights)[0]
        new = np.isinf(found) & (reached[-1] > goal)
        found = np.where(new, _first_at(goal, reached, heights), found)
        # Longer strides after a few: transforms that fall slowly end at a hundred times the height or more.
        strides = (_HEIGHTS_TRIED if tries < 3 else _HEIGHTS_TRIED**2)[:, None]
        more = np.isinf(found) & (heights[-1] <= highest)
        if not more.any():
            break
        heights = np.where(more, heights[-1] * strides, heights)
    return found


def _first_at(goal: FloatArray, reached: FloatArray, heights: FloatArray) -> FloatArray:
    """The heights at which a goal is reached, by linear interpolation; `reached` rises; (T, R)."""
    above = np.argmax(reached > goal, axis=0)
    after, before = above, np.maximum(above - 1, 0)
    lines = np.arange(len(goal))
    low, high = reached[before, lines], reached[after, lines]
    share = np.where(high > low, (goal - low) / np.where(high > low, high - low, 1.0), 0.0)
    return heights[before, lines] + np.clip(share, 0.0, 1.0) * (heights[after, lines] - heights[before, lines])


def _truncation(runs: LineRuns, step: FloatArray, first: FloatArray) -> FloatArray:
    """Bound of the nodes from height `first` on, for the three kernels, relative to their scales; shape (3, R).

    |F| is below a majorant that decreases, so blocks [t, 8t] contribute (1/pi) e^{U(t)} (ln 8 + h/t); beyond the
    last block one step's decay V/t, or the Gaussian part's, closes the sum. The third kernel gains a factor 1/t.
    """
    log_variation, squares = runs.log_variation, runs.gaussian_mu_squared
    plain, profile, height = np.zeros_like(first), np.zeros_like(first), first
    tail = np.full_like(first, np.inf)
    for _ in range(_BLOCK_ROUNDS):
        heights = height * _BLOCKS[:, None]
        whole, single = runs.log_majorants(heights)
        block = np.exp(whole[:-1]) * (math.log(_BLOCK_RATIO) + step / heights[:-1]) / math.pi
        plain, profile = plain + block.sum(axis=0), profile + (block / heights[:-1]).sum(axis=0)
        height, last = heights[-1], whole[-1]
        closing: FloatArray = last - single[-1] + log_variation - np.log(height)
        with_noise = last - np.log(np.where(squares > 0, np.minimum(squares * height**2, 1.0), 1.0))
        closing = np.where(squares > 0, np.minimum(closing, with_noise), closing)
        tail = np.exp(closing) * (1 + step / height) / math.pi
        if (closing < -100).all():
            break
    return np.stack([plain + tail, plain + tail, profile + tail / height]) * (1 + 1e-9)
