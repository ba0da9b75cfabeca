"""One vertical line Re z = theta: tails and profile of the loss S near one threshold, with every error bounded.

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

from service.privacy.composition.contour.loss_transform import LossTransform, TransformLine
from service.privacy.composition.readings import Integrals
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import FourierSums

_POLES_ROW = np.array([0, 1, 2, 2])
_POLES_AT = np.array([0.0, 1.0, 0.0, 1.0])
_POLES_RESIDUE = np.array([1.0, 1.0, -1.0, 1.0])
_POLES_SCALED = np.array([[0.0], [0.0], [1.0], [0.0]])
"""The poles of the kernels: integral (tail under H0, tail under H1, profile), place, residue, whether e^c scales it."""

_POLES_SUM = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])
"""Adds up the poles of each integral."""

_SCALE_POLES = np.array([[0.0], [1.0], [1.0], [0.0]])
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

_LARGEST_NODES = 200_000
_LARGEST_WORK = 10_000_000
"""Bounds of a line's nodes, and of its nodes times the array elements of one evaluation of K: they bound its time."""

_MOST_WORK = 1_000_000_000
"""The same with the nodes of its sampled Laplace steps that its height takes: about a second."""

_FEW_NODES, _LITTLE_WORK = 4_000, 2_500_000
"""Nodes and work of a line that would need more than that, what it leaves out being too much for many digits whatever
it costs; and of all lines of runs of Gaussian steps.
"""


_FEWEST_OF_MANY, _MANY_STEPS = 250, 300
"""Nodes of a line that are always allowed where there are more different steps than this, each of which adds work."""


_MOST_OF_A_POLE = 4.0
"""Times the sum of the sizes of a line's terms, which bounds sums and, nearly, integrals: their difference is less."""


_AliasSide = tuple[FloatArray, FloatArray, FloatArray]
"""Tilts s on one side, s - theta, and what the exponents of their bounds have in common."""


