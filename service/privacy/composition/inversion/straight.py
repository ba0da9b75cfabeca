"""Inversion contours Re z = theta: tails and profile of the loss S near one threshold, with every error bounded.

S is the privacy loss of a run, and K(z) = ln E0 e^{zS} is its log-moment function under the hypothesis H0. P0 and P1
are the laws under H0 and H1, and delta is the privacy profile. The real number theta at which a contour crosses the
axis is its tilt. Contours of R runs are evaluated together: the last axis of arrays has one entry for each contour. A
single contour is an array of one.

The inversion integrals have the kernels 1/z, 1/(z-1) and 1/(z(z-1)):

    I0(c) = (1/2 pi i) int e^{K(z) - z c} dz/z                 = P0(S > c),  or  -P0(S <= c) for theta < 0;
    I1(c) = (1/2 pi i) int e^{K(z) - (z-1) c} dz/(z-1)         = P1(S > c),  or  -P1(S <= c) for theta < 1;
    ID(c) = (1/2 pi i) int e^{K(z) - (z-1) c} dz/(z(z-1))      = delta(c)  (theta > 1);  delta(c) - 1  (0 < theta < 1);
                                                                 delta(c) - 1 + e^c  (theta < 0).

The trapezoid sum with nodes t_k = k h is exactly sum_m e^{(theta - p) m T} I(c + m T) with T = 2 pi/h (Poisson). Here p
is 0 for I0 and 1 for I1 and ID. The terms m != 0 (*aliases*) are moved to a tilt s further out. There the integral I_s
at the tilt s has |I_s(x)| <= e^{K(s) - (s - p) x} (Chernoff). The poles between the tilts are known and subtracted.

The error bound of a sum, the `margin` in `StraightContour.integrals`, is relative to the scale e^{K(theta) - ...}. It
is the sum of

- the errors of K at the nodes, times the moduli of the terms, and the mass of atoms (`_fixed_error`);
- the sum over all nodes beyond the last one (`_tail_bound`);
- the aliases (`_crossing`);
- the rounding of the terms, of their phases, of the pole terms and of the scale (`_prepare_errors`);
- the truncated mass of the law, because K is that of the truncated law (`_log_truncated`).
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.composition.inversion.readings.contour import Integrals
from service.privacy.composition.inversion.transforms_of_runs import TransformsOfRuns
from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import BoolArray, ComplexArray, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import FourierSums

_POLES_ROW = np.array([0, 1, 2, 2])
_POLES_AT = np.array([[0.0], [1.0], [0.0], [1.0]])
_POLES_RESIDUE = np.array([[1.0], [1.0], [-1.0], [1.0]])
_POLES_ALONG: FloatArray = _POLES_AT[:, None]
_POLES_SCALED = np.array([[[0.0]], [[0.0]], [[1.0]], [[0.0]]])
"""Poles of the kernels: integral (tail under H0, tail under H1, profile), position, residue, whether e^c scales it."""

_SIDES = np.array([[[0]], [[1]]])
"""Indices of the right and the left side of a contour."""

_SCALE_POLES = np.array([[[0.0]], [[1.0]], [[1.0]], [[0.0]]])
"""Poles of the scales: integral q has the scale e^{K(theta) - (theta - pole) c}. The fourth is the density under H0."""

_ALIAS_DISTANCES = np.geomspace(0.03, 13.0, 15)
_FEW_ALIAS_DISTANCES = np.array([2.2, 4.5, 8.0])
"""Distances |s - theta| of the Chernoff tilts, over 1/deviation of the tilted loss.

Few tilts serve near-Gaussian losses. Near tilts serve losses with rare jumps, which are much larger than the deviation
of the core.
"""

_SHORT_PERIOD = 14.0
"""Period, in standard deviations, below which no more tilts than the few are tried."""

_HEIGHTS_TRIED = np.array([1.0, 1.15, 1.35, 1.7, 1.95, 2.3, 2.9])
_HEIGHT_ROUNDS, _FINE_ROUNDS = 7, 2
"""Multiples of a Gaussian loss's height at which a contour may end, rounds of larger heights, and rounds of fine steps.

Transforms that decay slowly need contours of a hundred times the height or more.
"""

_BLOCK_RATIO = 8.0
_BLOCKS = np.array([1.0, _BLOCK_RATIO, _BLOCK_RATIO**2])
_BLOCK_ROUNDS = 5
"""Blocks of heights [t, 8t] beyond the last node, which are bounded two at a time."""

_LARGEST_POLE_TERM = 4.0
"""Largest modulus of a pole's term in approximations, over the sum of the moduli of a contour's terms.

