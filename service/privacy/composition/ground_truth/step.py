"""Moments of one Poisson-sampled Gaussian step in ball arithmetic, every error a proved radius.

w(y) = 1 - p + p e^v, v = y/sigma - 1/(2 sigma^2), y ~ N(0, 1) under H0, L = ln w, r = p e^v/w, M(z) = E0 e^{zL}
(`composition/summands/sampled_gaussian.py` has the same in doubles). Facts behind the bounds, for |Im y| < pi sigma:

    |w(y + ia)| <= w(y),    |w(y + ia)| >= w(y) cos(a/(2 sigma)),    arg w(y + ia) in [0, pi) for a >= 0,

so for t >= 0 the modulus of f = phi w^{s + it} on the line Im y = a >= 0 is at most e^{a^2/2} C(a) times the integrand
of M(s) on the real line, with C(a) = max(1, cos(a/(2 sigma))^s): this is G of `moments.py`, between 0 and a as well.
For a <= pi sigma/2 and a + eta < pi sigma, arg w(y + i(a + eta)) >= arg w(y + i(a - eta)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from flint import acb, arb
from typing_extensions import override

from service.privacy.composition.ground_truth.moments import ExactSteps, StepBalls
from service.privacy.composition.ground_truth.nodes import ShiftedNodes
from service.privacy.composition.ground_truth.part_guide import SampledGaussianGuide
from service.privacy.numerics.balls import ball

_LARGEST_OVERSHOOT = 6.0
_LARGEST_HALVINGS = 60
"""Nats by which a chord of s L may exceed it, and how often a stretch is halved for that: both only cost sharpness."""


@final
@dataclass(frozen=True, slots=True)
class ExactStep(ExactSteps):
    """`count` Poisson-sampled Gaussian steps; the two parameters are taken as the rational numbers that they are."""

    noise_multiplier: Fraction
    sample_rate: Fraction
    count: int

    @override
    def balls(self) -> SampledGaussianBalls:
        return SampledGaussianBalls(self)

    @override
    def guide(self) -> SampledGaussianGuide:
        return SampledGaussianGuide(float(self.noise_multiplier), float(self.sample_rate), self.count)

    @property
    @override
    def log_silent(self) -> arb:
        return (-ball(self.sample_rate)).log1p()

    @property
    @override
    def global_mu_squared(self) -> Fraction:
        return 1 / self.noise_multiplier**2

    @property
    @override
    def symmetric(self) -> bool:
        return False

    @property
    @override
    def dropped(self) -> arb:
        return arb(0)


@final
class SampledGaussianBalls(StepBalls):
    """The step at the precision in force; balls are made when they are needed."""

    def __init__(self, step: ExactStep) -> None:
        self._step = step

    @property
    def _sigma(self) -> arb:
        return ball(self._step.noise_multiplier)

    @property
    def _rate(self) -> arb:
        return ball(self._step.sample_rate)

    @override
    def _points(self, nodes: ShiftedNodes, shift: float) -> Iterator[tuple[arb, acb, acb | None]]:
        height = ball(shift)
        for j in range(nodes.first, nodes.last + 1):
            y = nodes.y(j)
            yield y, self._loss(acb(y, height)), None

    @override
    def _terms(self, s: arb, nodes: ShiftedNodes) -> Iterator[arb]:
        for j in range(nodes.first, nodes.last + 1):
            yield self._term(s, nodes.y(j))

    def _loss(self, y: acb) -> acb:
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

    @override
    def _turns_upwards(self, half_width: arb) -> bool:
        return bool(half_width < arb.pi() * self._sigma / 2)

    @override
    def _growth(self, s: arb, height: arb) -> arb:
        """e^{height^2/2} C(height)."""
        if not height < arb.pi() * self._sigma:
            return arb.pos_inf()
        gaussian = (height * height / 2).exp()
        return gaussian if s >= 0 else gaussian * (s * (height / (2 * self._sigma)).cos().log()).exp()

    def _term(self, s: arb, y: arb) -> arb:
        return (s * self._real_loss(y) - y * y / 2).exp()

    @override
    def _outside(self, s: arb, nodes: ShiftedNodes) -> arb:
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

    @override
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
            largest = largest.max(steepest.min((tilt * self._step.log_silent).exp()))
        shift = (angle * sigma).min(arb(4))
        return (self._growth(tilt, shift) * largest * (1 + odds) / (shift / sigma).sin().sqrt()).log()
