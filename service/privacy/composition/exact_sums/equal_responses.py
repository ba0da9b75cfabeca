"""Curves of N equal eps-DP steps without further structure: randomised responses with a binomial law of losses.

Each step has the loss eps (a true answer) or -eps. Let K be the number of true answers among N. K ~ Binomial(N, 1/(1 +
e^eps)) under H0, with e^-eps in place of e^eps under H1, and the loss is (2 K - N) eps (Kairouz, Oh, Viswanath 2015,
Theorem 3.3; composition of dominating pairs). With the masses p_k = P0(K = k) and q_k = P1(K = k), a randomised test at
its threshold k has for 0 <= theta <= 1:

    alpha = P0(K > k) + theta p_k;    power = P1(K > k) + theta q_k;    type II error = P1(K < k) + (1 - theta) q_k.

N - K swaps the hypotheses. Rates alpha above 1/2 are therefore evaluated at their complements, and delta(-eps) follows
from delta(eps). Let l_j = (2 j - N) eps be the first loss above e, and d = l_j - e. Then:

    delta(e) = (1 - e^-d) P1(K >= j) + e^-d sum_{i >= 1} q_{j+i} (1 - e^{-2 i eps}).

Nothing cancels, however small eps is. The second sum is (1 - e^{-2 eps}) sum_{i >= 0} (p_{j+i}/p_j) P1(K > j + i), up
to the factor q_j/q_{j+i}. Its terms are positive too (`numerics/binomial_tails.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.exact_sums.abstract import AbstractExactSum
from service.privacy.enclosure import SMALLEST, Enclosure, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.binomial_tails import BinomialTails, weighted_sums
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work
from service.privacy.trade_off.enclosed.logs import LogBounds, log
from service.privacy.trade_off.enclosed.weighted_sums import log_sum

SLACK: Final = 4 * FUNCTION_ERROR
A_LIST: Final = 500.0
"""Work of a list of points without its tables, in microseconds, roughly."""
STEEP: Final = 300.0
"""Log-odds beyond which the median is N or 0."""
_MARGINS: Final = np.array([2.0, 16.0, 1e3, 1e6])
"""Distances from an approximate root, in units of its uncertainty, at which bounds are tried together."""


@final
@dataclass(frozen=True, slots=True)
class _Segments:
    """Segments of the curve that contain given false positive rates alpha = P0(K > k) + theta P0(K = k).

    K is the number of steps with the loss +eps, `k` the index of the segment, and `low` and `high` bounds of
    theta in [0, 1]. The bounds may be slightly outside [0, 1] if rounding does not separate the segment from its
    neighbour.
    """

    k: IndexArray
    low: FloatArray
    high: FloatArray


@final
class EqualResponses(AbstractExactSum):
    """Curve of N >= 1 eps-DP steps, each with the worst-case loss +-eps. It is its own inverse.

    K is the number of steps with the loss eps, a binomial number, and the run's loss is (2 K - N) eps. p_k and q_k are
    the probabilities of K = k under H0 and H1. The relative width is about 1e-12 for N up to 1e6, and 1e-10 up to 1e10,
    for rates and deltas down to 1e-300. The work is proportional to the standard deviation of K. Source: Kairouz, Oh,
    Viswanath 2015, Theorem 3.3.
    """

    def __init__(self, steps: int, epsilon: float) -> None:
        self._steps, self._step = steps, epsilon
        self._laws = BinomialTails(steps, -epsilon), BinomialTails(steps, epsilon)
        """Laws of K under H0 and under H1."""
        nearest = float(steps * epsilon)
        exact = math.frexp(steps)[0] == 0.5 or nearest == 0
        outer = (nearest, nearest) if exact else (math.nextafter(nearest, 0), math.nextafter(nearest, math.inf))
        self._largest = Enclosure(*outer, Evidence.EXACT)

    @override
    def _points_of_half(self, rates: FloatArray, *, low: bool) -> FloatArray:
        """Return bounds of ln power, ln type II error and the log slope, shape (6, n).

        The rows are the lower and the upper bound of ln power, then those of the other two. The false positive rates
        are `rates` in (0, 1/2] with `low`, and 1 - `rates` otherwise. For rates above 1/2 the laws are swapped: tails
        of the binomial number K under H1 are then rates, and tails under H0 are type II errors.
        """
        count_work(A_LIST)
        null, other = self._laws if low else self._laws[::-1]
        found = self._segments(rates, null)
        mass = self._log_mass(other, null, found.k)
        beyond = self._log_beyond(other, null, found.k)
        before = self._log_beyond(null, other, self._steps - found.k)  # of N - K
        short, over = np.maximum(-found.low, 0.0), np.maximum(found.high - 1, 0.0)
        least, most = np.clip(found.low, 0.0, 1.0), np.clip(found.high, 0.0, 1.0)
        ratio, last = null.ratios(found.k), null.ratios(found.k - 1)
        # The slope of a neighbouring segment differs by the factor e^{2 eps}. Convex sums may grow by this factor.
        growth = 0.0 if low else 2 * self._step * (1 + SLACK)
        up = LogBounds(
            log_sum(beyond.lower, mass.lower + log(least), -1) + _log_rest(short / ratio),
            log_sum(log_sum(beyond.upper, mass.upper + log(most), 1), mass.upper + growth + log(over), 1),
        )
        growth = 2 * self._step * (1 + SLACK) - growth
        down = LogBounds(
            log_sum(before.lower, mass.lower + log(1 - most), -1) + _log_rest(over * last),
            log_sum(log_sum(before.upper, mass.upper + log(1 - least), 1), mass.upper + growth + log(short), 1),
        )
        power, error = (up, down) if low else (down, up)
        log_rate, log_rest = np.log(rates), np.log1p(-rates)
        rounding = SLACK * np.abs(log_rate)
        log_alpha, log_beta = (log_rate, log_rest) if low else (log_rest, log_rate)
        side = 1.0 if low else -1.0
        steepest = side * self._loss(found.k + np.where(found.low <= 0, side, 0.0) * side)
        flattest = side * self._loss(found.k - np.where(found.high >= 1, side, 0.0) * side)
        slope_low, slope_high = np.minimum(steepest, flattest), np.maximum(steepest, flattest)
        largest = self._largest.upper
        return np.array(
            [
                np.maximum(power.lower, log_alpha - rounding - SLACK * np.abs(log_alpha)),
                np.minimum(power.upper, 0.0),
                np.minimum(error.lower, 0.0),
                np.minimum(error.upper, np.minimum(log_beta + rounding + SLACK * np.abs(log_beta), 0.0)),
                np.maximum(slope_low - 4 * UNIT_ROUNDOFF * np.abs(slope_low), -largest),
                np.minimum(slope_high + 4 * UNIT_ROUNDOFF * np.abs(slope_high), largest),
            ]
        )

    def _loss(self, k: FloatArray | IndexArray) -> FloatArray:
        """Return the loss (2 k - N) eps of the run in nats, for k losses +eps and N - k losses -eps of N steps.

        The result has the shape of k, and is within 2 units of rounding.
        """
        return np.asarray((2.0 * k - self._steps) * self._step, dtype=np.float64)

    def _segments(self, rates: FloatArray, law: BinomialTails) -> _Segments:
        """Return the segments k with P(K > k) <= rates <= P(K >= k), for rates of at most 1/2.

        `law` is the binomial law of K, the number of losses +eps.
        """
        log_rate = np.log(rates)
        first, last = self._range(law, float(log_rate.max()), float(log_rate.min()))
        table = law.table(first, last)
        if table.log_mass[first - table.first] + math.log1p(table.beyond[first - table.first]) < log_rate.max():
            first = _start(law)
            table = law.table(first, last)
        inside = slice(first - table.first, last - table.first + 1)
        mass, beyond = table.log_mass[inside], table.beyond[inside]
        tails = mass + np.log1p(beyond)
        index = np.searchsorted(-tails, -log_rate, side="right") - 1
        index = np.clip(index, 0, last - first)
        error = table.mass_error[inside][index] + SLACK * (1 + np.abs(log_rate))
        share, past = np.exp(log_rate - mass[index]), beyond[index]
        past_error = table.beyond_error[inside][index]
        # Above K = N the only error is the rounding of a share that underflows. Elsewhere tails may underflow too.
        tiny = np.where(first + index < self._steps, 1e-320, 4 * SMALLEST)
        return _Segments(
            (first + index).astype(np.int64),
            share * (1 - error) - past * (1 + past_error) - tiny,
            share * (1 + error) - past * (1 - past_error) + tiny,
        )

    def _range(self, law: BinomialTails, highest: float, lowest: float) -> tuple[int, int]:
        """Return the first and last index k between which P(K > k) decreases from e^highest to e^lowest.

        K has the binomial law `law`. At the last index, P(K > k) is proved to be at most e^lowest. The first index is
        an estimate, at which P(K > k) should be at least e^highest.
        """
        start = _start(law)
        last = _first_at_most(law, lowest - 1, max(law.mode, start), law.trials)
        # A tail is at least its first term, which is about the Chernoff bound divided by sqrt(8 variance).
        loss = 1 + 0.5 * math.log(8 * (law.deviation**2 + 1))
        first = _first_at_most(law, highest + loss, max(law.mode, start), law.trials)
        return (max(start, first - 1) if first > law.mode + 2 else start), last

    def _log_mass(self, law: BinomialTails, mirror: BinomialTails, k: IndexArray) -> LogBounds:
        """Return bounds of ln P(K = k) for the binomial law `law` of K, in the shape of k.

        K is the number of N steps with the loss +eps, and `mirror` is the law of N - K.
        """
        low, high = np.empty(len(k)), np.empty(len(k))
        direct = _is_direct(law, k)
        for which, read, indices in ((direct, law, k), (~direct, mirror, self._steps - k)):
            if which.any():
                rows = read.at(indices[which])
                low[which], high[which] = rows.log_mass - rows.mass_error, rows.log_mass + rows.mass_error
        return LogBounds(low, high)

    def _log_beyond(self, law: BinomialTails, mirror: BinomialTails, k: IndexArray) -> LogBounds:
        """Return bounds of ln P(K > k), from the tail's own sum, or from P(K <= k) if that sum is long.

        K, the number of N steps with the loss +eps, has the binomial law `law`. P(K <= k) is P(N - K >= N - k), and
        `mirror` is the law of N - K.
        """
        low, high = np.full(len(k), -np.inf), np.full(len(k), -np.inf)
        direct = _is_direct(law, k) & (k < self._steps)
        if direct.any():
            rows = law.at(k[direct])
            value = rows.log_mass + rows.log_beyond
            error = rows.mass_error + rows.beyond_error + SLACK * (np.abs(rows.log_mass) + np.abs(rows.log_beyond))
            low[direct], high[direct] = value - error, np.minimum(value + error, 0.0)
        other = ~direct & (k < self._steps)
        if other.any():
            rows = mirror.at(self._steps - k[other])
            value = rows.log_mass + np.log1p(rows.beyond)
            error = rows.mass_error + rows.beyond_error + SLACK * (np.abs(value) + 1)
            low[other], high[other] = _log_rest(np.exp(value + error)), _log_rest(np.exp(value - error))
            high[other] = high[other] * (1 - SLACK)
        return LogBounds(low, high)

    @override
    def _log_profile(self, epsilon: FloatArray) -> LogBounds:
        j = self._first_above(epsilon)
        low, high = np.full(len(j), -np.inf), np.full(len(j), -np.inf)
        which = np.flatnonzero(j <= self._steps)
        if not len(which):
            return LogBounds(low, high)
        j, epsilon = j[which], epsilon[which]
        null, other = self._laws
        reached, likely = self._log_beyond(null, other, j - 1), self._log_beyond(other, null, j - 1)
        apart = epsilon + reached.upper - likely.lower < -math.log(2)
        own_low, own_high = np.empty(len(j)), np.empty(len(j))
        if apart.any():
            taken = epsilon[apart]
            rounding = SLACK * (1 + np.abs(taken) + np.abs(likely.lower[apart]) + np.abs(reached.lower[apart]))
            most = np.exp(taken + reached.upper[apart] - likely.lower[apart] + rounding)
            least = np.exp(taken + reached.lower[apart] - likely.upper[apart] - rounding)
            own_low[apart] = likely.lower[apart] + _log_rest(most) - SLACK
            own_high[apart] = np.minimum(likely.upper[apart] + _log_rest(least) + SLACK, 0.0)
        close = np.flatnonzero(~apart)
        if len(close):
            own_low[close], own_high[close] = self._close_delta(j[close], epsilon[close])
        low[which], high[which] = own_low, own_high
        return LogBounds(low, high)

    def _close_delta(self, j: IndexArray, epsilon: FloatArray) -> LogBounds:
        """Return bounds of ln delta(epsilon) by sums without differences, in the shape of `epsilon` (nats).

        The loss of N steps, of which k have the loss +eps and the others -eps, is (2 k - N) eps. j is the smallest k
        whose loss exceeds epsilon.
        """
        rows = self._laws[1].at(j)
        gained, gain_error = self._gains_at(j)
        near = -np.expm1(-self._gap(j, epsilon))
        scaled = near * (1 + rows.beyond) + (1 - near) * gained
        value = rows.log_mass + np.log(scaled)
        error = rows.mass_error + rows.beyond_error + gain_error + SLACK * (2 + np.abs(value) + np.abs(rows.log_mass))
        return LogBounds(value - error, np.minimum(value + error, 0.0))

    def _gains_at(self, j: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return sum_{i >= 1} (q_{j+i}/q_j)(1 - e^{-2 i eps}) at each index j, with relative error bounds.

        q_k is the probability of k losses of +eps among N steps under H1. Values of j that are close together share a
        sum. Both arrays have the shape of `j`.
        """
        indices, inverse = np.unique(j, return_inverse=True)
        gained, error = np.empty(len(indices)), np.empty(len(indices))
        apart = np.flatnonzero(np.diff(indices) > 64 + 9 * self._laws[0].deviation) + 1
        for group in np.split(np.arange(len(indices)), apart):
            first, last = int(indices[group[0]]), int(indices[group[-1]])
            gained[group], error[group] = (row[indices[group] - first] for row in self._gains(first, last))
        inverse = inverse.reshape(-1)
        return gained[inverse], error[inverse]

    def _gains(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return sum_{i >= 1} (q_{j+i}/q_j)(1 - e^{-2 i eps}) for j = first..last, and bounds of the relative errors.

        The shape is (last - first + 1,). The sums are (1 - e^{-2 eps}) sum_i (p_{j+i}/p_j) P1(K > j + i)/q_{j+i}, with
        the probabilities p_k and q_k of K = k losses +eps under H0 and H1. The truncated terms decrease at least like
        the tails of p, because the factors decrease too.
        """
        null, other = self._laws
        end = null.reach(last)
        table = other.table(first, end)
        inside = slice(first - table.first, end - table.first + 1)
        beyond = table.beyond[inside]
        ratios = null.ratios(np.arange(first, end + 1, dtype=np.float64))
        sums = weighted_sums(ratios, beyond, null.row(first, end))[: last - first + 1]
        # The weights of this sum are those of a tail of p, which is lighter than that of q. So the error is smaller.
        error = 2 * table.beyond_error[inside][: last - first + 1] + SLACK
        return -math.expm1(-2 * self._step) * sums, error

    def _first_above(self, epsilon: FloatArray) -> IndexArray:
        """Return the smallest k with (2 k - N) eps > epsilon, exactly, for each `epsilon`; N + 1 if there is none.

        (2 k - N) eps is the loss of N steps of which k have the loss eps. The result has the shape of `epsilon`.
        """
        guess = np.minimum(np.floor(0.5 * (epsilon / self._step + self._steps)), self._steps + 1.0)
        k = guess.astype(np.int64) - 1
        for _ in range(4):
            k = np.where((k <= self._steps) & (self._gap(k, epsilon) <= 0), k + 1, k)
        return k

    def _gap(self, k: IndexArray, epsilon: FloatArray) -> FloatArray:
        """Return the loss (2 k - N) eps less epsilon, in nats, within 3 units of rounding, for arrays of one shape.

        N is the number of steps, and k of them have the loss eps. The rounding error of the product is included.
        """
        count = (2 * k - self._steps).astype(np.float64)
        product, rest = _exact_product(count, self._step)
        return (product - epsilon) + rest

    @override
    def _epsilon_of_less(self, delta: float) -> Enclosure:
        root, uncertainty = self._root(delta)
        steps = np.concatenate((-_MARGINS[::-1], _MARGINS)) * uncertainty
        # The losses around the root are tried too, because between them the root may be uncertain by a few nats.
        beside = self._loss(np.floor(0.5 * (root / self._step + self._steps)) + np.arange(-1, 3))
        tried = np.clip(np.concatenate((root + steps, beside)), 0.0, self._largest.upper)
        read = self._log_profile(tried)
        log_delta, slack = math.log(delta), SLACK * (1 + abs(math.log(delta)))
        above, below = read.lower >= log_delta + slack, read.upper <= log_delta - slack
        lower = float(tried[above].max()) if above.any() else 0.0
        upper = float(tried[below].min()) if below.any() else self._largest.upper
        return Enclosure(lower, max(lower, upper), self.evidence)

    def _root(self, delta: float) -> tuple[float, float]:
        """Return an approximate epsilon (nats) at which the privacy profile is `delta`, and an estimate of its error.

        `delta` is between 0 and the value of the profile at epsilon 0. The caller proves bounds near the root.
        """
        other, log_delta = self._laws[1], math.log(delta)
        last = _first_at_most(other, log_delta - 1, other.mode, self._steps)
        # If K is nearly always N the range is larger, but products of ratios must not overflow.
        below = math.ceil(9 * other.deviation + min(40.0, 500.0 / max(self._step, 1.0)))
        least = max(self._steps // 2 + 1, other.mode - below)
        if other.log_odds > STEEP:
            least = max(least, min(_start(other), last))
        least = min(least, last)
        # A profile is about a tail, or a share 2 eps of it. A tail is about its Chernoff bound over the deviation.
        spread = 2 + math.log(8 * (other.deviation**2 + 1)) + max(-math.log(2 * self._step), 0.0)
        first = max(_first_at_most(other, log_delta + spread, other.mode, self._steps) - 2, least)
        found = self._root_between(first, last, log_delta)
        return found if found is not None else self._root_between(least, last, log_delta) or (0.0, 0.0)

    def _root_between(self, first: int, last: int, log_delta: float) -> tuple[float, float] | None:
        """Return an approximate epsilon (nats) with ln delta(epsilon) = `log_delta`, and its error, or None.

        The error is approximate and in nats. The search covers the losses (2 k - N) eps of N steps of +-eps, with first
        <= k <= last. The result is None if the root is left of these losses and there are other losses. No bound
        depends on the result.
        """
        gained, error = self._gains(first, last)
        table = self._laws[1].table(first, last)
        inside = slice(first - table.first, last - table.first + 1)
        log_vertices = table.log_mass[inside] + log(gained)
        index = int(np.clip(np.searchsorted(-log_vertices, -log_delta, side="left"), 0, last - first))
        share, gain = math.exp(log_delta - float(table.log_mass[inside][index])), float(gained[index])
        # Left of l_j, 1 - e^(e - l_j) is a quotient of sums.
        tail = max(1 + float(table.beyond[inside][index]) - gain, 1.0)
        w = min(max((share - gain) / tail, 0.0), 1.0)
        if index == 0 and w > -math.expm1(-2 * self._step) and first > self._steps // 2 + 1:
            return None
        loss = float(self._loss(np.array([first + index]))[0])
        relative = float(error[index] + table.mass_error[inside][index]) + SLACK * (2 + abs(log_delta))
        root = max(loss + math.log1p(-w) if w < 1 else 0.0, loss - 2 * self._step)
        uncertainty = relative * (share + gain) / tail / max(1 - w, 1e-300) + 8 * UNIT_ROUNDOFF * (loss + root)
        return max(root, 0.0), uncertainty


def _start(law: BinomialTails) -> int:
    """Return an index k with P(K >= k) of at least 1/2, from which a search for smaller tails of K may start.

    `law` is the binomial law of K. The median of K is at least the mode less 1.
    """
    return max(law.mode - 1, 0) if law.log_odds < STEEP else law.mode


def _first_at_most(law: BinomialTails, log_target: float, start: int, end: int) -> int:
    """Return the first k of `start`..`end` at which the Chernoff bound of P(K > k) is about e^log_target, or `end`.

    K has the binomial law `law`.
    """
    return start + bisect_left(range(start, end), True, key=lambda k: law.log_chernoff(k) <= log_target)


def _is_direct(law: BinomialTails, k: IndexArray) -> BoolArray:
    """Return a mask in the shape of `k`: whether the tail P(K > k) is at most about 1/2, so that its own sum is short.

    K has the binomial law `law`.
    """
    return k >= law.mode


def _log_rest(share: FloatArray) -> FloatArray:
    return np.where(np.isnan(share), 0.0, np.log1p(-np.minimum(share, 1.0)) * (1 + SLACK))


def _exact_product(first: FloatArray, second: float) -> tuple[FloatArray, FloatArray]:
    """Return `first` times `second` as the nearest doubles, and the exact rounding errors (Dekker 1971).

    Factors are below 1e290.
    """
    product = first * second
    a_high, b_high = _upper_half(first), _upper_half(np.asarray(second))
    a_low, b_low = first - a_high, second - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _upper_half(value: FloatArray) -> FloatArray:
    scaled = value * 134217729.0  # 2^27 + 1
    return scaled - (scaled - value)
