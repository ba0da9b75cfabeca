"""Attacks on report noisy max with Laplace noise: few candidates of one score against few others of another score.

**Data.** k candidates have the score g and m others the score 0, in units of the scale of the noise. The record raises
the k scores by its largest change and lowers the m others, so that the gap grows from g to g + eta (monotone scores:
only the k scores move). The test is "one of the k candidates". Its chance is G(g) under H0 and G(g + eta) under H1 with

    G(g) = P(max of k noises + g > max of m noises).

Swapped hypotheses have the complement of this test: the record raises the m others.

**Chance.** Let F be the distribution function of Laplace noise of scale 1, h >= 0 and q = e^-h. Then G(-h) is the
integral of F(x - h)^m over the law of the largest of k noises, F(x)^k. With v = e^-x/2 for x > 0 it has three parts:

- x < 0, where F(x) = e^x/2: k/(k + m) 2^-(k+m) q^m;
- 0 < x < h, with r = 2 v: k 2^-(m+1) q^m int_q^1 (1 - r/2)^(k-1) r^-m dr, a sum over the powers of r;
- x > h, with t = 2 v/q: (k q/2) int_0^1 (1 - q t/2)^(k-1) (1 - t/2)^m dt, a polynomial, which a Gauss-Legendre rule of
  6 nodes integrates exactly, as k - 1 + m <= 11.

G(h) = 1 - (the same with k and m exchanged). So the smaller one of G and its complement keeps its digits.

One pair of data sets attains each test. The curve of all tests is that of an attacker who draws the pair (decision
0008). Candidates of one group have equal scores, as searches over unequal ones found nothing better.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.mechanisms.discrete.few_attacks import Attacks
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.gauss_legendre import gauss_legendre
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.bounded_tests import BoundedTests

GROUPS: Final = ((1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 2), (2, 3), (2, 4), (3, 3))
"""Numbers k of raised and m of other candidates. Complements of tests exchange both."""
LARGEST_SHIFT: Final = 100.0
"""Largest growth eta of the gap in an attack. A record may change scores by less than it could."""
REACH: Final = 14.0
"""Largest distance of a gap from the interval [-eta, 0]."""
STEP: Final = 0.08
"""Distance of gaps."""
SLOPES: Final = 96
"""Number of log slopes for each of which the best test is taken."""
NODES: Final = 6

Ends = tuple[FloatArray, FloatArray]
"""Lower and upper bounds, two arrays of one shape."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMaxAttacks(Attacks):
    """Attacks on report noisy max with Laplace noise of scale 1.

    Attributes
    ----------
    eta : float
        Largest growth of the gap of two scores by the record.
    """

    eta: float

    @override
    def tests(self) -> BoundedTests:
        eta = min(self.eta, LARGEST_SHIFT)
        gaps = np.linspace(-eta - REACH, REACH, int((eta + 2 * REACH) / STEP))
        columns: list[FloatArray] = []
        for raised, others in GROUPS:
            (_, rate), (rest, _) = chances(raised, others, gaps)
            (power, _), (_, error) = chances(raised, others, gaps + eta)
            columns.append(np.stack([rate, rest, power, error]))
        rate, rest, power, error = np.concatenate(columns, axis=1)
        slopes = eta * (1 - np.linspace(0, 1, SLOPES) ** 2)
        best = np.unique(np.argmax(power - np.exp(slopes)[:, None] * rate, axis=1))
        return BoundedTests(rate[best], rest[best], power[best], error[best])


def chances(raised: int, others: int, gaps: FloatArray) -> tuple[Ends, Ends]:
    """Return bounds (lower, upper) of the chance G(g), then of 1 - G(g), each array of the shape of `gaps`.

    `gaps` are the gaps g of scores, at most 115 in absolute value. G(g) is the probability that one of `raised`
    candidates wins against `others` other candidates, whose scores are lower by g before the noise.
    """
    behind = gaps <= 0
    ends = np.empty((2, 2, len(gaps)))
    for part, smaller, numbers in ((behind, 0, (raised, others)), (~behind, 1, (others, raised))):
        value, error = _behind(*numbers, np.abs(gaps[part]))
        low, high = value - error, value + error
        ends[smaller][:, part] = low, high
        ends[1 - smaller][:, part] = (1 - high) * (1 - 4 * UNIT_ROUNDOFF), (1 - low) * (1 + 4 * UNIT_ROUNDOFF)
    return (ends[0, 0], ends[0, 1]), (ends[1, 0], ends[1, 1])


def _behind(raised: int, others: int, h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return approximate G(-h) for h >= 0, and a bound of its absolute error; arrays of the shape of `h`.

    `raised` and `others` are the numbers k and m of candidates. G(g) is the probability that one of k candidates, ahead
    of m others by g, has the largest noisy score.
    """
    k, m = raised, others
    low = k / (k + m) * 0.5 ** (k + m) * np.exp(-m * h)
    middle, size = np.zeros_like(h), np.zeros_like(h)
    for j in range(k):
        s = j - m + 1
        # q^m times the integral of r^(j - m) from q to 1, without overflow
        part = np.exp(-m * h) * h if s == 0 else np.exp(-min(j + 1, m) * h) * -np.expm1(-abs(s) * h) / abs(s)
        term = k * 0.5 ** (m + 1) * comb(k - 1, j) * 0.5**j * part
        middle, size = middle + (-1) ** j * term, size + term
    nodes, weights = gauss_legendre(NODES)
    t, q = 0.5 * (nodes + 1), np.exp(-h)
    values = (1 - 0.5 * np.outer(q, t)) ** (k - 1) * (1 - 0.5 * t) ** m
    high = 0.5 * k * q * (values @ (0.5 * weights))
    relative = 8 * FUNCTION_ERROR + UNIT_ROUNDOFF * (128 + 8 * (k + m) * (1 + h))
    return low + middle + high, (low + size + high) * relative
