"""Poisson-sampled Gaussian steps on a vertical line Re z = theta: values of K, their errors, and majorants of |M|.

Notation of `sampled_gaussian.py`. E_theta is the expectation under the law tilted by e^{theta L}, so that
M(theta + it)/M(theta) = E_theta e^{itL}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.privacy.composition.summands.abstract import LineSummand, LineValues
from service.privacy.composition.summands.node_sums import (
    line_values,
    outside,
    significant,
    tilted_differences,
    tilted_mean,
)
from service.privacy.composition.summands.sampled_gaussian import LARGEST_ETA, SampledGaussianParts, TiltedMoments
from service.privacy.composition.summands.sampled_gaussian_shared import difference_slope, differences, strip_errors
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import ComplexArray

_LOG_NEGLIGIBLE = -75.0
"""A strip error of a majorant below this needs no sharper bound."""

_ETA_FACTORS = np.array([0.5, 0.65, 0.8, 0.95, 1.15, 1.5, 2.2, 5.0, 30.0])
"""Majorants are taken on these multiples of about the best eta at the first height; large ones serve large heights."""

_LARGEST_SHARE = 2.8
"""Times the height that they are made for, up to which majorants serve heights."""

_NEGLIGIBLE = 2e-14
"""A trapezoid error of the whole run below this needs no sharper bound."""


class SampledGaussianLine(LineSummand):
    """The sampled parts of a run, tilted by theta; or as many runs of one part, each by its own, none of another sign.

    What is summed over the parts of a run has another shape for separate parts, like steps, nodes and heights: one for
    each, at the end.
    """

    def __init__(self, parts: SampledGaussianParts, theta: float | FloatArray) -> None:
        self.parts, self.grid = parts, parts.grid
        self.theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
        self._tilt, self._negative = self.theta[:, None], bool((self.theta < 0).any())
        moments = TiltedMoments.at(parts, self.theta)
        self._origin = parts.value(moments)
        self._weights = moments.weights / moments.total[:, None]
        self._cut, self._total_error = moments.cut, moments.rounding
        self._log_weights = self._tilt * self.grid.loss + self.grid.log_weight - moments.log_total[:, None]
        self._window = significant(self._weights)
        # The 1e-30 stands for weights that underflowed.
        self._omitted = outside(self._weights, self._window) + 1e-30
        self._total = np.exp(np.minimum(moments.log_total, 700.0))  # only ever divides: too small is safe
        self._strips: _MajorantStrips | None = None
        self._strips_height = self._chosen_height = np.zeros(1)

    @property
    def origin(self) -> tuple[float, float]:
        """K(theta) of one run and a bound of its error."""
        value, error = self._origin
        return float(value), float(error)

    @property
    def origins(self) -> tuple[FloatArray, FloatArray]:
        """The same for separate parts."""
        return self._origin

    def values(self, step: float | FloatArray, nodes: int, last: IndexArray | None = None) -> LineValues:
        """K(theta + i t_k) - K(theta) = sum N ln(1 + d_k) with d_k = E_theta(e^{i t_k L} - 1), and its error bound.

        Separate parts have a `step` each, shape (parts, 1), and a `last` node up to which the bound holds.
        """
        t = np.arange(nodes + 1, dtype=np.float64) * step
        top = t[-1:] if last is None else last.astype(np.float64) * np.asarray(step)[:, 0]
        d = self._tilted_differences(step, nodes) if self.grid.soft is None else self._shared_differences(step, nodes)
        size = np.abs(d)
        error = self._rounding_error(t) if self.grid.soft is None else self._shared_rounding(t, size)
        error = error + 6 * UNIT_ROUNDOFF * size * (2 + size) + self._quadrature_error(t, top)
        return line_values(self.parts.count, d, error, separate=self.parts.separate)

    def _tilted_differences(self, step: float | FloatArray, nodes: int) -> ComplexArray:
        """d_k for all parts, shape (parts, nodes + 1), each by its own losses."""
        weights, loss = self._weights[:, self._window], self.grid.loss[:, self._window]
        return tilted_differences(weights, loss, self._mean[0], step, nodes)

    def _shared_differences(self, step: float | FloatArray, nodes: int) -> ComplexArray:
        """d_k by plain sums over the losses that all parts share."""
        return differences(self._weights[:, self._window], self._soft, np.log1p(-self.parts.rate), float(step), nodes)

    @property
    def _soft(self) -> FloatArray:
        return np.zeros(0) if self.grid.soft is None else self.grid.soft[self._window]

    def _shared_rounding(self, t: FloatArray, size: FloatArray) -> FloatArray:
        """Bound of the rounding error of `_shared_differences`, shape (parts, nodes + 1), `size` = |d|.

        The total that the weights are divided by has an error too.
        """
        grid, theta = self.grid, np.abs(self._tilt)
        relative = grid.relative_error + theta * grid.loss_error + (UNIT_ROUNDOFF * theta) * np.abs(grid.loss)
        window = self._window
        slope = difference_slope(self._weights[:, window], self._soft, np.log1p(-self.parts.rate), relative[:, window])
        return slope[:, None] * t + 1.01 * self._total_error[:, None] * size

    @cached_property
    def _mean(self) -> tuple[FloatArray, FloatArray]:
        """E_theta(L) per part, and its error."""
        return tilted_mean(self.grid, self._tilt, self._weights, self._total)

    def _rounding_error(self, t: FloatArray) -> FloatArray:
        """Bound of the rounding error of d_k, shape (parts, nodes + 1).

        Relative errors of weights and products act on |E(x)E(y)| + |E'(x)| + |E'(y)| <= min(x^2 + y^2 + xy, 2(x + y))
        with x + y = t|L|; errors of L act through derivatives, which are O(t (t + 1 + |theta|) |L|) and at most 2t.
        """
        grid, theta, weights = self.grid, self._tilt, self._weights
        # Powers of e^{ix} by repeated multiplication: 4 u for each of about 2 sqrt(nodes) factors.
        relative = grid.relative_error + 8 * math.sqrt(t.shape[-1]) * UNIT_ROUNDOFF
        relative = relative + np.abs(theta) * grid.loss_error + UNIT_ROUNDOFF * np.abs(theta * grid.loss)
        size = np.abs(grid.loss)
        quadratic = np.sum(weights * relative * size**2, axis=-1)[:, None]
        linear = np.sum(weights * relative * size, axis=-1)[:, None]
        loss_error = grid.loss_error + 4 * UNIT_ROUNDOFF * size
        slope_small = np.sum(weights * loss_error * size, axis=-1)[:, None]
        slope_large = np.sum(weights * loss_error, axis=-1)[:, None]
        through_loss = np.minimum(t * (t + 1 + np.abs(theta)) * slope_small, 2 * t * slope_large)
        mean = self._mean[1][:, None]
        return 1.5 * np.minimum(t**2 * quadratic, 2 * t * linear) + 2 * through_loss + t * mean

    def _quadrature_error(self, t: FloatArray, top: FloatArray) -> FloatArray:
        """Bound of the trapezoid and cut errors of d_k up to the height `top`, shape (parts, nodes + 1).

        It grows with t: taken at the top if it is small there, else at a few heights. What the cut or the window leaves
        out changes e^{itL} - 1, at most 2, and the total it is divided by: 3 of it, taken as 4.
        """
        fractions = np.array([[0.1], [0.22], [0.5]] if self._negative else [[0.3], [0.45], [0.7]])
        a = np.minimum(fractions * math.pi * self.parts.sigma, 0.9 * 2 * math.pi / self.parts.step)
        heights = top[None]
        best = self._strip_errors(heights, a[-1:])[0]
        if not (self.parts.over_run(best) < _NEGLIGIBLE).all():
            heights = np.array([[0.15], [0.3], [0.5], [0.7], [1.0]]) * top
            best = np.fmin.reduce(self._strip_errors(heights, a), axis=0)
        best = best + 4 * (self._cut + self._omitted) + 2 * heights * self.parts.identity_error / self._total
        if not self.parts.separate:
            return best[np.searchsorted(heights[:, 0] * (1 + 1e-12), t)].T
        above = (t[:, None, :] > heights[:-1].T[:, :, None] * (1 + 1e-12)).sum(axis=1)
        return np.take_along_axis(best.T, above, axis=1)

    def _strip_errors(self, heights: FloatArray, a: FloatArray) -> FloatArray:
        """Trapezoid error of M from strips |Im y| <= a, `a` of shape (A, parts), at heights (T, 1) or (T, parts); shape
        (A, T, parts).

        Up to a node J the rectangle rule: (I(a) + I(-a))/(e^{2 pi a/h} - 1) with
        I(-+a) = e^{a^2/2} int phi |w(y + ia)|^theta e^{+-t arg w(y + ia)}, bounded by an upper Riemann sum with
        |d ln(integrand)| <= |y| + (|theta| + t) r/(sigma cos), and its side at J, where e^{t arg w} grows against
        1/(1 + e^{2 pi |s|/h}). Beyond J, where far jumps may turn too fast for the step, the sizes of sum and integral
        themselves. The best J serves.
        """
        grid, h, sigma, theta = self.grid, self.grid.step, self.parts.sigma, self._tilt
        if grid.soft is not None:
            return self._shared_strip_errors(heights, a)
        phi, cosine = (a / sigma)[..., None], np.cos(0.5 * a / sigma)[..., None]
        r, t, a = grid.responsibility, heights[:, :, None], a[..., None]
        sine_squared = np.sin(0.5 * phi) ** 2
        log_modulus = 0.5 * np.log1p(-4 * r * (1 - r) * sine_squared)
        argument = np.arctan2(r * np.sin(phi), 1 - 2 * r * sine_squared)
        near = self.parts.near / (sigma[:, None] * cosine)
        half_near = 0.5 * h * near
        flat = self.parts.flat + np.abs(theta) * half_near
        kernel = np.exp(0.5 * a**2 - 2 * math.pi * a / h) * 1.001
        base = np.ones_like(a)
        if self._negative:
            growth = self.parts.inverse_modulus_growth(theta, a[..., 0], self._weights)
            base = np.maximum(np.fmin(growth, cosine[..., 0] ** self.theta), 1.0)[..., None]
        settled = (self._log_weights + theta * log_modulus + flat)[:, None]
        growth = np.exp(settled + t * (argument + half_near)[:, None])
        inside = 2 * kernel[:, None] * (np.cumsum(growth, axis=-1) + base[:, None])
        # |integrand| <= term/h e^{s (t near + a/2)} there, against e^{-2 pi s/h}, 0 <= s <= a. Where the exponent grows
        # slower than 3/4 of that, the two halves of the side add up to (4 + ln 2)/(2 pi) < 0.75 terms: 1.3 leaves room
        # for the half step from J to the side. Where it grows faster, the growing half is below a/h terms of e^excess.
        excess = a[:, None] * np.maximum(t * near[:, None] + 0.5 * a[:, None] - 1.5 * math.pi / h, 0.0)
        grown = self._log_weights + excess
        if self._negative:
            grown = grown + theta * self.parts.log_least_modulus(a[..., 0])[:, None]
        side = (1.3 + 2 * a[:, None] / h * (excess > 0)) * np.exp(grown)
        sizes = self._weights + np.exp(self._log_weights + flat)
        beyond = np.zeros_like(sizes)
        beyond[..., :-1] = np.cumsum(sizes[..., :0:-1], axis=-1)[..., ::-1]
        growing = 4 * kernel.swapaxes(1, 2) * heights / self._total
        return (inside + side + beyond[:, None]).min(axis=-1) + growing

    def _shared_strip_errors(self, heights: FloatArray, a: FloatArray) -> FloatArray:
        """The same for parts that share their losses."""
        theta, base, log_least = float(self.theta[0]), np.ones_like(a), None
        if theta < 0:
            growth = self.parts.inverse_modulus_growth(self._tilt, a, self._weights)
            base = np.maximum(np.fmin(growth, np.cos(0.5 * a / self.parts.sigma) ** theta), 1.0)
            log_least = self.parts.log_least_modulus(a)
        found = strip_errors(self.grid, self._log_weights, theta, heights[:, 0], a, base, log_least)
        kernel = np.exp(0.5 * a**2 - 2 * math.pi * a / self.parts.step) * 1.001
        return found + 4 * kernel[:, None] * heights / self._total

    def log_variation(self) -> float:
        """That of the part where it is smallest, see `log_variations`."""
        return float(self.log_variations().min())

    def log_variations(self) -> FloatArray:
        """ln V with |M(theta + it)/M(theta)| <= V/t for every t > 0, for each part.

        Integration by parts in y: t |M| <= int |psi'| and the values of psi at the ends, psi = phi w^theta / L',
        L' = r/sigma, by an upper Riemann sum with |psi'/psi| <= |y| + (|theta| r + 1)/sigma. Left of its first node y0
        psi(y)/psi(y0) = e^{(y0^2 - y^2)/2} (w/w0)^{theta + 1} e^{(y0 - y)/sigma} is at most e^{(y0 + 1/sigma)^2/2}
        where y0 > -1/sigma, else 1, times (w0/(1 - p))^-theta for theta < 0; and it has one hump, its logarithm being
        concave, where (1 + |theta|) r0 < sigma^2.
        """
        grid, half_step = self.grid, 0.5 * self.grid.step / self.parts.sigma[:, None]
        # Half a step times the steepness.
        change = self.parts.flat + (np.abs(self._tilt) * half_step) * self.parts.near + half_step
        log_psi = self._log_weights + self.parts.log_lever
        ends = grid.at_ends(log_psi)
        first, r_first = grid.y[:, 0], grid.responsibility[:, 0]
        hump = 0.5 * np.maximum(first + 1 / self.parts.sigma, 0.0) ** 2 - np.maximum(-self.theta, 0.0) * np.log1p(
            -r_first
        )
        concave = (1 + np.abs(self.theta)) * r_first < self.parts.sigma**2
        ends[:, 0] += np.where(concave, hump, np.inf)
        log_psi += change
        variation = 2 * np.sum(change * np.exp(log_psi), axis=-1) + np.exp(ends) @ np.array([2.0, 1.0])
        return np.log(variation) + 1e-9

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Upper bounds U(t) of the sum of ln |M(theta + it')/M(theta)| over all steps, t' >= t, and its least summand.

        Both of the shape (H,) of the heights t; of separate parts at heights (H, parts). For every eta in (0, pi
        sigma), |M(theta + it)| <= B_eta(t) with

            B_eta(t) = e^{eta^2/2} int phi |w(y + i eta)|^theta e^{-t arg w(y + i eta)},

        which decreases in t because arg w >= 0. The best of a few eta serves each height.
        """
        heights = heights if self.parts.separate else heights[:, None]
        strips = self._majorant_strips(heights[0])
        bounds = np.log(strips.sums(heights) * (1 + 1e-12) + strips.error) + strips.log_factor
        bounds = np.fmin(bounds, 0.0)
        best = bounds.min(axis=1)
        self._chosen_eta = np.take_along_axis(strips.eta, bounds[-1].argmin(axis=0)[None], axis=0)[0]
        self._chosen_height = heights[-1]
        return self.parts.over_run(best), best if self.parts.separate else best.min(axis=1)

    def _majorant_strips(self, height: FloatArray) -> _MajorantStrips:
        """Strips for heights from about this one on, shape (1,) or (parts,)."""
        share = height / np.maximum(self._strips_height, 1e-300)
        if self._strips is None or not ((share >= 0.9) & (share <= _LARGEST_SHARE)).all():
            self._strips_height = height
            if self._strips is None:
                log_weights, responsibility, _ = self._majorant_nodes
                center = 0.8 * height * np.sum(np.exp(log_weights) * responsibility, axis=-1) / self.parts.sigma
                if self.grid.soft is not None:  # eta/sigma is common
                    center = self.parts.sigma * float((center / self.parts.sigma).mean())
            else:  # the best eta grows slower than the height
                center = self._chosen_eta * np.sqrt(height / self._chosen_height)
            largest = np.minimum(0.9 * math.pi * self.parts.sigma, LARGEST_ETA)
            if self.grid.soft is not None:
                largest = self.parts.sigma * float((largest / self.parts.sigma).min())
            self._strips = self._build_strips(np.minimum(_ETA_FACTORS[:, None] * center, largest))
        return self._strips

    @cached_property
    def _majorant_nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """ln of the weights and responsibilities of the nodes that serve the sums of majorants, and their step."""
        stride = self.parts.majorant_stride
        log_weights = self._log_weights[:, self._window][:, ::stride] + math.log(stride)
        return log_weights, self.grid.responsibility[:, self._window][:, ::stride], stride * self.parts.step

    def _build_strips(self, eta: FloatArray) -> _MajorantStrips:
        """Strips for eta of shape (E, parts): B_eta(t)/M(theta) as a trapezoid sum, and the error of that sum.

        The integrand of B continues to |Im y| <= s with modulus <= e^{s^2/2} phi w^theta (for theta < 0 with the growth
        of 1/|w|), for s <= pi sigma/2 and s + eta < pi sigma: its two halves w(y + i(s + eta)) and w(y + i(s - eta))
        have arg w(y + i(s + eta)) >= arg w(y + i(s - eta)) there, so the e^{-t arg} factors never grow.
        """
        theta, sigma = self.theta, self.parts.sigma
        log_weights, r, step = self._majorant_nodes
        half = (0.5 * eta / sigma)[..., None]
        if self.grid.soft is not None:
            half, r = half.min(axis=1, keepdims=True), r[:1]
            eta = 2 * half[..., 0] * sigma
        sine_squared = np.sin(half) ** 2
        argument = np.arctan2(r * np.sin(2 * half), 1 - 2 * r * sine_squared)
        log_modulus = (0.5 * self._tilt) * np.log1p(-4 * r * (1 - r) * sine_squared)
        s = np.minimum(np.minimum(2 * math.pi / step, 0.5 * math.pi * sigma), 0.9 * (math.pi * sigma - eta))
        strip = 0.5 * s**2 - 2 * math.pi * s / step
        if self._negative:
            strip = strip + theta * np.log(np.cos(0.5 * (s + eta) / sigma))
            if strip.max() > _LOG_NEGLIGIBLE:
                s = 0.5 * s
                growth = self.parts.inverse_modulus_growth(self._tilt, s + eta, self._weights)
                strip = np.fmin(strip, 0.5 * s**2 - 2 * math.pi * s / step + np.log(np.maximum(growth, 1.0)))
        # The end may lie anywhere between the nodes that serve: its side is below two terms, 4 of `_cut` (half a term
        # each). The path from the real line to Im y = eta adds two more sides, each below eta/h of an end's term. With
        # every fourth node a weight left out counts 4 times at most.
        error = 2.1 * np.exp(strip) + 4 * self._omitted + (4 + 4 * eta / self.parts.step) * self._cut
        return _MajorantStrips(eta, argument, log_modulus, log_weights, error, 0.5 * eta**2 + 1e-12)


@dataclass(frozen=True, slots=True)
class _MajorantStrips:
    """Majorants on lines Im y = eta: B_eta(t)/M(theta) <= e^{log_factor} (sum e^{log_weight - t argument} + error)."""

    eta: FloatArray
    argument: FloatArray
    log_modulus: FloatArray
    log_weights: FloatArray
    error: FloatArray
    log_factor: FloatArray

    def sums(self, heights: FloatArray) -> FloatArray:
        """sum e^{log_modulus + log_weights - t argument} at heights t (T, 1) or (T, parts), shape (T, E, parts)."""
        turned = heights[:, None, :, None] * self.argument
        if self.argument.shape[1] == len(self.log_weights):
            return np.exp((self.log_modulus + self.log_weights) - turned).sum(axis=-1)
        # Parts that share their losses: one exponential for all.
        shared = np.exp(np.maximum(self.log_modulus - turned, -300.0))[:, :, 0]
        return shared @ np.exp(np.maximum(self.log_weights, -400.0)).T
