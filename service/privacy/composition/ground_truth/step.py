"""Moments of one Poisson-sampled Gaussian step in ball arithmetic, every error a proved radius.

w(y) = 1 - p + p e^v, v = y/sigma - 1/(2 sigma^2), y ~ N(0, 1) under H0, L = ln w, r = p e^v/w, M(z) = E0 e^{zL}
(`composition/transforms/sampled_gaussian.py` has the same in doubles). Facts behind the bounds, for |Im y| < pi sigma:

    |w(y + ia)| <= w(y),    |w(y + ia)| >= w(y) cos(a/(2 sigma)),    arg w(y + ia) in [0, pi) for a >= 0,

so for t >= 0 the modulus of f = phi w^{s + it} on the line Im y = a >= 0 is at most e^{a^2/2} C(a) times the integrand
of M(s) on the real line, with C(a) = max(1, cos(a/(2 sigma))^s). The trapezoid sum of step h on the line Im y = eta
has therefore, from the strip between the real line and Im y = b > eta, an error of at most

    M(s) [1/(e^{2 pi eta/h} - 1) + e^{b^2/2} C(b)/(e^{2 pi (b - eta)/h} - 1)]        whatever t >= 0 is.

(Trapezoid rule on a strip: Trefethen, Weideman 2014, Theorem 5.1, one side at a time.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import acb, acb_mat, arb

from service.privacy.numerics.balls import ball, within

_LARGEST_OVERSHOOT = 6.0
_LARGEST_HALVINGS = 60
"""Nats by which a chord of s L may exceed it, and how often a stretch is halved for that: both only cost sharpness."""


@dataclass(frozen=True, slots=True)
class ExactStep:
    """`count` Poisson-sampled Gaussian steps; the two parameters are taken as the rational numbers that they are."""

    noise_multiplier: Fraction
    sample_rate: Fraction
    count: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes y = (j + offset) step, first <= j <= last, on the line Im y = shift; `top` bounds the strip above it.

    A sum on the real line has shift 0 and a strip of half-width `top` on either side.
    """

    step: float
    offset: float
    first: int
    last: int
    shift: float
    top: float

    def __len__(self) -> int:
        return self.last - self.first + 1

    def y(self, j: int) -> arb:
        """The real part of a node; exact sums and products round into the ball."""
        return (arb(j) + ball(self.offset)) * ball(self.step)


