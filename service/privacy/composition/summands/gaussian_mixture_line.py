"""Steps that are mixtures of shifted Gaussians on a vertical line Re z = theta: values of K, errors, majorants of |M|.

Notation of `gaussian_mixture_grid.py`. E_theta is the expectation under the law tilted by e^{theta L}, so that
M(theta + it)/M(theta) = E_theta e^{itL}. D(x, q) = arg A - arg B is what the argument of a^{it} b^{-it} has on a strip:

    |a^z b^{1-z}| (x + iq) = (a^theta b^{1-theta})(x) |A|^theta |B|^{1-theta} e^{-tD}

with, as b(x + iq) is the conjugate of a(-x + iq), |B(x, q)| = |A(-x, q)| and D(x, q) = arg A(x, q) + arg A(-x, q) where
the step is mirrored, and 1 and arg A else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.privacy.composition.summands.abstract import LineSummand, LineValues
from service.privacy.composition.summands.gaussian_mixture import GaussianMixtureParts
from service.privacy.composition.summands.gaussian_mixture_grid import Strip
from service.privacy.composition.summands.gaussian_mixture_majorants import MajorantStrips, least_ends
from service.privacy.composition.summands.gaussian_mixture_moments import mean_loss
from service.privacy.composition.summands.node_sums import line_values, tilted_differences
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

_NEGLIGIBLE = 2e-14
"""A trapezoid error of the whole run below this needs no sharper bound."""


_ETA_FACTORS = np.array([0.5, 0.65, 0.8, 0.95, 1.15, 1.5, 2.2, 5.0])
"""Majorants are taken on these multiples of about the best height at the first t; large ones serve large t."""

_LEAST = 0.05
"""|A| stays above this on all strips used."""

_LEAST_SINE = -0.21724
"""Below the least value of sin(x)/x, which falls up to `_TURN`."""
_TURN = 4.4934


@dataclass(frozen=True, slots=True)
class _Field:
    """|a^z b^{1-z}| on strips around a line, relative to that on the real axis; all of shape (E, parts, nodes)."""

    log_size: FloatArray
    """ln |A|^theta |B|^{1-theta} at the nodes."""
    turn: FloatArray
    """D at the nodes."""
    log_largest: FloatArray
    """ln of the same size from above, over the cells and all heights up to the strip's."""
    size_slope: FloatArray
    """A bound of |d ln(phi a^theta b^{1-theta} size)/dx| over the cells."""
    turn_slope: FloatArray
    """A bound of |dD/dx| over the cells, for all heights up to the strip's, and"""
    turn_rate: FloatArray
    """of |dD/dq|."""


