"""Tests of the loss S of a run by one contour integral in ball arithmetic: every error is a proved radius.

K(z) = ln E0 e^{zS} is the log-moment function of S under H0. The integrals for a threshold c are on Re z = theta, minus
1 if theta lies left of the pole:

    P0(S > c) = (1/2 pi i) int e^{K(z) - z c} dz/z.        P1(S > c) = (1/2 pi i) int e^{K(z) - (z - 1) c} dz/(z - 1).

Let I(c) be one of these integrals. With T = 2 pi/h, the trapezoid sum of step h is sum_m e^{theta m T} I(c + mT)
(Poisson). The terms m != 0 (aliases) are moved to a tilt s. There Chernoff bounds their sum by e^{K(s) - s c}/(e^{|s -
theta| T} - 1), and the crossed poles are known numbers. The nodes beyond the last one, at height t, are bounded by
int_t^inf |F| du/u. F is the integrand's factor e^{K(theta + iu) - K(theta)}, and a falling majorant (`moments.py`)
replaces F in blocks [t, 8t].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from flint import acb, acb_mat, arb, ctx

from service.privacy.composition.ground_truth.layout import ContourGuide, ContourPlan
from service.privacy.composition.ground_truth.mixture_guide import MixtureGuide
from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.mixture_strip import powers
from service.privacy.composition.ground_truth.moments import MixtureMoments
from service.privacy.numerics.balls import GUARD_BITS, ball, log_doubles, within
from service.privacy.numerics.work import count_work


@dataclass(frozen=True, slots=True)
class Threshold:
    """Test S > c of the loss S as balls: false positive rate, power, type II error, and density of S at c under H0.

    The density is approximate. `missed` is one minus the power. Closed forms compute `missed` itself and not a
    difference, so that a small type II error needs no more precision.
    """

    false_positive_rate: arb
    power: arb
    missed: arb
    density: arb

    def without(self, moved_mass: arb, *, reflected: bool) -> Threshold:
        """Return the test for the exact H1, if the computation dropped or moved up to `moved_mass` of its mass.

        The probability of every event under H1, and so the power of a best test, changes by at most this mass. In the
        remove direction (`reflected`), H1 is the hypothesis that is tested.
        """
        if moved_mass.is_zero():
            return self
        if reflected:
            return replace(self, false_positive_rate=within(self.false_positive_rate, moved_mass))
        return replace(self, power=within(self.power, moved_mass), missed=within(self.missed, moved_mass))


@dataclass(frozen=True)
class GroundTruthRun:
    """Run with exact parameters: Gaussian steps of total mu^2, and mixtures of shifted Gaussians with their counts."""

    gaussian_mu_squared: Fraction
    steps: tuple[tuple[ExactMixture, int], ...]

    def guide(self) -> ContourGuide:
        """Return the run in doubles, which chooses contours and nodes; no result relies on it."""
        return ContourGuide(tuple(MixtureGuide(*step) for step in self.steps), float(self.gaussian_mu_squared))

    @cached_property
    def moved_mass(self) -> arb:
        """Upper bound of the total mass of H1 that the mixtures of all steps leave out."""
        return sum((count * step.moved_mass for step, count in self.steps), arb(0))


A_NODE, A_TERM = 2.0, 0.1
"""Approximate work of a node of a contour, and of a term of its inner sums, in microseconds."""


class BallContour:
    """Contour Re z = theta (the tilt) of a run in ball arithmetic, with the values e^{K(z)} at its nodes.

    K(z) = ln E0 e^{zS} is the log-moment function of the loss S. Integrals along the contour give the probabilities of
    S > c. Aliases are the errors of the trapezoid sum, and poles those of the integrands. With `reflected` the contour
    serves the remove direction, whose log-moment function is K(1 - z).
    """

    def __init__(self, run: GroundTruthRun, plan: ContourPlan, *, reflected: bool) -> None:
        self._run, self._plan, self._reflected = run, plan, reflected
        self.bits = plan.bits
        self._parts = [MixtureMoments(step) for step, _ in run.steps]
        with ctx.workprec(plan.bits):
            self._tilt = 1 - ball(plan.tilt) if reflected else ball(plan.tilt)
            self._sum_up(self._values())
        with ctx.workprec(GUARD_BITS):
            moments = [
                [part.moment(s, nodes) for part, nodes in zip(self._parts, parts, strict=True)]
                for s, *parts in zip((plan.tilt, *plan.alias_tilts), *(p.aliases for p in plan.parts), strict=True)
            ]
            self._truncation = self._truncated(moments[0])
            self._log_bounds = [
                (1 - ball(s) if reflected else ball(s), self._log_product(ball(s), found))
                for s, found in zip(plan.alias_tilts, moments[1:], strict=True)
            ]

    def _log_product(self, s: arb, moments: list[arb]) -> arb:
        """Return the log-moment function K(s) of the run at a real tilt s from the moments of its kinds of steps.

        The moment of a kind is M(s) = E0 e^{sL} for the loss L of one step.
        """
        mu2 = ball(self._run.gaussian_mu_squared)
        total = mu2 * (s * s - s) / 2
        for (_, count), moment in zip(self._run.steps, moments, strict=True):
            total += count * moment.log()
        return total

    def _values(self) -> list[acb]:
        """Return e^{K(z_k)} as balls at the nodes z_k of the contour, with K(z) = ln E0 e^{zS} of the run's loss S."""
        plan, mu2 = self._plan, ball(self._run.gaussian_mu_squared)
        count_work(plan.length * (A_NODE + sum(A_TERM * len(nodes.on_contour) for nodes in plan.parts)))
        values: list[acb] = []
        for k in range(plan.length):
            z = acb(ball(plan.tilt), k * ball(plan.step))
            values.append((mu2 * (z * z - z) / 2).exp())
        for (_, count), part, nodes in zip(self._run.steps, self._parts, plan.parts, strict=True):
            moments = part.on_contour(plan.tilt, plan.step, plan.length, nodes.on_contour)
            values = [value * moment**count for value, moment in zip(values, moments, strict=True)]
        return [value.conjugate() for value in values] if self._reflected else values

    def _sum_up(self, values: list[acb]) -> None:
        """Compute the coefficients of the powers of e^{-i step c} in the sums over nodes, for any threshold c (nats).

        The sums are those of the integrals for the false positive rate and the power, and of the density. `values` has
        the transform of the loss, E0 e^{zS}, at each node z.
        """
        step = ball(self._plan.step)
        scaled = [value * (step / arb.pi()) for value in values]
        scaled[0] /= 2
        nodes = [acb(self._tilt, k * step) for k in range(len(values))]
        null = [value / z for value, z in zip(scaled, nodes, strict=True)]
        alternative = [value / (z - 1) for value, z in zip(scaled, nodes, strict=True)]
        self._coefficients = acb_mat(3, len(values), null + alternative + scaled)

    def _truncated(self, moments: list[arb]) -> arb:
        """Return an upper bound of the modulus of the sum over the omitted nodes, without its factor e^{-theta c}.

        theta is the tilt and c the threshold. `moments` holds M(theta) = E0 e^{theta L} of each kind of step with the
        loss L.
        """
        plan, mu2 = self._plan, ball(self._run.gaussian_mu_squared)
        tilt = ball(plan.tilt)
        heights = [ball(t) for t in plan.heights]
        logs: list[arb] = []
        for i, t in enumerate(heights):
            total = mu2 * (tilt * tilt - tilt - t * t) / 2
            for (_, count), part, nodes, moment in zip(self._run.steps, self._parts, plan.parts, moments, strict=True):
                eta, grid = nodes.majorants[i]
                total += count * part.majorant(plan.tilt, plan.heights[i], eta, grid, moment).log()
            logs.append(total)
        blocks = arb(0)
        for i in range(len(heights) - 1):
            blocks += logs[i].exp() * (heights[i + 1] / heights[i]).log()
        return (blocks + self._closing(logs[-1], moments)) / arb.pi()

    def _closing(self, log_last: arb, moments: list[arb]) -> arb:
        """Return an upper bound of the integral beyond the last height, by the Gaussian part, or else the best step.

        `log_last` is ln of the majorant at that height, and `moments` holds M(theta) of each kind of step with the loss
        L, M(s) = E0 e^{sL}. theta is the tilt of the contour.
        """
        height = ball(self._plan.heights[-1])
        mu2 = ball(self._run.gaussian_mu_squared)
        if mu2 > 0:  # int_t^inf e^{-mu^2 (u^2 - t^2)/2} du/u <= 1/(mu t)^2
            return log_last.exp() / (mu2 * height * height)
        best = arb.pos_inf()
        for part, nodes, moment in zip(self._parts, self._plan.parts, moments, strict=True):
            eta, grid = nodes.majorants[-1]
            own = part.majorant(self._plan.tilt, self._plan.heights[-1], eta, grid, moment).log()
            constant = part.log_integral_constant(self._plan.tilt, moment)
            best = best.min((log_last - own + constant).exp() / height.sqrt())
        return best

    def at(self, threshold: arb) -> Threshold:
        """Return the test that rejects H0 where the loss exceeds `threshold` (nats), with its error rates as balls."""
        with ctx.workprec(self.bits):
            turns = powers(acb(0, -ball(self._plan.step) * threshold).exp(), self._plan.length)
            sums = self._coefficients * acb_mat(len(turns), 1, turns)
            scale = (-self._tilt * threshold).exp()
            lift = threshold.exp()
            aliases, known_null, known_alternative = self._aliases(threshold)
            error = scale * (self._truncation + aliases)
            null = within(sums[0, 0].real * scale - known_null, error)
            alternative = within(sums[1, 0].real * scale * lift - known_alternative, error * lift)
            power = alternative + 1 if self._tilt < 1 else alternative
            missed = -alternative if self._tilt < 1 else 1 - alternative
            null = null + 1 if self._tilt < 0 else null
            return Threshold(null, power, missed, (sums[2, 0].real * scale).mid()).without(
                self._run.moved_mass, reflected=self._reflected
            )

    def _aliases(self, threshold: arb) -> tuple[arb, arb, arb]:
        """Return an upper bound of the aliases of the trapezoid sum, and the pole terms of the integrals (H0, H1).

        The bound lacks its factor e^{-theta c}, for the tilt theta and the threshold c. The bound is infinite unless
        the plan has another tilt on each side of theta.
        """
        period = 2 * arb.pi() / ball(self._plan.step)
        total, known = arb(0), [arb(0), arb(0)]
        for side in (1, -1):
            bounds = [
                (self._chernoff(s, log_moment, threshold, period), s)
                for s, log_moment in self._log_bounds
                if side * (s - self._tilt) > 0
            ]
            if not bounds:
                return arb.pos_inf(), known[0], known[1]
            bound, tilt = min(bounds, key=lambda pair: log_doubles(pair[0])[1])
            total += bound
            for pole in (0, 1):
                gap = side * (pole - self._tilt)
                if gap > 0 and side * (tilt - pole) > 0:
                    known[pole] -= side / (gap * period).expm1()
        return total, known[0], known[1]

    def _chernoff(self, s: arb, log_moment: arb, threshold: arb, period: arb) -> arb:
        gap = s - self._tilt
        return ((log_moment - gap * threshold).exp() / (abs(gap) * period).expm1()).upper()
