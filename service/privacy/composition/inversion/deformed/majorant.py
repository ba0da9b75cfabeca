"""Majorants B_G(z) = int_G |g w^z| |dv| >= |M(z)| of one sampled Gaussian step, with every error bounded.

M(z) = int g w^z dv is the moment-generating function of the loss ln w(v) of the step, v its outcome, and g the density
of v under H0. On a path G of `paths.py` with the real parameter tau, |w^z| = exp(x ln|w| - t arg w) with z = x + it, so
that ln B_G is convex in (x, t). A bound at the vertices of a polygon therefore holds on the whole polygon. For mirrored
steps g stands for g b, the density of H0, with b of `SampledStep`. M_h and B_h are the trapezoid sums of M and B over G
with the step h. With the paths G +- i alpha, on which tau is moved by +- i alpha, they err by at most:

    |M_h - M| <= (B_{G + i alpha} + B_{G - i alpha}) / (e^{2 pi alpha/h} - 1);
    |B_h - B| <= 2 sqrt(B_{G + i alpha} B_{G - i alpha}) / (e^{2 pi alpha/h} - 1).

The integrand f of M is analytic on the strip |Im tau| <= alpha, and that of B continues to |f(tau + iq) f(tau -
iq)|^{1/2} there. The order of magnitude of the integrals B_{G +- i alpha} on the borders of the strip is enough. They
are sums over cells in which ln|f| varies by at most its Lipschitz bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.privacy.composition.inversion.deformed.paths import (
    ComplexArray,
    Paths,
    PathValues,
    lower_family,
    path_family,
)
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import BoolArray, FloatArray, joined, taken
from service.privacy.numerics.work import count_work

_SHIFTS = np.array([0.8, 0.45, 0.2, 0.04])
"""Half-widths of strips, relative to the largest."""

_STRIP_DEVIATIONS = 9.0
"""Half-width of a strip, in standard deviations of v, beyond which wider strips gain nothing."""

_ROUGHLY = 0.48
"""Spacing of the nodes that choose contours and paths; no bound depends on them."""

_LEFTWARDS = 1.0
"""Distance left of 0 to which majorants of mirrored steps are needed, over the distance of a contour from 1."""

_CHUNK = 400_000
"""Number of exponents that are evaluated together, which bounds the memory."""

_ROUNDING = 6.4e-14
"""Rounding of a majorant's logarithm per nat of its exponents: hundreds of units of their terms."""


_AN_EXPONENTIAL, _A_PATH_NODE, _A_ROUGH_NODE = 0.012, 0.4, 0.02
"""Work, in microseconds."""


class Strips(NamedTuple):
    """Bounds of the integrals B on the borders G +- i alpha of strips of several half-widths alpha around paths G.

    G is a path in the complex plane of the outcome v of a step, g is the density of v under H0, w is the likelihood
    ratio, and z is an exponent. B_{G + i alpha}(z) is the integral of |g w^z| along the path moved by i alpha
    (`majorant.py`). The bounds serve errors of trapezoid sums along G.

    Attributes
    ----------
    shift : (paths, widths)
        Half-widths alpha.
    above, below : (paths, widths, points)
        ln of upper bounds of B on either border.
    tail : (paths, points)
        ln of an upper bound of the part of the integral beyond the grid of nodes.
    """

    shift: FloatArray
    above: FloatArray
    below: FloatArray
    tail: FloatArray

    @property
    def finite(self) -> BoolArray:
        """Whether the integrals of some strip are bounded at every point, for each path, shape (paths,).

        A strip is the set of paths within a distance of a path (`Strips`).
        """
        return np.asarray(np.isfinite(self.above + self.below).all(axis=-1).any(axis=-1))

    def from_point(self, first: int) -> Strips:
        """Return the strips at the points z with index `first` and later ones.

        A strip is the set of all paths within some distance of a path, with bounds of integrals along them.
        """
        above, below = self.above[..., first:], self.below[..., first:]
        return self._replace(above=above, below=below, tail=self.tail[:, first:])


