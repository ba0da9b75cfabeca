"""Loss of one sampled Gaussian step without far jumps: tilted moments under H1, with every error bounded.

p is the sampling rate, sigma is the noise multiplier, and q = p e^offset. The outcome v = mean + y/sigma has a normal
score y and, under the normal law, the density g. Let

    a(v) = 1 - p + q e^v,    b(v) = 1 - p + q e^-v (mirrored) or 1,    L = ln a - ln b.

L is the loss. Under H1 the density of v is g a. The *core* is the event -y1 <= y <= y0. Its moments are integrals over
the core of the functions g a e^{k (L - l)} (L - l)^j. The tilt k is real, l is a center, and j = 0, 1, 2... They are
sums of Gauss-Legendre rules on panels. Three bounds hold for |Im v| <= pi/2:

    |a(v)| <= a(Re v),    |a(v)| >= 1 - p + q e^{Re v} cos(Im v),    |ln a(v)| <= (p + q e^{Re v})/(1 - p).

The last one holds because ln a is an integral of 1/(1 + s (a - 1)) with Re(a - 1) >= -p. The same bounds hold for b, as
a function of -v. A rule with n nodes on a panel of half-length d is exact up to degree 2 n - 1. It errs by at most 8 d
r^{1-2n}/(r - 1) times the largest modulus of the integrand on the Bernstein ellipse of radius r.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import ComplexArray, FloatArray
from service.privacy.numerics.gauss_legendre import gauss_legendre
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

LARGEST_RATE: Final = 0.1
"""Largest rate for which the bounds of rounding are proved."""

_NODES = 24
_CELL = 0.02
"""Width of the cells in y on which the variation is bounded."""

_HEIGHT = 1.45
"""Largest |Im v| on the ellipses, below pi/2."""

_RADII = (1.6, 2.2, 3.2, 5.0, 8.0)
"""Radii of the ellipses that are tried."""

_RELATIVE = 64 * UNIT_ROUNDOFF
"""Rounding of an exponential, relative to the sum of the sizes of the terms of its exponent."""


class CoreLaw:
    """Law of the loss L of one sampled Gaussian step in the core, under H1.

    The *core* is the event -`lowest` <= y <= `highest` of the normal score y of the step's outcome v. E1[X; core] is
    the expectation of X on the core. g is the density of v under the normal law, g a the density under H1, and g b the
    density under H0. The head of this module defines a and b, and L = ln a - ln b. Integrals over the core are sums of
    Gauss-Legendre *rules* on panels. *Ellipses* are the Bernstein ellipses of the panels, which bound the errors of the
    rules. A real number k in e^{kL} is a *tilt*.
    """

    def __init__(self, step: SampledStep, lowest: float, highest: float, longest: float = 1.0) -> None:
        """Lay out the nodes for normal scores -`lowest` <= y <= `highest` of a step.

        Panels are no longer than `longest`, or for a noise multiplier sigma below 1 no longer than `longest` times
        sigma, in units of y.
        """
        self.step, self._lowest, self.highest = step, lowest, highest
        sigma = step.sigma
        count = math.ceil((lowest + highest) / (longest * min(1.0, sigma)))
        ends = np.linspace(-lowest, highest, count + 1)
        half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
        nodes, weights = gauss_legendre(_NODES)
        self.y = (middle[:, None] + half[:, None] * nodes).ravel()
        self._weight = (half[:, None] * weights).ravel() / math.sqrt(2 * math.pi)
        v = step.mean + self.y / sigma
        self._log_present, present = self._log_mixture(v)
        self._log_absent, absent = self._log_mixture(-v) if step.mirrored else (np.zeros_like(v), np.zeros_like(v))
        self.loss = self._log_present - self._log_absent
        # Terms of L, with the factors by which errors of v and of the rate change them.
        self._size = (present + absent) * (2 + np.abs(v) + 1 / sigma**2)
        self._loss_error = _RELATIVE * self._size
        self._lay_out_ellipses(step.mean + middle / sigma, half / sigma)

    def _log_mixture(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ln a at real v, and the bound (p + q e^v)/(1 - p) of its modulus, each of the shape of v.

        a(v) = 1 - p + q e^v with the sampling rate p and q = p e^offset (`SampledStep`). v is the outcome of a step.
        """
        rate = self.step.rate
        grown = rate * np.exp(v + self.step.offset)
        return np.log1p(grown - rate), (rate + grown) / (1 - rate)

    def _lay_out_ellipses(self, middle: FloatArray, half: FloatArray) -> None:
        """Store bounds of the parts of the integrand on the Bernstein ellipses of all radii, shape (radii, panels).

        `middle` and `half` are the middles and half-lengths of the panels in v, the outcome of the step.
        """
        step, rate = self.step, self.step.rate
        radius = np.array(_RADII)[:, None]
        across, along = 0.5 * (radius - 1 / radius) * half, 0.5 * (radius + 1 / radius) * half
        left, right = middle - along, middle + along
        nearest = np.maximum(np.abs(middle - step.mean) - along, 0.0)
        scale = step.sigma / math.sqrt(2 * math.pi)
        rule = np.log(8 * half * scale) + (1 - 2 * _NODES) * np.log(radius) - np.log(radius - 1)
        low = across <= _HEIGHT
        self._log_factor = np.where(low, rule + 0.5 * step.sigma**2 * (across**2 - nearest**2), np.inf)
        turn, odds = np.where(low, np.cos(across), 0.0), math.log(rate) + step.offset

        def logs(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
            return np.log(1 - rate + np.exp(odds + low) * turn), np.log(1 - rate + np.exp(odds + high))

        self._present = logs(left, right)
        sizes = (rate + np.exp(odds + right)) / (1 - rate)
        self._absent = (np.zeros_like(left), np.zeros_like(left))
        if step.mirrored:
            self._absent = logs(-right, -left)
            sizes = sizes + (rate + np.exp(odds - left)) / (1 - rate)
        self._largest = sizes * (1 + 1e-9)
        # |Im L| is at most |Im v| times the largest |L'|.
        slopes = np.exp(odds + right) + (np.exp(odds - left) if step.mirrored else 0.0)
        self._turned = across * slopes / (1 - rate) * (1 + 1e-9)

    def _log_ellipses(self, tilt: float) -> FloatArray:
        """Return ln of the error bound of each panel's rule for the integrand g a e^{kL}, by each ellipse.

        The shape is (radii, panels). The bound is the rule's factor times the largest |g a e^{kL}| on the ellipse, k =
        `tilt`, with the density g a of a step's outcome under H1 and the loss L.
        """
        present = np.maximum((1 + tilt) * self._present[0], (1 + tilt) * self._present[1])
        absent = np.maximum(-tilt * self._absent[0], -tilt * self._absent[1])
        return self._log_factor + present + absent + 1e-9

    def log_missing(self) -> tuple[float, float]:
        """Return ln of upper bounds of the probabilities under H1 of scores below and above the core.

        The core is the event that the normal score of the step's outcome lies between two limits.
        """
        step = self.step
        shift = 1 / step.sigma
        low = np.logaddexp(log_ndtr(-self._lowest), math.log(step.rate) + log_ndtr(-self._lowest - shift))
        high = np.logaddexp(log_ndtr(-self.highest), math.log(step.rate) + log_ndtr(shift - self.highest))
        return float(low) + 1e-9, float(high) + 1e-9

    def log_missing_absent(self) -> tuple[float, float]:
        """Return ln of upper bounds of the probabilities under H0 of scores below and above the core.

        The core is the event that the normal score of the step's outcome lies between two limits.
        """
        rate, shift = self.step.rate if self.step.mirrored else 0.0, 1 / self.step.sigma
        low = np.logaddexp(log_ndtr(-self._lowest), np.log(rate) + log_ndtr(shift - self._lowest))
        high = np.logaddexp(log_ndtr(-self.highest), np.log(rate) + log_ndtr(-self.highest - shift))
        return float(low) + 1e-9, float(high) + 1e-9

    def deviation(self) -> float:
        """Return the approximate standard deviation of the loss in the core under H1, in nats.

        The core is the event that the step has no rare large loss. No bound depends on this number.
        """
        weight = self._weight * np.exp(self._log_present - 0.5 * self.y**2)
        return math.sqrt(float(weight @ self.loss**2))

    def mean(self, tilt: float) -> float:
        """Return about the mean of the loss L in the core under the law of H1 weighted by e^{`tilt` L}, in nats.

        The core is the event that the step has no rare large loss. Bounds that use it hold for any number in its place.
        """
        exponent = -0.5 * self.y**2 + (1 + tilt) * self._log_present - tilt * self._log_absent
        weight = self._weight * np.exp(np.minimum(exponent, 700.0))
        return float(weight @ self.loss / weight.sum())

    def growth(self, tilts: FloatArray) -> FloatArray:
        """Return upper bounds of E1[e^{kL}; core] - 1 at the tilts k, of their shape, infinite where no bound is known.

        L is the loss of a step, and the core is the event that the step has no rare large loss. A tilt is a real
        exponent k.
        """
        exponent = tilts[:, None] * self.loss
        plain = self._weight * np.exp(self._log_present - 0.5 * self.y**2)
        grown = np.expm1(np.minimum(exponent, 700.0))
        size = np.abs(tilts)[:, None] * self._loss_error
        relative = _RELATIVE * (4 + self.y**2 + self._size)
        error = np.abs(grown) * relative + (1 + np.abs(grown)) * np.expm1(np.minimum(size, 1.0))
        bound = (grown + error) @ plain + np.array([self._rule_of_growth(float(tilt)) for tilt in tilts])
        known = (exponent.max(axis=1) < 650) & (size.max(axis=1) < 1)
        return np.where(known, bound, np.inf)

    def _rule_of_growth(self, tilt: float) -> float:
        """Return a bound of the error of the rules for the integrand g a (e^{kL} - 1), k = `tilt`, summed over panels.

        The rules are Gauss-Legendre sums on panels. g a is the density of a step's outcome under H1, and L its loss.
        The bound follows from |e^z - 1| <= |z| max(1, |e^z|).
        """
        logs = np.maximum(self._log_ellipses(tilt), self._log_ellipses(0.0))
        bounds = np.exp(logs) * (abs(tilt) * self._largest)
        return float(np.nanmin(bounds, axis=0).sum()) + 1e-300

    def transform(self, tilt: float, heights: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Return E1[e^{(k + it) L}; core] at heights t >= 0, shape (n,), k = `tilt`, and bounds of absolute errors.

        L is the loss of a step, and the core is the event that L is not a rare large loss. Each panel of the
        Gauss-Legendre quadrature has Bernstein ellipses, on which |e^{itL}| is at most e^{t |Im L|}. The error on a
        panel is at most twice the sum without oscillation, and twice the error of that sum.
        """
        weight = self._weight * np.exp((1 + tilt) * self._log_present - tilt * self._log_absent - 0.5 * self.y**2)
        values: ComplexArray = np.exp(1j * heights[:, None] * self.loss) @ weight.astype(np.complex128)
        relative = _RELATIVE * (4 + self.y**2 + self._size) + np.expm1(abs(tilt) * self._loss_error)
        turned = heights[:, None] * (self._loss_error + 4 * UNIT_ROUNDOFF * np.abs(self.loss))
        errors = weight @ relative + turned @ weight
        logs = self._log_ellipses(tilt)
        plain = np.nanmin(np.exp(np.minimum(logs, 700.0)), axis=0)
        turning = np.exp(np.minimum(logs + heights[:, None, None] * self._turned, 700.0))
        masses = weight.reshape(len(plain), -1).sum(axis=1)
        rules = np.fmin(np.nanmin(turning, axis=1), 2 * (masses + plain) * (1 + 1e-6)).sum(axis=1)
        return values, (errors + rules) * (1 + 1e-9) + 1e-300

    def spread(self, tilt: float) -> float:
        """Return an upper bound of E1[e^{kL} |L - l|; core], k = `tilt`, where l is about the tilted mean of L.

        L is the loss of a step, and the core is the event that L is not a rare large loss. The bound follows from two
        moments by Cauchy and Schwarz.
        """
        mean = self.mean(tilt)
        values, errors = self.moments(tilt, mean, 1.0, 3)
        total, square = 1 + values[0] + errors[0], values[2] + errors[2]  # by Cauchy and Schwarz
        return math.exp(tilt * mean) * math.sqrt(total * square) * (1 + 1e-9)

    def log_variation(self, tilt: float) -> float:
        """Return ln V with |E1[e^{(k + it) L}; core]| <= V/t for every t > 0, where k = `tilt` >= 0.

        L is the loss of a step with the outcome v, and the core is the event that L is not a rare large loss. g a and g
        b are the densities of v under H1 and H0. Let f = g a^{1+k} b^-k as a function of v, r = dL/dv and G = f/r.
        Integration by parts gives V = G(ends) + int |G'|. The logarithm of G has a slope of at most sigma^2 |v - mean|
        + (1 + k) (ln a)' - k (ln b)' + 1. sigma is the noise multiplier. ln G is bounded on short cells.
        """
        step, sigma = self.step, self.step.sigma
        ends = np.linspace(-self._lowest, self.highest, math.ceil((self._lowest + self.highest) / _CELL) + 1)
        width = float(ends[1] - ends[0])
        odds, lost = math.log(step.rate / (1 - step.rate)) + step.offset, math.log1p(-step.rate)

        def rise(v: FloatArray) -> FloatArray:
            """Return d ln a/dv at a real outcome v, for a(v) = 1 - p + p e^{v + offset} with the sampling rate p."""
            return 1 / (1 + np.exp(-(v + odds)))

        def log_size(y: FloatArray) -> FloatArray:
            """Return ln G at real normal scores y, for the function G whose variation bounds the integral."""
            v = step.mean + y / sigma
            log_present = lost + np.logaddexp(0.0, v + odds)
            log_absent = lost + np.logaddexp(0.0, odds - v) if step.mirrored else np.zeros_like(v)
            slope = rise(v) + (rise(-v) if step.mirrored else 0.0)
            density = math.log(sigma / math.sqrt(2 * math.pi)) - 0.5 * y**2
            return density + (1 + tilt) * log_present - tilt * log_absent - np.log(slope)

        left, right = step.mean + ends[:-1] / sigma, step.mean + ends[1:] / sigma
        steep = sigma * np.maximum(np.abs(ends[:-1]), np.abs(ends[1:])) + (1 + tilt) * rise(right) + 1
        steep = steep + (tilt * rise(-left) if step.mirrored else 0.0)
        cells = log_size(0.5 * (ends[1:] + ends[:-1])) + 0.5 * width / sigma * steep + np.log(steep * width / sigma)
        return float(np.logaddexp.reduce(np.append(cells, log_size(ends[[0, -1]])))) + 1e-9

    def moments(self, tilt: float, center: float, scale: float, orders: int) -> tuple[FloatArray, FloatArray]:
        """Return the moments E1[e^{k (L - l)} ((L - l)/s)^j; core], j < `orders`, and bounds of their absolute errors.

        k = `tilt`, l = `center` and s = `scale`; L is the loss of a step, and the core is the event that L is not a
        rare large loss. Both arrays have the shape (`orders`,). The entry j = 0 is without its 1 and without the mass
        beyond the core: E1[e^{k (L - l)} - 1; core].
        """
        away = (self.loss - center) / scale
        moved = self._loss_error / scale
        exponent = tilt * (self.loss - center)
        plain = self._weight * np.exp(self._log_present - 0.5 * self.y**2)
        grown = np.expm1(exponent)
        size = np.expm1(abs(tilt) * (self._loss_error + _RELATIVE * abs(center)))
        relative = _RELATIVE * (4 + self.y**2 + self._size)
        values, errors = np.empty(orders), np.empty(orders)
        values[0] = plain @ grown
        errors[0] = plain @ (np.abs(grown) * relative + (1 + np.abs(grown)) * size)
        whole = plain * (1 + grown)
        uncertain, power, larger = relative + size, np.ones_like(away), np.ones_like(away)
        for j in range(1, orders):
            before = larger
            power, larger = power * away, larger * (np.abs(away) + moved)
            values[j] = whole @ power
            errors[j] = whole @ (np.abs(power) * (uncertain + j * _RELATIVE) + j * moved * before)
        logs = self._log_ellipses(tilt) - tilt * center
        farthest = self._largest + abs(center)
        rules = np.exp(logs)[..., None] * (farthest[..., None] / scale) ** np.arange(orders)
        plain_logs = np.maximum(logs, self._log_ellipses(0.0))
        rules[..., 0] = np.exp(plain_logs) * abs(tilt) * farthest
        errors = (errors + np.nanmin(rules, axis=0).sum(axis=0)) * (1 + 1e-9) + 1e-300
        return values, errors
