"""Mixtures of shifted Gaussians on an inversion contour Re z = theta.

The methods are those of `trapezoid_contour.py`. The symbols a, b, A, m, mu, `near` and `spread` are those of the module
docstring of `gaussian_mixture_nodes.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from typing_extensions import override

from service.privacy.composition.summands.gaussian_mixture import TruncatedGaussianMixture
from service.privacy.composition.summands.trapezoid_contour import (
    ETA_FACTORS,
    StripField,
    TrapezoidOnContour,
    least_over_last_nodes,
    side_terms,
)
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.work import count_work

_A_TERM = 0.03
"""Approximate work of a node of a strip at a height, microseconds."""

_LEAST = 0.05
"""Lower bound of |A| on all strips used."""

_LEAST_SINE = -0.21724
"""Number below the minimum of sin(x)/x, which falls up to `_TURN`."""
_TURN = 4.4934


class GaussianMixtureOnContour(TrapezoidOnContour[TruncatedGaussianMixture]):
    """Gaussian mixtures of a run under the law tilted by e^{theta L}, on the contour Re z = theta.

    L is the loss of one step. The density at x is phi(x) a(x) with the record and phi(x) b(x) without it, with the
    normal density phi. mu is the inverse noise multiplier, and m the mean of the shift s given x.
    """

    @override
    def field(self, height: FloatArray) -> StripField:
        grid, theta, strip = self.law.grid, self.tilt, self.law.grid.strip(height)
        least = np.maximum(strip.least, 1e-3)  # the widths chosen keep it larger where a node has weight
        swing = grid.near / least
        return StripField(
            grid.mixed(theta, strip.log_modulus),
            grid.both(strip.argument),
            grid.lowered(theta, np.log(least)),
            np.abs(self.law.steepness(theta) - grid.x) + 0.5 * grid.step + grid.sized(theta, swing),
            grid.both(np.minimum(swing, grid.steepest / least)),
            grid.both(np.minimum(grid.mean + swing, grid.steepest / least)),
        )

    @property
    @override
    def half_widths(self) -> FloatArray:
        return np.array([[0.12], [0.28], [0.62]] if self.is_lowered else [[0.4], [0.6], [0.88]]) * self.law.widest

    @property
    @override
    def variation_terms(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Terms of `TrapezoidOnContour.log_variations`: ln L', an upper bound of |L''/L'|, and ones.

        The first two have the shape (parts, nodes). L' = dL/dx is mu m at x, plus mu m at -x for mirrored steps. mu is
        the inverse noise multiplier, and m the mean of the random shift s given x. |L''/L'| is at most mu^2 (variances
        of s)/L' and also at most the largest shift. The third term, the variation left of the first node relative to
        the value there, has the shape (parts,).
        """
        grid = self.law.grid
        rate = grid.both(grid.mean)
        if grid.terms.shift.size == 0:  # no component is left inside the truncation
            return np.zeros_like(rate), np.zeros_like(rate), np.full(len(rate), np.inf)
        # m increases, so that over a cell it is at least m at the previous node.
        before = np.concatenate([np.zeros_like(rate[:, :1]), grid.mean[:, :-1]], axis=1)
        largest = grid.terms.shift.max(axis=1)[:, None] * np.ones_like(rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(rate), np.fmin(grid.both(grid.spread) / grid.both(before), largest), np.ones(len(rate))

    @override
    def build_majorants(self, height: FloatArray, center: FloatArray | None) -> MixtureMajorants:
        if center is None:
            center = 0.8 * height * np.sum(self.tilted_weights * self.law.grid.both(self.law.grid.mean), axis=-1)
        largest = np.minimum(0.8 * self._highest, 20.0)
        return self._built(np.minimum(ETA_FACTORS[:-1, None] * center, largest))

    @cached_property
    def _highest(self) -> FloatArray:
        """Heights q up to which |a(x + iq)/a(x)| is known to be at least `_LEAST` at all nodes with weight.

        The density of H1 at x is a(x) times the normal density. The shape is (parts,).
        """
        spread = np.where(self.grid.inside, self.law.grid.spread, 0.0).max(axis=1)
        return np.sqrt(2 * (1 - _LEAST) / spread) * (1 - 1e-9)

    def _built(self, eta: FloatArray) -> MixtureMajorants:
        """Return B_eta(t)/M(theta) as a trapezoid sum for eta of shape (paths, parts), with a bound of its error.

        B_eta(t) bounds |M(theta + it)| by the integral of |phi a^z b^{1-z}| on the path Im x = eta, where M is the
        transform of one step (`TrapezoidOnContour.log_majorants`). With f = phi a^z b^{1-z} and g(x) = conj f(conj x),
        the integrand of B is the root of f(x + i eta) g(x - i eta). The integrand continues to |Im x| <= q with the
        modulus

            phi e^{(q^2 + eta^2)/2} (size at eta + q  times  size at eta - q)^{1/2} e^{-t (D(eta + q) + D(eta - q))/2}.

        Here size = |A|^theta |B|^{1-theta} and D = arg A - arg B at the given height, with A(x, q) = a(x + iq)/a(x) and
        B likewise. theta is the tilt of the contour.
        """
        grid, h = self.law.grid, self.grid.step
        here = self.field(eta)
        q = np.minimum(np.minimum(2 * math.pi / h[:, 0], 0.55 * self._highest), 0.95 * (self._highest - eta))
        rising = np.minimum(grid.rising, grid.rising[:, ::-1]) if grid.mirrored else grid.rising
        usual = np.where(grid.inside, rising, np.inf).min(axis=-1) - eta
        q = np.where(usual > 0.3 * q, np.minimum(q, usual), q)
        known = rising >= (eta + q)[..., None]  # the argument at eta + q is no smaller than that at |eta - q|
        above, below = self.field(eta + q), self.field(np.abs(eta - q))
        sign = np.where(eta >= q, 1.0, -1.0)[..., None]
        log_size = 0.5 * (above.log_size + below.log_size)
        slope = 0.5 * (above.size_slope + below.size_slope)
        exponent = 0.5 * q**2 - 2 * math.pi * q / h[:, 0]
        turn = 0.5 * (above.turn + sign * below.turn) - 0.25 * h * (above.turn_slope + below.turn_slope)
        log_strip = self.log_tilted_weights + log_size + 0.5 * h * slope + exponent[..., None] + math.log(2.1)
        ends = self.log_tilted_weights + above.log_largest + 0.5 * h * self.outward
        return MixtureMajorants(
            eta,
            np.maximum(here.turn, 0.0),
            here.log_size + self.log_tilted_weights,
            np.where(known, np.maximum(turn, 0.0), turn),
            np.where(
                self._turns_forward(eta)[..., None] & grid.inside, log_strip, np.where(grid.inside, np.inf, -np.inf)
            ),
            np.where(grid.inside, ends, np.inf),
            np.where(known, 0.0, above.turn_rate),
            np.exp(self.log_tilted_weights + 0.5 * h * self.slope),
            self.middle,
            q,
            h[:, 0],
        )

    def _turns_forward(self, eta: FloatArray) -> BoolArray:
        """Return whether arg A(x, q) >= 0 is known for 0 <= q <= eta at all x inside the truncation, shape (E, parts).

        A(x, q) = a(x + iq)/a(x) = E e^{iq mu s}, the mean over the shift s given x, where a(x) is the density of H1
        over the normal density. mu is the inverse noise multiplier, and m the mean of s. The argument increases with q
        where mu m >= near/least, or where the grid proves it (`near` and least = 1 - q^2 spread/2 are those of
        `gaussian_mixture_nodes.py`). Let x* be the right end of the last cell (half a node distance around a node)
        where neither is known. Wherever least > 0, arg A > q mu m - pi/2, so that Im A = E sin(q mu s) >= 0 suffices.
        Let k(y) = inf sin(y')/y' over y' <= y. As sin(q mu s) >= q mu s k(eta mu s), Im A >= 0 holds for all q <= eta
        where P(x) = sum w_i e^{v_i} s_i k(eta mu s_i) is not negative. k decreases, so the coefficients of P change
        sign at most once in the order of the shifts. P then has at most one zero (Descartes' rule for exponentials) and
        is positive left of it. Hence P(x*) >= 0 is enough.
        """
        grid = self.law.grid
        least = 1 - 0.5 * eta[..., None] ** 2 * grid.spread
        forward = (grid.mean * least >= grid.near) | (grid.rising >= eta[..., None])
        forward &= least > 0
        unknown = grid.inside & ~forward
        last = np.where(unknown.any(axis=-1), unknown.shape[-1] - 1 - unknown[..., ::-1].argmax(axis=-1), -1)
        right = np.minimum(last + 1, unknown.shape[-1] - 1)
        y = eta[..., None] * grid.terms.shift
        k = np.where(y < _TURN, np.sinc(np.minimum(y, _TURN) / math.pi), _LEAST_SINE)
        indices = np.broadcast_to(right[:, :, None, None], (*y.shape, 1))
        responsibility = np.broadcast_to(grid.responsibility, (len(eta), *grid.responsibility.shape))
        at = np.take_along_axis(responsibility, indices, axis=-1)[..., 0]
        positive = np.sum(at * grid.terms.shift * k, axis=-1) > 1e-12 * np.sum(at * grid.terms.shift, axis=-1)
        return (last < 0) | (positive & (right > last))


@dataclass(frozen=True, slots=True)
class MixtureMajorants:
    """Majorants B_eta(t)/M(theta) of the transform on paths Im x = eta.

    They are at most e^{eta^2/2} (sum e^{log_terms - t turn} + errors), a sum over nodes. B_eta(t) bounds |M(theta +
    it')| for all heights t' >= t of the contour. M is the transform of one step, and theta the tilt of the contour.
    `turn` is D = arg A - arg B at Im x = eta. With the normal density phi, the density of H1 is phi a, and A(x, q) =
    a(x + iq)/a(x). B is the same for H0. `middle` is the index of a node near the largest weights, and `width` the
    half-width of the strip that bounds the error. `eta` and `width` have the shape (E, parts) for E paths Im x = eta,
    and arrays at nodes have the shape (E, parts, nodes).
    """

    eta: FloatArray
    turn: FloatArray
    log_terms: FloatArray
    strip_turn: FloatArray
    log_strip: FloatArray
    """Exponents of the strip error at a height t of the contour, sum e^{log_strip - t strip_turn}."""
    log_ends: FloatArray
    """ln of the size of the integrand half a cell from each node, in terms."""
    end_rates: FloatArray
    """Upper bounds of |dD/dq| half a cell from each node."""
    sizes: FloatArray
    """Integrals over the cells on the real axis."""
    middle: int
    width: FloatArray
    step: FloatArray

    def log_bounds(self, heights: FloatArray) -> FloatArray:
        """Return upper bounds of ln B_eta(t)/M(theta), at most 0, at the heights t; shape (heights, paths, parts).

        B_eta(t) bounds |M(theta + it')| for all t' >= t, by an integral of a modulus along a path. Its path goes up to
        eta at one node J and down at another, where D >= 0. Each vertical path costs eta/h terms, with the distance h
        of the nodes. Outside of the nodes J the path stays on the real axis, where far jumps may turn too fast for the
        step. The sides of the sum's rectangle there have the same bounds as those of the strips of a contour. The best
        J serves on either side. M is the transform of one step, and theta the tilt.
        """
        count_work(_A_TERM * len(heights) * self.log_terms.size)
        t = heights[:, None, :, None]
        summed = np.exp(self.log_terms - t * self.turn).sum(axis=-1) * (1 + 1e-12)
        strip = np.exp(np.minimum(self.log_strip - t * self.strip_turn, 600.0)).sum(axis=-1)
        q, h = self.width[..., None], self.step[:, None]
        sides = side_terms(self.log_ends, t * self.end_rates + 0.5 * q, q, h, self.eta[..., None] / h)
        ends = least_over_last_nodes(np.zeros_like(sides), sides, self.sizes, self.middle)
        bounds = np.log(summed + strip + ends) + 0.5 * self.eta**2 + 1e-12
        return np.fmin(np.where(np.isnan(bounds), 0.0, bounds), 0.0)
