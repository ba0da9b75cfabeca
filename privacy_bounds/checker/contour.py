"""Sections 1 to 6 of the proof: the transform of the loss on one contour, with a bound for each error."""

import math
from collections.abc import Iterable

from flint import acb, acb_mat, arb, ctx

from privacy_bounds.checker.guide import Guide
from privacy_bounds.checker.steps import NotDecided, Step, ball, exponents, growth, upper_tail

LARGEST_WORK = 12_000_000
"""Largest number of pairs of nodes of both trapezoidal sums. A pair takes about 0.1 us."""


def weight(step: Step, y: acb | arb, guide: Guide, part: int) -> acb:
    """Return the weight of the outcome y in the rare part (`part` 1), in the frequent part (-1), or 1 for both (0).

    The weights are Q((c - y)/tau) and Q((y - c)/tau), where Q is the upper tail of the standard normal law, c the cut
    of the step in `guide`, and tau its width. y may be complex. Section 6 of the proof in the package docstring uses
    them.
    """
    return (acb(part * (guide.cuts[step] - y) / guide.widths[step]) / arb(2).sqrt()).erfc() / 2 if part else acb(1)


def _penalty(step: Step, eta: float, guide: Guide, part: int) -> arb:
    # an upper bound of |weight(y + i eta)| / weight(y) over all real y: section 6 of the proof
    return ((arb(eta) / guide.widths[step]) ** 2 / 2).exp() if part else arb(1)


def _far_part(step: Step, u: arb, eta: float, start: arb, side: int, guide: Guide, part: int) -> arb:
    # an upper bound of the integral of B(u, t, eta) beyond `start`, for all t >= 0: section 5 of the proof
    height, slope = growth(step, u, eta, side, start)
    least = weight(step, side * start, guide, part if part == -side else 0).real * _penalty(step, eta, guide, part)
    bound = (height + slope**2 / 2).exp() * upper_tail(start - slope) * least
    return bound if start > slope and start >= 0 else arb("inf")


def majorant(step: Step, u: arb, t: float, eta: float, guide: Guide, part: int = 0) -> arb:
    """Return a proved upper bound of |M(u + it)| for one step, where M(z) = E e^{zL} without the record.

    L is the loss of the step. With `part` 1 or -1, only the rare or the frequent part of the outcomes counts. The bound
    encloses B(u, t, eta), an integral along the path y + i eta (section 3 of the proof in the package docstring).
    `guide` has the cuts, and estimates that set tolerances. Raise NotDecided if `eta` is too large for the step.
    """
    if not (eta == 0 or eta * ball(max(step.means)) < arb.pi() / 2):
        raise NotDecided("the strip is too wide")
    with ctx.workprec(80 + step.count.bit_length()):
        terms, shift, z = step.terms(), acb(0, eta), acb(u, t)

        def integrand(y: acb, analytic: bool) -> acb:
            (up, rise), (down, fall) = (exponents(step, terms, x, analytic) for x in (y + shift, y - shift))
            return ((up + z * rise + down + z.conjugate() * fall) / 2).exp() * weight(step, y, guide, part)

        window, tolerance = guide.window(step, float(u), part), arb(2) ** -(20 + step.count.bit_length())
        scale = _penalty(step, eta, guide, part) / (2 * arb.pi()).sqrt()
        goal = arb(guide.log_moment(step, float(u), t, eta, part)).exp() * tolerance / scale
        total = acb.integral(integrand, *window, rel_tol=tolerance, abs_tol=goal, eval_limit=20_000).real * scale
        for end, side in zip(window, (-1, 1), strict=True):
            total += _far_part(step, u, eta, arb(end) * side, side, guide, part)
        return total.upper()