@dataclass(frozen=True, slots=True)
class _RoughValues:
    """Values of P paths at J nodes each, for approximate majorants.

    w is the likelihood ratio of a step along a path. `columns`, shape (3, P * J), has ln|w|, -arg w, and ln of the
    weight of each node. `ends` has the values at both ends of the grid.

    A majorant is an upper bound of the modulus of a moment-generating function.
    """

    paths: Paths
    columns: FloatArray
    ends: PathValues

    @staticmethod
    def of(grid: MajorantGrid, paths: Paths) -> _RoughValues:
        zero = np.zeros_like(paths.eta)
        values = PathValues.along(grid.step, paths, grid.rough_tau, zero)
        weight = values.log_density(grid.step) + np.log(np.abs(values.speed)) + grid.log_rough_spacing
        columns = np.stack([values.log_ratio.real, -values.log_ratio.imag, weight])
        return _RoughValues(
            paths, columns.reshape(3, -1), PathValues.along(grid.step, paths, grid.tau[None, [0, -1]], zero)
        )


def _spacing(step: SampledStep, fineness: float) -> float:
    return min(0.12, 0.25 / step.sigma) / fineness


def least_real(step: SampledStep, tilt: float) -> float:
    """Return the smallest Re z at which majorants of a step are needed: at most 0 for mirrored steps, -inf for others.

    A majorant bounds the moment E0 e^{zL} of the loss L of the step. `tilt` is the real number at which the inversion
    contour in z crosses the real axis. Majorants of mirrored steps grow to the left of 0 as well.
    """
    return _LEFTWARDS * (1 - max(tilt, 1.0)) if step.mirrored else -math.inf


def _reach(step: SampledStep, need: float, tilt: float) -> tuple[float, float]:
    """Return the first and the last node tau of a trapezoid grid for majorants of a step.

    A majorant bounds the moment E0 e^{zL} of the loss L of the step, an integral along a path with the real parameter
    tau. The mass beyond the grid should be below e^-`need` of the whole for Re z up to about `tilt`. The tilt is where
    the contour in z crosses the real axis.
    """
    half_width = math.sqrt(2 * need) / step.sigma
    low = step.mean - half_width
    if step.mirrored:
        low = min((least_real(step, tilt) - 1) / step.sigma**2 - half_width, step.log_odds - 2.0)
    return low, max(step.mean + max(tilt, 1.0) / step.sigma**2 + 1.5 * half_width, 2.0 - step.log_odds)


