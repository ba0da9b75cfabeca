"""Trade-off curves of stated classes: the worst case over all mechanisms with bounded Renyi divergences.

Let R be the set of pairs (q, p) = (false positive rate, power) for which the two-outcome laws (p, 1 - p) against
(q, 1 - q) satisfy all stated bounds. A test of a member of the class gives a point of R, by data processing. A point of
R is itself a member of the class: a mechanism that answers with one coin. So T(q) = max {p : (q, p) in R} is the
largest power of any member at the rate q. R is convex (`region.py`) and closed and contains p = q, so that T is concave
and continuous, and 1 - T is a trade-off curve. Every point of T has a member; in general no member has all of T.

Every number that is a supremum over points of a function that grows with the power is therefore attained by a member.
These are: power at a rate, delta, epsilon, advantage, Bayes accuracy, posterior probabilities, mu over a range.

**Records.** Let D_0, ..., D_k differ by one record each, and S be an event. (P_{D_{i-1}}(S), P_{D_i}(S)) is in R, so
P_{D_i}(S) <= T(P_{D_{i-1}}(S)). T rises, so P_{D_k}(S) <= T(T(...T(q))) with k factors, for q = P_{D_0}(S). This is
attained for every q: let x_0 = q and x_{i+1} = T(x_i), and a mechanism answer with one coin. Bounds for both
directions: the coin shows 1 with probability x_i at a distance of i changed records from D_0, and with x_k beyond k.
Neighbours have distances that differ by at most 1, so their pair is (x_i, x_i) or (x_i, x_{i+1}) in one of both
orders. R contains both, because its bounds hold for both orders. Forward bounds: the coin shows 1 with probability x_i
if i of k marked records are present. A further record changes i to i or i + 1, so that the pair of the law without and
with it is (x_i, x_i) or (x_i, x_{i+1}), which is in R. The chain is rising and concave, as a composition of such
functions.

All numbers are computed in ball arithmetic. The lower bounds are values of pairs that are proved to be members. The
upper bounds are lines above T (`search.py`), or a line at its own rate for points. The relative width is below 1e-12
for rho from 1e-12 to 1e4, rates from 1e-300 and deltas from 1e-300 (tested).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Final, final

import numpy as np
from flint import arb, ctx
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.balls import doubles, log_doubles
from service.privacy.numerics.work import count_work, is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_number, logs_of_guess
from service.privacy.trade_off.stated_class.boundary import AbstractFrontier, BoundaryPoint, ChainFrontier, logistic
from service.privacy.trade_off.stated_class.frontiers import SymmetricFrontier
from service.privacy.trade_off.stated_class.region import AbstractRegion
from service.privacy.trade_off.stated_class.search import EpsilonGoal, ProfileGoal, Search
from service.privacy.trade_off.stated_class.zcdp import ZcdpRegion
from service.privacy.trade_off.stated_class.zcdp_mu import global_mu

FARTHEST: Final = 1e7
"""Nats. Smaller rates than e^-FARTHEST are not searched for delta: one line above the boundary bounds delta there."""


STEEP_LOSS: Final = 2.0
"""L from which the first guess of an epsilon uses the limit of D_1 for small rates."""
LARGEST_RATE: Final = 0.4
"""Largest first guess of the rate from which to search an epsilon."""


class AbstractClassTradeOff(AbstractTradeOff):
    """Trade-off curve 1 - T of a class of mechanisms; T is the upper boundary of its pairs (rate, power).

    Parameters
    ----------
    region : AbstractRegion
        Pairs with bounded divergences.
    records : int
        Number k of records that differ: the curve is that of a chain T(T(...T(q))) of k changes.
    """

    evidence = Evidence.PROVED
    method = "closed_form"
    has_only_profile = True  # the slopes of its points are hardly known

    def __init__(self, region: AbstractRegion, records: int = 1) -> None:
        self.region, self.records = region, records

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return largest_ratio(self.region, self.records)

    @cached_property
    def frontier(self) -> AbstractFrontier:
        """Upper boundary T of the pairs (rate, power) for one record, or of its chain for several records."""
        link = self._link()
        return link if self.records == 1 else ChainFrontier(link, self.records)

    @override
    @abstractmethod
    def reversed(self) -> AbstractClassTradeOff: ...

    @abstractmethod
    def _link(self) -> AbstractFrontier:
        """Return the upper boundary of the pairs (rate, power) for one record."""

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        logs = np.empty((4, alpha.size))
        logs[0], logs[3] = -np.inf, 0.0
        logs[2], logs[1] = logs_of_guess(alpha)
        with ctx.workprec(self.frontier.bits):
            for index, rate in enumerate(alpha.tolist()):
                if is_spent():  # the remaining rates keep the bounds of guessing
                    break
                count_work(self.frontier.cost)
                try:
                    logs[:, index] = _log_bounds(self.frontier.at(arb(rate), 1 - arb(rate)).checked())
                except NumericalFailure:  # the bounds of guessing hold
                    continue
        error = EnclosureArray.from_logs(np.minimum(logs[0], 0.0), np.minimum(logs[1], 0.0))
        power = EnclosureArray.from_logs(np.minimum(logs[2], 0.0), np.minimum(logs[3], 0.0))
        # T is concave: no line above it is flatter than the chord to (1, 1), or steeper than that to (0, 0).
        margin = 1e-14 * (1 + np.abs(np.log(alpha)) + np.abs(np.log1p(-alpha)))
        with np.errstate(invalid="ignore"):
            slope = EnclosureArray(logs[0] - np.log1p(-alpha) - margin, logs[3] - np.log(alpha) + margin)
        return CurvePoints(error, power, slope)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        with ctx.workprec(self.frontier.bits):
            found = [self.log_delta(each) for each in epsilon.tolist()]
        return EnclosureArray.from_logs(*(np.array(column) for column in zip(*found, strict=True)))

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds of ln delta(eps) at eps = `epsilon` in nats.

        delta is the largest privacy profile of a mechanism of the class.
        """
        if epsilon < 0:
            # delta(-x) = 1 - e^-x + e^-x delta'(x), with delta' of swapped hypotheses.
            ends = [arb(end).exp() for end in self.reversed().log_delta(-epsilon)]
            lower, upper = (arb(epsilon).exp() * end - arb(epsilon).expm1() for end in ends)
            return min(log_doubles(lower)[0], 0.0), min(log_doubles(upper)[1], 0.0)
        if epsilon >= self.largest_log_ratio.upper:
            return -math.inf, -math.inf
        if is_spent():
            return -math.inf, 0.0
        start, goal = self._start_of_profile(epsilon), ProfileGoal(arb(epsilon), arb(epsilon).exp())
        if start < -FARTHEST:
            upper = goal.upper(None, self.frontier.at(*logistic(-FARTHEST)))
            return -math.inf, min(log_doubles(upper)[1], 0.0) if upper.is_finite() else 0.0
        lower, upper = Search(self.frontier, goal).run(start)
        most = min(log_doubles(upper)[1], 0.0) if upper.is_finite() else 0.0
        return (min(log_doubles(lower)[0], most) if lower > 0 else -math.inf), most

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        with ctx.workprec(self.frontier.bits):
            if self.log_delta(0.0)[1] <= math.log(delta) * (1 + 1e-15):
                return Enclosure.point(0.0)
            lower, upper = Search(self.frontier, EpsilonGoal(arb(delta))).run(self._start_of_epsilon(delta))
            least = doubles(lower.log())[0] if lower > 1 else 0.0
            most = doubles(upper.log())[1] if upper.is_finite() and upper > 1 else (0.0 if upper <= 1 else math.inf)
        return Enclosure(max(least, 0.0), max(most, least, 0.0), self.evidence)

    def _start_of_profile(self, epsilon: float) -> float:
        """Return the logit of a rate from which to search delta(eps) for eps = `epsilon` >= 0 (nats)."""
        orders, bounds = self._starts
        above = orders - 1
        with np.errstate(all="ignore"):
            log_delta = above * (bounds - epsilon) - np.log(above) + orders * np.log1p(-1 / orders)
        return self._start(epsilon, int(np.argmin(log_delta)))

    def _start_of_epsilon(self, delta: float) -> float:
        """Return the logit of a rate from which to search epsilon(delta).

        D_a is the Renyi divergence of order a of the pair with the power p and the rate q. Every bound K of a D_a
        bounds D_1, too. For small rates D_1 is about p (L - 1) with L = ln(p/q), and the line that touches the boundary
        there starts at p (1 - 1/L). So delta is K/L, and epsilon is L - ln L. For a small K the power is about q +
        sqrt(2 K q), so that e^epsilon is 1 + K/(2 delta), at the rate 2 delta^2/K.
        """
        orders, bounds = self._starts
        with np.errstate(all="ignore"):
            epsilon = bounds + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
        index, least = int(np.argmin(epsilon)), float(bounds.min())
        loss = least / delta
        if loss > STEEP_LOSS and loss - math.log(loss) < epsilon[index]:
            return math.log(least) - math.log(loss - 1) - loss
        if 0 < loss <= STEEP_LOSS and math.log1p(loss / 2) < epsilon[index]:
            rate = min(2 * delta / loss, LARGEST_RATE)
            return math.log(rate / (1 - rate))
        return self._start(max(float(epsilon[index]), 0.0), index)

    def _start(self, epsilon: float, index: int) -> float:
        """Return about the logit of the rate at which the boundary T of one Renyi bound has the slope e^eps.

        The bound is that of the order with the index `index`, and `epsilon` is eps in nats.
        """
        orders, bounds = self._starts
        order, bound = float(orders[index]), float(bounds[index])
        return min((order - 1) * bound - order * (epsilon + math.log(order / (order - 1))), -0.1)

    @cached_property
    def _starts(self) -> tuple[FloatArray, FloatArray]:
        return self.region.starts(float(self.records) ** 2)