class ContourLine:
    """The nodes of one line and the bounds of what they leave out; `integrals` evaluates it at any thresholds."""

    def __init__(self, transform: LossTransform, theta: float, center: float, deviation: float, reach: float) -> None:
        """A line at `theta`, laid out for thresholds center +- reach (it stays valid, if wider, beyond).

        `center` = K'(theta) and `deviation` = sqrt K''(theta) steer the layout; nothing is proved from them.
        """
        self.theta, self.center, self.deviation = theta, center, deviation
        run = TransformLine(transform, theta)
        self._lay_out(transform, run, center - reach, center + reach)
        self._prepare_aliases()
        line = run.values(self.step, self.nodes)
        z = theta + 1j * self.t
        kernels = np.stack([1 / z, 1 / (z - 1), 1 / (z * (z - 1))])
        factor = np.full(self.nodes + 1, self.step / math.pi)
        factor[0] *= 0.5
        # e^{K(z) - K(theta)} at the nodes, turned so that thresholds near the center need small phases only.
        log_size = line.difference.real
        value = np.exp(line.difference - 1j * self.t * self.center)
        weighted = value * factor
        self._sums = FourierSums(np.concatenate([kernels * weighted, [weighted]]), self.step)
        size = np.abs(kernels) * (np.exp(np.maximum(log_size, -745.0)) * factor)
        # |F_true - F| <= |F| (e^error - 1), which keeps its digits for small errors and never overflows into 0 * inf.
        small = np.exp(log_size) * np.expm1(np.minimum(line.error, 1.0))
        uncertain = np.where(line.error < 1, small, np.exp(log_size + line.error))
        self._node_error = np.sum(np.abs(kernels) * (uncertain * factor), axis=1) * (1 + 1e-9)
        self._size = size.sum(axis=1)
        self._phase_size = (size * self.t).sum(axis=1)
        self._log_dropped = transform.log_dropped
        # The transform of what is summed has no frozen part: that of the run has, at every node.
        frozen = math.exp(transform.log_frozen(theta))
        self._frozen = frozen * (1 + np.sum(np.abs(kernels) * factor, axis=1)) * (1 + 1e-9)
        self._frozen_poles = 2 * (math.exp(transform.log_frozen(0.0)) + math.exp(transform.log_frozen(1.0)))
        self._truncation = _truncation(run, transform.gaussian_mu_squared, self.step, (self.nodes + 1) * self.step)

    def _lay_out(self, transform: LossTransform, run: TransformLine, low: float, high: float) -> None:
        """Choose the step h (aliases below e^-goal over [low, high]) and the nodes (majorant below e^-goal)."""
        theta, sd = self.theta, self.deviation
        self.value, self.value_error = run.origin()
        goal = 44.0 + math.log1p(abs(theta) * sd) + math.log1p(abs(theta - 1) * sd)
        for distances in (_FEW_ALIAS_DISTANCES, _ALIAS_DISTANCES):
            offsets = np.concatenate([-distances[::-1], distances]) / sd
            self._tilts = theta + offsets
            cumulants = transform.cumulants(self._tilts)
            self._log_bound = np.where(np.isfinite(cumulants.error), cumulants.value + cumulants.error, np.inf)
            reach = self._log_bound - self.value - offsets * np.where(offsets > 0, low, high) + goal
            periods = reach / np.abs(offsets)
            period_left, period_right = float(periods[: len(distances)].min()), float(periods[len(distances) :].min())
            if max(period_left, period_right) < _SHORT_PERIOD * sd:
                break
        # Where no tilt further out can be evaluated the aliases stay unbounded, and the readings say so.
        period = max(period_right, period_left, 8.0 * sd)
        self.step = 2 * math.pi / (min(period, 1e4 * sd) if math.isfinite(period) else 1e4 * sd)
        least = _FEWEST_OF_MANY if transform.different > _MANY_STEPS else 16
        few = max(least, min(_FEW_NODES, _LITTLE_WORK // transform.work))
        # Runs of Gaussian steps have cheaper ways where a line is long: other cuts, and bent contours.
        allowed = max(16, min(_LARGEST_NODES, _LARGEST_WORK // transform.work)) if transform.is_mixed else few
        height = _height(run, sd, goal, allowed * self.step)
        self.ends = (
            height is not None and height <= allowed * self.step and height / self.step * run.work(height) <= _MOST_WORK
        )
        """Whether the transform becomes next to nothing within reach: else no line of the run has many digits."""
        nodes = height / self.step if height is not None and self.ends else few
        self.nodes = max(4, math.ceil(nodes))
        self.t = np.arange(self.nodes + 1) * self.step

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Enclosures of I0(c), I1(c), ID(c) for each threshold c, shape (C,)."""
        c = thresholds
        shift = c - self.center
        found = self._sums.real(shift)
        sums, density = found[:3], found[3]
        pole = _SCALE_POLES[:3]
        log_scale = self.value - (self.theta - pole) * c
        alias, known, known_size = self._aliases(c, log_scale)
        # What sums lose, and 60 u for a node's kernel, exponentials and phase.
        arithmetic = (self._sums.rounding(len(c)) + 60) * UNIT_ROUNDOFF * self._size
        # Of t, of its products with the center and with the shift, and of the shift itself.
        phases = 4 * UNIT_ROUNDOFF * (abs(self.center) + 2 * np.abs(shift)) * self._phase_size[:, None]
        error = (self._node_error + arithmetic + self._truncation + self._frozen)[:, None] + phases + alias
        # The moments are those of the law cut at far jumps: what it leaves out is added back as an uncertainty.
        null, alternative = self._log_dropped
        constant = np.zeros(len(c))
        left_out = np.stack([constant + null, constant + alternative, constant + alternative + math.log(2)])
        if self.theta < 0:  # ID is E0(e^c - w)_+ there; else (w - e^c)_+ <= w keeps the mass of H0 out of it
            left_out[2] = np.logaddexp(alternative, null + c)
        # Pole terms are exponentials of rounded exponents, for a law of mass 1 instead of that of the cut law.
        exponents = np.abs(log_scale) + np.abs(c) + np.abs(self._pole_logs).max()
        pole_error = 1e-14 + 4 * UNIT_ROUNDOFF * exponents + 2 * math.exp(np.logaddexp(null, alternative))
        pole_error = pole_error + self._frozen_poles
        error = error + pole_error * known_size + np.exp(left_out - log_scale)
        # e^{K(theta)} scales the sums, not the pole terms: its error acts on what was summed, before anything cancels.
        scale_error = self.value_error + 4 * UNIT_ROUNDOFF * (abs(self.value) + np.abs((self.theta - pole) * c)) + 1e-15
        margin = error + (np.abs(sums) + error) * np.expm1(scale_error)
        lower, upper = sums - known - margin, sums - known + margin
        lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
        return Integrals(log_scale, lower, upper, density)

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """I0, I1, ID and the P0-density of S, shape (4, C), and ln of their scales: no error bounds, to find roots."""
        c = thresholds
        sums = self._sums.real(c - self.center)
        log_scale = self.value - (self.theta - _SCALE_POLES) * c
        terms = self._pole_terms(c, log_scale)
        # A pole that no alias term is moved across is in no sum, nor is one beyond what a sum and its integral can be.
        within = self._crossing(c)[1] & (np.abs(terms) <= _MOST_OF_A_POLE * self._size[_POLES_ROW, None])
        sums[:3] -= _POLES_SUM @ np.where(within, terms, 0.0)
        return sums, log_scale

    def _pole_terms(self, c: FloatArray, log_scale: FloatArray) -> FloatArray:
        """What each pole adds to the trapezoid sum of its integral, relative to that integral's scale; shape (4, C)."""
        return self._pole_signs * np.exp(_POLES_SCALED * c - log_scale[_POLES_ROW] + self._pole_logs)

    def _prepare_aliases(self) -> None:
        """What the bounds of the alias terms need of the tilts, of the period and of the poles."""
        period = 2 * math.pi / self.step
        distance = np.abs(self._tilts - self.theta)
        base = self._log_bound - self.value - distance * period - np.log(-np.expm1(-distance * period))
        sides = (self._tilts > self.theta, self._tilts < self.theta)
        self._alias_sides = [(self._tilts[side], self._tilts[side] - self.theta, base[side]) for side in sides]
        gaps = _POLES_AT[:, None] - self.theta
        self._pole_signs, self._pole_is_right = -np.sign(gaps) * _POLES_RESIDUE[:, None], gaps > 0
        # ln 1/(e^{|gap| T} - 1): either factor alone may leave the range of doubles.
        self._pole_logs = -np.abs(gaps) * period - np.log(-np.expm1(-np.abs(gaps) * period))

    def _aliases(self, c: FloatArray, log_scale: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bound of the alias terms, the pole terms known among them and these terms' sizes, shape (3, C) each.

        All are relative to e^{log_scale}. Known are the poles between theta and the tilt s of the best Chernoff bound.
        """
        bound, crossed = self._crossing(c)
        terms = np.where(crossed, self._pole_terms(c, log_scale), 0.0)
        return bound, _POLES_SUM @ terms, _POLES_SUM @ np.abs(terms)

    def _crossing(self, c: FloatArray) -> tuple[FloatArray, BoolArray]:
        """The best Chernoff bound of the alias terms, shape (C,), and the poles on the way to its tilts, (4, C)."""
        bound_right, right = _best_tilts(self._alias_sides[0], c)
        bound_left, left = _best_tilts(self._alias_sides[1], c)
        crossed = np.where(self._pole_is_right, right > _POLES_AT[:, None], left < _POLES_AT[:, None])
        return bound_right + bound_left, crossed


def _best_tilts(side: _AliasSide, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The least Chernoff bound of the alias terms on one side, and the tilt it is taken at, for each threshold."""
    tilts, offset, base = side
    exponent = base - offset * c[:, None]
    best = exponent.argmin(axis=1)
    return np.exp(exponent[np.arange(len(c)), best]) * (1 + 1e-9), tilts[best]


def _height(run: TransformLine, deviation: float, goal: float, highest: float) -> float | None:
    """A height above which the majorant is about e^-goal; None where a few tries find none up to the highest: it
    steers, nothing rests on it.
    """
    heights = math.sqrt(2 * goal) / deviation * _HEIGHTS_TRIED
    for tries in range(_HEIGHT_ROUNDS):
        reached = -run.log_majorants(heights)[0]
        if reached[-1] > goal:
            return float(np.interp(goal, reached, heights))
        # Longer strides after a few: transforms that fall slowly end at a hundred times the height or more.
        heights = heights[-1] * (_HEIGHTS_TRIED if tries < 3 else _HEIGHTS_TRIED**2)
        if heights[0] > highest:
            break
    return None


def _truncation(run: TransformLine, gaussian_mu_squared: float, step: float, first: float) -> FloatArray:
    """Bound of the nodes from height `first` on, for the three kernels, relative to their scales; shape (3,).

    |F| is below a majorant that decreases, so blocks [t, 8t] contribute (1/pi) e^{U(t)} (ln 8 + h/t); beyond the
    last block one step's decay V/t, or the Gaussian part's, closes the sum. The third kernel gains a factor 1/t.
    """
    log_variation = run.log_variation()
    plain, profile, tail, height = 0.0, 0.0, math.inf, first
    for _ in range(_BLOCK_ROUNDS):
        heights = height * _BLOCKS
        whole, single = run.log_majorants(heights)
        block = np.exp(whole[:-1]) * (math.log(_BLOCK_RATIO) + step / heights[:-1]) / math.pi
        plain, profile = plain + float(block.sum()), profile + float((block / heights[:-1]).sum())
        height, last = float(heights[-1]), float(whole[-1])
        closing = last - float(single[-1]) + log_variation - math.log(height)
        if gaussian_mu_squared > 0:
            closing = min(closing, last - math.log(min(gaussian_mu_squared * height**2, 1.0)))
        tail = float(np.exp(closing)) * (1 + step / height) / math.pi
        if closing < -100:
            break
    return np.array([plain + tail, plain + tail, profile + tail / height]) * (1 + 1e-9)
