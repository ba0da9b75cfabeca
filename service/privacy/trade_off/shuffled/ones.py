"""Number of ones among shuffled binary reports, when m of the other persons hold 1.

Every report is the true bit with probability a = p/(p + 1), p = e^eps0, and the other bit with probability b = 1 - a.
The reports of the others have R = Bin(m, a) + Bin(n - 1 - m, b) ones, with masses r(j). The own bit is 1 under H1 and 0
under H0. Shuffled reports say no more than their number of ones. It has the masses

    P(j) = a r(j - 1) + b r(j),    Q(j) = b r(j - 1) + a r(j).

The test "at least J ones" has the rate Q(J) = P(R >= J) + b r(J - 1). Its power is P(J) = P(R >= J) + a r(J - 1). r is
log-concave, so r(j - 1)/r(j) and the loss ln P(j)/Q(j) rise with j: these are the best tests. So delta(eps) = max_J
G(J). With E = e^eps and c = (p - E)/(p + 1),

    G(J) = P(J) - E Q(J) = c r(J - 1) - (E - 1) P(R >= J).

G rises, then falls in J. If it is smaller at two numbers around a third one, its maximum is between the two.

`ones_contour.py` has r(J - 1) and P(R >= J) for many reports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.shuffled.mean_atoms import law_of_outcomes
from service.privacy.trade_off.shuffled.mean_form import exponential
from service.privacy.trade_off.shuffled.ones_contour import OnesContour, OnesNear


@final
@dataclass(frozen=True)
class Ones:
    """Pair of laws of the number of ones among n shuffled binary responses; the own bit is 1 (H1) or 0 (H0).

    Attributes
    ----------
    reports, others : int
        n, and the number m of other persons who hold 1.
    ratio : Fraction
        p = e^eps0 > 1, to 40 digits, where each response is eps0-DP.
    """

    reports: int
    others: int
    ratio: Fraction

    def swapped(self) -> Ones:
        """Return the pair with swapped hypotheses: zeros take the place of ones."""
        return Ones(self.reports, self.reports - 1 - self.others, self.ratio)

    @property
    def is_symmetric(self) -> bool:
        """Whether swapped hypotheses give the same pair."""
        return 2 * self.others == self.reports - 1

    def listed(self) -> AtomicLaw:
        """Return the law of the loss, for few reports."""
        truth = float(self.ratio / (self.ratio + 1))
        other = float(1 / (self.ratio + 1))
        masses = np.convolve(_binomial(self.others, truth, other), _binomial(self.swapped().others, other, truth))
        before, after = np.concatenate([[0.0], masses]), np.concatenate([masses, [0.0]])
        present, absent = truth * before + other * after, other * before + truth * after
        relative = 10 * self.reports * UNIT_ROUNDOFF + 8 * FUNCTION_ERROR
        logs = np.log(absent), np.log(present)
        relative += FUNCTION_ERROR * float(max(np.abs(each).max() for each in logs))
        return law_of_outcomes(*logs, relative, self.is_symmetric)

    def near(self, epsilon: float) -> OnesNear:
        """Return the nearly best tests "at least J ones" at `epsilon` in [0, eps0), nats, and bounds of ln delta."""
        with np.errstate(all="ignore"):
            return OnesContour(self.ratio, (self.others, self.swapped().others), epsilon).maximum()

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds of ln delta.

        Parameters
        ----------
        epsilon : float
            Threshold >= 0, nats. From eps0 on, delta is 0, because no likelihood ratio is above e^eps0.

        Returns
        -------
        (float, float)
            Lower and upper bound.
        """
        if exponential(epsilon) >= self.ratio:
            return -math.inf, -math.inf
        found = self.near(epsilon)
        return found.log_low, found.log_high

    def rough_log_delta(self, epsilon: float) -> float:
        """Return about ln delta by a saddle point, for searches.

        Parameters
        ----------
        epsilon : float
            Threshold in [0, eps0), nats.

        Returns
        -------
        float
            An approximation without a bound.
        """
        rise, grown = float(self.ratio - 1), math.expm1(epsilon)
        first = (rise - grown) / (2 + rise)
        if first <= 0:
            return -math.inf
        s = math.log1p(grown / first)
        saddle, half = self._saddle(s), math.exp(0.5 * min(s, 2.0))
        density = half * math.exp(-0.5 * saddle.w * saddle.w) / math.sqrt(2 * math.pi) / max(saddle.deviation, 0.3)
        value = first * density - grown * saddle.tail
        return math.log(max(value, 1e-3 * first * density, 1e-320))

    def threshold_of(self, chance: float) -> float:
        """Return about the threshold of the log-likelihood ratio of a test with a given false positive rate.

        No bound depends on it.

        Parameters
        ----------
        chance : float
            Approximate false positive rate of the test, in (0, 1).

        Returns
        -------
        float
            Threshold >= 0, nats, without a bound.
        """
        p, rise = float(self.ratio), float(self.ratio - 1)
        low, _ = bisected(lambda s: not self._saddle(s).tail > chance, 0.0, math.log(p) + 40, 60)
        grown = math.expm1(low)
        return math.log1p(rise * grown / (p + 1 + grown))

    def _saddle(self, s: float) -> _Saddle:
        a, b = (float(each) for each in self.shares)
        kinds, grown = ((self.others, a), (self.swapped().others, b)), math.expm1(s)
        parts = [(count, share, share * (1 + grown) / (1 + share * grown)) for count, share in kinds]
        mean = math.fsum(count * tilted for count, _, tilted in parts)
        deviation = math.sqrt(math.fsum(count * tilted * (1 - tilted) for count, _, tilted in parts))
        moment = math.fsum(count * math.log1p(share * grown) for count, share, _ in parts)
        w = math.sqrt(max(2 * (s * mean - moment), 0.0))
        tail, u = 0.5 * math.erfc(w / math.sqrt(2)), 2 * math.sinh(0.5 * s) * deviation
        if w > 1e-4 and u > 0:
            tail += math.exp(-0.5 * w * w) / math.sqrt(2 * math.pi) * (1 / u - 1 / w)
        return _Saddle(w, deviation, tail)

    @property
    def shares(self) -> tuple[Fraction, Fraction]:
        """Probabilities a and b of the true bit and of the other bit."""
        return self.ratio / (self.ratio + 1), 1 / (self.ratio + 1)


@final
@dataclass(frozen=True, slots=True)
class _Saddle:
    """Saddle point of the law of the number R of ones in the reports of the others, at a tilt s.

    `w` is sqrt(2 (s K'(s) - K(s))) with K(s) = ln E e^{s R}, `deviation` the standard deviation of the tilted law, and
    `tail` about P(R >= K'(s)), by Lugannani and Rice 1980.
    """

    w: float
    deviation: float
    tail: float


def _binomial(count: int, truth: float, other: float) -> FloatArray:
    """Return the masses of a binomial law of `count` trials, shape (count + 1,), from exact binomial coefficients.

    `truth` is the probability of a success, and `other` its complement.
    """
    logs = np.array([math.log(math.comb(count, j)) for j in range(count + 1)])
    j = np.arange(count + 1, dtype=np.float64)
    return np.exp(logs + j * math.log(truth) + (count - j) * math.log(other))