class MajorantGrid:
    """Trapezoid grid for the majorants B_G(z) = int_G |g w^z| |dv| of one sampled Gaussian step.

    v is the outcome of the step, g is its density under H0, and w is the likelihood ratio, so that ln w is the privacy
    loss. G is a path in the complex plane of v with the real parameter tau (`paths.py`), and z = x + it. The nodes are
    tau_j. f = g w^z is the integrand. G + i s is the path on which tau is moved by i s. sigma is the noise multiplier,
    p is the sampling rate, m is the mean of v, and r = d ln w/dv. k is the slope of a path's ramp (`Paths`). u = v +
    ln(p/(1 - p)) + offset is 0 where both parts of the mixture a(v) of `SampledStep` are equal.
    """

    def __init__(self, step: SampledStep, need: float, tilt: float, fineness: float = 1.0) -> None:
        """Lay out the nodes tau for the majorants of a step.

        `need` and `tilt` decide where the grid ends, and no bound depends on them. The mass beyond the grid should be
        below e^-need of the whole for Re z up to about `tilt`. The spacing is divided by `fineness`. A majorant bounds
        the moment-generating function of the step by the integral of a modulus along a path with the parameter tau. The
        tilt is where the contour in z crosses the real axis.
        """
        self.step = step
        self.spacing = _spacing(step, fineness)
        self._stride = max(2, math.floor(min(_ROUGHLY, 0.5 / step.sigma) / (fineness * self.spacing)))
        low, high = _reach(step, need, tilt)
        count = math.ceil((high - low) / self.spacing) + 1
        self.tau: FloatArray = low + self.spacing * np.arange(count, dtype=np.float64)

    @staticmethod
    def size(step: SampledStep, need: float, tilt: float, fineness: float = 1.0) -> float:
        """Return the approximate number of nodes of the trapezoid sums that bound a step's moment-generating function.

        The nodes omit a mass of about e^-need under the law tilted by e^{tilt loss}. `fineness` divides the distance of
        the nodes.
        """
        low, high = _reach(step, need, tilt)
        return (high - low) / _spacing(step, fineness)

    @property
    def rough_tau(self) -> FloatArray:
        """Nodes tau on a path of the sums that approximate majorants, shape (1, parameters).

        A majorant bounds a moment-generating function by the integral of a modulus along the path. Approximations
        choose contours and paths.
        """
        return self.tau[None, :: self._stride]

    @property
    def log_rough_spacing(self) -> float:
        """ln of the distance of neighbouring nodes of `rough_tau`.

        A rough node belongs to the trapezoid sum of an approximate bound, which chooses contours and paths.
        """
        return math.log(self._stride * self.spacing)

    @cached_property
    def family(self) -> Paths:
        """Paths in the complex plane of a step's outcome v that are tried for its moments, the real line first."""
        return path_family(self.step)

    @cached_property
    def _family_values(self) -> _RoughValues:
        return _RoughValues.of(self, self.family)

    @cached_property
    def _lower_values(self) -> _RoughValues:
        return _RoughValues.of(self, lower_family(self.family))

    def estimates(self, z: ComplexArray) -> FloatArray:
        """Return about ln B_G(z) for each path G and every point z, shape (paths, points). No bound depends on it.

        B_G(z) is the integral of |g w^z| along a path G of complex outcomes of the step, with their density g under H0
        and the likelihood ratio w.
        """
        return self._estimates(self._family_values, z)

    def provable(self, z: ComplexArray) -> FloatArray:
        """Estimate the bounds of ln B_G(z) that `log_bounds` will prove, shape (P, Z) for P paths G and Z points z.

        The estimates serve to choose paths. B_G(z) is the integral of |g w^z| along a path G of complex outcomes of the
        step, with their density g under H0 and the likelihood ratio w. A bound needs a strip around the path. Strips
        around low paths reach below the real line, where the modulus |w^z| grows with Im z, or are too narrow for the
        grid. The integral along the lower side of a strip is estimated by that along the path of the family that is as
        much lower and has the same sloping piece.
        """
        plain = self.estimates(z)
        values = self._family_values.paths
        below = joined([values, self._lower_values.paths])
        under = np.concatenate([plain, self._estimates(self._lower_values, z)])
        result = np.full_like(plain, np.inf)
        # Cells of the lower side of a strip reach half a node further down.
        distance = values.eta - below.eta.T - 0.5 * (1 + values.slope) * self.spacing
        alike = (values.slope == below.slope.T) & (values.offset == below.offset.T)
        usable = alike & (distance > 0) & (distance <= values.largest_shift())
        for lower in np.flatnonzero(usable.any(axis=0)):
            rows = np.flatnonzero(usable[:, lower])
            kernel = _log_kernel(distance[rows, lower], self.spacing)[:, None]
            result[rows] = np.minimum(result[rows], math.log(2) + 0.5 * (plain[rows] + under[lower]) + kernel)
        return np.logaddexp(plain, result)

    def _estimates(self, values: _RoughValues, z: ComplexArray) -> FloatArray:
        columns, paths = values.columns, len(values.paths.eta)
        result = np.empty((paths, len(z)))
        count_work(_AN_EXPONENTIAL * columns.shape[1] * len(z))
        chunk = max(1, 2_000_000 // columns.shape[1])
        for first in range(0, len(z), chunk):
            part = z[first : first + chunk]
            exponent = np.stack([part.real, part.imag, np.ones(len(part))], axis=1) @ columns
            np.exp(np.minimum(exponent, 700.0, out=exponent), out=exponent)
            result[:, first : first + chunk] = np.log(exponent.reshape(len(part), paths, -1).sum(axis=-1)).T
        return np.logaddexp(result, self._tails(values.paths, values.ends, np.zeros((paths, 1)), z[None]))

    def plain(self, paths: Paths, z: ComplexArray) -> FloatArray:
        """Return about ln B_G(z) for each of P paths G at its own V points z, shape (P, V).

        B_G(z) is the integral of |g w^z| along a path G of complex outcomes of the step, with their density g under H0
        and the likelihood ratio w. The result is the logarithm of the trapezoid sum without error terms. No bound
        depends on the result.
        """
        return np.concatenate(
            [self._plain(taken(paths, some), z[some]) for some in _batches(z, self.rough_tau.size, _A_ROUGH_NODE)]
        )

    def _plain(self, paths: Paths, z: ComplexArray) -> FloatArray:
        zero = np.zeros_like(paths.eta)
        values = PathValues.along(self.step, paths, self.rough_tau, zero)
        weight = values.log_density(self.step) + np.log(np.abs(values.speed)) + self.log_rough_spacing
        exponent = _exponents(values, z) + weight[:, None]
        plain = np.log(np.exp(np.minimum(exponent, 700.0)).sum(axis=-1))
        ends = PathValues.along(self.step, paths, self.tau[None, [0, -1]], zero)
        return np.logaddexp(plain, self._tails(paths, ends, zero, z))

    def log_bounds(self, paths: Paths, z: ComplexArray) -> tuple[FloatArray, Strips]:
        """Return upper bounds of ln B_G(z) for each of P paths G at its own V points z, shape (P, V), and the strips.

        B_G(z) is the integral of |g w^z| along a path G of complex outcomes of the step, with their density g under H0
        and the likelihood ratio w. The strips bound the errors of trapezoid sums.
        """
        parts = [self._log_bounds(taken(paths, some), z[some]) for some in _batches(z, self.tau.size, _A_PATH_NODE)]
        return joined(parts)

    def _log_bounds(self, paths: Paths, z: ComplexArray) -> tuple[FloatArray, Strips]:
        strips = self.strips(paths, z)
        values = PathValues.along(self.step, paths, self.tau[None], np.zeros_like(paths.eta))
        weight = values.log_density(self.step) + np.log(np.abs(values.speed)) + math.log(self.spacing)
        exponent = _exponents(values, z) + weight[:, None]
        top = exponent.max(axis=-1)
        total = np.log(np.exp(exponent - top[..., None]).sum(axis=-1)) + top
        near = np.where(exponent > top[..., None] - 40, np.abs(values.log_ratio)[:, None], 0.0)
        kernel = _log_kernel(strips.shift, self.spacing)[..., None]
        error = (math.log(2) + 0.5 * (strips.above + strips.below) + kernel).min(axis=1)
        bound = np.logaddexp(np.logaddexp(total, error), strips.tail) + _ROUNDING * (
            100 + np.abs(top) + np.abs(z) * near.max(axis=-1)
        )
        return np.where(np.isnan(bound), np.inf, bound), strips

    def strips(self, paths: Paths, z: ComplexArray) -> Strips:
        """Return bounds of the majorants on G + i alpha and G - i alpha for P paths G and several alpha.

        `z` has V points for each path, shape (P, V). The majorant of a path G is the integral of |g w^z| along G, with
        the density g of the step's outcomes under H0 and the likelihood ratio w. G + i alpha is G moved by alpha in its
        parameter.
        """
        largest = np.minimum(paths.largest_shift(), _STRIP_DEVIATIONS / self.step.sigma)
        shift = _SHIFTS * largest
        above, below = (
            np.stack([self._integral(paths, side * row[:, None], z) for row in shift.T], axis=1) for side in (1, -1)
        )
        ends = PathValues.along(self.step, paths, self.tau[None, [0, -1]], np.zeros_like(paths.eta))
        tail = self._tails(paths, ends, np.zeros_like(paths.eta), z)
        return Strips(shift, above, below, tail)

    def _integral(self, paths: Paths, shift: FloatArray, z: ComplexArray) -> FloatArray:
        """Return ln of an upper bound of int |g w^z| |dv| on G + i `shift`, by cells around the nodes; shape (P, V).

        g is the density of the step's outcomes v under H0, and w the likelihood ratio. `paths` has P paths G, and `z`
        has V points for each path.
        """
        values = PathValues.along(self.step, paths, self.tau[None], shift)
        fastest = 1 + paths.slope
        move = 0.5 * fastest * self.spacing
        rates = [mixture.nearby(move)[0] for mixture in values.mixtures]  # d ln a = r dv
        nearby = sum(rates)
        drift = self.step.sigma**2 * (np.abs(values.v - self.step.mean) + move) + sum(rates[1:])
        weight = values.log_density(self.step) + np.log(fastest * self.spacing) + move * drift
        variation = np.abs(z)[..., None] * (move * nearby)[:, None]
        exponent = _exponents(values, z) + weight[:, None] + variation
        top = exponent.max(axis=-1)
        total = np.log(np.exp(exponent - top[..., None]).sum(axis=-1)) + top + 1e-6
        ends = PathValues.along(self.step, paths, self.tau[None, [0, -1]], shift)
        bound = np.logaddexp(total, self._tails(paths, ends, shift, z))
        return np.where(np.isnan(bound), np.inf, bound)

    def _tails(self, paths: Paths, ends: PathValues, shift: FloatArray, z: ComplexArray) -> FloatArray:
        """Return ln of an upper bound of the majorant on G + i `shift` beyond both sides of the grid, shape (P, V).

        The majorant is the integral of |g w^z| along a path of outcomes v, with their density g under H0 and the
        likelihood ratio w. `ends` has the values at the first and the last node of each path. Sums over further nodes
        have the same bound, because the bounding functions fall outwards. P is the number of paths, and V that of
        points z of each path.
        """
        left = self._left_hump(paths, shift, z) if self.step.mirrored else self._left_tail(paths, ends, shift, z)
        tail = np.logaddexp(left, self._right_tail(paths, ends, shift, z))
        return np.where(np.isnan(tail), np.inf, tail)

    def _left_tail(self, paths: Paths, ends: PathValues, shift: FloatArray, z: ComplexArray) -> FloatArray:
        """Return ln of an upper bound of the majorant on G + i `shift` left of the grid, shape (paths, points).

        The steps are not mirrored: H0 has a normal density. The majorant is the integral of |g w^z| along a path G of
        outcomes v, with their density g under H0 and the likelihood ratio w. `ends` has the values at the first and the
        last node of each path.

        p is the sampling rate, tau the parameter of the path, and u the logarithm of the odds of w's two parts. Left of
        the grid 1 - p - p e^tau <= |w| <= 1 - p + p e^tau, or |d ln|w|| <= p e^tau/(1 - p) on paths without a sloping
        piece (*ramp*). |arg w| is at most e^u times the largest |Im v| <= pi/2, or (pi/2) e^u. With t = Im z only the
        sign of t arg w matters.
        """
        step, end, slope = self.step, float(self.tau[0]), paths.slope
        real_bound = end + slope * np.abs(shift)  # |Re v - tau| <= k |shift|
        height = paths.height(np.array([[end]]), step.log_odds) + np.abs(shift)
        distance, odds = step.mean - real_bound, np.exp(real_bound + step.log_odds)
        modest = height <= 0.5 * math.pi
        turned = odds * np.where(modest, height, 0.5 * math.pi)
        growth = turned * np.where(paths.eta + shift < 0, np.abs(z.imag), np.maximum(-z.imag, 0.0))
        log_unsampled = math.log1p(-step.rate)
        gauss = 0.5 * step.sigma**2 * (height**2 - distance**2) + np.log1p(slope) - math.log(2)
        least = log_unsampled + np.where(modest, 0.0, np.log1p(-odds))
        modulus = np.maximum(z.real * (log_unsampled + np.log1p(odds)), z.real * least)
        plain = np.where((distance > 0) & (odds < 1), gauss + modulus, np.inf)
        falls = step.sigma**2 * distance - np.abs(z.real) * odds
        value = ends.log_density(step)[:, :1] + z.real * ends.log_ratio[:, :1].real
        steep = np.where((slope == 0) & modest & (falls > 0), value - np.log(falls), np.inf)
        return np.minimum(plain, steep) + growth

    def _left_hump(self, paths: Paths, shift: FloatArray, z: ComplexArray, lag: float = 0.0) -> FloatArray:
        """Return ln of an upper bound of mirrored majorants on G + i `shift` left of the grid.

        A majorant of mirrored steps is the integral of |g b w^z| along a path of outcomes v, with the normal density g.
        The likelihood ratio is w = a/b, and g a and g b are the densities under H1 and H0. For Re z >= 0 |w| is below
        1, and largest at the first node. With b = (1 - p) (1 + e^u), |b| is little above (1 - p) |e^u|, and |arg b| <=
        |Im v|. A normal density therefore bounds |g b^y| for a real power y >= 1. `lag` is the largest slope of the
        logarithm of a further factor of the integrand that grows outwards. The shape is (paths, points).
        """
        step, end, x = self.step, float(self.tau[0]), z.real
        real_bound = end + paths.slope * np.abs(shift)
        height = paths.height(np.array([[end]]), step.log_odds) + np.abs(shift)
        odds, hump = np.exp(real_bound + step.log_odds), np.exp(step.log_odds - real_bound)
        turned = height + odds * 0.5 * math.pi
        growth = turned * np.where(paths.eta + shift < 0, np.abs(z.imag), np.maximum(-z.imag, 0.0))
        power = 1 + np.maximum(-x, 0.0)
        distance = -real_bound - power / step.sigma**2
        squares = power**2 / step.sigma**2 + step.sigma**2 * (height**2 - distance**2)
        bound = math.log1p(-step.rate) + power * (step.log_odds + np.log1p(1 / hump)) + 0.5 * squares
        ratio = np.where(x >= 0, np.log((1 + odds) / np.maximum(hump - 1, 1.0)), np.log1p(-odds))
        bound = bound + x * ratio + np.log1p(paths.slope) - math.log(2) + growth
        known = (distance * step.sigma**2 > lag) & (hump >= 2 + odds) & (odds < 1) & (height < math.pi)
        return np.where(known, bound, np.inf)

    def _right_tail(
        self, paths: Paths, ends: PathValues, shift: FloatArray, z: ComplexArray, lag: float = 0.0
    ) -> FloatArray:
        """Return ln of an upper bound of the majorant on G + i `shift` right of the grid, shape (paths, points).

        The majorant is the integral of |f| along a path of outcomes v with the parameter tau. f = g w^z has the density
        g of v under H0 and the likelihood ratio w. sigma is the noise multiplier, m the mean of v, r = d ln w/dv, v' =
        dv/dtau and x = Re z. `ends` has the values at the first and the last node. Either d ln|f|/dtau = Re((-sigma^2
        (v - m) + z r) v') is below a negative constant there, or that of |g| |w|^x alone is, or no bound is known.
        `lag` is the largest slope of the logarithm of a further factor of f.
        """
        step, end, size, slope = self.step, float(self.tau[-1]), np.abs(shift), paths.slope
        x, t = z.real, z.imag
        # k |Im s|, where s = 1/(1 + e^-X) is the rise of the ramp: Im s falls, Re s grows, and |s| <= 1.
        wobble = slope * np.minimum(1.0, np.exp(-2 * (end - paths.offset + step.log_odds)))
        height = paths.height(np.array([[end]]), step.log_odds) + size
        speed, near = 1 - wobble, end - slope * size
        pull = step.sigma**2 * ((near - step.mean) * speed - slope * height)
        # The pull grows with tau as long as Re v' >= k^2.
        pull = np.where((speed > slope**2) & (near > step.mean), pull - lag, -np.inf)
        u = near + step.log_odds
        rest = np.where(u > 0.05, np.exp(-u) / -np.expm1(-np.maximum(u, 0.05)), np.inf)
        far = self._far_hump(near)
        turn = -t * np.where(t > 0, ends.speed[:, 1:].imag, slope)
        falls = pull - np.maximum(x, 0.0) * (1 + wobble) - turn - np.abs(z) * (1 + slope) * rest
        falls = falls - np.abs(1 - z) * (1 + slope) * far
        density = ends.log_density(step)[:, 1:] + np.log1p(slope)
        damped = density + x * ends.log_ratio[:, 1:].real - t * ends.log_ratio[:, 1:].imag - np.log(falls)
        damped = np.where(falls > 0, damped, np.inf)
        falls = pull - np.maximum(x, 0.0) * (1 + wobble) - np.maximum(-t, 0.0) * slope
        largest = x * (math.log1p(-step.rate) + np.log1p(np.exp(end + slope * size + step.log_odds)))
        straight = (slope == 0) & (height <= 0.5 * math.pi)
        modulus = np.where(x >= 0, largest, np.where(straight, x * ends.present.log[:, 1:].real, np.inf))
        # arg w <= Im u, or Im u + pi/2 beyond pi.
        growth = np.where(paths.eta + shift < 0, np.abs(t) * size, 0.0)
        growth = growth + np.maximum(-t, 0.0) * (height + np.where(slope > 0, 1.6, 0.0))
        if step.mirrored:  # b^{1-z}
            growth = growth + (1 - x) * math.log1p(-step.rate) + np.abs(1 - z) * far
        plain = ends.log_gaussian(step)[:, 1:] + np.log1p(slope)
        undamped = np.where(falls > 0, plain + modulus + growth - np.log(falls), np.inf)
        return np.minimum(damped, undamped)

    def _far_hump(self, near: FloatArray | float) -> FloatArray | float:
        """Return an upper bound of |d ln b/dv| and of |ln b - ln(1 - p)| where Re v >= `near`; 0 where b = 1.

        b is the density of H0 at the outcome v relative to the normal density. b(v) = 1 - p + p e^{-v + offset} for
        mirrored steps, with the sampling rate p, and else 1. The result has the shape of `near`.
        """
        if not self.step.mirrored:
            return 0.0
        size = np.exp(np.minimum(self.step.log_odds - near, -1e-3))
        return np.where(near > self.step.log_odds + 1e-3, size / (1 - size), np.inf)

    def log_variation(self, paths: Paths, z: ComplexArray) -> FloatArray:
        """Return ln C with |M(x + i t')| <= C/t' for all t' >= t, at points z = x + it of each path; shape (P, V).

        P is the number of paths, and V that of points z of each path.

        M(z) = int g b w^z dv is the moment-generating function of the loss ln w of the step. w is the likelihood ratio,
        r = d ln w/dv, and m is the mean of the outcome v. Here g is the normal density, and g b is the density of H0.
        Integration by parts gives M(z) = -(1/z) int (g b/r)' w^z dv, which is bounded by cells. Here (g b/r)' = (g b/r)
        (-sigma^2 (v - m) + (ln b)' - r'/r).
        """
        step = self.step
        values = PathValues.along(step, paths, self.tau[None], np.zeros_like(paths.eta))
        fastest = 1 + paths.slope
        move = 0.5 * fastest * self.spacing
        around = [mixture.nearby(move) for mixture in values.mixtures]
        nearby, absent = sum(rate for rate, _ in around), sum(rate for rate, _ in around[1:])
        bend = sum(rate * complement for rate, complement in around)  # |r'| is at most this
        least = np.abs(values.log_ratio_slope) - move * bend
        least = np.where(least > 0, least, np.nan)
        distance = np.abs(values.v - step.mean) + move
        steep = step.sigma**2 * distance + absent
        weight = values.log_density(step) + np.log(fastest * self.spacing) + move * steep
        weight = weight + np.log(steep + bend / least) - np.log(least)
        exponent = _exponents(values, z) + weight[:, None] + np.abs(z)[..., None] * (move * nearby)[:, None]
        top = exponent.max(axis=-1)
        total = np.log(np.exp(exponent - top[..., None]).sum(axis=-1)) + top + 1e-6
        left = self._left_variation(paths, z, exponent[..., 0], distance[:, :1])
        # |d ln a/dv| >= 1/(1 + e^-u); only |v - m| grows to the right.
        ends, lag = taken(values, np.s_[:, [0, -1]]), 2 / (float(self.tau[-1]) - step.mean)
        right = self._right_tail(paths, ends, np.zeros_like(paths.eta), z, lag=lag)
        falling, far = math.exp(-float(self.tau[-1]) - step.log_odds), self._far_hump(float(self.tau[-1]))
        inverse = (1 + falling) / (1 - (1 + falling) * far)
        factor = step.sigma**2 * distance[:, -1:] + far + inverse * (falling / (1 - falling) + 2 * far)
        bound = np.logaddexp(np.logaddexp(total, left), right + np.log(factor * inverse))
        return np.where(np.isnan(bound), np.inf, bound)

    def _left_variation(self, paths: Paths, z: ComplexArray, first: FloatArray, distance: FloatArray) -> FloatArray:
        """Return ln of the part of the bound of `log_variation` left of the grid, at the points `z`, shape (P, V).

        `first` is ln of the part of the first node, and `distance` is |v - m| there for the outcome v with the mean m.
        w is the likelihood ratio, with r = d ln w/dv. For mirrored steps 1/|r| <= 1.5 and |r| + |r'/r| <= 4 there,
        where |d ln a/dv| < .01 and |d ln b/dv| > .8, with w = a/b. P is the number of paths, and V that of points z of
        each path.
        """
        step, fastest, end = self.step, 1 + paths.slope, float(self.tau[0])
        odds = math.exp(end + step.log_odds)
        if step.mirrored:
            factor = 1.5 * (step.sigma**2 * distance + 4) if odds < 0.009 else np.inf
            return self._left_hump(paths, np.zeros_like(paths.eta), z, lag=1 / -end) + np.log(factor)
        left = step.mean - end
        falls = step.sigma**2 * left - fastest * (np.abs(z.real) * odds + 1) / (1 - odds) - 1 / left
        last = first - np.log(self.spacing * falls)
        last = np.where((falls > 0) & (odds < 1), last, np.inf)
        return last + odds * 0.5 * math.pi * np.abs(z.imag)


def _exponents(values: PathValues, z: ComplexArray) -> FloatArray:
    """Return ln|w^z| along each of P paths at its own V points z: shape (P, V, J) for J nodes.

    w is the likelihood ratio of a step, whose values along the paths are `values`.
    """
    ratio = values.log_ratio[:, None]
    return z.real[..., None] * ratio.real - z.imag[..., None] * ratio.imag


def _log_kernel(shift: FloatArray, spacing: FloatArray | float) -> FloatArray:
    """Return ln 1/(e^{2 pi s/h} - 1) without overflow, the error factor of a trapezoid sum.

    h = `spacing` is the step of the sum, and s = `shift` is the half-width of the strip on which the integrand is
    analytic. The result has their common shape.
    """
    turns = 2 * math.pi * shift / spacing
    with np.errstate(divide="ignore"):
        return -turns - np.log(-np.expm1(-turns))


def _batches(z: ComplexArray, nodes: int, work: float) -> list[NDArray[np.intp]]:
    """Return index arrays of paths that are evaluated together, so that arrays stay small.

    `z` has the points of each path. `work` (microseconds) is counted for each of the `nodes` at each point.
    """
    count_work(work * z.size * nodes)
    return np.array_split(np.arange(len(z)), min(len(z), math.ceil(z.size * nodes / _CHUNK)))