class GaussianMixtureLine(LineSummand):
    """The mixtures of a run, tilted by theta."""

    def __init__(self, parts: GaussianMixtureParts, theta: float) -> None:
        self.parts, self.theta, self.grid = parts, theta, parts.grid
        self._moments = moments = parts.moments(theta)
        self._origin = parts.value(moments)
        self._weights = moments.weights / moments.total[:, None]
        self._cut = parts.cut(moments)
        self._log_weights = theta * self.grid.loss + self.grid.log_weight - moments.log_total[:, None]
        self._total = np.exp(np.minimum(moments.log_total, 700.0))  # only ever divides: too small is safe
        self._strips: MajorantStrips | None = None
        self._strips_height = self._chosen_height = 0.0
        self._chosen_eta = np.zeros(len(parts.count))

    @property
    def origin(self) -> tuple[float, float]:
        """K(theta) and a bound of its error."""
        return self._origin

    def values(self, step: float, nodes: int) -> LineValues:
        """K(theta + i t_k) - K(theta) = sum N ln(1 + d_k) with d_k = E_theta(e^{i t_k L} - 1), and its error bound."""
        t = np.arange(nodes + 1, dtype=np.float64) * step
        d = tilted_differences(self._weights, self.grid.loss, self._mean[0], step, nodes)
        size = np.abs(d)
        error = self._rounding_error(t) + 6 * UNIT_ROUNDOFF * size * (2 + size) + self._quadrature_error(t)
        return line_values(self.parts.count, d, error)

    @cached_property
    def _mean(self) -> tuple[FloatArray, FloatArray]:
        """E_theta(L) per part, and the error of d per unit of t that comes with it."""
        return mean_loss(self.grid, self._moments, self._weights, self._total, self.parts.identity_error)

    def _rounding_error(self, t: FloatArray) -> FloatArray:
        """Bound of the rounding error of d_k, shape (parts, nodes + 1), and of what its mean loss brings.

        Relative errors of weights and products act on |E(x)E(y)| + |E'(x)| + |E'(y)| <= min(x^2 + y^2 + xy, 2(x + y))
        with x + y = t|L|; an error of L changes a summand by at most itself times (|theta| + t) |e^{itL} - 1|, beside
        what `mean_loss` counts.
        """
        grid, theta, weights = self.grid, self.theta, self._weights
        # Powers of e^{ix} by repeated multiplication: 4 u for each of about 2 sqrt(len(t)) factors.
        relative = grid.relative_error + 8 * math.sqrt(len(t)) * UNIT_ROUNDOFF
        relative = relative + UNIT_ROUNDOFF * np.abs(theta * grid.loss)
        size = np.abs(grid.loss)
        loss_error = grid.loss_error + 4 * UNIT_ROUNDOFF * size
        columns = np.stack([relative * size, loss_error, loss_error * size, relative * size**2, loss_error**2], axis=-1)
        sums = np.matmul(weights[:, None], columns)[:, 0]
        linear, flat, steep, quadratic, second = (sums[:, k][:, None] for k in range(5))
        through_loss = (abs(theta) + t) * np.minimum(t * steep, 2 * flat) + second * (1 + abs(theta) + t) ** 2
        return 1.5 * np.minimum(t**2 * quadratic, 2 * t * linear) + 1.01 * through_loss + t * self._mean[1][:, None]

    def _field(self, strip: Strip) -> _Field:
        """The strip's A and B, as the integrand has them."""
        grid, theta = self.grid, self.theta
        least = np.maximum(strip.least, 1e-3)  # the widths chosen keep it larger where a node has weight
        swing = grid.near / least
        return _Field(
            grid.mixed(theta, strip.log_modulus),
            grid.both(strip.argument),
            grid.lowered(theta, np.log(least)),
            np.abs(self._steepness - grid.x) + 0.5 * grid.step + grid.sized(theta, swing),
            grid.both(np.minimum(swing, grid.steepest / least)),
            grid.both(np.minimum(grid.mean + swing, grid.steepest / least)),
        )

    @cached_property
    def _steepness(self) -> FloatArray:
        """theta mu m of a less (1 - theta) mu m of b."""
        mean, theta = self.grid.mean, self.theta
        return theta * mean - (1 - theta) * mean[:, ::-1] if self.grid.mirrored else theta * mean

    def _quadrature_error(self, t: FloatArray) -> FloatArray:
        """Bound of the trapezoid and cut errors of d_k, shape (parts, nodes + 1).

        It grows with t: taken at the top if it is small there, else at a few heights. What the cut leaves out changes
        e^{itL} - 1, at most 2, and the total it is divided by: 3 of it, taken as 4.
        """
        negative = self.theta < 0 or (self.grid.mirrored and self.theta > 1)
        fractions = np.array([[0.12], [0.28], [0.62]] if negative else [[0.4], [0.6], [0.88]])
        q = fractions * self.parts.widest
        heights = t[-1:]
        best = self._strip_errors(heights, q[-1:])[0]
        if not float((best @ self.parts.count)[0]) < _NEGLIGIBLE:
            heights = np.array([0.15, 0.3, 0.5, 0.7, 1.0]) * t[-1]
            best = np.fmin.reduce(self._strip_errors(heights, q), axis=0)
        best = best + 4 * self._cut
        return best[np.searchsorted(heights * (1 + 1e-12), t)].T

    def _strip_errors(self, heights: FloatArray, q: FloatArray) -> FloatArray:
        """Trapezoid error of M from strips |Im x| <= q, `q` of shape (E, parts), at each height; shape (E, H, parts).

        Between two nodes J the rectangle rule: both lines together have at most 2 e^{q^2/2} int size e^{t|D|}, by an
        upper Riemann sum, at the height t and as much at 0; and the two sides, where e^{t|D|} grows by t dD/dq against
        1/(1 + e^{2 pi |s|/h}). Beyond the nodes J, where far jumps may turn too fast for the step, the sizes of sum and
        integral themselves. The best J serves on either side of the largest weight.
        """
        grid, h, t = self.grid, self.grid.step, heights[:, None, None]
        field = self._field(grid.strip(q))
        q = q[..., None]
        kernel = np.exp(0.5 * q**2 - 2 * math.pi * q / h) * 1.001
        settled = self._log_weights + field.log_size + 0.5 * h * field.size_slope
        turned = np.abs(field.turn) + 0.5 * h * field.turn_slope
        inside = 4 * kernel[:, None] * np.exp(settled[:, None] + t * turned[:, None])
        sides = self._sides(field, q, t)
        sizes = 2 * (
            self._weights + np.exp(np.minimum(self._log_weights + 0.5 * h * self.parts.slope(self.theta), 700))
        )
        return least_ends(inside, np.where(grid.inside, sides, np.inf), sizes, self._middle)

    @cached_property
    def _middle(self) -> int:
        """A node near the largest weights, before the cut of every part."""
        return min(int(np.argmax(self._weights.sum(axis=0))), int(self.grid.stop.min()) - 1)

    def _sides(self, field: _Field, q: FloatArray, t: FloatArray) -> FloatArray:
        """Bound of the integrals on the sides half a cell from each node, relative to M(theta); (E, H, parts, nodes).

        |integrand| <= term/h e^{s (t dD/dq + s/2)} there, against e^{-2 pi s/h}, 0 <= s <= q. Where the exponent grows
        slower than 3/4 of that, the two halves of a side add up to (4 + ln 2)/(2 pi) < 0.75 terms, and the side at
        t = 0 to ln 2/pi < 0.25 of them, or with e^{s^2/2} to 0.5: 1.3 in all. Where it grows faster, the growing half
        is below q/h terms of e^excess.
        """
        h = self.grid.step
        rate = field.turn_rate
        excess = q[:, None] * np.maximum(t * rate[:, None] + 0.5 * q[:, None] - 1.5 * math.pi / h, 0.0)
        ends = self._log_weights + field.log_largest + 0.5 * h * self.parts.slope(self.theta)
        return (1.3 + 2 * q[:, None] / h * (excess > 0)) * np.exp(ends[:, None] + excess)

    def log_variation(self) -> float:
        """ln V with |M(theta + it)/M(theta)| <= V/t for every t > 0, for the part where V is smallest.

        Integration by parts in x: t |M| <= int |psi'| and the values of psi at the cuts, psi = phi a^theta
        b^{1-theta}/L', L' = mu m (of a, and of b), by an upper Riemann sum: |L''/L'| <= mu^2 (variances of s)/L', and
        at most the largest shift.
        """
        grid, h = self.grid, self.grid.step
        if grid.terms.shift.size == 0:
            return np.inf  # nothing is left of the humps between the cuts, and nothing is bounded by them
        rate = grid.both(grid.mean)
        # m increases: over a cell of a it is at least that of the node before.
        before = np.concatenate([np.zeros_like(rate[:, :1]), grid.mean[:, :-1]], axis=1)
        largest = grid.terms.shift.max(axis=1)[:, None] * np.ones_like(rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            bent = np.fmin(grid.both(grid.spread) / grid.both(before), largest)
            log_psi = self._log_weights - np.log(h) - np.log(rate)
        steep = self.parts.slope(self.theta) + bent
        psi = np.exp(log_psi + 0.5 * h * steep)
        variation = np.sum(np.where(grid.inside, h * steep * psi, 0.0), axis=-1) + grid.at_ends(psi).sum(axis=-1)
        return float(np.log(variation.min())) + 1e-9

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Upper bounds U(t) of the sum of ln |M(theta + it')/M(theta)| over all steps, t' >= t, and its least summand.

        Both of the shape (H,) of the heights t. For every eta with D(x, q) >= 0 for all x and 0 <= q <= eta,
        |M(theta + it)| <= B_eta(t), but for the way up to that line and down at the cuts, with

            B_eta(t) = e^{eta^2/2} int phi a^theta b^{1-theta} |A|^theta |B|^{1-theta} e^{-tD}  at  Im x = eta,

        which decreases in t. The best of a few eta serves each height.
        """
        strips = self._majorant_strips(float(heights[0]))
        bounds = strips.log_bounds(heights)
        best = bounds.min(axis=1)
        self._chosen_eta = np.take_along_axis(strips.eta, bounds[-1].argmin(axis=0)[None], axis=0)[0]
        self._chosen_height = float(heights[-1])
        return best @ self.parts.count, best.min(axis=1)

    def _majorant_strips(self, height: float) -> MajorantStrips:
        """Strips for heights from about this one on."""
        if self._strips is None or not 0.9 * self._strips_height <= height <= 3.0 * self._strips_height:
            self._strips_height = height
            if self._strips is None:
                center = 0.8 * height * np.sum(self._weights * self.grid.both(self.grid.mean), axis=-1)
            else:  # the best eta grows slower than the height
                center = self._chosen_eta * math.sqrt(height / self._chosen_height)
            largest = np.minimum(0.8 * self._highest, 20.0)
            self._strips = self._build_strips(np.minimum(_ETA_FACTORS[:, None] * center, largest))
        return self._strips

    @cached_property
    def _highest(self) -> FloatArray:
        """Heights up to which |A| is known to be at least `_LEAST` at all nodes with weight, shape (parts,)."""
        spread = np.where(self.grid.inside, self.grid.spread, 0.0).max(axis=1)
        return np.sqrt(2 * (1 - _LEAST) / spread) * (1 - 1e-9)

    def _build_strips(self, eta: FloatArray) -> MajorantStrips:
        """Strips for eta of shape (E, parts): B_eta(t)/M(theta) as a trapezoid sum, and the error of that sum.

        With f = phi a^z b^{1-z} and g(x) = conj f(conj x), the integrand of B is the root of f(x + i eta) g(x - i eta),
        which continues to |Im x| <= q with modulus

            phi e^{(q^2 + eta^2)/2} (size at eta + q  times  size at eta - q)^{1/2} e^{-t (D(eta + q) + D(eta - q))/2}.
        """
        grid, h, theta = self.grid, self.grid.step, self.theta
        here = self._field(grid.strip(eta))
        q = np.minimum(np.minimum(2 * math.pi / h[:, 0], 0.55 * self._highest), 0.95 * (self._highest - eta))
        rising = np.minimum(grid.rising, grid.rising[:, ::-1]) if grid.mirrored else grid.rising
        usual = np.where(grid.inside, rising, np.inf).min(axis=-1) - eta
        q = np.where(usual > 0.3 * q, np.minimum(q, usual), q)
        known = rising >= (eta + q)[..., None]  # the argument at eta + q is no smaller than that at |eta - q|
        above, below = self._field(grid.strip(eta + q)), self._field(grid.strip(np.abs(eta - q)))
        sign = np.where(eta >= q, 1.0, -1.0)[..., None]
        log_size = 0.5 * (above.log_size + below.log_size)
        slope = 0.5 * (above.size_slope + below.size_slope)
        kernel = 0.5 * q**2 - 2 * math.pi * q / h[:, 0]
        turn = 0.5 * (above.turn + sign * below.turn) - 0.25 * h * (above.turn_slope + below.turn_slope)
        log_strip = self._log_weights + log_size + 0.5 * h * slope + kernel[..., None] + math.log(2.1)
        ends = self._log_weights + above.log_largest + 0.5 * h * self.parts.slope(theta)
        return MajorantStrips(
            eta,
            np.maximum(here.turn, 0.0),
            here.log_size + self._log_weights,
            np.where(known, np.maximum(turn, 0.0), turn),
            np.where(
                self._turns_forward(eta)[..., None] & grid.inside, log_strip, np.where(grid.inside, np.inf, -np.inf)
            ),
            np.where(grid.inside, ends, np.inf),
            np.where(known, 0.0, above.turn_rate),
            np.exp(self._log_weights + 0.5 * h * self.parts.slope(theta)),
            self._middle,
            q,
            h[:, 0],
        )

    def _turns_forward(self, eta: FloatArray) -> BoolArray:
        """Whether arg A(x, q) >= 0 is known for 0 <= q <= eta at all x between the cuts, shape (E, parts).

        Where mu m >= near/least, or the grid knows it, the argument increases with q. For the rest, up to the right end
        x* of the last such cell: arg A > q mu m - pi/2 wherever least > 0, so that Im A = E sin(q mu s) >= 0 suffices.
        sin(q mu s) >= q mu s k(eta mu s) with k(y) = inf sin(y')/y' over y' <= y, so that Im A >= 0 for all q <= eta
        where P(x) = sum w_i e^{v_i} s_i k(eta mu s_i) is not negative; k decreases, so P has one change of sign in the
        order of the shifts, at most one zero (Descartes' rule for exponentials), and is positive left of it: P(x*) >= 0
        is enough.
        """
        grid = self.grid
        least = 1 - 0.5 * eta[..., None] ** 2 * grid.spread
        forward = (grid.mean * least >= grid.near) | (grid.rising >= eta[..., None])
        forward &= least > 0
        unknown = grid.inside & ~forward
        last = np.where(unknown.any(axis=-1), unknown.shape[-1] - 1 - unknown[..., ::-1].argmax(axis=-1), -1)
        right = np.minimum(last + 1, unknown.shape[-1] - 1)
        y = eta[..., None] * grid.terms.shift
        k = np.where(y < _TURN, np.sinc(np.minimum(y, _TURN) / math.pi), _LEAST_SINE)
        places = np.broadcast_to(right[:, :, None, None], (*y.shape, 1))
        responsibility = np.broadcast_to(grid.responsibility, (len(eta), *grid.responsibility.shape))
        at = np.take_along_axis(responsibility, places, axis=-1)[..., 0]
        positive = np.sum(at * grid.terms.shift * k, axis=-1) > 1e-12 * np.sum(at * grid.terms.shift, axis=-1)
        return (last < 0) | (positive & (right > last))
