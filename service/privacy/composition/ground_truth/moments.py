"""Moments of one step in ball arithmetic; every error is a proved radius.

H0 has the density phi b at y, with the normal density phi. L is the loss, and M(z) = int phi b e^{zL} its transform.
The trapezoid rule on a strip has an error from each side of the strip (Trefethen, Weideman 2014, Theorem 5.1). On the
line Im y = a, let the integrand of M(s + it), t >= 0, be at most G(a) times that of M(s) on the real axis. Consider the
sum of step h on the line Im y = eta, with top > eta. Its distance from M(s + it) is at most:

    M(s) [1/(e^{2 pi eta/h} - 1) + G(top)/(e^{2 pi (top - eta)/h} - 1)].

`mixture_balls.py` has L, b and G, and the bound of the omitted nodes.
"""

from __future__ import annotations

from typing import final

from flint import acb, arb

from service.privacy.composition.ground_truth.mixture_balls import MixtureBalls
from service.privacy.composition.ground_truth.mixture_strip import geometric_sums
from service.privacy.composition.ground_truth.nodes import ShiftedNodes
from service.privacy.numerics.balls import ball, within


@final
class MixtureMoments(MixtureBalls):
    """Transform M(z) = E0 e^{zL} of a mixture step with the loss L, in balls (intervals) of the current precision."""

    def on_contour(self, s: float, step: float, length: int, nodes: ShiftedNodes) -> list[acb]:
        """Return M(s + i k step) for k = 0, ..., length - 1, for the transform M(z) = E0 e^{zL} of the step.

        L is the loss of the step. `nodes` are the quadrature nodes of the moment, and the results are balls that
        enclose the true values.
        """
        weights: list[acb] = []
        turns: list[acb] = []
        scale = ball(nodes.step) / (2 * arb.pi()).sqrt()
        shift = ball(nodes.shift)
        for real, loss, log_null in self._points(nodes, nodes.shift):
            y = acb(real, shift)
            exponent = ball(s) * loss - y * y / 2
            weights.append(scale * (exponent if log_null is None else exponent + log_null).exp())
            turns.append((acb(0, 1) * ball(step) * loss).exp())
        (sums,) = geometric_sums([weights], turns, length)
        error = self._line_error(s, nodes, sums[0])
        uncertain = acb(within(arb(0), error), within(arb(0), error))
        return [value + uncertain for value in sums]

    def _line_error(self, s: float, nodes: ShiftedNodes, at_real_tilt: acb) -> arb:
        """Return a bound of |sum - M(s + it)|, t >= 0, from the strip of analyticity and from omitted nodes.

        M is the moment-generating function of the step, and the sum over `nodes` approximates M. `at_real_tilt` is the
        sum at s.
        """
        tilt, shift, top = ball(s), ball(nodes.shift), ball(nodes.top)
        relative = _kernel(shift, nodes.step) + self._growth(tilt, top) * _kernel(top - shift, nodes.step)
        if not relative < 1:
            return arb.pos_inf()
        outside = self._growth(tilt, shift) * self._outside(tilt, nodes)
        return relative * (at_real_tilt.abs_upper() + outside) / (1 - relative) + outside

    def moment(self, s: float, nodes: ShiftedNodes) -> arb:
        """Return M(s) = E0 e^{sL} for a real tilt s by a sum over nodes y on the real axis.

        NaN if no digit is proved.

        L is the loss of a step, and y its outcome.
        """
        tilt = ball(s)
        scale = ball(nodes.step) / (2 * arb.pi()).sqrt()
        total = arb(0)
        for term in self._terms(tilt, nodes):
            total += term
        total = total * scale + within(arb(0), self._outside(tilt, nodes))
        relative = 2 * self._growth(tilt, ball(nodes.top)) * _kernel(ball(nodes.top), nodes.step)
        return total / (1 + within(arb(0), relative)) if relative < 1 else arb.nan()

    def majorant(self, s: float, height: float, eta: float, nodes: ShiftedNodes, moment: arb) -> arb:
        """Return an upper bound of |M(s + it)| for all t >= height; `moment` is M(s).

        The bound is a trapezoid sum of B_eta over `nodes`, at t = height. The bound is infinite where `_turns_upwards`
        is false. M(z) = E0 e^{zL} is the transform, phi b the density of H0 at y with the normal density phi, and L the
        loss. B_eta(t) = e^{eta^2/2} int phi |b e^{sL}(y + i eta)| e^{-t Im L(y + i eta)} dy falls in t because Im L >=
        0. Its integrand continues to |Im y| <= a as the square root of the product of two integrands: that of M(s + it)
        at y + i eta, and the conjugate one at y - i eta. If `_turns_upwards`, the factors of t never grow there, and
        the error from the strip is that of M(s) with the growth G(a + eta) of the integrand off the real axis.
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


def _kernel(width: arb, step: float) -> arb:
    return 1 / (2 * arb.pi() * width / ball(step)).expm1()