The sum and the integral are each at most about that sum of moduli, and a pole's term is their difference. A larger term
belongs to a pole that the contour does not resolve, so that approximations leave it out.
"""


class StraightContour:
    """Nodes of R contours Re z = theta (the tilts) and bounds of their truncation errors.

    The method `integrals` evaluates any thresholds.

    The integrals are I0(c), I1(c) and ID(c): both tails of the loss S at the threshold c under H0 and H1, and the
    profile, as in `straight.py`. Each is computed relative to its scale e^{K(theta) - (theta - p) c}. p is 0 for I0 and
    1 for I1 and ID, and K is the log-moment function of S. A *majorant* is an upper bound of |e^{K(z) -
    K(theta)}|. *Alias terms* are the errors of the trapezoid sum. Thresholds of one contour are any array. Thresholds
    of R contours are an array (..., R), with one column for each.
    """

    def __init__(
        self, transforms: TransformsOfRuns, center: FloatArray, deviation: FloatArray, half_width: FloatArray
    ) -> None:
        """Lay out contours at the tilts theta of `transforms` for thresholds `center` +- `half_width`.

        All arrays have the shape (contours,). The contours are valid for farther thresholds too, but wider. K is the
        log-moment function of the loss. `center` = K'(theta) and `deviation` = sqrt K''(theta) decide the layout; no
        bound depends on them.
        """
        self.theta, self.center, self.deviation = transforms.theta, center, deviation
        self.leftmost = float(self.theta.min())
        self.score_tables: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
        self._lay_out(transforms, center - half_width, center + half_width)
        self._prepare_aliases()
        values = transforms.values(self.step, self.counts)
        exponents: ComplexArray = values.difference
        error: FloatArray = values.error
        t = self.step[:, None] * np.arange(self.nodes + 1)
        if (self.counts < self.nodes).any():  # nodes beyond a contour's own serve other contours
            own = np.arange(self.nodes + 1) <= self.counts[:, None]
            exponents, error = np.where(own, exponents, -np.inf), np.where(own, error, 0.0)
        share = np.empty_like(t)
        share[:] = (self.step / math.pi)[:, None]
        share[:, 0] *= 0.5
        # The kernels 1/z, 1/(z - 1), 1/(z (z - 1)) and 1.
        kernels = np.ones((4, *t.shape), dtype=np.complex128)
        kernels[0] = z = self.theta[:, None] + 1j * t
        kernels[1] = z - 1
        np.divide(1, kernels[:2], out=kernels[:2])
        np.multiply(kernels[0], kernels[1], out=kernels[2])
        # e^{K(z) - K(theta)} at the nodes, turned so that thresholds near the center need small phases only.
        self._sums = FourierSums(kernels * (np.exp(exponents - 1j * (t * center[:, None])) * share), self.step)
        shares = np.abs(kernels[:3]) * share
        log_size = exponents.real
        size = np.exp(log_size)
        # |F_true - F| <= |F| (e^error - 1), which keeps its digits for small errors and never overflows into 0 * inf.
        uncertain = size * np.expm1(np.minimum(error, 1.0))
        if not (error < 1).all():
            uncertain = np.where(error < 1, uncertain, np.exp(log_size + error))
        sizes = shares * np.maximum(size, SMALLEST)
        self._size, self._phase_size = sizes.sum(axis=-1), (sizes * t).sum(axis=-1)
        # The summed transform has no atomic part. The transform of the run has one at every node.
        atomic = transforms.atomic_mass(self.theta) * (1 + shares.sum(axis=-1))
        node_error = ((shares * uncertain).sum(axis=-1) + atomic) * (1 + 1e-9)
        self._fixed_error = node_error + _tail_bound(transforms, self.step, (self.counts + 1) * self.step)
        self._prepare_errors(transforms)

    def _lay_out(self, transforms: TransformsOfRuns, low: FloatArray, high: FloatArray) -> None:
        """Choose the distance h of the nodes and their number for thresholds from `low` to `high` (nats), shape (R,).

        `transforms` are the moment-generating functions of R runs. Alias terms are the errors of the trapezoid sum, and
        the majorant bounds the integrand. The goal is `log_accuracy` of the transforms plus small terms, in nats. Alias
        terms should be below e^-goal over [`low`, `high`], and the majorant below e^-goal beyond the last node. R is
        the number of contours.
        """
        theta, sd = self.theta, self.deviation
        self.value, self.value_error = transforms.origin
        goal = transforms.log_accuracy + np.log1p(np.abs(theta) * sd) + np.log1p(np.abs(theta - 1) * sd)
        for distances in (_FEW_ALIAS_DISTANCES, _ALIAS_DISTANCES):
            offsets = np.concatenate([-distances[::-1], distances])[:, None] / sd
            self._tilts = theta + offsets
            self._log_bound = transforms.log_bounds(self._tilts)
            exponents = self._log_bound - self.value - offsets * np.where(offsets > 0, low, high) + goal
            periods = exponents / np.abs(offsets)
            period = np.maximum(periods[: len(distances)].min(axis=0), periods[len(distances) :].min(axis=0))
            if (period < _SHORT_PERIOD * sd).all():
                break
        # Without a usable tilt further out the aliases have no bound, and the results are trivial.
        period = transforms.longest(np.maximum(period, 8.0 * sd))
        self.step = 2 * math.pi / np.where(np.isfinite(period), np.minimum(period, 1e4 * sd), 1e4 * sd)
        highest = transforms.most_nodes * self.step
        heights = _height(transforms, sd, goal, highest)
        self.has_decayed = np.isfinite(heights) & (heights <= highest) & transforms.is_affordable(heights, self.step)
        """Mask of contours whose transform is negligible beyond the last node; other contours have few digits."""
        nodes = heights / self.step
        if not self.has_decayed.all():
            nodes = np.where(self.has_decayed, nodes, transforms.few_nodes(self.step))
        self.counts = np.maximum(4, np.ceil(nodes)).astype(np.intp)
        self.nodes = int(self.counts.max())

    def integrals(self, thresholds: FloatArray) -> Integrals:
        """Return enclosures of the integrals I0(c), I1(c), ID(c) at the `thresholds` c (nats), shape (..., R).

        I0 and I1 are the tails of the loss beyond c under H0 and H1, and ID is its profile delta(c). Left of the poles
        0 and 1 each lacks a known term (`Integrals`). The last axis has one column for each of the R contours; one
        contour takes arrays of any shape.
        """
        c = thresholds.reshape(-1, len(self.theta))
        shift = c - self.center
        found = self._sums.real(shift)
        sums, density = found[:3], found[3]
        moved = self._slopes[:3] * c
        log_scale = self.value - moved
        exponents, crossed = self._crossing(c)
        bounds = np.exp(exponents)
        alias = (bounds[0] + bounds[1]) * (1 + 1e-9)
        terms = np.where(crossed, self._pole_terms(c, log_scale), 0.0)
        known_size, known = _by_integral(np.abs(terms)), _by_integral(terms)
        # The rounding of sums, and 60 u for a node's kernel, exponentials and phase.
        arithmetic = (self._sums.rounding(len(c)) + 60) * UNIT_ROUNDOFF * self._size
        # The rounding of t, of its products with the center and the shift, and of the shift itself.
        phases = (self._center_size + 2 * np.abs(shift)) * self._phase_rounding
        error = (self._fixed_error + arithmetic)[:, None] + phases + alias
        # Pole terms are exponentials of rounded exponents, for a law of mass 1 instead of the truncated law.
        exponents = np.abs(log_scale) + np.abs(c) + self._largest_pole_log
        pole_error = self._pole_error + 4 * UNIT_ROUNDOFF * exponents
        error = error + pole_error * known_size + np.exp(self._log_truncated(c) - log_scale)
        # e^{K(theta)} scales the sums, not the pole terms: its error acts on the sums, before anything cancels.
        scale_error = self._value_rounding + 4 * UNIT_ROUNDOFF * np.abs(moved)
        margin = error + (np.abs(sums) + error) * np.expm1(scale_error)
        middle = sums - known
        lower, upper = middle - margin, middle + margin
        lower[np.isnan(lower)], upper[np.isnan(upper)] = -np.inf, np.inf
        whole = (3, *thresholds.shape)
        bounds = lower.reshape(whole), upper.reshape(whole)
        return Integrals(log_scale.reshape(whole), *bounds, density.reshape(thresholds.shape))

    def approximate(self, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(sums, log_scale)`: approximations sums e^{log_scale} without bounds, each of shape (4, ...).

        The rows are the tails of the loss under H0 and H1, the profile, and the density of the loss under H0, at the
        thresholds of shape (...) in nats. These values serve to find roots.
        """
        c = thresholds.reshape(-1, len(self.theta))
        sums = self._sums.real(c - self.center)
        log_scale = self.value - self._slopes * c
        terms = self._pole_terms(c, log_scale)
        # A pole that no alias term crosses is in no sum, nor is a term larger than any sum or integral.
        within = self._crossing(c)[1]
        within &= np.abs(terms) <= self._most_of_poles
        sums[:3] -= _by_integral(np.where(within, terms, 0.0))
        whole = (4, *thresholds.shape)
        return sums.reshape(whole), log_scale.reshape(whole)

    def _prepare_errors(self, transforms: TransformsOfRuns) -> None:
        """Compute the parts of the error bounds that no threshold changes: rounding, truncated mass and atoms.

        `transforms` are the moment-generating functions of R runs, with bounds of their errors. The parts are stored,
        not returned.
        """
        self._slopes = self.theta - _SCALE_POLES
        self._center_size, self._phase_rounding = np.abs(self.center), 4 * UNIT_ROUNDOFF * self._phase_size[:, None]
        self._largest_pole_log = np.abs(self._pole_logs[:, 0]).max(axis=0)
        self._value_rounding = self.value_error + 1e-15 + 4 * UNIT_ROUNDOFF * np.abs(self.value)
        # The moments are those of the truncated law. The truncated mass is added as an uncertainty.
        null, alternative = transforms.log_truncated_mass
        self._log_null, self._log_alternative = null, alternative
        self._log_truncated_right = np.stack([null, alternative, alternative + math.log(2)])[:, None]
        self._is_left_of_poles = self.theta < 0
        zeros, ones = np.zeros_like(self.theta), np.ones_like(self.theta)
        atomic_at_poles = 2 * transforms.atomic_mass(zeros) + 2 * transforms.atomic_mass(ones)
        self._pole_error = 1e-14 + 2 * np.exp(np.logaddexp(null, alternative)) + atomic_at_poles
        self._most_of_poles = _LARGEST_POLE_TERM * self._size[_POLES_ROW, None]

    def _log_truncated(self, c: FloatArray) -> FloatArray:
        """Return ln of upper bounds of what the truncation of the law takes from I0, I1 and ID.

        I0 and I1 are the tails of the loss under H0 and H1, and ID is its profile. `c` has M thresholds for each of R
        contours, shape (M, R). The result has the shape (3, M or 1, R).
        """
        if not self._is_left_of_poles.any():
            return self._log_truncated_right
        # ID is E0(e^c - w)_+ where theta < 0; else (w - e^c)_+ <= w keeps the mass of H0 out of it.
        logs = np.repeat(self._log_truncated_right, len(c), axis=1)
        left = np.logaddexp(self._log_alternative, self._log_null + c)
        logs[2] = np.where(self._is_left_of_poles, left, logs[2])
        return logs

    def _pole_terms(self, c: FloatArray, log_scale: FloatArray) -> FloatArray:
        """Return the term of each of four poles in the trapezoid sum of its integral, relative to its scale; (4, M, R).

        The integrals are the tails I0 and I1 of the loss under H0 and H1 (poles 0 and 1), and its profile ID (both
        poles). `c` has thresholds (M, R), and `log_scale` has ln of the scales of the integrals. M is the number of
        thresholds of each contour, and R that of contours.
        """
        return self._pole_signs * np.exp(_POLES_SCALED * c - log_scale[_POLES_ROW] + self._pole_logs)

    def _prepare_aliases(self) -> None:
        """Compute the parts of the bounds of alias terms that no threshold changes.

        Alias terms are the errors of the trapezoid sum along the contour.
        """
        period = 2 * math.pi / self.step
        distance = np.abs(self._tilts - self.theta)
        base = self._log_bound - self.value - distance * period - np.log(-np.expm1(-distance * period))
        # Tilts s right of theta, then left of it. s - theta and the common part of the exponents of the bounds have an
        # axis for thresholds; (2, S, R).
        sides = (2, len(base) // 2, len(self.theta))
        self._side_tilts = self._tilts.reshape(sides)[::-1]
        self._side_offsets = (self._side_tilts - self.theta)[:, :, None]
        self._side_bases = base.reshape(sides)[::-1, :, None]
        self._columns = np.arange(len(self.theta))
        gaps = _POLES_AT - self.theta
        self._pole_signs = (-np.sign(gaps) * _POLES_RESIDUE)[:, None]
        self._pole_is_right: BoolArray = (gaps > 0)[:, None]
        # ln 1/(e^{|gap| T} - 1): either factor alone may leave the range of doubles.
        self._pole_logs = (-np.abs(gaps) * period - np.log(-np.expm1(-np.abs(gaps) * period)))[:, None]

    def _crossing(self, c: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return ln of Chernoff bounds of the alias terms on either side, (2, M, R), and a mask of poles, (4, M, R).

        `c` has thresholds (M, R). Each bound is the smallest over the tilts further out. The mask has the poles between
        the contour and the tilts of these bounds, whose terms are known. Alias terms are the errors of the trapezoid
        sum along the contour, and poles are those of the integrands, 0 or 1. M is the number of thresholds of each
        contour, and R that of contours.
        """
        exponents = self._side_bases - self._side_offsets * c
        chosen: FloatArray = self._side_tilts[_SIDES, exponents.argmin(axis=1), self._columns]
        right, left = np.greater(chosen[0], _POLES_ALONG), np.less(chosen[1], _POLES_ALONG)
        return exponents.min(axis=1), np.where(self._pole_is_right, right, left)


def _by_integral(poles: FloatArray) -> FloatArray:
    """Return the sums over the poles of each of three integrals, (3, M, R), from the `poles` terms of shape (4, M, R).

    The third integral has two poles, and the first and second have one each. The terms are overwritten. M is the number
    of thresholds of each contour, and R that of contours.
    """
    poles[2] += poles[3]
    return poles[:3]


def _height(transforms: TransformsOfRuns, deviation: FloatArray, goal: FloatArray, highest: FloatArray) -> FloatArray:
    """Return heights (imaginary parts) above which the majorant of each of R transforms is about e^-goal, shape (R,).

    The majorant bounds |M(theta + it)/M(theta)| of the moment-generating function M on the contour Re z = theta. The
    first try follows from the standard deviation `deviation` (nats) of the loss. The height is infinite if none is
    found up to `highest` within a fixed number of rounds. No bound depends on the choice of heights. theta is the tilt
    of a contour.
    """
    heights = _HEIGHTS_TRIED[:, None] * np.sqrt(2 * goal) / deviation
    found = np.full_like(goal, np.inf)
    for tries in range(_HEIGHT_ROUNDS):
        reached = -transforms.log_majorants(heights)[0]
        is_reached = reached[-1] > goal
        if is_reached.any():
            found = np.where(np.isinf(found) & is_reached, _first_at(goal, reached, heights), found)
        more = np.isinf(found) & (heights[-1] <= highest)
        if not more.any():
            break
        strides = (_HEIGHTS_TRIED if tries < _FINE_ROUNDS else _HEIGHTS_TRIED**2)[:, None]
        heights = np.where(more, heights[-1] * strides, heights)
    return found


def _first_at(goal: FloatArray, reached: FloatArray, heights: FloatArray) -> FloatArray:
    """Return the heights at which increasing functions first exceed their goals, by linear interpolation, shape (R,).

    `reached` has the values of R functions at T `heights`, each array of shape (T, R). `goal` has the shape (R,).
    """
    above = np.argmax(reached > goal, axis=0)
    after, before = above, np.maximum(above - 1, 0)
    runs = np.arange(len(goal))
    low, high = reached[before, runs], reached[after, runs]
    share = np.where(high > low, (goal - low) / np.where(high > low, high - low, 1.0), 0.0)
    return heights[before, runs] + np.clip(share, 0.0, 1.0) * (heights[after, runs] - heights[before, runs])


def _tail_bound(transforms: TransformsOfRuns, step: FloatArray, first: FloatArray) -> FloatArray:
    """Return an upper bound of the sum over all nodes from the height `first` on, for three kernels, shape (3, R).

    The contour is Re z = theta (the tilt), and K is the log-moment function of the loss. The kernels are 1/z, 1/(z - 1)
    and 1/(z (z - 1)) at z = theta + it, with nodes t at a distance h = `step`. The integrand F = e^{K(z) - K(theta)}
    has |F| <= e^{U(t)} with a decreasing function U. So blocks [t, 8t] contribute at most (1/pi) e^{U(t)} (ln 8 + h/t).
    Beyond the last block the decay V/t of one step, with a constant V, or the decay of the Gaussian part bounds the
    sum. The third kernel has an additional factor 1/t. R is the number of contours, and `transforms` has their
    functions K.
    """
    log_variation, squares = transforms.log_variation, transforms.gaussian_mu_squared
    plain, profile, height = np.zeros_like(first), np.zeros_like(first), first
    tail, least, strongest = np.full_like(first, np.inf), np.zeros_like(first), np.zeros_like(first)
    for _ in range(_BLOCK_ROUNDS):
        heights = height * _BLOCKS[:, None]
        whole, single = transforms.log_majorants(heights)
        # A bound at a height holds at all greater heights, even where the majorants there are larger.
        whole = np.fmin.accumulate(np.fmin(whole, least))
        single = np.fmin.accumulate(np.fmin(single, strongest))
        least, strongest = whole[-1], single[-1]
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
