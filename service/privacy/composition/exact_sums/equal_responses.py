"""Curves of N equal steps that are eps-DP and no more: randomised responses, a binomial law of losses.

K of the N answers are true: K ~ Binomial(N, 1/(1 + e^eps)) under H0, with e^eps for e^-eps under H1, and the loss is
(2 K - N) eps (Kairouz, Oh, Viswanath 2015, Theorem 3.3; composition of dominating pairs). With p_k, q_k the masses,

    alpha = P0(K > k) + theta p_k,    power = P1(K > k) + theta q_k,    type II error = P1(K < k) + (1 - theta) q_k

for 0 <= theta <= 1: a randomised test at its threshold. N - K exchanges the hypotheses, so that rates above 1/2 are
read off their complements, and delta(-eps) off delta(eps). With j the first loss l_j above e and d = l_j - e,

    delta(e) = (1 - e^-d) P1(K >= j) + e^-d sum_{i >= 1} q_{j+i} (1 - e^{-2 i eps}),

where nothing cancels however small eps is; the second sum is (1 - e^{-2 eps}) sum_{i >= 0} (p_{j+i}/p_j) P1(K > j + i)
but for the factor q_j/q_{j+i}, of positive terms again (`numerics/binomial_tails.py`).
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
"""Work of a list of points beside its tables, in microseconds, roughly."""
STEEP: Final = 300.0
"""Log-odds beyond which the median is n or 0."""
_MARGINS: Final = np.array([2.0, 16.0, 1e3, 1e6])
"""How far from an approximate root, in units of its uncertainty, it is proved, tried together."""


@final
@dataclass(frozen=True, slots=True)
class _Segments:
    """For each level the segment k of the curve it lies on, with both ends of theta.

    `low`, `high` may be a little outside [0, 1] where rounding does not tell the segment from its neighbour.
    """

    k: IndexArray
    low: FloatArray
    high: FloatArray


@final
class EqualResponses(AbstractExactSum):
    """The curve of N >= 1 randomised responses at eps > 0, its own inverse.

    Relative width about 1e-12 for N up to 1e6 and 1e-10 to 1e10, rates and deltas down to 1e-300. Work is
    proportional to the standard deviation of K. Source: Kairouz, Oh, Viswanath 2015, Theorem 3.3.
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
    def _points_of_half(self, level: FloatArray, *, low: bool) -> FloatArray:
        """Above 1/2 the laws change places: tails of K under H1 are rates, and type II errors those under H0."""
        count_work(A_LIST)
        null, other = self._laws if low else self._laws[::-1]
        found = self._segments(level, null)
        mass = self._log_mass(other, null, found.k)
        beyond = self._log_beyond(other, null, found.k)
        before = self._log_beyond(null, other, self._steps - found.k)  # of N - K
        short, over = np.maximum(-found.low, 0.0), np.maximum(found.high - 1, 0.0)
        least, most = np.clip(found.low, 0.0, 1.0), np.clip(found.high, 0.0, 1.0)
        ratio, last = null.ratios(found.k), null.ratios(found.k - 1)
        # On a neighbouring segment slopes differ by e^{2 eps}: convex sums may grow by it, concave ones do not.
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
        log_level, log_rest = np.log(level), np.log1p(-level)
        rounding = SLACK * np.abs(log_level)
        log_alpha, log_beta = (log_level, log_rest) if low else (log_rest, log_level)
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
        """(2 k - N) eps within 2 u."""
        return np.asarray((2.0 * k - self._steps) * self._step, dtype=np.float64)

    def _segments(self, level: FloatArray, law: BinomialTails) -> _Segments:
        """k with P(K > k) <= level <= P(K >= k), for levels <= 1/2."""
        log_level = np.log(level)
        first, last = self._range(law, float(log_level.max()), float(log_level.min()))
        table = law.table(first, last)
        if table.log_mass[first - table.first] + math.log1p(table.beyond[first - table.first]) < log_level.max():
            first = _start(law)
            table = law.table(first, last)
        inside = slice(first - table.first, last - table.first + 1)
        mass, beyond = table.log_mass[inside], table.beyond[inside]
        tails = mass + np.log1p(beyond)
        place = np.searchsorted(-tails, -log_level, side="right") - 1
        place = np.clip(place, 0, last - first)
        error = table.mass_error[inside][place] + SLACK * (1 + np.abs(log_level))
        share, past = np.exp(log_level - mass[place]), beyond[place]
        past_error = table.beyond_error[inside][place]
        # Above K = N there is nothing but the rounding of a share that underflows; elsewhere tails may, too.
        tiny = np.where(first + place < self._steps, 1e-320, 4 * SMALLEST)
        return _Segments(
            (first + place).astype(np.int64),
            share * (1 - error) - past * (1 + past_error) - tiny,
            share * (1 + error) - past * (1 - past_error) + tiny,
        )

    def _range(self, law: BinomialTails, highest: float, lowest: float) -> tuple[int, int]:
        """Where tails come down from the highest level (about) to the lowest (surely)."""
        start = _start(law)
        last = _first_at_most(law, lowest - 1, max(law.mode, start), law.trials)
        # A tail is at least its first term, about the bound over the root of 8 times the variance.
        loss = 1 + 0.5 * math.log(8 * (law.deviation**2 + 1))
        first = _first_at_most(law, highest + loss, max(law.mode, start), law.trials)
        return (max(start, first - 1) if first > law.mode + 2 else start), last

    def _log_mass(self, law: BinomialTails, mirror: BinomialTails, k: IndexArray) -> LogBounds:
        """ln P(K = k)."""
        low, high = np.empty(len(k)), np.empty(len(k))
        direct = _is_direct(law, k)
        for which, read, places in ((direct, law, k), (~direct, mirror, self._steps - k)):
            if which.any():
                rows = read.at(places[which])
                low[which], high[which] = rows.log_mass - rows.mass_error, rows.log_mass + rows.mass_error
        return LogBounds(low, high)

    def _log_beyond(self, law: BinomialTails, mirror: BinomialTails, k: IndexArray) -> LogBounds:
        """ln P(K > k): by its own sum, or where that is long by P(K <= k), which is P(K >= N - k) of the mirror."""
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
        """ln delta by sums without differences."""
        rows = self._laws[1].at(j)
        gained, gain_error = self._gains_at(j)
        near = -np.expm1(-self._gap(j, epsilon))
        scaled = near * (1 + rows.beyond) + (1 - near) * gained
        value = rows.log_mass + np.log(scaled)
        error = rows.mass_error + rows.beyond_error + gain_error + SLACK * (2 + np.abs(value) + np.abs(rows.log_mass))
        return LogBounds(value - error, np.minimum(value + error, 0.0))

    def _gains_at(self, j: IndexArray) -> tuple[FloatArray, FloatArray]:
        """sum_{i >= 1} (q_{j+i}/q_j)(1 - e^{-2 i eps}) with relative error bounds; one sum for all that are close."""
        places, inverse = np.unique(j, return_inverse=True)
        gained, error = np.empty(len(places)), np.empty(len(places))
        apart = np.flatnonzero(np.diff(places) > 64 + 9 * self._laws[0].deviation) + 1
        for group in np.split(np.arange(len(places)), apart):
            first, last = int(places[group[0]]), int(places[group[-1]])
            gained[group], error[group] = (row[places[group] - first] for row in self._gains(first, last))
        inverse = inverse.reshape(-1)
        return gained[inverse], error[inverse]

    def _gains(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """The same for j = first..last: (1 - e^{-2 eps}) sum_i (p_{j+i}/p_j) P1(K > j + i)/q_{j+i}.

        What is left out falls at least like the tails of p, for the factors fall too.
        """
        null, other = self._laws
        end = null.reach(last)
        table = other.table(first, end)
        inside = slice(first - table.first, end - table.first + 1)
        beyond = table.beyond[inside]
        ratios = null.ratios(np.arange(first, end + 1, dtype=np.float64))
        sums = weighted_sums(ratios, beyond, null.row(first, end))[: last - first + 1]
        # The weights of this sum are those of a tail of p, which is lighter than that of q: its error is at most that.
        error = 2 * table.beyond_error[inside][: last - first + 1] + SLACK
        return -math.expm1(-2 * self._step) * sums, error

    def _first_above(self, epsilon: FloatArray) -> IndexArray:
        """The smallest k with (2 k - N) eps > epsilon, exactly; N + 1 where there is none."""
        guess = np.minimum(np.floor(0.5 * (epsilon / self._step + self._steps)), self._steps + 1.0)
        k = guess.astype(np.int64) - 1
        for _ in range(4):
            k = np.where((k <= self._steps) & (self._gap(k, epsilon) <= 0), k + 1, k)
        return k

    def _gap(self, k: IndexArray, epsilon: FloatArray) -> FloatArray:
        """(2 k - N) eps - epsilon within 3 u: the rounding of the product is known."""
        count = (2 * k - self._steps).astype(np.float64)
        product, rest = _exact_product(count, self._step)
        return (product - epsilon) + rest

    @override
    def _epsilon_of_less(self, delta: float) -> Enclosure:
        root, uncertainty = self._root(delta)
        steps = np.concatenate((-_MARGINS[::-1], _MARGINS)) * uncertainty
        # The losses around the root as well: between them it may be known to a few nats only.
        beside = self._loss(np.floor(0.5 * (root / self._step + self._steps)) + np.arange(-1, 3))
        tried = np.clip(np.concatenate((root + steps, beside)), 0.0, self._largest.upper)
        read = self._log_profile(tried)
        level, slack = math.log(delta), SLACK * (1 + abs(math.log(delta)))
        above, below = read.lower >= level + slack, read.upper <= level - slack
        lower = float(tried[above].max()) if above.any() else 0.0
        upper = float(tried[below].min()) if below.any() else self._largest.upper
        return Enclosure(lower, max(lower, upper), self.evidence)

    def _root(self, delta: float) -> tuple[float, float]:
        """About where delta(eps) = delta > 0 is below delta(0), and how uncertain that is."""
        other, level = self._laws[1], math.log(delta)
        last = _first_at_most(other, level - 1, other.mode, self._steps)
        # Some more where K is nearly always N, but not so far that products of ratios overflow.
        below = math.ceil(9 * other.deviation + min(40.0, 500.0 / max(self._step, 1.0)))
        least = max(self._steps // 2 + 1, other.mode - below)
        if other.log_odds > STEEP:
            least = max(least, min(_start(other), last))
        least = min(least, last)
        # A profile is about a tail, or a share 2 eps of it, and that about its bound over the deviation.
        spread = 2 + math.log(8 * (other.deviation**2 + 1)) + max(-math.log(2 * self._step), 0.0)
        first = max(_first_at_most(other, level + spread, other.mode, self._steps) - 2, least)
        found = self._root_between(first, last, level)
        return found if found is not None else self._root_between(least, last, level) or (0.0, 0.0)

    def _root_between(self, first: int, last: int, level: float) -> tuple[float, float] | None:
        """The same between the losses of these places; None where it is left of them and there are others."""
        gained, error = self._gains(first, last)
        table = self._laws[1].table(first, last)
        inside = slice(first - table.first, last - table.first + 1)
        log_vertices = table.log_mass[inside] + log(gained)
        place = int(np.clip(np.searchsorted(-log_vertices, -level, side="left"), 0, last - first))
        share, gain = math.exp(level - float(table.log_mass[inside][place])), float(gained[place])
        # From l_j on to the left 1 - e^(e - l_j) is a quotient of sums.
        tail = max(1 + float(table.beyond[inside][place]) - gain, 1.0)
        w = min(max((share - gain) / tail, 0.0), 1.0)
        if place == 0 and w > -math.expm1(-2 * self._step) and first > self._steps // 2 + 1:
            return None
        loss = float(self._loss(np.array([first + place]))[0])
        relative = float(error[place] + table.mass_error[inside][place]) + SLACK * (2 + abs(level))
        root = max(loss + math.log1p(-w) if w < 1 else 0.0, loss - 2 * self._step)
        uncertainty = relative * (share + gain) / tail / max(1 - w, 1e-300) + 8 * UNIT_ROUNDOFF * (loss + root)
        return max(root, 0.0), uncertainty


def _start(law: BinomialTails) -> int:
    """From where a level of at most 1/2 is reached: the median is at least the mode less 1."""
    return max(law.mode - 1, 0) if law.log_odds < STEEP else law.mode


def _first_at_most(law: BinomialTails, level: float, start: int, end: int) -> int:
    """The first k of start..end at which the Chernoff bound is about e^level, `end` if none is."""
    return start + bisect_left(range(start, end), True, key=lambda k: law.log_chernoff(k) <= level)


def _is_direct(law: BinomialTails, k: IndexArray) -> BoolArray:
    """Whether the tail above k is at most about a half, and summed itself."""
    return k >= law.mode


def _log_rest(share: FloatArray) -> FloatArray:
    """ln(1 - share), minus infinity from 1 on; 0 where share is not a number (0 of nothing)."""
    return np.where(np.isnan(share), 0.0, np.log1p(-np.minimum(share, 1.0)) * (1 + SLACK))


def _exact_product(first: FloatArray, second: float) -> tuple[FloatArray, FloatArray]:
    """first second as the nearest double and the rest, exactly (Dekker 1971); factors below 1e290."""
    product = first * second
    a_high, b_high = _upper_half(first), _upper_half(np.asarray(second))
    a_low, b_low = first - a_high, second - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _upper_half(value: FloatArray) -> FloatArray:
    scaled = value * 134217729.0  # 2^27 + 1
    return scaled - (scaled - value)
