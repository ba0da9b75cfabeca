"""Pairs of two-outcome laws whose Renyi divergences are bounded, in ball arithmetic.

A pair is (p, 1 - p) against (q, 1 - q) with p >= q. `two_outcomes.py` has the formulas in D = logit p - logit q and
C(s) = ln(1 - q + q e^s). Write u = ln(p/q), v = ln((1 - p)/(1 - q)) and psi(a) = C(a D) - a C(D).

A *constraint* of order a > 1 with bound eps is psi(a) <= (a - 1) eps. Order 1 is KL(p || q) <= eps, and order infinity
is u <= eps. The set of pairs that satisfy a constraint is convex, because e^psi, KL and p - e^eps q are jointly convex
in (p, q). So the tangent of a level set at any pair bounds the set. At a pair with p > q this tangent is the line
through (q, p + gap) with the slope m:

    order:        gap:                                               m:
    1             (eps - KL)/D                                       e^-C(D) (e^D - 1)/D;
    1 < a < inf   p (1-p) (e^{(a-1) eps - psi(a)} - 1)/(a (w - p))   (1 - 1/a) e^-C(D) (e^{aD} - 1)/(e^{(a-1)D} - 1);
    inf           e^eps q - p                                        e^eps.

Here w = C'(a D) = q e^{aD}/(1 - q + q e^{aD}). Proof for a > 1: let g = e^psi = q e^{a u} + (1-q) e^{a v}. Convexity
gives g + g_p (p' - p) + g_q (q' - q) <= e^{(a-1) eps} for members (q', p'). Here g_p = g a (w - p)/(p (1 - p)) > 0 and
-g_q/g_p = m. Order 1 is the same with KL_p = u - v = D.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, final

from flint import arb

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.stated_class.boundary import BoundaryPoint
from service.privacy.trade_off.stated_class.continuation import Solution, Track
from service.privacy.trade_off.stated_class.two_outcomes import Fixed, RoughBase

MARGIN_BITS: Final = 72
"""Members are moved inwards by 2^-MARGIN_BITS of D."""
CLOSE: Final = arb(2) ** (-MARGIN_BITS - 8)
"""Relative change of D at which Newton's method ends. The change squares with each step."""
MOST_MARGINS: Final = 8
NEWTON_STEPS: Final = 96
LARGEST_MOVE: Final = 10
"""Largest change of ln D in one step of Newton's method."""


def cgf(rate: arb, rest: arb, s: arb) -> arb:
    """Return C(s) = ln(1 - q + q e^s) for the rate q = `rate` and its complement `rest`."""
    return (rest + rate * s.exp()).log() if s < -1 else (rate * s.expm1()).log1p()


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """Pair of two-outcome laws (q, 1 - q) under H0 and (p, 1 - p) under H1, all numbers as balls.

    Attributes
    ----------
    rate, rate_rest, power, power_rest : arb
        The rate q, 1 - q, the power p, and 1 - p.
    distance, moved : arb
        D = logit p - logit q, and C(D), where C(s) = ln(1 - q + q e^s).
    """

    rate: arb
    rate_rest: arb
    power: arb
    power_rest: arb
    distance: arb
    moved: arb

    def psi(self, order: arb) -> arb:
        """Return psi(a) = C(a D) - a C(D) for the order a, which is a - 1 times the Renyi divergence.

        C(s) = ln(1 - q + q e^s) for the rate q, and D = logit p - logit q for the power p.
        """
        return cgf(self.rate, self.rate_rest, order * self.distance) - order * self.moved

    def tilted(self, order: arb) -> tuple[arb, arb]:
        """Return w = C'(a D) and 1 - w for the order a.

        C(s) = ln(1 - q + q e^s) for the rate q, and D = logit p - logit q for the power p.
        """
        tilt = (order * self.distance).exp()
        whole = self.rate_rest + self.rate * tilt
        return self.rate * tilt / whole, self.rate_rest / whole

    def above_power(self, order: arb) -> arb:
        """Return w - p > 0, from the complements where both numbers are next to 1.

        w = C'(a D) for the order a, with C(s) = ln(1 - q + q e^s) for the rate q and D = logit p - logit q for the
        power p.
        """
        w, rest = self.tilted(order)
        return w - self.power if self.power < 0.5 else self.power_rest - rest

    @property
    def relative_entropy(self) -> arb:
        """Kullback-Leibler divergence of (p, 1 - p) from (q, 1 - q), for the power p and the rate q, in nats."""
        return self.power * self.distance - self.moved

    @property
    def log_ratio(self) -> arb:
        """Log-likelihood ratio u = ln(p/q) of the power p and the rate q, which is the divergence of order infinity."""
        return self.distance - self.moved


