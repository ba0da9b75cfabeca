"""Sections 1 to 5 of the proof: the transform of the loss on one contour, with a bound for each error."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from flint import acb, acb_mat, arb, ctx

from privacy_bounds.checker.guide import Guide
from privacy_bounds.checker.steps import NotDecided, Step, ball, growth, log_ratio, upper_tail

LARGEST_WORK: Final = 8_000_000
"""Largest number of pairs of nodes of both trapezoidal sums. A pair takes about 0.1 us."""


def far_part(step: Step, u: arb, eta: float, start: arb, side: int) -> arb:
    """Bound the integral over y beyond `start` on one side (`side` 1 or -1), as section 5 of the proof does.

    The integrand is that of B(u, t, `eta`) for t >= 0, see `majorant`. The result is infinite if the bound does not
    fall there.
    """
    height, slope = growth(step, u, eta, side)
    return (height + slope**2 / 2).exp() * upper_tail(start - slope) if start > slope else arb("inf")


def majorant(step: Step, u: arb, t: float, eta: float, guide: Guide) -> arb:
    """Return an upper bound of B(u, t, eta), which bounds the transform |M(u + it)| of the loss of one step.

    B is an integral along the path y + i eta (section 3 of the proof, in the package docstring), evaluated by adaptive
    integration in balls.
    """
    if not (eta == 0 or eta * ball(max(step.means)) < arb.pi() / 2):
        raise NotDecided("the strip is too wide")
    with ctx.workprec(80 + step.count.bit_length()):
        terms, shift, other = step.terms(), acb(0, eta), 1 - u

        def integrand(y: acb, analytic: bool) -> acb:
            up, down = log_ratio(terms, y + shift, analytic), log_ratio(terms, y - shift, analytic)
            exponent, angle = u * (up + down), up - down
            if step.mirrored:
                up, down = log_ratio(terms, -y - shift, analytic), log_ratio(terms, shift - y, analytic)
                exponent, angle = exponent + other * (up + down), angle - (up - down)
            return ((exponent - y * y) / 2 - t * angle / acb(0, 2)).exp()

        window, tolerance = guide.window(step, float(u)), arb(2) ** -(20 + step.count.bit_length())
        goal = arb(guide.log_moment(step, float(u), t, eta)).exp() * tolerance
        total = acb.integral(integrand, *window, rel_tol=tolerance, abs_tol=goal, eval_limit=20_000).real
        total *= (arb(eta) ** 2 / 2).exp() / (2 * arb.pi()).sqrt()
        far = (far_part(step, u, eta, arb(end).abs_lower(), side) for end, side in zip(window, (-1, 1), strict=True))
        return sum(far, total).upper()


class Contour:
    """Transform M(theta + ikh) of a run's loss at the nodes k = 0, 1, ... of one contour.

    The privacy profile delta(eps) is evaluated from these values, near one eps.
    """

    def __init__(self, guide: Guide) -> None:
        guide.place_contour()
        self._guide, self._theta, self._mu_squared = guide, guide.theta, ball(guide.mu_squared)
        self._h, self._end, self._work = arb(guide.h), (guide.count + 0.5) * guide.h, 0
        with ctx.workprec(ctx.prec + guide.more_bits):
            self._log_left_out = self._log_bound(self._theta, self._end)
            self._log_above, self._log_below = (self._log_bound(c, 0) for c in (guide.above, guide.below))
            nodes = (acb(self._theta, k * self._h) for k in range(guide.count + 1))
            self._values = [(self._mu_squared * z * (z - 1) / 2).exp() / (z * (z - 1)) for z in nodes]
            for step in guide.steps:
                self._multiply(step)

    def _exponent(self, theta: float) -> arb:
        """Return the exponent u of the likelihood ratio: `theta`, or 1 - `theta` for the direction remove."""
        return 1 - arb(theta) if self._guide.flip else arb(theta)

    def _log_bound(self, theta: float, t: float) -> arb:
        """Return the logarithm of a bound of |M(theta + it)|, where M is the transform of the loss of the run."""
        total, u = self._mu_squared * (arb(theta) * (theta - 1) - arb(t) ** 2) / 2, self._exponent(theta)
        for step in self._guide.steps:
            eta = self._guide.eta(step) if t else 0.0
            total += step.count * majorant(step, u, t, eta, self._guide).log()
        return total

    def _multiply(self, step: Step) -> None:
        """Multiply the values at all nodes z by M(z)^count for the steps `step`, whose loss has the transform M.

        M is evaluated by a trapezoidal sum (sections 4 and 5 of the proof).
        """
        guide, u = self._guide, self._exponent(self._theta)
        strip, window = guide.strip(step), guide.window(step, float(u))
        error = majorant(step, u, 0.0, 0.0, guide) + majorant(step, u, 0.0, strip, guide)
        spacing = guide.spacing(step, float(u), float(error.log()))
        first, last = math.floor(window[0] / spacing), math.ceil(window[1] / spacing)
        self._work += (last - first) * len(self._values)
        if self._work > LARGEST_WORK:
            raise NotDecided(f"the proof needs {self._work:.1e} nodes, more than {LARGEST_WORK:.1e}")
        d, terms, eta = arb(spacing), step.terms(), strip / 2
        decay = (-arb.pi() * strip / d).exp()
        error *= decay / (1 - decay)
        error += far_part(step, u, eta, d * (last - 1), 1) + far_part(step, u, eta, -d * (first + 1), -1)
        ys, root = [acb(d * j, eta) for j in range(first, last + 1)], d / (2 * arb.pi()).sqrt()
        logs = [(log_ratio(terms, y), log_ratio(terms, -y) if step.mirrored else acb(0)) for y in ys]
        masses = [(u * r + (1 - u) * q - y * y / 2).exp() * root for y, (r, q) in zip(ys, logs, strict=True)]
        factors = [(acb(0, self._h) * (right - left)).exp() for right, left in logs]
        uncertain = acb(arb(0, error.upper()), arb(0, error.upper()))
        for k, moment in enumerate(sums_of_powers(masses, factors, len(self._values))):
            found = (moment + uncertain) ** step.count
            self._values[k] *= found.conjugate() if guide.flip else found

    def delta(self, eps: arb) -> arb:
        """Return a ball that contains the privacy profile delta(eps) of the run."""
        with ctx.workprec(ctx.prec + self._guide.more_bits):
            theta, h = arb(self._theta), self._h
            period = 2 * arb.pi() / h
            turns = powers(acb(0, -h * eps).exp(), len(self._values))
            terms = sum((v * turn for v, turn in zip(self._values, turns, strict=True)), -self._values[0] / 2)
            total = h / arb.pi() * terms.real * (-(theta - 1) * eps).exp()
            left_out = (self._log_left_out - (theta - 1) * eps).exp() * (1 + h / self._end) / (arb.pi() * self._end)
            total += arb(0, left_out.upper())
            one, two = (-(theta - 1) * period).exp(), (-theta * period).exp()
            total -= one / (1 - one) - eps.exp() * two / (1 - two)
            for c, log_moment in ((self._guide.above, self._log_above), (self._guide.below, self._log_below)):
                ratio = (-abs(theta - c) * period).exp()
                bound = (log_moment - (arb(c) - 1) * eps).exp() * ratio / (1 - ratio)
                total -= bound.upper() * arb(0.5, 0.5)  # a number between 0 and the bound
            return total


def sums_of_powers(masses: list[acb], factors: list[acb], count: int) -> Iterable[acb]:
    """Yield the sums over j of masses[j] factors[j]^k for k = 0, ..., count - 1, as one product of matrices."""
    block = math.isqrt(count) + 1
    small = [powers(factor, block + 1) for factor in factors]
    large = [powers(row[block], -(-count // block)) for row in small]
    left = acb_mat([[row[k] for row in large] for k in range(len(large[0]))])
    right = acb_mat([[mass * x for x in row[:block]] for mass, row in zip(masses, small, strict=True)])
    product = left * right
    for k in range(count):
        yield product[k // block, k % block]


def powers(base: acb, count: int) -> list[acb]:
    """Return base^0, ..., base^(count - 1) as balls. Halving of the exponents keeps their radii small."""
    found = [acb(1), base]
    for k in range(2, count):
        found.append(found[k // 2] * found[k - k // 2])
    return found[:count]
