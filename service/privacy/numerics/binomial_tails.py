"""Tails of a binomial law, however far out, by ratios of neighbouring terms.

K counts successes in n trials, s = ln(p/(1 - p)) the log-odds of one, and

    r_k = P(K = k + 1)/P(K = k) = (n - k)/(k + 1) e^s,

which falls with k. A table holds P(K > k)/P(K = k) = sum_{i >= 1} r_k ... r_{k+i-1} for a range of k: sums of positive
terms, each a product of ratios, in rows that start anew so that nothing underflows. Terms beyond the table are bounded
by a geometric series. Masses themselves come from a few anchors in ball arithmetic, chained by the same ratios.

Errors: a product of i ratios is off by 4 i u; a tail weighs it with the mean of i, which for a log-concave law is at
most P(K >= k)/P(K = k) (its hazard rises), or the way to the mode and that from there; sums over a row add two rows' u.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from flint import arb, ctx

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.balls import ball, doubles
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work

A_TABLE, A_PLACE = 50.0, 0.1
"""Work of a table, and of each of its places, in microseconds, roughly."""
LONGEST_ROW: Final = 64
LONGEST_CHAIN: Final = 512
"""Terms between anchors."""
LARGEST_DROP: Final = 600.0
"""Nats by which a chain of ratios may fall; e^-this is a normal double."""
ANCHOR_BITS: Final = 160
NEGLIGIBLE: Final = 38.0
"""Nats: what is left out is below e^-this = 0.3 u of what is kept."""


@final
@dataclass(frozen=True, slots=True)
class TailTable:
    """For k = first, first + 1, ...: ln P(K = k); P(K > k)/P(K = k) and its logarithm (within 3 u of itself more);
    relative error bounds of the mass and of what is beyond.

    Far below the mode P(K > k)/P(K = k) may exceed every double. It is infinite there, and so is its error bound.
    """

    first: int
    log_mass: FloatArray
    beyond: FloatArray
    log_beyond: FloatArray
    mass_error: FloatArray
    beyond_error: FloatArray

    def covers(self, first: int, last: int) -> bool:
        """Whether all of first..last is there."""
        return self.first <= first and last < self.first + len(self.log_mass)


@final
@dataclass(frozen=True, slots=True)
class TailRows:
    """The same at places of one's own choice."""

    log_mass: FloatArray
    beyond: FloatArray
    log_beyond: FloatArray
    mass_error: FloatArray
    beyond_error: FloatArray