@final
@dataclass(frozen=True, slots=True)
class Base:
    """Line of pairs (rate q, power p): a fixed rate, a fixed power, or p + q = 1.

    Attributes
    ----------
    value, rest : arb
        The fixed number and its complement; 1/2 for p + q = 1.
    fixed : {"rate", "power", "middle"}
        What is fixed; "middle" stands for p + q = 1.
    """

    value: arb
    rest: arb
    fixed: Fixed = "rate"

    @property
    def rough(self) -> RoughBase:
        """Line of pairs (rate, power) with the same fixed number, in double precision."""
        return RoughBase(float(self.value.log().mid()), float(self.rest.log().mid()), self.fixed)

    def pair(self, distance: arb) -> Pair:
        """Return the pair (rate q, power p) of the line with D = logit p - logit q equal to `distance`."""
        if self.fixed == "middle":
            tilt = (distance / 2).exp()
            rate, rest = 1 / (1 + tilt), tilt / (1 + tilt)
            return Pair(rate, rest, rest, rate, distance, cgf(rate, rest, distance))
        tilt = (-distance if self.fixed == "power" else distance).exp()
        whole = self.rest + self.value * tilt
        other, other_rest = self.value * tilt / whole, self.rest / whole
        if self.fixed == "power":
            moved = -cgf(self.value, self.rest, -distance)
            return Pair(other, other_rest, self.value, self.rest, distance, moved)
        return Pair(self.value, self.rest, other, other_rest, distance, cgf(self.value, self.rest, distance))

    def slope(self, pair: Pair, order: arb | None) -> arb:
        """Return the derivative of the Renyi divergence of an order a by D, times max(a - 1, 1), along the line.

        Parameters
        ----------
        pair : Pair
            Pair on the line.
        order : arb or None
            The order a; None for infinity.

        Returns
        -------
        arb
            The derivative.

        Notes
        -----
        D is logit p - logit q for the power p and the rate q. Along p + q = 1 both logits move by half of D, so that
        the derivative is the mean of those of both other lines.
        """
        if order is None:
            at_rate, at_power = pair.power_rest, pair.rate_rest
        elif order == 1:
            at_rate, at_power = pair.distance * pair.power * pair.power_rest, pair.power - pair.rate
        else:
            w, _ = pair.tilted(order)
            at_rate, at_power = order * pair.above_power(order), (order - 1) * (w - pair.rate)
        return {"rate": at_rate, "power": at_power, "middle": (at_rate + at_power) / 2}[self.fixed]


@dataclass(frozen=True, slots=True)
class Active:
    """Active constraint of a pair: a divergence that equals its bound.

    `order` is the order a (None: infinity) of the divergence, and `bound` is eps(a) in nats.
    """

    order: arb | None
    bound: arb

    @property
    def allowed(self) -> arb:
        """Bound in nats, times a - 1 for an order a > 1."""
        return self.bound if self.order is None or self.order == 1 else (self.order - 1) * self.bound

    def excess(self, pair: Pair) -> arb:
        """Return the divergence less its bound, times a - 1 for an order a > 1; at most 0 inside the region."""
        if self.order is None:
            return pair.log_ratio - self.allowed
        if self.order == 1:
            return pair.relative_entropy - self.allowed
        return pair.psi(self.order) - self.allowed

    def tangent(self, pair: Pair) -> BoundaryPoint:
        """Return the pair as a point (rate, power) with the tangent there of the set where this divergence is bounded.

        The slope and the distance of the tangent are those of the table in the module docstring of `region.py`.
        """
        excess = self.excess(pair)
        if self.order is None:
            slope = self.bound.exp()
            gap = slope * pair.rate - pair.power
        elif self.order == 1:
            slope = (-pair.moved).exp() * pair.distance.expm1() / pair.distance
            gap = -excess / pair.distance
        else:
            above = self.order * pair.above_power(self.order)
            gap = pair.power * pair.power_rest * (-excess).expm1() / above
            rise = (self.order * pair.distance).expm1() / ((self.order - 1) * pair.distance).expm1()
            slope = (self.order - 1) / self.order * (-pair.moved).exp() * rise
        return BoundaryPoint(pair.rate, pair.rate_rest, pair.power, pair.power_rest, gap.max(arb(0)), slope)

    def solved(self, base: Base, distance: arb) -> arb:
        """Return the approximate D = logit p - logit q at which the bound is attained, by Newton's method.

        p is the power and q the rate. `base` is the line of pairs, and `distance` a good guess of D.
        """
        low, high = arb(0), arb.pos_inf()
        for _ in range(NEWTON_STEPS):
            pair = base.pair(distance)
            slope = base.slope(pair, self.order)
            excess = self.excess(pair) / self.allowed
            # Logarithms of divergences are nearly linear in ln D where D is small, and in D where 1 - p is much smaller
            # than 1 - q. So a far bound is searched in logarithms, between the pairs found on both sides of it.
            if abs(excess) > 0.5:
                low, high = (low, distance) if excess > 0 else (distance, high)
                rise = distance * slope / (self.allowed * (1 + excess))
                fall = excess.log1p() / rise if rise > 0 else arb(-LARGEST_MOVE)
                move = fall.max(-LARGEST_MOVE).min(LARGEST_MOVE)
                moved = (distance * (-move).exp()).mid()
                distance = moved if low < moved < high else (low * high).sqrt().mid()
                continue
            step = (excess * self.allowed / slope).mid()
            if not step.is_finite():
                raise NumericalFailure("no boundary of a class of mechanisms near a guess")
            distance = moved_by(distance, step)
            if abs(step) <= distance * CLOSE:
                return distance
        return distance


