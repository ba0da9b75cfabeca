"""Attack on many normal numbers, one of which is shifted, by a sum of functions or by a large maximum.

Z_1 .. Z_T are independent N(0, 1), and one of them is shifted by mu (H0) or by 2 mu (H1). The likelihood ratio is A/B
with A = sum_i e^(2 mu Z_i - 2 mu^2) and B = sum_i e^(mu Z_i - mu^2/2). So the best test at a ratio near 1 compares A -
B with a threshold. A - B is a sum of the terms

    g(Z_i) = e^(2 mu Z_i - 2 mu^2) - e^(mu Z_i - mu^2/2).

A single large number dominates the sum A - B. If the maximum is above a threshold, the statistic is the interval (cell)
that contains the maximum. Otherwise it is the sum of terms rounded to integers, k(Z_i). The statistic is a function of
the numbers, so that its tests are tests of the numbers. `max_statistic.py` has the law of the maximum. If no number is
above the threshold, the masses of the sum are the (T-1)-fold convolution of those of k(Z), times those of k(Z + mu) or
k(Z + 2 mu). Both laws do not depend on the index of the shifted number, so that a secret choice of the index changes
nothing.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.lattice_masses import LatticeMasses, gathered
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.losses_on_lattice import TwoLaws
from service.privacy.trade_off.max_statistic import LargestOfMany

MOST_TERMS: Final = 1_000_000
"""Largest count of numbers for which the law of the sum is computed. More numbers need too many cells."""
LARGEST_SHIFT: Final = 8.0
"""Largest mu for which the law of the sum is computed. Above it the maximum alone has as much power."""
CELL: Final = 1 / 128
"""Width of the cells of a number, in standard deviations."""
REACH: Final = 10.0
"""Distance of the outermost cells from a mean, in standard deviations."""
FEWEST_CELLS, MOST_CELLS = 16.0, 200.0
"""Limits of the count of integers per standard deviation of the sum. Its default is one per deviation of a term."""
JUMPS: Final = 0.1
"""Largest expected count of numbers above the threshold of the maximum without a shift."""
RULES: Final = 16.0
"""Size of a term that dominates the sum, in standard deviations of the bulk of the sum."""
MOST_OF_A_TERM: Final = 1500
"""Largest integer of a term."""
MANY: Final = 0.3
"""Expected number of terms beyond the bulk."""
MASS: Final = 1e-28
"""Omitted mass of sums."""


def is_summed(mu: float, count: int) -> bool:
    """Return whether the sum statistic of `count` normal numbers, one of them shifted by mu, is computed.

    The statistic is a sum of exponentials of the numbers. It is computed up to a limit of the count and of mu, beyond
    which its laws cost too much.
    """
    return 0 < mu <= LARGEST_SHIFT and 2 <= count <= MOST_TERMS


def sum_laws(mu: float, count: int) -> TwoLaws:
    """Return the laws of the sum statistic of `count` numbers under both hypotheses, for an exact shift mu.

    One of the normal numbers is shifted by mu (H0) or 2 mu (H1), and the statistic sums differences of exponentials. If
    the largest number is above a threshold, its cell is the outcome, not the sum. The function requires `is_summed(mu,
    count)`. Truncation omits some H0-mass of unknown place, so it is added to the mass of every sum. A sum outside the
    window counts as the most likely sum, which gets this mass once more.
    """
    edges = np.arange(math.floor(-REACH / CELL), math.ceil((REACH + 2 * mu) / CELL) + 1, dtype=np.float64) * CELL
    numbers = [_masses(edges, LargestOfMany(1, moved * mu)) for moved in (0.0, 1.0, 2.0)]
    terms = _rounded_terms(edges, numbers[0][0], mu, count)
    threshold = len(terms)
    rounding = (threshold + 4) * UNIT_ROUNDOFF
    laws = [LatticeMasses(0, gathered(terms, masses[:threshold]), 0.0, error + rounding) for masses, error in numbers]
    others = laws[0].sum_of(count - 1, MASS)
    sums = [others.plus(law) for law in laws[1:]]
    largest = [_masses(edges[threshold - 1 :], LargestOfMany(count, moved * mu)) for moved in (1.0, 2.0)]
    lost = [each.lost * (1 + 1e-9) for each in sums]
    absent = np.concatenate([sums[0].masses + lost[0], largest[0][0][1:]])
    present = np.concatenate([sums[1].masses, largest[1][0][1:]])
    absent[np.argmax(absent)] += lost[0]
    relative = max(*(each.relative for each in sums), *(error for _, error in largest)) + 4 * UNIT_ROUNDOFF
    return TwoLaws(absent, present, relative, (len(absent) + 1) * lost[0], lost[1])


def _masses(edges: FloatArray, largest: LargestOfMany) -> tuple[FloatArray, float]:
    """Return the masses of the maximum `largest` in the cells between `edges`, and a bound of their error.

    The bound is that of the absolute errors of the logarithms of the masses. The outermost cells are unbounded, so that
    there is one cell more than edges. Each mass is a difference of tails on the side where the difference loses less.
    """
    with np.errstate(all="ignore"):
        tails = largest.tails(edges)
        outward = 1 - 2 * FUNCTION_ERROR, 1 + 2 * FUNCTION_ERROR
        below_low, below_high, above_low, above_high = (np.exp(end) * outward[k % 2] for k, end in enumerate(tails))
        ends = [
            (below_low[1:] - below_high[:-1], below_high[1:] - below_low[:-1]),
            (above_low[:-1] - above_high[1:], above_high[:-1] - above_low[1:]),
        ]
        errors = [np.log(high / low) for low, high in ends]
    better = np.nan_to_num(errors[0], nan=np.inf) < np.nan_to_num(errors[1], nan=np.inf)
    outer = max(float((tails.below_high - tails.below_low)[0]), float((tails.above_high - tails.above_low)[-1]))
    masses = np.concatenate([below_high[:1], np.where(better, ends[0][1], ends[1][1]), above_high[-1:]])
    return masses, max(float(np.where(better, *errors).max()), outer) + 8 * FUNCTION_ERROR


def _rounded_terms(edges: FloatArray, weights: FloatArray, mu: float, count: int) -> IndexArray:
    """Return the terms of the sum statistic, rounded to integers >= 0, in the first cells between `edges`.

    A term is a difference of exponentials of one of `count` normal numbers, with the shift `mu`. `weights` are the
    masses of the cells, of which the outermost are unbounded. Cells of rare large numbers, from a threshold on, have no
    terms. The rounding and the threshold only affect how strong the test is.
    """
    x = np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])
    term = np.exp(mu * x - mu * mu / 2) * np.expm1(mu * x - 1.5 * mu * mu)
    expected = count * np.cumsum(weights[::-1])[::-1]
    cells = np.arange(len(term))
    common = int(np.argmax(expected <= MANY))
    bulk = term[np.minimum(cells, common)]
    mean = float(weights @ bulk)
    deviation = math.sqrt(float(weights @ (bulk - mean) ** 2) * count)
    spacing = max(deviation / min(max(math.sqrt(count), FEWEST_CELLS), MOST_CELLS), 1e-300)
    above = np.abs(term - mean)
    rules = ((expected <= JUMPS) & (above >= RULES * deviation)) | (above >= MOST_OF_A_TERM * spacing)
    rules &= cells >= common
    threshold = min(int(np.argmax(rules)) if rules.any() else len(term), len(term) - 2)
    index = np.floor((term[:threshold] - mean) / spacing).astype(np.intp)
    return index - index.min()
