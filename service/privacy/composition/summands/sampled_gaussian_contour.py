"""Poisson-sampled Gaussian steps on an inversion contour Re z = theta.

The methods are those of `trapezoid_contour.py`. The outcome y, the likelihood ratio w and the responsibility r of a
step are those of `sampled_gaussian.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.sampled_gaussian import LARGEST_ETA, TruncatedSampledGaussian
from service.privacy.composition.summands.sampled_gaussian_shared import difference_slope, differences, strip_errors
from service.privacy.composition.summands.trapezoid_contour import ETA_FACTORS, StripField, TrapezoidOnContour
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import ComplexArray

_LOG_NEGLIGIBLE = -75.0
"""ln of the strip error of a majorant below which no sharper bound is needed."""


class SampledGaussianOnContour(TrapezoidOnContour[TruncatedSampledGaussian]):
    """Sampled Gaussian parts of a run under the law tilted by e^{theta L}, on the contour Re z = theta.

    L = ln w is the loss of a step, and M(z) = E0 e^{zL} its transform. w(y) = 1 - p + p e^{y/sigma - 1/(2 sigma^2)} is
    the likelihood ratio at the outcome y, with the noise multiplier sigma and the sampling rate p. r = 1 - (1 - p)/w is
    the responsibility. Sums over losses that parts share are matrix products.
    """

    @override
    def differences(self, step: float | FloatArray, nodes: int, last: IndexArray | None) -> ComplexArray:
        if self.law.grid.soft is None:
            return super().differences(step, nodes, last)
        soft, unsampled = self.law.grid.soft[self.window], np.log1p(-self.law.rate)
        return differences(self.tilted_weights[:, self.window], soft, unsampled, float(step), nodes)

    @override
    def rounding_error(self, t: FloatArray) -> FloatArray:
        if self.law.grid.soft is None:
            return super().rounding_error(t)
        grid, theta, window = self.grid, np.abs(self.tilt), self.window
        relative = grid.relative_error + theta * (grid.loss_error + UNIT_ROUNDOFF * np.abs(grid.loss))
        unsampled = np.log1p(-self.law.rate)
        slope = difference_slope(
            self.tilted_weights[:, window], self.law.grid.soft[window], unsampled, relative[:, window]
        )
        return slope[:, None] * t

    @property
    @override
    def half_widths(self) -> FloatArray:
        fractions = np.array([[0.1], [0.22], [0.5]] if self.is_lowered else [[0.3], [0.45], [0.7]])
        return np.minimum(fractions * math.pi * self.law.sigma, 0.9 * 2 * math.pi / self.law.step)

    @override
    def field(self, height: FloatArray) -> StripField:
        """Return bounds of the integrand on strips |Im y| <= q, where `height` holds q, shape (strips, parts).

        w is the likelihood ratio at y + iq and r the responsibility at the outcome y. The slopes |d arg w/dy|, |d arg
        w/dq| and |d ln |w|/dy| are at most r/(sigma cos(phi/2)) with phi = q/sigma. sigma is the noise multiplier.
        """
        sigma, r, theta = self.law.sigma, self.law.grid.responsibility, self.tilt
        phi = (height / sigma)[..., None]
        log_modulus, argument = turned_ratio(r, phi)
        near = self.law.near / (sigma[:, None] * np.cos(0.5 * phi))
        largest = theta * self.law.log_least_modulus(height) if self.is_lowered else np.zeros_like(phi)
        size_slope = self.law.normal_slope + np.abs(theta) * near
        return StripField(theta * log_modulus, argument, largest, size_slope, near, near)

    @override
    def strip_errors(self, heights: FloatArray, q: FloatArray) -> FloatArray:
        if self.law.grid.soft is None:
            return super().strip_errors(heights, q)
        theta, base, log_least = float(self.theta[0]), np.ones_like(q), None
        if theta < 0:
            inverse = self._inverse_modulus_growth(q)
            base = np.maximum(np.fmin(inverse, np.cos(0.5 * q / self.law.sigma) ** theta), 1.0)
            log_least = self.law.log_least_modulus(q)
        return strip_errors(self.law.grid, self.log_tilted_weights, theta, heights[:, 0], q, base, log_least)

    def _inverse_modulus_growth(self, q: FloatArray) -> FloatArray:
        """Return an upper Riemann sum of the tilted weights times max |w(y + iq')/w(y)|^theta over |q'| <= q.

        w is the likelihood ratio at the outcome y. The maximum exceeds 1 for theta < 0. `q` and the result have the
        shape (..., parts).
        """
        exponent = np.minimum(self.tilt, 0.0) * self.law.log_least_modulus(q) + 0.5 * self.grid.step * self.slope
        return np.sum(np.where(self.tilted_weights > 0, self.tilted_weights * np.exp(exponent), 0.0), axis=-1)

    @property
    @override
    def variation_terms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Terms of `TrapezoidOnContour.log_variations`: ln L' = ln(r/sigma), an upper bound of |L''/L'|, a left end.

        The bound of |L''/L'| is 1/sigma. L' = dL/dy is the slope of the loss, and |d ln r/dy| <= 1/sigma for the
        responsibility r. The last term, shape (parts,), is the variation of psi = phi w^theta/L' left of the first node
        y0 over psi(y0). phi is the normal density, and w0, r0 are the likelihood ratio and the responsibility at y0.
        There psi(y)/psi(y0) = e^{(y0^2 - y^2)/2} (w/w0)^{theta + 1} e^{(y0 - y)/sigma}. This ratio is at most e^{(y0 +
        1/sigma)^2/2} where y0 > -1/sigma, else 1, times (w0/(1 - p))^-theta for theta < 0. Where (1 + |theta|) r0 <
        sigma^2, its logarithm is concave, and the ratio has one maximum. Where (1 + |theta| r0)/sigma <= -y0 it is at
        most 1, because (w/w0)^theta rises by less. theta is the tilt, and sigma the noise multiplier.
        """
        sigma = self.law.sigma
        first, r_first = self.grid.x[:, 0], self.law.grid.responsibility[:, 0]
        rise = 0.5 * np.maximum(first + 1 / sigma, 0.0) ** 2 + np.minimum(self.theta, 0.0) * np.log1p(-r_first)
        rise = np.where((1 + np.abs(self.theta) * r_first) * (1 + 1e-9) <= -first * sigma, 0.0, rise)
        concave = (1 + np.abs(self.theta)) * r_first < sigma**2
        log_rate = np.log(self.law.grid.responsibility) - np.log(sigma[:, None])
        return log_rate, 1 / sigma[:, None], 2 * np.exp(np.where(concave, rise, np.inf))

    @override
    def build_majorants(self, height: FloatArray, center: FloatArray | None) -> SampledGaussianMajorants:
        sigma = self.law.sigma
        if center is None:
            log_weights, responsibility, _ = self._majorant_nodes
            center = 0.8 * height * np.sum(np.exp(log_weights) * responsibility, axis=-1) / sigma
            if self.law.grid.soft is not None:  # eta/sigma is common
                center = sigma * float((center / sigma).mean())
        largest = np.minimum(0.9 * math.pi * sigma, LARGEST_ETA)
        if self.law.grid.soft is not None:
            largest = sigma * float((largest / sigma).min())
        return self._built(np.minimum(ETA_FACTORS[:, None] * center, largest))

    @cached_property
    def _majorant_nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Nodes of the sums of majorants: ln of the tilted weights, responsibilities, and distances of the nodes.

        Majorants are upper bounds of the transform along the contour. The responsibility of a node is the probability
        that the step used the record. The first two arrays have the shape (parts, n), and the distances (parts,).
        """
        stride = self.law.majorant_stride
        log_weights = self.log_tilted_weights[:, self.window][:, ::stride] + math.log(stride)
        return log_weights, self.law.grid.responsibility[:, self.window][:, ::stride], stride * self.law.step

    def _built(self, eta: FloatArray) -> SampledGaussianMajorants:
        """Return B_eta(t)/M(theta) as a trapezoid sum for eta of shape (paths, parts), with a bound of its error.

        B_eta(t) bounds |M(theta + it)| by the integral of phi |w|^theta e^{-t arg w} on the path Im y = eta, with the
        normal density phi and the likelihood ratio w. The integrand of B continues to |Im y| <= s for s <= pi sigma/2
        and s + eta < pi sigma. Its modulus is at most e^{s^2/2} phi w^theta, for theta < 0 with the growth of 1/|w|.
        The two halves w(y + i(s + eta)) and w(y + i(s - eta)) have arg w(y + i(s + eta)) >= arg w(y + i(s - eta))
        there. Hence the factors e^{-t arg} never grow. M is the transform of one step, theta the tilt, and sigma the
        noise multiplier.
        """
        theta, sigma = self.theta, self.law.sigma
        log_weights, r, step = self._majorant_nodes
        half = (0.5 * eta / sigma)[..., None]
        if self.law.grid.soft is not None:
            half, r = half.min(axis=1, keepdims=True), r[:1]
            eta = 2 * half[..., 0] * sigma
        log_modulus, argument = turned_ratio(r, 2 * half)
        log_modulus = self.tilt * log_modulus
        s = np.minimum(np.minimum(2 * math.pi / step, 0.5 * math.pi * sigma), 0.9 * (math.pi * sigma - eta))
        strip = 0.5 * s**2 - 2 * math.pi * s / step
        if self.is_lowered:
            strip = strip + theta * np.log(np.cos(0.5 * (s + eta) / sigma))
            if strip.max() > _LOG_NEGLIGIBLE:
                s = 0.5 * s
                inverse = self._inverse_modulus_growth(s + eta)
                strip = np.fmin(strip, 0.5 * s**2 - 2 * math.pi * s / step + np.log(np.maximum(inverse, 1.0)))
        # The truncation may lie anywhere between the nodes of the stride. Its side is below two terms, or 4 `end_error`
        # (half a term each). The path from the real line to Im y = eta adds two sides, each below eta/h times a last
        # term. With every fourth node an omitted weight counts at most 4 times.
        error = 2.1 * np.exp(strip) + 4 * self.omitted + (4 + 4 * eta / self.law.step) * self.end_error
        return SampledGaussianMajorants(eta, argument, log_modulus, log_weights, error, 0.5 * eta**2 + 1e-12)


def turned_ratio(r: FloatArray, phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln |g| and arg g of g = 1 - r + r e^{i phi}, in the common shape of r and phi.

    g is the likelihood ratio at the outcome y + i phi sigma over that at y, for the noise multiplier sigma. r in [0, 1]
    is the responsibility, and 0 <= phi < pi.
    """
    sine_squared = np.sin(0.5 * phi) ** 2
    log_modulus = 0.5 * np.log1p(-4 * r * (1 - r) * sine_squared)
    return log_modulus, np.arctan2(r * np.sin(phi), 1 - 2 * r * sine_squared)


@dataclass(frozen=True, slots=True)
class SampledGaussianMajorants:
    """Majorants B_eta(t)/M(theta) <= e^{log_factor} (sum e^{log_modulus + log_tilted_weights - t argument} + error).

    B_eta(t) bounds |M(theta + it')| for all heights t' >= t, from the path Im y = eta; M is the transform of one step.
    `log_modulus` is theta ln |w(y + i eta)/w(y)| and `argument` is arg w(y + i eta), for the likelihood ratio w at the
    nodes y. The sum is over nodes. `eta` has the shape (paths, parts), the first two arrays (paths, parts or 1, nodes).
    """

    eta: FloatArray
    argument: FloatArray
    log_modulus: FloatArray
    log_tilted_weights: FloatArray
    error: FloatArray
    log_factor: FloatArray

    def log_bounds(self, heights: FloatArray) -> FloatArray:
        """Return ln B_eta(t)/M(theta) from above, at most 0, at the heights t; shape (heights, paths, parts).

        B_eta(t) is the majorant of `SampledGaussianMajorants`. M is the transform of one step, and theta the tilt.
        """
        bounds = np.log(self._sums(heights) * (1 + 1e-12) + self.error) + self.log_factor
        return np.fmin(bounds, 0.0)

    def _sums(self, heights: FloatArray) -> FloatArray:
        """Return sum e^{log_modulus + log_tilted_weights - t argument} over nodes at the heights t.

        The shape is (heights, paths, parts). The heights have the shape (heights, 1) or (heights, parts). The arrays
        are those of `SampledGaussianMajorants`.
        """
        if self.argument.shape[1] == len(self.log_tilted_weights):
            sizes = self.log_modulus + self.log_tilted_weights
            return np.stack([np.exp(sizes - height[:, None] * self.argument).sum(axis=-1) for height in heights])
        turned = heights[:, None, :, None] * self.argument
        # Parts that share their losses need one exponential only.
        shared = np.exp(np.maximum(self.log_modulus - turned, -300.0))[:, :, 0]
        return shared @ np.exp(np.maximum(self.log_tilted_weights, -400.0)).T
