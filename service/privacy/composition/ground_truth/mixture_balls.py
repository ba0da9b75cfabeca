"""Step that is a mixture of shifted Gaussians in ball arithmetic; every error is a proved radius.

The notation is that of `mixture_strip.py`: at y, H1 has the density phi a and H0 the density phi b with the normal
density phi, L = ln a - ln b is the loss, and M(z) = E0 e^{zL}. a(y) = sum w_i e^{d_i y - d_i^2/2} with weights w_i and
shifts d_i, and A(x, q) = a(x + iq)/a(x). b = 1, or b(y) = a(-y) for a mirrored step. ln a is convex and rises with
slopes m between the smallest and the largest d. In the strip, with z = s + it:

    |a^z b^{1-z}|(x + iq) = (a^s b^{1-s})(x) |A(x, q)|^s |A(-x, q)|^{1-s} e^{-t D};    D = arg A(x, q) + arg A(-x, q).

A step that is not mirrored lacks the factor of A(-x, q) and the second summand of D. D >= 0, and |A| is in [l(q), 1]
with the `least_modulus` l of the strip. So the growth of the integrand at the height q is e^{q^2/2} l(q)^{min(s, 0) +
min(1 - s, 0)}. If one of the shifts is 0, ln a is ln(1 + sum w_i (e^{d_i x - d_i^2/2} - 1)) over the others, so that
small weights keep their digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flint import acb, arb, ctx

from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.mixture_strip import Number, power_sums, strip_of
from service.privacy.composition.ground_truth.nodes import ShiftedNodes
from service.privacy.numerics.balls import GUARD_BITS, ball

LARGEST_OVERSHOOT: Final = 6.0
LARGEST_HALVINGS: Final = 60
"""Largest excess in nats of a line above the exponent, and largest count of halvings of an interval for this."""
WIDENING: Final = 4
"""Width of the first trial interval over that of the previous interval."""
EXTRA_BITS: Final = 40


class MixtureBalls:
    """Mixture of shifted Gaussians in balls (intervals) of the current precision.

    At y, H1 has the density phi a and H0 the density phi b, with the normal density phi and a(y) = sum w_i e^{d_i y -
    d_i^2/2}. L = ln a - ln b is the loss, M(z) = E0 e^{zL} the transform, and m the slope of ln a.
    """

    def __init__(self, mixture: ExactMixture) -> None:
        self._mixture = mixture
        self._strip = strip_of(mixture)
        self._first = int(mixture.shifts[0] == 0)
        self._made: dict[int, tuple[list[arb], list[arb], arb]] = {}

    def _modes(self) -> tuple[list[arb], list[arb], arb]:
        """Return lists of w_i e^{-d_i^2/2} and d_i over the positive shifts d_i, and the sum of their weights w_i."""
        found = self._made.get(ctx.prec)
        if found is None:
            d, weights = self._mixture.distances()[self._first :], self._mixture.weights()[self._first :]
            terms = [weight * (-x * x / 2).exp() for weight, x in zip(weights, d, strict=True)]
            found = self._made[ctx.prec] = (terms, d, sum(weights, arb(0)))
        return found

    def _log(self, of_positive: Number, shifted: arb) -> Number:
        """Return ln a from `of_positive`, the sum of w_i e^{d_i y - d_i^2/2} over the positive shifts d_i.

        `shifted` is the sum of the weights w_i of these shifts. The rest of the weight belongs to shift 0, if there is
        one. y is the outcome.
        """
        return (of_positive - shifted).log1p() if self._first else of_positive.log()

    def _more_bits(self, nodes: ShiftedNodes) -> int:
        """Return the precision in bits at which e^{d y} has the relative accuracy of the current precision.

        This holds at all nodes y of the outcome and for all shifts d.
        """
        largest = abs(nodes.y(nodes.first)).max(abs(nodes.y(nodes.last))) * self._mixture.distances()[-1] + 1
        return ctx.prec + EXTRA_BITS + int(float(largest.log())) * 3 // 2

    def _points(self, nodes: ShiftedNodes, shift: float) -> Iterator[tuple[arb, acb, acb | None]]:
        """Yield the outcome y, the loss L and ln b at the nodes y + i shift, where phi b is the density of H0.

        phi is the normal density. ln b is None if b = 1. L is on the branch that is real on the real axis.
        """
        here = self._logs(nodes, shift, 1)
        there = self._logs(nodes, shift, -1) if self._mixture.mirrored else None
        for k, log_a in enumerate(here):
            y = nodes.y(nodes.first + k)
            if there is None:
                yield y, log_a, None
            else:
                log_b = there[k].conjugate()
                yield y, log_a - log_b, log_b

    def _logs(self, nodes: ShiftedNodes, shift: float, side: int) -> list[acb]:
        """Return ln a at the points side y + i shift for the nodes y, where phi a is the density of H1.

        phi is the normal density. Its argument is within pi/2 of that of e^{i shift m}, with the slope m of ln a.
        """
        height = ball(shift)
        with ctx.workprec(self._more_bits(nodes)):
            terms, d, shifted = self._modes()
            start, step = side * nodes.y(nodes.first), side * ball(nodes.step)
            (values,) = power_sums(terms, d, acb(start, height), step, len(nodes))
            if height * d[-1] < arb.pi():
                return [self._log(value, shifted) for value in values]  # every term's argument is between 0 and pi
        with ctx.workprec(self._more_bits(nodes) + GUARD_BITS - ctx.prec):
            terms, d, shifted = self._modes()
            zeroth, first = power_sums(terms, d, start, step, len(nodes), 2)
            rest = 1 - shifted if self._first else arb(0)
            means = [one / (rest + others) for one, others in zip(first, zeroth, strict=True)]
            if not all(height * mean.rad() < 1 for mean in means):
                return [acb(arb.nan(), arb.nan())] * len(nodes)
        with ctx.workprec(self._more_bits(nodes)):
            rest = 1 - self._modes()[2] if self._first else arb(0)
            turns = [acb(0, height * mean.mid()) for mean in means]
            return [((rest + value) * (-turn).exp()).log() + turn for value, turn in zip(values, turns, strict=True)]

    def _terms(self, s: arb, nodes: ShiftedNodes) -> Iterator[arb]:
        """Yield sqrt(2 pi) phi b e^{sL} at the nodes on the real axis.

        This is the density phi b of H0, with the normal density phi, tilted by the loss L at the tilt s.
        """
        with ctx.workprec(self._more_bits(nodes)):
            terms, d, shifted = self._modes()
            start, step = nodes.y(nodes.first), ball(nodes.step)
            (here,) = power_sums(terms, d, start, step, len(nodes))
            there = power_sums(terms, d, -start, -step, len(nodes))[0] if self._mixture.mirrored else None
        for k, value in enumerate(here):
            y = nodes.y(nodes.first + k)
            exponent = s * self._log(value, shifted) - y * y / 2
            yield (exponent if there is None else exponent + (1 - s) * self._log(there[k], shifted)).exp()

    def _turns_upwards(self, half_width: arb) -> bool:
        """Return whether Im L(y + i(a + e)) >= Im L(y + i(a - e)) is proved for 0 <= a <= half_width and all e >= 0.

        L is the loss, continued to complex outcomes y. a + e is limited to the strip in which L is analytic.
        """
        return bool(half_width <= self._strip.widest)

    def _growth(self, s: arb, height: arb) -> arb:
        """Return an upper bound of |phi b e^{zL}| at outcomes y with Im y = `height`, over its value at real y.

        The bound holds for z = s + it and every t >= 0. phi b is the density of H0 with the normal density phi and L
        the loss. The result is infinite where L is not proved to be analytic.
        """
        if not height < self._strip.height:
            return arb.pos_inf()
        powers = s.min(0) + ((1 - s).min(0) if self._mixture.mirrored else 0)
        return (height * height / 2 + powers * self._strip.least_modulus(height).log()).exp()

    def _log_ratio(self, y: arb) -> arb:
        """Return ln a(y) as a ball for a real outcome y.

        a is the ratio of the densities with and without the record.
        """
        terms, d, shifted = self._modes()
        return self._log(sum((term * (x * y).exp() for term, x in zip(terms, d, strict=True)), arb(0)), shifted)

    def _mean(self, y: arb) -> arb:
        """Return the slope m of ln a at the outcome y, which is the mean shift given y.

        phi a is the density of H1 with the normal density phi.
        """
        terms, d, shifted = self._modes()
        shares = [term * (x * y).exp() for term, x in zip(terms, d, strict=True)]
        rest = 1 - shifted if self._first else arb(0)
        return sum((share * x for share, x in zip(shares, d, strict=True)), arb(0)) / sum(shares, rest)

    def _outside(self, s: arb, nodes: ShiftedNodes) -> arb:
        """Return an upper bound of h sum phi b e^{sL} over all omitted nodes of spacing h on the real axis.

        s is a real exponent, phi b is the density of H0 with the normal density phi, and L is the loss.
        """
        with ctx.workprec(GUARD_BITS):
            h, other = ball(nodes.step), (1 - s if self._mixture.mirrored else arb(0))
            y0, y1 = nodes.y(nodes.first), nodes.y(nodes.last)
            if not (y0 < 0 and y1 > 0):
                return arb.pos_inf()
            tails = self._tail(s, other, y1.lower(), h) + self._tail(other, s, (-y0).lower(), h)
            return tails * h / (2 * arb.pi()).sqrt()

    def _tail(self, p: arb, r: arb, start: arb, h: arb) -> arb:
        """Return an upper bound of sum e^{F(u)} over the nodes u of a lattice of spacing h beyond start > 0.

        F(u) = p ln a(u) + r ln a(-u) - u^2/2, where phi a is the density of H1 with the normal density phi. ln a(u) and
        ln a(-u) are convex. So on (a, b] a summand lies below its chord if its coefficient is positive, and below its
        tangent at a otherwise. The result is the exponential of a parabola, whose sum over a lattice is at most (1 +
        sqrt(2 pi)/h) times its largest value. The slopes of F + u^2/2 beyond `start` are at most B, as the slope m of
        ln a rises. Beyond b >= 2 B the terms fall like a geometric series of ratio e^{-h (b - B)}.
        """
        steepest = p.max(0) * self._modes()[1][-1] + (-r).max(0) * self._mean(-start)
        end = start.max(2 * steepest).upper()  # exact, so that every comparison below is decided
        top, a, width = arb(0), start, end - start
        while a < end:
            b = (a + WIDENING * width).mid().min(end)
            line, slope, over = self._line_above(p, r, a, b)
            for _ in range(LARGEST_HALVINGS):
                if over < LARGEST_OVERSHOOT:
                    break
                b = ((a + b) / 2).mid()
                line, slope, over = self._line_above(p, r, a, b)
            vertex = a.max(b.min(slope))
            top += (line + slope * (vertex - a) - vertex * vertex / 2).exp()
            a, width = b, b - a
        parabolas = top * (1 + (2 * arb.pi()).sqrt() / h)
        last = (p * self._log_ratio(end) + r * self._log_ratio(-end) - end * end / 2).exp()
        return parabolas + last / (1 - (h * (steepest - end)).exp())

    def _line_above(self, p: arb, r: arb, a: arb, b: arb) -> tuple[arb, arb, arb]:
        """Return value at a and slope of a straight line above p ln a(u) + r ln a(-u) for a <= u <= b.

        p and r are real coefficients, and a(u) is the density of H1 over the normal density. The third number is about
        how far the line lies above the sum.
        """
        middle, value, slope, over = ((a + b) / 2).mid(), arb(0), arb(0), arb(0)
        for coefficient, side in ((p, 1), (r, -1)):
            if coefficient.is_zero():
                continue
            at_a, at_b = self._log_ratio(side * a), self._log_ratio(side * b)
            steep = (at_b - at_a) / (b - a) if coefficient >= 0 else side * self._mean(side * a)
            value, slope = value + coefficient * at_a, slope + coefficient * steep
            for point, found in ((middle, self._log_ratio(side * middle)), (b, at_b)):
                over += abs(coefficient * (at_a + steep * (point - a) - found)).mid()
        return value, slope, over

    def log_integral_constant(self, s: float, moment: arb) -> arb:
        """Return ln V with int_t^inf |M(s + iu)| du/u <= V/sqrt(t), a bound beyond the last node at the height t.

        M(z) = E0 e^{zL} is the transform, and `moment` is M(s). The majorant on the path Im y = eta, B_eta, gives
        G(eta) int phi a^s b^{1-s} E1(t D). phi a and phi b are the densities of H1 and H0 with the normal density phi.
        G is `_growth`, D is the argument of a/b on this path, and E1(x) <= e^-x ln(1 + 1/x) <= x^{-1/2} is the
        exponential integral. D is at least the `least_turn` of the strip times m(y), or times m(y) + m(-y) >= m(0) for
        a mirrored step. If the smallest shift d_0 is positive, m >= d_0. Let d_0 = 0, j > 0, w_j the weight of the
        shift d_j and v_j = d_j y - d_j^2/2. Then m^{-1/2} <= d_1^{-1/2} (1 + (w_0/w_j)^{1/2} e^{-v_j/2}), as m is at
        least d_1 times the share of shifts above 0. Completing the square, E0 a^s e^{-v_j/2} = e^{3 d_j^2/8} E0 a^s(y -
        d_j/2). The mean on the right is below M(s) for s >= 0. For s < 0 the mean is below w_0^s and below e^{|s| d_j
        d_max/2} M(s), with the largest shift d_max. Every eta is valid.
        """
        tilt, (terms, d, shifted), height = ball(s), self._modes(), self._strip.height
        eta = (height / 2).min(arb(1))
        growth = self._growth(tilt, eta) / self._strip.least_turn(eta).sqrt()
        if self._mixture.mirrored:
            return (growth * moment / self._mean(arb(0)).sqrt()).log()
        if not self._first:
            return (growth * moment / d[0].sqrt()).log()
        best = arb.pos_inf()
        for term, x in zip(terms, d, strict=True):
            largest = moment.upper()
            if tilt < 0:
                steepest = largest * (-tilt * x * d[-1] / 2).exp()
                largest = largest.max(steepest.min((tilt * (-shifted).log1p()).exp()))
            odds = ((1 - shifted) / term).sqrt() * (x * x / 8).exp()
            best = best.min((largest * (1 + odds)).upper())
        return (growth * best / d[0].sqrt()).log()