class SampledGaussianBalls:
    """The step at the precision in force; balls are made when they are needed."""

    def __init__(self, step: ExactStep) -> None:
        self.count = step.count
        self._step = step

    @property
    def _sigma(self) -> arb:
        return ball(self._step.noise_multiplier)

    @property
    def _rate(self) -> arb:
        return ball(self._step.sample_rate)

    @property
    def log_unsampled(self) -> arb:
        """ln(1 - p)."""
        return (-self._rate).log1p()

    def loss(self, y: acb) -> acb:
        """L(y) on its principal branch, which is the analytic one for |Im y| < pi sigma."""
        sigma = self._sigma
        return (self._rate * (y / sigma - 1 / (2 * sigma * sigma)).expm1()).log1p()

    def _real_loss(self, y: arb) -> arb:
        sigma = self._sigma
        return (self._rate * (y / sigma - 1 / (2 * sigma * sigma)).expm1()).log1p()

    def _responsibility(self, y: arb) -> arb:
        """r = p e^v/w."""
        sigma = self._sigma
        return self._rate * (y / sigma - 1 / (2 * sigma * sigma) - self._real_loss(y)).exp()

    def _growth(self, s: arb, height: arb) -> arb:
        """e^{height^2/2} C(height), by which |f| grows up to Im y = height; infinite where L is not analytic."""
        if not height < arb.pi() * self._sigma:
            return arb.pos_inf()
        gaussian = (height * height / 2).exp()
        return gaussian if s >= 0 else gaussian * (s * (height / (2 * self._sigma)).cos().log()).exp()

    def line(self, s: float, step: float, length: int, nodes: Nodes) -> list[acb]:
        """M(s + i k step) for k = 0, ..., length - 1.

        With k = a columns + b the sums over the nodes are one matrix product of e^{i a columns step L} and
        e^{i b step L}.
        """
        rows = max(1, math.isqrt(length))
        columns = -(-length // rows)
        left: list[acb] = []
        right: list[acb] = []
        scale = ball(nodes.step) / (2 * arb.pi()).sqrt()
        for j in range(nodes.first, nodes.last + 1):
            y = acb(nodes.y(j), ball(nodes.shift))
            loss = self.loss(y)
            weight = scale * (ball(s) * loss - y * y / 2).exp()
            turn = (acb(0, 1) * ball(step) * loss).exp()
            powers = turn_powers(turn, columns + 1)
            right += powers[:-1]
            left += [weight * power for power in turn_powers(powers[-1], rows)]
        count = len(nodes)
        product = acb_mat(count, rows, left).transpose() * acb_mat(count, columns, right)
        sums = [product[a, b] for a in range(rows) for b in range(columns)][:length]
        error = self._line_error(s, nodes, sums[0])
        uncertain = acb(within(arb(0), error), within(arb(0), error))
        return [value + uncertain for value in sums]

    def _line_error(self, s: float, nodes: Nodes, at_real_tilt: acb) -> arb:
        """Bound of |sum - M(s + it)|, t >= 0: of the strip and of the nodes left out. `at_real_tilt`: the sum at s."""
        tilt, shift, top = ball(s), ball(nodes.shift), ball(nodes.top)
        relative = _kernel(shift, nodes.step) + self._growth(tilt, top) * _kernel(top - shift, nodes.step)
        if not relative < 1:
            return arb.pos_inf()
        outside = self._growth(tilt, shift) * self._outside(tilt, nodes)
        return relative * (at_real_tilt.abs_upper() + outside) / (1 - relative) + outside

    def _term(self, s: arb, y: arb) -> arb:
        return (s * self._real_loss(y) - y * y / 2).exp()

    def _outside(self, s: arb, nodes: Nodes) -> arb:
        """Bound of h sum phi w^s over all nodes of the lattice that are left out (real line)."""
        h = ball(nodes.step)
        y0, y1 = nodes.y(nodes.first), nodes.y(nodes.last)
        if not (y0 < 0 and y1 > 0):
            return arb.pos_inf()
        left_ratio, right_ratio = (h * y0).exp(), (-h * y1).exp()
        if s >= 0:
            right = self._right_tail(s, y1, h)
        else:
            # L is convex: left of y0 it falls with a slope of at most r(y0)/sigma.
            left_ratio *= (-h * s * self._responsibility(y0) / self._sigma).exp()
            right = self._term(s, y1) * right_ratio / (1 - right_ratio)
        if not left_ratio < 1:
            return arb.pos_inf()
        left = self._term(s, y0) * left_ratio / (1 - left_ratio)
        return (left + right) * h / (2 * arb.pi()).sqrt()

    def _right_tail(self, s: arb, y1: arb, h: arb) -> arb:
        """Bound of sum phi w^s sqrt(2 pi) over the nodes beyond y1 > 0, for s >= 0.

        L is convex with slopes below 1/sigma. On (a, b] it lies below its chord, which leaves the exponential of a
        parabola: its sum over a lattice is at most (1 + sqrt(2 pi)/h) of its largest value. Beyond b >= 2 s/sigma terms
        fall like a geometric series of ratio e^{-h (b - s/sigma)}.
        """
        end = y1.max(2 * s / self._sigma).upper()  # exact, so that every comparison below is decided
        top, a, loss, end_loss = arb(0), y1, self._real_loss(y1), self._real_loss(end)
        while a < end:
            b, loss_b = end, end_loss
            for _ in range(_LARGEST_HALVINGS):
                middle = ((a + b) / 2).mid()
                loss_middle = self._real_loss(middle)
                if s * ((loss + loss_b) / 2 - loss_middle) < _LARGEST_OVERSHOOT:
                    break
                b, loss_b = middle, loss_middle
            slope = (loss_b - loss) / (b - a)
            vertex = a.max(b.min(s * slope))
            top += (s * (loss + slope * (vertex - a)) - vertex * vertex / 2).exp()
            a, loss = b, loss_b
        parabolas = top * (1 + (2 * arb.pi()).sqrt() / h)
        return parabolas + self._term(s, end) / (1 - (h * (s / self._sigma - end)).exp())

    def moment(self, s: float, nodes: Nodes) -> arb:
        """M(s), s real, by a sum on the real line."""
        tilt = ball(s)
        scale = ball(nodes.step) / (2 * arb.pi()).sqrt()
        total = arb(0)
        for j in range(nodes.first, nodes.last + 1):
            total += self._term(tilt, nodes.y(j))
        total = total * scale + within(arb(0), self._outside(tilt, nodes))
        relative = 2 * self._growth(tilt, ball(nodes.top)) * _kernel(ball(nodes.top), nodes.step)
        return total / (1 + within(arb(0), relative)) if relative < 1 else arb.nan()

    def majorant(self, s: float, height: float, eta: float, nodes: Nodes, moment: arb) -> arb:
        """An upper bound of |M(s + it)| for all t >= height; `moment` is M(s).

        B_eta(t) = e^{eta^2/2} int phi |w(y + i eta)|^s e^{-t arg w(y + i eta)} dy falls in t because arg w >= 0. Its
        integrand continues to |Im y| <= a as w(y + i eta)^{(s+it)/2} w(y - i eta)^{(s-it)/2}; for a <= pi sigma/2 and
        a + eta < pi sigma, arg w(y + i(a + eta)) >= arg w(y + i(a - eta)), so the factors of t never grow there and the
        strip's error is that of M(s), with C(a + eta).
        """
        tilt, t, shift = ball(s), ball(height), ball(eta)
        total = arb(0)
        for j in range(nodes.first, nodes.last + 1):
            y = nodes.y(j)
            loss = self.loss(acb(y, shift))
            total += (tilt * loss.real - t * loss.imag - y * y / 2).exp()
        total *= ball(nodes.step) / (2 * arb.pi()).sqrt()
        half_width = ball(nodes.top)
        if not half_width < arb.pi() * self._sigma / 2:
            return arb.pos_inf()
        strip = 2 * self._growth(tilt, half_width + shift) * _kernel(half_width, nodes.step) * moment
        outside = self._growth(tilt, shift) * self._outside(tilt, nodes)
        return ((shift**2 / 2).exp() * total + strip + outside).upper()

    def log_integral_constant(self, s: float, moment: arb) -> arb:
        """ln V with int_t^inf |M(s + iu)| du/u <= V/sqrt(t): closes the sum behind the last node. `moment` is M(s).

        B_eta gives int g E1(t A), A = arg w(y + i eta) >= r sin(eta/sigma), E1(x) <= e^-x ln(1 + 1/x) <= x^{-1/2}, and
        1/r = 1 + (1-p)/p e^{-v}. Completing the square, E0 w^s e^{-v/2} = e^{3/(8 sigma^2)} E0 w^s(y - 1/(2 sigma)); it
        is below M(s) for s >= 0; below (1-p)^s and e^{|s|/(2 sigma^2)} M(s) for s < 0. Any eta serves.
        """
        tilt, sigma, rate = ball(s), self._sigma, self._rate
        angle = 1 / (2 + abs(tilt)).sqrt()
        odds = ((1 - rate) / rate).sqrt() * (arb(3) / (8 * sigma * sigma)).exp()
        largest = moment.upper()
        if tilt < 0:
            steepest = largest * (-tilt / (2 * sigma * sigma)).exp()
            largest = largest.max(steepest.min((tilt * self.log_unsampled).exp()))
        shift = (angle * sigma).min(arb(4))
        return (self._growth(tilt, shift) * largest * (1 + odds) / (shift / sigma).sin().sqrt()).log()


def _kernel(width: arb, step: float) -> arb:
    """1/(e^{2 pi width/step} - 1)."""
    return 1 / (2 * arb.pi() * width / ball(step)).expm1()


def turn_powers(turn: acb, length: int) -> list[acb]:
    """turn^0, ..., turn^{length - 1}, each from its halves: made one from the other, boxes grow at every turn."""
    powers = [acb(1), turn]
    for k in range(2, length):
        powers.append(powers[k // 2] * powers[k - k // 2])
    return powers[:length]
