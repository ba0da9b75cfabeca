"""Smallest mu for which every rho-zCDP mechanism is mu-GDP, with both bounds.

Let G(q) = Phi^-1(T(q)) - Phi^-1(q) for the boundary T of the class. The class is mu-GDP for mu = sup G. By symmetry of
T about p + q = 1, G takes equal values at q and 1 - T(q), so that rates q <= q* suffice, where T(q*) = 1 - q*.

**Lower bound.** The middle pair is a member: mu >= 2 Phi^-1(1 - q*).

**Upper bound by lines.** Along a line above T, Phi^-1(power) - Phi^-1(rate) has no inner maximum
(`questions/gdp_tangents.py`). So between two rates the lines of both bound G by its values on the lines at the rates
and where the lines cross. The search divides intervals until the value at the crossing is at most the lower bound times
1 + TOLERANCE.

For rho >= STEEP the last line is not that of the middle pair but that of a rate q slightly below q*. T(q) + q < 1
proves q < q*, and on [q, q*] G is at most Phi^-1(1 - q*) - Phi^-1(q) <= 2 Phi^-1(1 - q).

**Upper bound of the tail.** Let l = ln(1/q) > rho. D_a <= rho a gives p^a q^{1-a} <= e^{rho a (a-1)}, and a =
sqrt(l/rho) gives ln p <= -s, s = (sqrt(l) - sqrt(rho))^2. Let g(x) = -Phi^-1(e^{-x^2}). Then G(q) <= g(sqrt(l)) -
g(sqrt(s)), the integral of g' over an interval of length sqrt(rho). Let M(g) = (1 - Phi(g))/phi(g). e^{-x^2} = phi(g)
M(g) gives g' = 2 x M(g) and x^2 = g^2/2 + ln(2 pi)/2 - ln M(g). By Birnbaum 1942 and Sampford 1953, 2/(g + sqrt(g^2 +
4)) < M(g) < 4/(3 g + sqrt(g^2 + 8)). So g'^2 < B(g) = 4 N(g) (4/(3 g + sqrt(g^2 + 8)))^2 with N(g) = g^2/2 + ln(2 pi)/2
+ ln((g + sqrt(g^2 + 4))/2). B(5) < 2.241. For g >= 5, B falls: N' <= g + 1/g and N >= g^2/2 + b/2 with b = ln(2 pi) + 2
ln g > 5, so (ln N)' <= (2/g) (1 + g^-2)/(1 + b g^-2). By sqrt(g^2 + 8) <= g + 4/g, the derivative of 2 ln(3 g +
sqrt(g^2 + 8)) is at least (2/g) (1 - 1/(g^2 + 4))/(1 + g^-2). This is at least (2/g) (1 - 2 g^-2). The second is
larger, because (1 - 2 g^-2)(1 + b g^-2) = 1 + (b (1 - 2 g^-2) - 2) g^-2 >= 1 + 2.6 g^-2. So g' < 1.5 where g >= 5, that
is where s >= 15.1 > -ln Phi(-5), and there G(q) <= 1.5 sqrt(rho).
"""

from __future__ import annotations

from typing import Final

from flint import arb

from service.privacy.numerics.work import count_work, is_spent
from service.privacy.trade_off.stated_class.boundary import BoundaryPoint
from service.privacy.trade_off.stated_class.frontiers import SymmetricFrontier

TOLERANCE: Final = 1e-10
"""Relative distance of both bounds at which an interval is not divided further."""
MOST_LINES: Final = 600
STEEP: Final = 1.0
"""rho from which the line at q* is too steep for the digits of small errors."""
NEAR: Final = 1e-12
"""Relative distance from q* of the last line, over rho."""
TAIL: Final = 15.1
"""s from which 1.5 sqrt(rho) bounds G."""


def global_mu(frontier: SymmetricFrontier, rho: float) -> tuple[arb, arb]:
    """Return a lower and an upper bound of the smallest mu for which all rho-zCDP mechanisms are mu-GDP, rho > 0.

    zCDP is zero-concentrated differential privacy, and GDP is Gaussian differential privacy.
    """
    middle = frontier.middle
    lower = 2 * _quantile_of_rest(middle.rate)
    root = arb(rho).sqrt()
    log_rate = -((arb(TAIL).sqrt() + root) * (arb(TAIL).sqrt() + root))
    rate = log_rate.exp()
    upper = (1.5 * root).max(lower)
    if rate >= middle.rate:
        return lower, upper
    first, last = frontier.at(rate, 1 - rate), middle
    if rho >= STEEP:
        near = (middle.rate * (1 - NEAR * rho)).mid()
        last = frontier.at(near, 1 - near)
        if not last.power_rest - last.gap > near:
            return lower, arb("inf")
        upper = upper.max(2 * _quantile_of_rest(near))
    enough = lower * (1 + TOLERANCE)
    for point in (first, last):
        upper = upper.max(_gap(point.rate, point.rate_rest, point, point.rate))
    intervals, lines = [(first, last)], 0
    while intervals:
        left, right = intervals.pop()
        crossing = (right.intercept - left.intercept) / (left.slope - right.slope)
        if not (crossing >= left.rate and crossing <= right.rate):
            # Rounding hides the crossing: between the rates, the larger value of one line at both rates is a bound.
            value = _gap(left.rate, left.rate_rest, right, left.rate).max(lower)
            crossing = (left.rate + right.rate) / 2
        else:
            value = _gap(crossing, 1 - crossing, left, crossing)
        if value <= enough or lines >= MOST_LINES or is_spent():
            upper = upper.max(value)
            continue
        lines += 1
        count_work(frontier.cost)
        between = _between(left, right)
        point = frontier.at(between, 1 - between)
        intervals += [(left, point), (point, right)]
    return lower, upper


def _between(left: BoundaryPoint, right: BoundaryPoint) -> arb:
    """Return the rate whose logit is in the middle of those of two boundary points."""
    logits = [(point.rate / point.rate_rest).log() for point in (left, right)]
    return (1 / (1 + (-(logits[0] + logits[1]) / 2).exp())).mid()


def _gap(rate: arb, rest: arb, line: BoundaryPoint, at: arb) -> arb:
    """Return Phi^-1(l(`at`)) - Phi^-1(`rate`), an upper bound of mu, with a line l above the boundary of the region.

    `rest` is 1 - `rate`, and `at` a false positive rate of at least `rate`. `line` is the boundary point that has l.
    """
    miss = line.power_rest - line.gap - line.slope * (at - line.rate)
    return _quantile_of_rest(miss) - _quantile(rate, rest)


def _quantile(rate: arb, rest: arb) -> arb:
    """Return the normal quantile Phi^-1(rate), where `rest` is 1 - rate."""
    return -_quantile_of_rest(rate) if rate <= rest else _quantile_of_rest(rest)


def _quantile_of_rest(rest: arb) -> arb:
    """Return the normal quantile Phi^-1(1 - rest)."""
    return arb(2).sqrt() * (2 * rest).erfcinv()
