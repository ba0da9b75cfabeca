"""Tail and profile of one sampled Gaussian step, and the continuation of the profile to complex losses.

p is the sampling rate, sigma is the noise multiplier, and q = p e^offset. g is the normal density of the outcome v with
the given mean and the standard deviation 1/sigma. The loss of v is ln a(v) - ln b(v), with a(v) = 1 - p + q e^v, and
b(v) = a(-v) for mirrored steps or 1. Let x > 0, X = e^x, and let v be the zero of a(v) - X b(v), so that the loss of v
is x. The profile of the step is

    delta_1(x) = int_0^inf g(v + t) [q e^v (e^t - 1) + X q e^-v (1 - e^-t)] dt,

without the second term unless steps are mirrored. The formula continues delta_1 to complex x, with |g(v + t)| = g(Re v
+ t) e^{sigma^2 (Im v)^2/2}. Let Y = sigma^2 (Re v - mean) > 1. By g(v + t) <= g(v) e^{-Y t} for real v,

    |delta_1(x)| <= q e^{Re v} g(Re v)/(Y (Y - 1)) e^{sigma^2 (Im v)^2/2} (1 + |X| e^{-2 Re v}).

The continuation is analytic on a disc of radius r <= 1.5 right of 0. There |X| > 1 and |arg(X - 1)| <= (pi + r)/2.
Mirrored steps have:

    q e^v = (1 - p)(X - 1)(1 + sqrt(1 + w))/2,    w = 4 q^2 X/((1 - p)(X - 1))^2.

If |w| <= 1/4 on the circle, it is so in the disc, and q e^v stays away from negative numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from flint import acb, arb, arb_series
from scipy.special import log_ndtr

from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import FloatArray

LARGEST_RADIUS: Final = 1.5
"""Largest radius of a disc on which the profile is continued."""

TAIL_SLACK: Final = 1e-6
"""Relative distance of `JumpLaw.log_above` from the tail, for normal scores up to `FARTHEST_SCORE`."""

FARTHEST_SCORE: Final = 90.0

_ARCS = 48
"""Number of arcs of a half circle on which the profile is bounded."""

_SLACK = 1e-9
"""Relative slack, far above the rounding of a zero v."""


@dataclass(frozen=True)
class JumpLaw:
    """Law of the loss L of one sampled Gaussian step at large losses.

    The outcome of the step is v, and its normal score is y = sigma (v - mean) with the noise multiplier sigma.
    delta_1(x) is the privacy profile of the step at the loss x. The sampling rate is p, and q = p e^offset
    (`SampledStep`).
    """

    step: SampledStep

    @cached_property
    def _hump(self) -> float:
        """Weight q = p e^offset in a(v) = 1 - p + q e^v, the density of H1 over the normal density at the outcome v.

        p is the sampling rate. The offset is 0, or -1/(2 sigma^2) for a mirrored step.
        """
        return self.step.rate * math.exp(self.step.offset)

    @cached_property
    def _exact(self) -> tuple[arb, arb]:
        """The sampling rate p and q = p e^offset as balls (intervals of arbitrary precision).

        a(v) = 1 - p + q e^v is the density of H1 over the normal density at the outcome v.
        """
        rate = arb(self.step.rate) + arb(self.step.rest)
        return rate, rate * (-1 / (2 * arb(self.step.sigma) ** 2)).exp() if self.step.mirrored else rate

    @np.errstate(all="ignore")
    def places(self, losses: FloatArray) -> FloatArray:
        """Return the outcomes v of a step whose losses are `losses` (nats), of their shape, within 1e-9 relatively.

        An outcome is the noisy result of a sampled Gaussian step. The result is -inf for losses up to 0.
        """
        grown = np.expm1(np.clip(losses, 0.0, 700.0))
        if not self.step.mirrored:
            return np.where(losses > 0, np.log1p(grown / self.step.rate), -np.inf)
        half = (1 - self.step.rate) * grown / (2 * self._hump)
        return np.where(losses > 0, np.log(half + np.hypot(half, np.sqrt(1 + grown))), -np.inf)

    def score(self, loss: float) -> float:
        """Return the normal score y, in standard deviations, of the outcome whose loss is `loss` (nats)."""
        return self.step.sigma * (float(self.places(np.array([loss]))[0]) - self.step.mean)

    @np.errstate(all="ignore")
    def log_above(self, losses: FloatArray) -> FloatArray:
        """Return upper bounds of ln P1(L > l) at the losses l (nats), of their shape, within `TAIL_SLACK`.

        L is the loss of the step, and P1 is the law under H1, with the record. Up to a limit of the normal score, the
        bounds exceed the probabilities by at most 1e-6, relatively.
        """
        y, rate = self.step.sigma * (self.places(losses) - self.step.mean), self.step.rate
        tail = np.logaddexp(math.log1p(-rate) + log_ndtr(-y), math.log(rate) + log_ndtr(1 / self.step.sigma - y))
        return np.minimum(np.where(np.isnan(tail), 0.0, tail) + 1e-10 * (1 + np.minimum(y**2, 1e4)), 0.0)

    @np.errstate(all="ignore")
    def tails(self, loss: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return bounds `(lower, upper)` of P1(L > l) and of P0(L > l), for the loss L of the step at l = `loss`.

        P1 and P0 are the laws with and without the record.
        """
        y, shift = self.score(loss), 1 / self.step.sigma
        rate = self.step.rate if self.step.mirrored else 0.0
        present = math.exp(float(self.log_above(np.array([loss]))[0]))
        log_absent = np.logaddexp(np.log1p(-rate) + log_ndtr(-y), np.log(rate) + log_ndtr(-y - shift))
        absent = math.exp(float(log_absent) + 1e-10 * (1 + y**2))
        least = 1 - 4e-10 * (1 + y**2)
        return (present * least, present), (absent * least, absent)

    @np.errstate(all="ignore")
    def log_profile(self, losses: FloatArray) -> FloatArray:
        """Return upper bounds of ln of the privacy profile of one step at real losses x (nats), of their shape."""
        step, v = self.step, self.places(losses)
        pull = step.sigma**2 * (v - step.mean)
        log = math.log(self._hump * step.sigma / math.sqrt(2 * math.pi)) + v - 0.5 * (pull / step.sigma) ** 2
        log = log - np.log(pull * (pull - 1)) + np.log1p(np.exp(losses - 2 * v))
        log = log + _SLACK * (1 + np.abs(v)) * (1 + pull)
        return np.where(pull > 1 + 1e-6, np.minimum(log, 0.0), 0.0)

    def pull(self, loss: float) -> float:
        """Return about -d ln delta_1/dx at x = `loss`, for the profile delta_1 of one step.

        The result is 0 for losses so small that the approximation, an expansion of normal tails, fails. No bound
        depends on the result.
        """
        step, v = self.step, float(self.places(np.array([loss]))[0])
        steep = step.sigma**2 * (v - step.mean)
        return math.exp(loss - v) * (steep - 1) / self._hump if steep > 1 else 0.0

    def tilted_series(self, middle: arb, scale: float, tilt: float) -> arb_series:
        """Return the power series of e^{-k s u} delta_1(x - s u) in u, with proved coefficients.

        delta_1 is the profile of one step, x = `middle` is a loss, s = `scale` and k = `tilt`.
        """
        (rate, hump), sigma = self._exact, arb(self.step.sigma)
        grown = arb_series([middle, -arb(scale)]).exp()
        if self.step.mirrored:
            half = (1 - rate) * (grown - 1) / (2 * hump)
            y = sigma * (half + (half * half + grown).sqrt()).log()
        else:
            y = sigma * ((grown - 1) / rate + 1).log() + 1 / (2 * sigma)
        root, shift = arb(2).sqrt(), 1 / sigma

        def tail(score: arb_series) -> arb_series:
            """Return the power series of the standard normal tail 1 - Phi(score), for a power series `score`."""
            return (score / root).erfc() / 2

        plain = tail(y)
        absent = (1 - rate) * plain + rate * tail(y + shift) if self.step.mirrored else plain
        present = (1 - rate) * plain + rate * tail(y - shift)
        return (present - grown * absent) * arb_series([arb(0), -arb(tilt) * scale]).exp()

    def log_largest(self, middle: arb, radius: float, tilt: float) -> float:
        """Return an upper bound of ln |e^{-k u} delta_1(x - u)| on |u| = `radius`; infinite where none is known.

        delta_1 is the profile of one step, continued to complex losses (`jump_law.py`), x = `middle` is a loss, and k =
        `tilt`.
        """
        step, (rate, hump) = self.step, self._exact
        if not (middle > radius and radius <= LARGEST_RADIUS):
            return math.inf
        largest = -math.inf
        for arc in range(_ARCS):  # the other half circle has the conjugate values
            u = acb(0, arb.pi() * arb(arc + 0.5, 0.5) / _ARCS).exp() * radius
            grown = (acb(middle) - u).exp()
            if step.mirrored:
                core = (grown - 1) * (1 - rate)
                turn = 4 * hump**2 * grown / core**2
                if not abs(turn) < 0.25:
                    return math.inf
                v = (core * (1 + (1 + turn).sqrt()) / (2 * hump)).log()
            else:
                v = (1 + (grown - 1) / rate).log()
            real, imag = float(v.real.lower()), float(v.imag.abs_upper())
            pull = step.sigma**2 * (real - step.mean) * (1 - 1e-12)
            if not pull > 1 + 1e-6:
                return math.inf
            log = real - 0.5 * (pull / step.sigma) ** 2 - math.log(pull * (pull - 1)) + 0.5 * (step.sigma * imag) ** 2
            log += math.log1p(math.exp(float(grown.abs_upper().log().upper()) - 2 * real))
            largest = max(largest, log - tilt * float(u.real.lower()))
        return largest + math.log(self._hump * step.sigma / math.sqrt(2 * math.pi)) + 1e-6