@final
class SymmetricClassTradeOff(AbstractClassTradeOff):
    """Trade-off curve of a class of mechanisms with bounds for both directions. It is its own inverse."""

    @override
    def _link(self) -> SymmetricFrontier:
        return SymmetricFrontier(self.region)

    @override
    def reversed(self) -> SymmetricClassTradeOff:
        return self

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest mu for which every mechanism of the class is mu-GDP; None if it is not computed.

        It is computed for zCDP and one record. It is infinite where the largest log-likelihood ratio is infinite:
        bounds of finite orders up to a allow T(q) = c q^{(a-1)/a} near rate 0, so that Phi^-1(T(q)) - Phi^-1(q) has no
        bound there.
        """
        if isinstance(self.region, ZcdpRegion):
            return self._mu_of_zcdp if self.records == 1 else None
        return Enclosure.point(math.inf) if math.isinf(self.largest_log_ratio.lower) else None

    @cached_property
    def _mu_of_zcdp(self) -> Enclosure:
        """Enclosure of the smallest mu for which rho-zCDP mechanisms are mu-GDP for one record.

        zCDP is zero-concentrated differential privacy.
        """
        link = self._link()
        with ctx.workprec(link.bits):
            lower, upper = global_mu(link, self.region.least_bound)
            least, most = doubles(lower)[0], doubles(upper)[1]
        return Enclosure(max(least, 0.0), most, self.evidence)

    @property
    @override
    def global_gdp_mu_error(self) -> float | None:
        if not isinstance(self.region, ZcdpRegion) or self.records > 1:
            return None
        link = self._link()
        with ctx.workprec(link.bits):
            return doubles(link.middle.rate)[0]

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        """Upper bound k mu of the mu-GDP of k records under zCDP; mu is that of one record.

        Source: Dong, Roth, Su 2022, Theorem 2.14.
        """
        return self.records * self._mu_of_zcdp.upper if isinstance(self.region, ZcdpRegion) else math.inf


def largest_ratio(region: AbstractRegion, records: int) -> Enclosure:
    """Return the largest log-likelihood ratio (nats) of k = `records` records.

    It is k times the bound of order infinity, and infinite without such a bound. Near rate 0 a bound of a finite order
    a allows p = q^{(a-1)/a}, so it does not bound the ratio.
    """
    bound = region.bound_at_infinity
    if bound is None:
        return Enclosure.point(math.inf)
    total = bound * records
    return Enclosure(math.nextafter(total, 0.0), math.nextafter(total, math.inf), Evidence.PROVED)


def logs_of(number: Enclosure) -> tuple[float, float]:
    """Return (lower, upper) bounds of the natural logarithm of a `number` in (0, 1]."""
    return log_number(number.lower) * (1 + 1e-15), math.log(number.upper) * (1 - 1e-15)


def _log_bounds(point: BoundaryPoint) -> tuple[float, float, float, float]:
    """Return (lower, upper) of ln f (type II error), then of ln T (power), at the rate of a boundary point."""
    least_error = (point.power_rest - point.gap).max(arb(0))
    return (
        log_doubles(least_error)[0],
        log_doubles(point.power_rest)[1],
        log_doubles(point.power)[0],
        log_doubles(point.power + point.gap)[1],
    )