@final
class BinomialTails:
    """Tables of the upper tails of Binomial(n, 1/(1 + e^-s)), n >= 1 an integer below 2^52, s finite."""

    def __init__(self, trials: int, log_odds: float) -> None:
        self.trials, self.log_odds = trials, log_odds
        success = 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else math.exp(max(log_odds, -745.0))
        self.success = success
        self.mode = min(math.floor((trials + 1) * success), trials)
        failure = 1 / (1 + math.exp(log_odds)) if log_odds < 700 else math.exp(max(-log_odds, -745.0))
        self.deviation = math.sqrt(trials * success * failure)
        self._tables: list[TailTable] = []

    @cached_property
    def _odds(self) -> float:
        """e^s within u; 0 or infinite where it is no double."""
        if abs(self.log_odds) > 709:
            return math.inf if self.log_odds > 0 else math.exp(self.log_odds)
        with ctx.workprec(ANCHOR_BITS):
            return float(ball(self.log_odds).exp())

    @cached_property
    def _log_normaliser(self) -> arb:
        """ln n! - n ln(1 + e^s)."""
        with ctx.workprec(ANCHOR_BITS):
            odds = ball(self.log_odds)
            # ln(1 + e^s) = max(s, 0) + ln(1 + e^-|s|)
            log_sum = (-abs(odds)).exp().log1p() + (odds if self.log_odds > 0 else 0)
            return arb(self.trials + 1).lgamma() - self.trials * log_sum

    def log_mass(self, successes: int) -> float:
        """ln P(K = successes) in ball arithmetic, rounded to nearest or nearly so: relative error <= 2 u."""
        with ctx.workprec(ANCHOR_BITS):
            gammas = arb(successes + 1).lgamma() + arb(self.trials - successes + 1).lgamma()
            exact = self._log_normaliser - gammas + successes * ball(self.log_odds)
            low, high = doubles(exact)
            return 0.5 * (low + high)

    def table(self, first: int, last: int) -> TailTable:
        """A table over first..last at least."""
        for known in self._tables:
            if known.covers(first, last):
                return known
        made = self._table(first, last, self.reach(last))
        self._tables.append(made)
        return made

    def at(self, successes: IndexArray) -> TailRows:
        """What tables hold at each of `successes`, with one table for all that are close together."""
        places, inverse = np.unique(successes, return_inverse=True)
        rows = np.empty((5, len(places)))
        gaps = np.flatnonzero(np.diff(places) > 64 + 9 * self.deviation) + 1
        for group in np.split(np.arange(len(places)), gaps):
            table = self.table(int(places[group[0]]), int(places[group[-1]]))
            inside = places[group] - table.first
            kept = table.log_mass, table.beyond, table.log_beyond, table.mass_error, table.beyond_error
            rows[:, group] = [column[inside] for column in kept]
        return TailRows(*rows[:, inverse.reshape(-1)])

    def ratios(self, successes: FloatArray | IndexArray) -> FloatArray:
        """r_k within 3 u."""
        left = np.asarray(self.trials - successes, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            return np.where(left > 0.0, left / (successes + 1) * self._odds, 0.0)

    def log_chernoff(self, successes: int) -> float:
        """About ln of the bound e^{-n KL(k/n, p)} of P(K >= k), k at least the mean."""
        rate = successes / self.trials
        hit = rate * (math.log(rate) + _softplus(-self.log_odds)) if rate > 0 else 0.0
        missed = (1 - rate) * (math.log1p(-rate) + _softplus(self.log_odds)) if rate < 1 else 0.0
        return -self.trials * max(hit + missed, 0.0)

    def reach(self, last: int) -> int:
        """A place beyond which everything together is below e^-38 of P(K = last), or n."""
        more = 16 + math.ceil(9 * self.deviation)
        while True:
            end = min(last + more, self.trials)
            if end == self.trials or self._negligible_beyond(last, end):
                return end
            more *= 2

    def row(self, first: int, end: int) -> int:
        """How many ratios between two places may be multiplied in one row."""
        return min(LONGEST_ROW, self._chain(first, end))

    def _chain(self, first: int, end: int) -> int:
        drop = max(-self._log_ratio(min(end, self.trials - 1)), self._log_ratio(first), 1e-9)
        return max(1, min(LONGEST_CHAIN, math.floor(LARGEST_DROP / drop)))

    def _table(self, first: int, last: int, end: int) -> TailTable:
        """Over first..last, from terms up to `end`; terms beyond it do not count."""
        count_work(A_TABLE + A_PLACE * (end + 1 - first))
        ratios = self.ratios(np.arange(first, end + 1, dtype=np.float64))
        chain, row = self._chain(first, end), self.row(first, end)
        sums = weighted_sums(ratios, np.ones(len(ratios)), row)
        size = last - first + 1
        following = np.append(sums, 0.0)[1 : size + 1]
        beyond = ratios[:size] * following
        with np.errstate(divide="ignore"):
            if self.log_odds < -LARGEST_DROP:  # e^s may underflow
                places = np.arange(first, last + 1, dtype=np.float64)
                log_beyond = np.log((self.trials - places) / (places + 1)) + self.log_odds + np.log(following)
            else:
                log_beyond = np.log(beyond)
        log_mass, chained = self._log_masses(first, ratios[:size], chain)
        # E[K - k | K >= k] is at most 1 + beyond, and below the mode the way there and what it is there.
        peak = min(max(self.mode - first, 0), size - 1)
        to_mode = np.maximum(self.mode - np.arange(first, last + 1), 0.0)
        mean = 1 + np.minimum(beyond, to_mode + beyond[peak])
        error = UNIT_ROUNDOFF * (5 * mean + 2 * row + 20)
        mass_error = UNIT_ROUNDOFF * (4 * chained + 16) + 2 * FUNCTION_ERROR * np.abs(log_mass)
        return TailTable(first, log_mass, beyond, log_beyond, mass_error, error)

    def _log_ratio(self, k: int) -> float:
        """About ln r_k; 0 for k = n, from where nothing leads on."""
        if k == self.trials:
            return 0.0
        return math.log((self.trials - k) / (k + 1)) + self.log_odds

    def _negligible_beyond(self, last: int, end: int) -> bool:
        """Whether P(K > end) is below e^-38 of P(K = last), end < n."""
        log_ratio = self._log_ratio(end)
        if log_ratio >= -1e-12:
            return False
        # The product of the ratios from last to end, which fall: those of a quarter are at most its first.
        knots = [last + (end - last) * quarter // 4 for quarter in range(5)]
        fall = math.fsum((b - a) * self._log_ratio(a) for a, b in itertools.pairwise(knots))
        return fall + log_ratio - math.log(-math.expm1(log_ratio)) < -NEGLIGIBLE

    def _log_masses(self, first: int, ratios: FloatArray, chain: int) -> tuple[FloatArray, FloatArray]:
        """ln P(K = k) for k = first, ... as many as ratios, and how many ratios lead there from an anchor."""
        chains = -(-len(ratios) // chain)
        products = np.ones((chains, chain))
        padded = np.ones(chains * chain)
        padded[: len(ratios) - 1] = ratios[:-1]  # the last leads out of the range, and may be 0
        np.cumprod(padded.reshape(chains, chain)[:, :-1], axis=1, out=products[:, 1:])
        anchors = np.array([self.log_mass(first + i * chain) for i in range(chains)])
        logs = anchors[:, None] + np.log(products)
        steps = np.arange(chains * chain) % chain
        return logs.reshape(-1)[: len(ratios)], steps[: len(ratios)].astype(np.float64)


def weighted_sums(ratios: FloatArray, weights: FloatArray, row: int) -> FloatArray:
    """S_j = w_j + sum_{i >= 1} r_j ... r_{j+i-1} w_{j+i} for every j, non-negative weights and ratios.

    In rows of `row` whose products of ratios must neither under- nor overflow. Relative error <= 2 row u + 5 u times
    the mean of i that the sum weighs.
    """
    rows = -(-len(ratios) // row)
    padded = np.zeros((2, rows * row))
    padded[0, : len(ratios)], padded[1, : len(ratios)] = ratios, weights
    shaped, heavy = padded.reshape(2, rows, row)
    products = np.ones((rows, row))
    np.cumprod(shaped[:, :-1], axis=1, out=products[:, 1:])
    links = products[:, -1] * shaped[:, -1]
    sums = np.cumsum((products * heavy)[:, ::-1], axis=1)[:, ::-1]
    following = np.zeros(rows)
    total = 0.0
    firsts, factors = sums[:, 0].tolist(), links.tolist()
    for i in range(rows - 1, -1, -1):
        carried = factors[i] * total
        following[i] = carried
        total = firsts[i] + carried
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((sums + following[:, None]) / products).reshape(-1)[: len(ratios)]


def _softplus(x: float) -> float:
    """ln(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