class Contour:
    """Transform M(theta + ikh) of a run's loss at the nodes k = 0, 1, ... of the contour that `guide` chooses.

    The privacy profile delta(eps) is evaluated from these values, near one eps. Cuts divide the outcomes into frequent
    and rare ones. With cuts, the transform is that of the rare part (section 6 of the proof in the package docstring).
    Raise NotDecided if the choices of the guide are outside the range of the proof, or need more than 12 million pairs
    of nodes.
    """

    def __init__(self, guide: Guide) -> None:
        guide.place_contour()
        if not min([guide.h, *guide.widths.values()]) > 0 or (guide.cuts and (guide.flip or guide.mu_squared)):
            raise NotDecided("a choice is outside the range of the proof")
        self._guide, self._theta, self._mu_squared = guide, max(guide.theta, 1.0), ball(guide.mu_squared)
        self._h, self._end, self._work = arb(guide.h), (guide.count + 0.5) * guide.h, 0
        with ctx.workprec(ctx.prec + guide.more_bits):
            self._log_left_out = self._log_bound(self._theta, self._end)
            ends = max(guide.above, self._theta), 1.0 if guide.cuts else min(guide.below, 0.0)
            self._log_bounds = [(c, self._log_bound(c, 0)) for c in ends]
            nodes = (acb(self._theta, k * self._h) for k in range(guide.count + 1))
            self._values = [(self._mu_squared * z * (z - 1) / 2).exp() / (z * (z - 1)) for z in nodes]
            logs, self._beyond = [acb(0)] * len(self._values), arb(max(guide.beyond, 1.0))
            for step in guide.steps:
                rare = self._transform(step, 1) if guide.cuts else []
                for k, moment in enumerate(self._transform(step, 0)):
                    power = moment**step.count
                    self._values[k] *= power.conjugate() if guide.flip else power
                    logs[k] += step.count * (-rare[k] / moment).log1p() if rare else 0
            if guide.cuts:
                frequent = (s.count * majorant(s, self._beyond, 0.0, 0.0, guide, -1).log() for s in guide.steps)
                self._log_frequent = sum(frequent, arb(0))
                self._values = [-value * log.expm1() for value, log in zip(self._values, logs, strict=True)]

    def _log_bound(self, theta: float, t: float) -> arb:
        # With cuts, the transform is that of the rare part. The factor 1/(z (z - 1)) of the integrand is not included.
        guide, share, u = self._guide, arb(0), 1 - arb(theta) if self._guide.flip else arb(theta)
        total = self._mu_squared * (arb(theta) * (theta - 1) - arb(t) ** 2) / 2
        for step in guide.steps:
            eta = guide.eta(step) if t else 0.0
            whole = majorant(step, u, 0.0, 0.0, guide) if guide.cuts else majorant(step, u, t, eta, guide)
            total += step.count * whole.log()
            share += step.count * majorant(step, u, t, eta, guide, 1) / whole if guide.cuts else 0
        return total + share.log() if guide.cuts else total

    def _transform(self, step: Step, part: int) -> list[acb]:
        # trapezoidal sums: sections 4 and 5 of the proof in the package docstring; without the power `step.count`
        guide, u = self._guide, 1 - arb(self._theta) if self._guide.flip else arb(self._theta)
        strip, window = guide.strip(step, part), guide.window(step, float(u), part)
        error = majorant(step, u, 0.0, 0.0, guide, part) + majorant(step, u, 0.0, strip, guide, part)
        nats = float(error.log()) - guide.log_moment(step, float(u), part=part) + guide.nats + math.log(step.count)
        spacing = math.pi * strip / max(nats, 10.0)
        first, last = math.floor(window[0] / spacing), math.ceil(window[1] / spacing)
        self._work += (last - first) * len(self._values)
        if self._work > LARGEST_WORK:
            raise NotDecided(f"the proof needs {self._work:.1e} nodes, more than {LARGEST_WORK:.1e}")
        d, terms, eta = arb(spacing), step.terms(), strip / 2
        decay, root = (-arb.pi() * strip / d).exp(), d / (2 * arb.pi()).sqrt()
        error *= decay / (1 - decay)
        for end, side in ((last - 1, 1), (-first - 1, -1)):
            error += _far_part(step, u, eta, d * end, side, guide, part)
        ys = [acb(d * j, eta) for j in range(first, last + 1)]
        logs = [exponents(step, terms, y) for y in ys]
        masses = [(a + u * b).exp() * root * weight(step, y, guide, part) for (a, b), y in zip(logs, ys, strict=True)]
        factors = [(acb(0, self._h) * slope).exp() for _, slope in logs]
        uncertain = acb(arb(0, error.upper()), arb(0, error.upper()))
        return [moment + uncertain for moment in _sums_of_powers(masses, factors, len(self._values))]

    def delta(self, eps: arb) -> arb:
        """Return a ball that contains the privacy profile delta(eps) of the run, at one eps in nats."""
        with ctx.workprec(ctx.prec + self._guide.more_bits):
            # `either` is a ball between 0 and 1
            theta, h, period, either = arb(self._theta), self._h, 2 * arb.pi() / self._h, arb(0.5, 0.5)
            turns = powers(acb(0, -h * eps).exp(), len(self._values))
            terms = sum((v * turn for v, turn in zip(self._values, turns, strict=True)), -self._values[0] / 2)
            total = h / arb.pi() * terms.real * (-(theta - 1) * eps).exp()
            left_out = (self._log_left_out - (theta - 1) * eps).exp() * (1 + h / self._end) / (arb.pi() * self._end)
            total += arb(0, left_out.upper())
            if self._guide.cuts:
                total += (self._log_frequent - (self._beyond - 1) * eps).exp().upper() * either
            else:
                one, two = (-(theta - 1) * period).exp(), (-theta * period).exp()
                total -= one / (1 - one) - eps.exp() * two / (1 - two)
            for c, log_moment in self._log_bounds:
                ratio = (-abs(theta - c) * period).exp()
                total -= ((log_moment - (arb(c) - 1) * eps).exp() * ratio / (1 - ratio)).upper() * either
            return total


def _sums_of_powers(masses: list[acb], factors: list[acb], count: int) -> Iterable[acb]:
    # the sums over j of masses[j] factors[j]^k for k = 0, ..., count - 1, as one product of matrices
    block = math.isqrt(count) + 1
    small = [powers(factor, block + 1) for factor in factors]
    large = [powers(row[block], -(-count // block)) for row in small]
    left = acb_mat([[row[k] for row in large] for k in range(len(large[0]))])
    product = left * acb_mat([[mass * x for x in row[:block]] for mass, row in zip(masses, small, strict=True)])
    for k in range(count):
        yield product[k // block, k % block]


def powers(base: acb, count: int) -> list[acb]:
    """Return base^0, ..., base^(count - 1) as balls. Halving of the exponents keeps their radii small."""
    found = [acb(1), base]
    for k in range(2, count):
        found.append(found[k // 2] * found[k - k // 2])
    return found[:count]
