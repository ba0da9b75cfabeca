"""Tails of a binomial law, however small, from ratios of neighbouring terms.

K counts successes in n trials, and s = ln(p/(1 - p)) is the log-odds of a success. The ratios decrease with k:

    r_k = P(K = k + 1)/P(K = k) = (n - k)/(k + 1) e^s.

A table holds P(K > k)/P(K = k) = sum_{i >= 1} r_k ... r_{k+i-1} for a range of k. The terms are positive products of
ratios. The products restart in every row, so that nothing underflows. A geometric series bounds the terms beyond the
table. The masses come from a few anchors in ball arithmetic, multiplied by the same ratios.

A product of i ratios has a relative error of 4 i u, u = 2^-53. A tail weights this error with the mean of i. The hazard
rate of a log-concave law increases, so the mean is at most P(K >= k)/P(K = k). Below the mode the mean is also at most
the distance to the mode plus the mean at the mode. The sums over a row add 2 u times the row's length.
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
"""Work of a table, and of each of its entries, in microseconds, roughly."""
LONGEST_ROW: Final = 64
LONGEST_CHAIN: Final = 512
"""Largest number of terms between anchors."""
LARGEST_DROP: Final = 600.0
"""Nats by which a product of ratios may decrease; e^-LARGEST_DROP is a normal double."""
ANCHOR_BITS: Final = 160
NEGLIGIBLE: Final = 38.0
"""Nats: the truncation is below e^-NEGLIGIBLE = 0.3 u of the sum."""


@final
@dataclass(frozen=True, slots=True)
class TailTable:
    """Masses and upper tails of a binomial number K for k = first, first + 1, ...

    Attributes
    ----------
    log_mass : array
        ln P(K = k).
    beyond : array
        P(K > k)/P(K = k). Far below the mode the value may exceed every double. It is then infinite, like its error
        bound.
    log_beyond : array
        ln of `beyond`. Beside the error of `beyond` it has an error of 3 u (u = 2^-53) relative to the logarithm.
    mass_error, beyond_error : array
        Relative error bounds of the mass and of `beyond`.
    """

    first: int
    log_mass: FloatArray
    beyond: FloatArray
    log_beyond: FloatArray
    mass_error: FloatArray
    beyond_error: FloatArray

    def covers(self, first: int, last: int) -> bool:
        """Return whether this table has rows for all numbers k of successes from `first` to `last`."""
        return self.first <= first and last < self.first + len(self.log_mass)


@final
@dataclass(frozen=True, slots=True)
class TailRows:
    """Columns of a `TailTable` at arbitrary numbers k of successes of a binomial number K.

    `log_mass` is ln P(K = k). `beyond` is P(K > k)/P(K = k), and `log_beyond` its logarithm. `mass_error` and
    `beyond_error` bound relative errors.
    """

    log_mass: FloatArray
    beyond: FloatArray
    log_beyond: FloatArray
    mass_error: FloatArray
    beyond_error: FloatArray


@final
class BinomialTails:
    """Tables of the upper tails of a binomial law with n trials and log-odds s of a success.

    n is an integer, 1 <= n < 2^52, and s is finite. The probability of a success is 1/(1 + e^-s).
    """

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
        """Odds e^s of a success, for log-odds s, within one rounding; 0 or infinite outside the range of doubles."""
        if abs(self.log_odds) > 709:
            return math.inf if self.log_odds > 0 else math.exp(self.log_odds)
        with ctx.workprec(ANCHOR_BITS):
            return float(ball(self.log_odds).exp())

    @cached_property
    def _log_normaliser(self) -> arb:
        """ln n! - n ln(1 + e^s) as a ball, for n trials and log-odds s."""
        with ctx.workprec(ANCHOR_BITS):
            odds = ball(self.log_odds)
            # ln(1 + e^s) = max(s, 0) + ln(1 + e^-|s|)
            log_sum = (-abs(odds)).exp().log1p() + (odds if self.log_odds > 0 else 0)
            return arb(self.trials + 1).lgamma() - self.trials * log_sum

    def log_mass(self, successes: int) -> float:
        """Return the logarithm of a mass of the binomial law, from ball arithmetic.

        Parameters
        ----------
        successes : int
            Number k of successes.

        Returns
        -------
        float
            ln P(K = k), with a relative error of at most 2^-52.
        """
        with ctx.workprec(ANCHOR_BITS):
            gammas = arb(successes + 1).lgamma() + arb(self.trials - successes + 1).lgamma()
            exact = self._log_normaliser - gammas + successes * ball(self.log_odds)
            low, high = doubles(exact)
            return 0.5 * (low + high)

    def table(self, first: int, last: int) -> TailTable:
        """Return a table of masses and upper tails that covers k = `first`..`last` successes."""
        for known in self._tables:
            if known.covers(first, last):
                return known
        made = self._table(first, last, self.reach(last))
        self._tables.append(made)
        return made

    def at(self, successes: IndexArray) -> TailRows:
        """Return masses and upper tails at each of `successes`, from tables that neighbouring counts share.

        Counts share a table if they differ by at most 64 plus nine standard deviations.
        """
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
        """Return the ratios of neighbouring masses of the binomial law.

        Parameters
        ----------
        successes : array
            Numbers k of successes.

        Returns
        -------
        array
            P(K = k + 1)/P(K = k) at each k, within three roundings.
        """
        left = np.asarray(self.trials - successes, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            return np.where(left > 0.0, left / (successes + 1) * self._odds, 0.0)

    def log_chernoff(self, successes: int) -> float:
        """Return an approximate logarithm of Chernoff's bound of an upper tail.

        Parameters
        ----------
        successes : int
            Number k of successes, at least the mean.

        Returns
        -------
        float
            About -n KL(k/n, p), ln of the bound of P(K >= k) for n trials of success probability p.
        """
        rate = successes / self.trials
        hit = rate * (math.log(rate) + _softplus(-self.log_odds)) if rate > 0 else 0.0
        missed = (1 - rate) * (math.log1p(-rate) + _softplus(self.log_odds)) if rate < 1 else 0.0
        return -self.trials * max(hit + missed, 0.0)

    def reach(self, last: int) -> int:
        """Return a count beyond which the total mass is below e^-38 P(K = last), or the number of trials n.

        K is the binomial number of successes, and `last` a number of successes.
        """
        more = 16 + math.ceil(9 * self.deviation)
        while True:
            end = min(last + more, self.trials)
            if end == self.trials or self._negligible_beyond(last, end):
                return end
            more *= 2

    def row(self, first: int, end: int) -> int:
        """Return how many consecutive ratios between `first` and `end` successes can be multiplied without underflow.

        A ratio is P(K = k + 1)/P(K = k) for the binomial number K of successes. The result is from 1 to `LONGEST_ROW`.
        """
        return min(LONGEST_ROW, self._chain(first, end))

    def _chain(self, first: int, end: int) -> int:
        drop = max(-self._log_ratio(min(end, self.trials - 1)), self._log_ratio(first), 1e-9)
        return max(1, min(LONGEST_CHAIN, math.floor(LARGEST_DROP / drop)))

    def _table(self, first: int, last: int, end: int) -> TailTable:
        """Build the table of the tails P(K > k) for k = `first`..`last` from the masses P(K = k) up to k = `end`.

        K is the binomial number of successes. The mass beyond `end` is negligible.
        """
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
        # E[K - k | K >= k] is at most 1 + beyond. Below the mode it is also at most the distance to the mode plus its
        # value there.
        peak = min(max(self.mode - first, 0), size - 1)
        to_mode = np.maximum(self.mode - np.arange(first, last + 1), 0.0)
        mean = 1 + np.minimum(beyond, to_mode + beyond[peak])
        error = UNIT_ROUNDOFF * (5 * mean + 2 * row + 20)
        mass_error = UNIT_ROUNDOFF * (4 * chained + 16) + 2 * FUNCTION_ERROR * np.abs(log_mass)
        return TailTable(first, log_mass, beyond, log_beyond, mass_error, error)

    def _log_ratio(self, k: int) -> float:
        """Return about ln(P(K = k + 1)/P(K = k)) for the binomial number K; 0 for k = n, the number of trials."""
        if k == self.trials:
            return 0.0
        return math.log((self.trials - k) / (k + 1)) + self.log_odds

    def _negligible_beyond(self, last: int, end: int) -> bool:
        """Return whether P(K > end) is below e^-38 P(K = last), for end < n.

        K is the binomial number of successes in n trials.
        """
        log_ratio = self._log_ratio(end)
        if log_ratio >= -1e-12:
            return False
        # The ratios from last to end decrease: those of a quarter of the range are at most the first of that quarter.
        knots = [last + (end - last) * quarter // 4 for quarter in range(5)]
        fall = math.fsum((b - a) * self._log_ratio(a) for a, b in itertools.pairwise(knots))
        return fall + log_ratio - math.log(-math.expm1(log_ratio)) < -NEGLIGIBLE

    def _log_masses(self, first: int, ratios: FloatArray, chain: int) -> tuple[FloatArray, FloatArray]:
        """Return ln P(K = k) for k = `first`, `first` + 1, ..., and the number of ratios between each k and its anchor.

        K is the binomial number of successes. An anchor is a mass computed in ball arithmetic. The other masses follow
        by `ratios` P(K = k + 1)/P(K = k), with at most `chain` ratios between anchors.
        """
        chains = -(-len(ratios) // chain)
        products = np.ones((chains, chain))
        padded = np.ones(chains * chain)
        padded[: len(ratios) - 1] = ratios[:-1]  # the last ratio leads out of the range, and may be 0
        np.cumprod(padded.reshape(chains, chain)[:, :-1], axis=1, out=products[:, 1:])
        anchors = np.array([self.log_mass(first + i * chain) for i in range(chains)])
        logs = anchors[:, None] + np.log(products)
        steps = np.arange(chains * chain) % chain
        return logs.reshape(-1)[: len(ratios)], steps[: len(ratios)].astype(np.float64)


def weighted_sums(ratios: FloatArray, weights: FloatArray, row: int) -> FloatArray:
    """Compute S_j = w_j + sum_{i >= 1} r_j ... r_{j+i-1} w_{j+i} for every j.

    Parameters
    ----------
    ratios, weights : array, shape (n,)
        Non-negative r and w.
    row : int
        Number of successive ratios whose products neither underflow nor overflow; the sums use rows of this length.

    Returns
    -------
    array, shape (n,)
        Sums with a relative error of at most 2 row u (u = 2^-53), plus 5 u times the weighted mean of i in the sum.
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
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))
