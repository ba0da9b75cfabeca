"""Moments of one step in ball arithmetic: what steps of all kinds share, every error a proved radius.

y ~ N(0, 1) but for a factor b under H0, L the loss, M(z) = int phi b e^{zL}. The trapezoid rule on a strip has an error
from either side of it (Trefethen, Weideman 2014, Theorem 5.1): where the integrand of M(s + it), t >= 0, is on the line
Im y = a at most G(a) times that of M(s) on the real line, the sum of step h on the line Im y = eta is within

    M(s) [1/(e^{2 pi eta/h} - 1) + G(top)/(e^{2 pi (top - eta)/h} - 1)]

of M(s + it), top > eta. Kinds of steps say what L, b and G are, and what the nodes left out have.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from fractions import Fraction
from typing import final

from flint import acb, acb_mat, arb

from service.privacy.composition.ground_truth.nodes import ShiftedNodes
from service.privacy.composition.ground_truth.part_guide import PartGuide
from service.privacy.numerics.balls import ball, within


class StepBalls(ABC):
    """One kind of steps at the precision in force; balls are made when they are needed."""

    @abstractmethod
    def _points(self, nodes: ShiftedNodes, shift: float) -> Iterator[tuple[arb, acb, acb | None]]:
        """y, L and ln b (None for 0) at the nodes y + i shift; L on the branch that is real on the real line."""

    @abstractmethod
    def _terms(self, s: arb, nodes: ShiftedNodes) -> Iterator[arb]:
        """sqrt(2 pi) phi b e^{sL} at the nodes, on the real line."""

    @abstractmethod
    def _growth(self, s: arb, height: arb) -> arb:
        """G up to Im y = height, for every t >= 0; infinite where L is not known to be analytic."""

    @abstractmethod
    def _turns_upwards(self, half_width: arb) -> bool:
        """Whether Im L(y + i(eta + a)) >= Im L(y + i(eta - a)) for 0 <= a <= half_width, as long as G is finite."""

    @abstractmethod
    def _outside(self, s: arb, nodes: ShiftedNodes) -> arb:
        """Bound of h sum phi b e^{sL} over all nodes of the lattice that are left out (real line)."""

    @abstractmethod
    def log_integral_constant(self, s: float, moment: arb) -> arb:
        """ln V with int_t^inf |M(s + iu)| du/u <= V/sqrt(t): closes the sum behind the last node. `moment` is M(s)."""

    @final
    def line(self, s: float, step: float, length: int, nodes: ShiftedNodes) -> list[acb]:
        """M(s + i k step) for k = 0, ..., length - 1.

        With k = a columns + b the sums over the nodes are one matrix product of e^{i a columns step L} and
        e^{i b step L}.
        """
        rows = max(1, math.isqrt(length))
        columns = -(-length // rows)
        left: list[acb] = []
        right: list[acb] = []
        scale = ball(nodes.step) / (2 * arb.pi()).sqrt()
        shift = ball(nodes.shift)
        for real, loss, log_null in self._points(nodes, nodes.shift):
            y = acb(real, shift)
            exponent = ball(s) * loss - y * y / 2
            weight = scale * (exponent if log_null is None else exponent + log_null).exp()
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

    def _line_error(self, s: float, nodes: ShiftedNodes, at_real_tilt: acb) -> arb:
        """Bound of |sum - M(s + it)|, t >= 0: of the strip and of the nodes left out. `at_real_tilt`: the sum at s."""
        tilt, shift, top = ball(s), ball(nodes.shift), ball(nodes.top)
        relative = _kernel(shift, nodes.step) + self._growth(tilt, top) * _kernel(top - shift, nodes.step)
        if not relative < 1:
            return arb.pos_inf()
        outside = self._growth(tilt, shift) * self._outside(tilt, nodes)
        return relative * (at_real_tilt.abs_upper() + outside) / (1 - relative) + outside

    @final
    def moment(self, s: float, nodes: ShiftedNodes) -> arb:
        """M(s), s real, by a sum on the real line."""
        tilt = ball(s)
        scale = ball(nodes.step) / (2 * arb.pi()).sqrt()
        total = arb(0)
        for term in self._terms(tilt, nodes):
            total += term
        total = total * scale + within(arb(0), self._outside(tilt, nodes))
        relative = 2 * self._growth(tilt, ball(nodes.top)) * _kernel(ball(nodes.top), nodes.step)
        return total / (1 + within(arb(0), relative)) if relative < 1 else arb.nan()

    @final
    def majorant(self, s: float, height: float, eta: float, nodes: ShiftedNodes, moment: arb) -> arb:
        """An upper bound of |M(s + it)| for all t >= height; `moment` is M(s).

        B_eta(t) = e^{eta^2/2} int phi |b e^{sL}(y + i eta)| e^{-t Im L(y + i eta)} dy falls in t because Im L >= 0. Its
        integrand continues to |Im y| <= a as the root of that of M(s + it) at y + i eta and of the conjugate one at
        y - i eta; where `_turns_upwards`, the factors of t never grow there and the strip's error is that of M(s), with
        G(a + eta).
        """
        tilt, t, shift = ball(s), ball(height), ball(eta)
        total = arb(0)
        for y, loss, log_null in self._points(nodes, eta):
            exponent = tilt * loss.real - t * loss.imag - y * y / 2
            total += (exponent if log_null is None else exponent + log_null.real).exp()
        total *= ball(nodes.step) / (2 * arb.pi()).sqrt()
        half_width = ball(nodes.top)
        if not self._turns_upwards(half_width):
            return arb.pos_inf()
        strip = 2 * self._growth(tilt, half_width + shift) * _kernel(half_width, nodes.step) * moment
        outside = self._growth(tilt, shift) * self._outside(tilt, nodes)
        return ((shift**2 / 2).exp() * total + strip + outside).upper()


class ExactSteps(ABC):
    """`count` equal steps of a run, all of whose parameters are known exactly."""

    count: int

    @abstractmethod
    def balls(self) -> StepBalls:
        """Moments in ball arithmetic."""

    @abstractmethod
    def guide(self) -> PartGuide:
        """The same in doubles."""

    @property
    @abstractmethod
    def log_silent(self) -> arb | None:
        """ln of what the loss of a step is at least, as a share of H1 that is H0; None where it has no least value."""

    @property
    @abstractmethod
    def global_mu_squared(self) -> Fraction | None:
        """mu^2 of the least Gaussian step that no step of these is easier to tell than; None where it is not known."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether both directions have the same curve."""

    @property
    @abstractmethod
    def dropped(self) -> arb:
        """Bound of the mass of H1 that the balls leave out, per step."""


def _kernel(width: arb, step: float) -> arb:
    """1/(e^{2 pi width/step} - 1)."""
    return 1 / (2 * arb.pi() * width / ball(step)).expm1()


def turn_powers(turn: acb, length: int) -> list[acb]:
    """turn^0, ..., turn^{length - 1}, each from its halves: made one from the other, boxes grow at every turn."""
    powers = [acb(1), turn]
    for k in range(2, length):
        powers.append(powers[k // 2] * powers[k - k // 2])
    return powers[:length]
