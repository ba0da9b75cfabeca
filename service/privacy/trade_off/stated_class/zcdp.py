"""Members of the class of all rho-zCDP mechanisms, as pairs of two-outcome laws.

A pair satisfies rho-zCDP if D_a(p || q) <= rho a and D_a(q || p) <= rho a for all a >= 1. For all real t let psi(t) =
ln(p^t q^{1-t} + (1-p)^t (1-q)^{1-t}). Then (a - 1) D_a(p || q) = psi(a) and (a - 1) D_a(q || p) = psi(1 - a). So both
families of bounds are h(t) = psi(t) - rho t (t - 1) <= 0 for t > 1 and for t < 0.

**The reverse bounds follow from the forward bounds for p + q <= 1.** psi is smooth with psi(0) = psi(1) = 0 and psi'' =
D^2 w (1 - w). Here w is the logistic function of D (t - t0), with D = logit p - logit q and t0 = -logit(q)/D. So psi''
is symmetric about t0 and falls with |t - t0|. p + q <= 1 is logit p <= -logit q, that is t0 >= 1/2. Let s(t) = psi(t) -
psi(1 - t). Let t >= 1/2. The point t is at least as near to t0 as 1 - t, because (1 - t - t0)^2 - (t - t0)^2 is (2t -
1)(2 t0 - 1) >= 0. So s'' >= 0 on [1/2, inf). With s(1/2) = s(1) = 0 convexity gives s(t) >= 0 for t >= 1, and s'(1) =
KL(p || q) - KL(q || p) >= 0. So psi(1 - a) <= psi(a) <= rho a (a - 1). The same proof serves bounds at any list of
orders that hold for both directions (order infinity: the limit).

**Forward bounds: two conditions.** h(0) = h(1) = 0 and h'' = D^2 w (1 - w) - 2 rho. If D^2 <= 8 rho, h is concave, and
KL(p || q) = psi'(1) <= rho, that is h'(1) <= 0, gives h <= 0 on [1, inf). Otherwise h is concave, convex on (t_l, t_r),
and concave, with w(t_r) > 1/2. Let h'(1) <= 0. (1) If 1 >= t_r, h is concave and falls on [1, inf). (2) If t_l <= 1 <
t_r, h is convex on [1, t_r], so h <= max(h(1), h(t_r)) there. (3) If 1 < t_l, h is concave on [1, t_l] and falls from
h(1) = 0. On [t_l, t_r] it is convex, so h <= max(0, h(t_r)). So a pair satisfies all forward bounds if and only if KL(p
|| q) <= rho and the maximum of h on the right concave stretch [max(1, t_r), inf) is at most 0. Let w(t1) > 1/2, h''(t1)
< 0, h'(t1) >= 0 and h'(t2) <= 0 for 1 <= t1 < t2. Then t1 and all t > t1 are in this stretch, h rises up to t1 there
and falls after t2. Its maximum is at most h(t1) + h'(t1) (t2 - t1).

**The kink.** On p + q = 1, t0 = 1/2 and h is symmetric about 1/2. If h'(1) <= 0, then t_r <= 1: otherwise h would be
strictly convex on [0, 1] within (1 - t_r, t_r), with h(0) = h(1) = 0, so that h'(1) > 0. So case (1) holds, and KL is
the active bound: (2 p - 1) logit p = rho at the end of the forward part of the boundary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, final

import numpy as np
from flint import arb
from typing_extensions import override

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected
from service.privacy.trade_off.stated_class.continuation import Solution
from service.privacy.trade_off.stated_class.region import (
    CLOSE,
    NEWTON_STEPS,
    AbstractRegion,
    Active,
    Base,
    Pair,
    moved_by,
)
from service.privacy.trade_off.stated_class.two_outcomes import RoughBase, increasing_zero

SMALL_RHO: Final = 1e-13
"""rho below which doubles lose the digits of psi, and the limit for rho -> 0 serves as a guess."""
NEAR: Final = arb(2) ** -36
"""Distance of t1 and t2 from the active order, as a share of the order."""
STEP: Final = 1.5
"""First widenings of the bracket of ln(a - 1)."""
MOST_STEPS: Final = 60


@final
class ZcdpRegion(AbstractRegion):
    """Pairs (q, p) of rate and power whose Renyi divergences D_a(p || q) are at most rho a for all orders a >= 1."""

    def __init__(self, rho: float) -> None:
        self.rho = rho
        self.bits = 224 + 2 * max(0, -math.frexp(rho)[1])

    @property
    @override
    def least_bound(self) -> float:
        return self.rho

    @override
    def starts(self, factor: float) -> tuple[FloatArray, FloatArray]:
        orders = 1 + np.logspace(-3, 9, 121)
        return orders, factor * self.rho * orders

    @override
    def located(self, base: Base) -> tuple[Active, arb]:
        rho = arb(self.rho)
        if base.fixed == "middle":
            first = Active(arb(1), rho)
            # The divergence of order 1 on the line p + q = 1 is (D/2) tanh(D/4).
            guess = increasing_zero(lambda d: 0.5 * d * math.tanh(0.25 * d) - self.rho, math.sqrt(8 * self.rho))
            return first, first.solved(base, arb(guess))
        rough_order, rough_distance = _guess(base.rough, self.rho)
        order, distance = arb(rough_order), arb(rough_distance)
        if rough_order == 1:
            first = Active(order, rho)
            distance = first.solved(base, distance)
            order = 1 + _above_one(base.pair(distance), rho)
            if order == 1:
                return first, distance
        order, distance, _ = self._refined(base, order, distance)
        return Active(order, rho * order), distance

    @override
    def continued(self, base: Base, guess: Solution) -> tuple[Active, arb] | None:
        rho, order, distance = arb(self.rho), arb(guess.order), arb(guess.distance)
        if order == 1:
            first = Active(order, rho)
            distance = first.solved(base, distance)
            order = 1 + _above_one(base.pair(distance), rho)
            if order == 1:
                return first, distance
        order, distance, is_solved = self._refined(base, order, distance)
        pair = base.pair(distance)
        w, rest = pair.tilted(order)
        # On the right concave stretch of h, the root of F and F' is the largest value of h, which is 0.
        is_largest = w > 0.5 and distance * distance * w * rest < 2 * rho and pair.relative_entropy <= rho
        return (Active(order, rho * order), distance) if is_solved and is_largest else None

    def _refined(self, base: Base, order: arb, distance: arb) -> tuple[arb, arb, bool]:
        """Solve F = F' = 0 for F(a) = h(a)/(a - 1) by Newton's method in the order a > 1 and D.

        Return a, D and whether the method converged.

        The guess of the order a is `order`, and that of D = logit p - logit q is `distance`. h(a) is psi(a) - rho a (a
        - 1), where psi(a) is a - 1 times the Renyi divergence of order a on `base`.
        """
        rho = arb(self.rho)
        for _ in range(2 * NEWTON_STEPS):
            pair, above = base.pair(distance), order - 1
            w, rest = pair.tilted(order)
            factor = above if base.fixed == "power" else order
            by_distance = base.slope(pair, order)
            value = pair.psi(order) / above - rho * order
            by_order = (distance * w - pair.moved - rho * (2 * order - 1) - value) / above
            twice = (distance * distance * w * rest - 2 * rho - 2 * by_order) / above
            mixed = (by_distance / factor + factor * distance * w * rest - by_distance / above) / above
            by_distance /= above
            determinant = by_order * mixed - by_distance * twice
            change = ((by_order * by_distance - value * mixed) / determinant).mid()
            step = ((by_order * by_order - value * twice) / determinant).mid()
            if not (change.is_finite() and step.is_finite()):
                break
            order = (1 + (above + change).max(above / 4).min(4 * above)).mid()
            distance = moved_by(distance, step)
            if abs(step) <= distance * CLOSE:
                return order, distance, True
        return order, distance, False

    @override
    def unproved(self, pair: Pair, active: Active) -> Active | None:
        return None if self._contains(pair, active) else active

    def _contains(self, pair: Pair, active: Active) -> bool:
        """Return whether a pair (rate, power) provably is in the region; `active` is its most nearly violated bound."""
        rho, distance = arb(self.rho), pair.distance
        if not pair.relative_entropy <= rho:
            return False
        square = distance * distance
        if square <= 8 * rho or (pair.power > 0.5 and square * pair.power * pair.power_rest <= 2 * rho):
            return True
        if active.order is None or not active.order > 1:
            return False
        part = (active.order - 1).min(arb(1)) * NEAR * active.order
        first, last = (active.order - part).mid(), (active.order + part).mid()
        (w, rest), (w_last, _) = pair.tilted(first), pair.tilted(last)
        rise = distance * w - pair.moved - rho * (2 * first - 1)
        fall = distance * w_last - pair.moved - rho * (2 * last - 1)
        if not (w > 0.5 and square * w * rest < 2 * rho and rise >= 0 and fall <= 0):
            return False
        return bool(pair.psi(first) - rho * first * (first - 1) + rise * (last - first) <= 0)


def _above_one(pair: Pair, rho: arb) -> arb:
    """Return a - 1 for the active order a next to a pair with Kullback-Leibler divergence rho; 0 if order 1 is active.

    Let h(a) be (a - 1) D_a(p || q) - rho a (a - 1) for the Renyi divergence D_a, with the derivatives h_j at a = 1.
    Then h(a)/(a - 1) is h_1 + h_2 t/2 + h_3 t^2/6 + h_4 t^3/24 + ... for t = a - 1. Its maximum is next to a root of
    h_2/2 + h_3 t/3 + h_4 t^2/8.
    """
    variance = pair.power * pair.power_rest
    square = pair.distance * pair.distance
    second = square * variance - 2 * rho
    if not second > 0:
        return arb(0)
    third = square * pair.distance * variance * (1 - 2 * pair.power)
    fourth = square * square * variance * (1 - 6 * variance)
    if fourth < 0:
        return ((third / 3 + (third * third / 9 - fourth * second / 4).sqrt()) / (-fourth / 4)).mid()
    return (-1.5 * second / third).mid() if third < 0 else arb(1e-3)


def _guess(base: RoughBase, rho: float) -> tuple[float, float]:
    """Return the order whose bound is attained, and D = logit p - logit q, at the boundary on `base`, in doubles.

    p is the power and q the false positive rate of a test. `base` is the line of pairs (q, p) with a fixed p, a fixed
    q, or p + q = 1. The boundary is that of the pairs that rho-zCDP allows.
    """
    odds = base.log_rest - base.log_value
    if rho < SMALL_RHO:
        return _limit(rho, odds)
    start = 2 * math.sqrt(rho * _log_odds_over(odds))
    known = increasing_zero(lambda distance: base.pair(distance).relative_entropy - rho, start)
    pair = base.pair(known)
    if known**2 * math.exp(pair.log_power + pair.log_error) <= 2 * rho:
        return 1.0, known
    return _active(base, rho, known)


def _active(base: RoughBase, rho: float, known: float) -> tuple[float, float]:
    """Return the order a > 1 whose bound has the smallest D = logit p - logit q on `base`, and this D.

    p is the power and q the false positive rate of a test. `base` is the line of pairs (q, p) with a fixed p, a fixed
    q, or p + q = 1. rho-zCDP bounds the Renyi divergence of each order a >= 1 by rho a. psi(a) is a - 1 times this
    divergence, and D(a) the D at which the bound of order a is attained: psi(a) = rho a (a - 1). `known` is D(1). The
    orders with D(a) <= D are an interval for every D. So the derivative of psi(a) - rho a (a - 1) by a, at D(a),
    changes its sign once.
    """
    near = [min(known, rho + 2 * math.sqrt(rho * max(-base.log_value, 1.0)))]

    def slope(log_above: float) -> float:
        above = math.exp(log_above)
        order = 1 + above
        if base.largest_divergence <= rho * order:  # every power satisfies the bound of this order
            return 1.0
        near[0] = increasing_zero(lambda distance: base.pair(distance).tilted(order)[0] - rho * order * above, near[0])
        found = base.pair(near[0])
        return (rho * (2 * order - 1) - near[0] * found.tilted(order)[1] + found.moved) / above

    low = high = 0.5 * math.log(max(-base.log_value, 0.7) / rho)
    for _ in range(MOST_STEPS):
        if slope(high) >= 0:
            break
        low, high = high, high + STEP
    for _ in range(MOST_STEPS):
        if slope(low) < 0:
            break
        low, high = low - STEP, low
    if slope(low) >= 0:  # order 1, within rounding
        return 1.0, known
    root = _zero(slope, low, high)
    slope(root)
    return 1 + math.exp(root), near[0]


def _zero(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the point between `low` and `high` from which a function with rounding errors is negative."""
    from scipy.optimize import brentq

    try:
        root: Any = brentq(function, low, high, xtol=1e-10, disp=False)
    except ValueError:  # rounding hides one sign
        return bisected(lambda x: function(x) >= 0, low, high, 40)[1]
    return float(root)


def _log_odds_over(odds: float) -> float:
    """Return ln((1-q)/q)/(1 - 2q), which is 2 at q = 1/2, from `odds` = ln((1-q)/q)."""
    return odds / math.tanh(0.5 * odds) if abs(odds) > 1e-6 else 2.0


def _limit(rho: float, odds: float) -> tuple[float, float]:
    """Return the order whose bound is attained and D = logit p - logit q in the limit rho -> 0 (Kearns, Saul 1998).

    p is the power and q the false positive rate of a test. `odds` is ln((1 - q)/q).
    """
    distance = 2 * math.sqrt(rho * _log_odds_over(odds))
    return max(1.0, 2 * odds / distance), distance