def moved_by(distance: arb, step: arb) -> arb:
    """Return `distance` - `step` as an exact number, limited to half and twice the distance.

    `distance` is logit p - logit q for a power p and a rate q, and `step` the step of Newton's method.
    """
    return (distance - step).mid().max(distance / 2).min(2 * distance).mid()


class AbstractRegion(ABC):
    """Convex set of pairs (q, p) of false positive rate and power, 0 < q <= p < 1.

    Bounds of the Renyi divergences D_a(p || q) of the laws (p, 1 - p) and (q, 1 - q) describe the set. psi(a) stands
    for (a - 1) D_a(p || q).

    Attributes
    ----------
    bits : int
        Precision of balls that covers the cancellation in psi.
    """

    bits: int

    @abstractmethod
    def located(self, base: Base) -> tuple[Active, arb]:
        """Return the constraint that is active at the boundary, on the line of pairs (rate, power) `base`.

        Parameters
        ----------
        base : Base
            The line.

        Returns
        -------
        (Active, arb)
            The constraint, and roughly D = logit p - logit q of the boundary pair (rate q, power p).
        """

    @abstractmethod
    def continued(self, base: Base, guess: Solution) -> tuple[Active, arb] | None:
        """Return the active constraint and D at the boundary as `located` does, from a guess.

        Parameters
        ----------
        base : Base
            Line of pairs (rate, power).
        guess : Solution
            Guess of the solution, extrapolated from neighbouring lines.

        Returns
        -------
        (Active, arb) or None
            The constraint and D = logit p - logit q; None if the guess is too far away.

        Raises
        ------
        NumericalFailure
            If Newton's method leaves the doubles.
        """

    @abstractmethod
    def unproved(self, pair: Pair, active: Active) -> Active | None:
        """Return a constraint that a pair is not proved to satisfy, or None for a pair of the region.

        `active` is the constraint that is most nearly violated.
        """

    @property
    @abstractmethod
    def least_bound(self) -> float:
        """Smallest bound, in nats, of a Renyi divergence of any order.

        The power on the boundary is 1 at rates of at least e^-bound.
        """

    @property
    def order_of_least_bound(self) -> float:
        """Largest order a of the Renyi divergence that has the smallest bound of all orders."""
        return 1.0

    @property
    def bound_at_infinity(self) -> float | None:
        """Bound (nats) of the Renyi divergence of order infinity, or None if it is not bounded."""
        return None

    @abstractmethod
    def starts(self, factor: float) -> tuple[FloatArray, FloatArray]:
        """Return orders of Renyi divergences and their bounds, for the first guess of a search.

        Parameters
        ----------
        factor : float
            Factor of the bounds.

        Returns
        -------
        (array, array)
            Orders a > 1, and bounds (nats) of the divergences D_a times the factor.
        """

    @final
    def line(self, base: Base, track: Track) -> BoundaryPoint:
        """Return a point next to the boundary with a line above it, from the solutions of the `track` so far.

        `base` is the fixed rate or power. The point is not proved to be a member: the tangent of each constraint is
        above the region.
        """
        rough = base.rough
        place = rough.log_value - rough.log_rest
        guess = track.guess(place)
        try:
            found = None if guess is None else self.continued(base, guess)
        except NumericalFailure:
            found = None
        active, distance = found or self.located(base)
        order = math.inf if active.order is None else float(active.order.mid())
        track.add(place, Solution(order, float(distance.mid())))
        return active.tangent(base.pair(distance.mid()))

    def boundary(self, base: Base) -> BoundaryPoint:
        """Return the boundary point with a fixed rate q (largest power p) or with a fixed power p (smallest rate q).

        `base` is the fixed number. Raises NumericalFailure if no pair of the region next to the boundary is found.
        """
        active, distance = self.located(base)
        for step in range(MOST_MARGINS):
            pair = base.pair((distance * (1 - arb(2) ** (8 * step - MARGIN_BITS))).mid())
            other = self.unproved(pair, active)
            if other is None:
                return active.tangent(pair)
            if other is not active:
                active, distance = other, other.solved(base, distance)
        raise NumericalFailure("no member of a class of mechanisms is found next to its boundary")
