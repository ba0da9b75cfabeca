"""Differential privacy of the exponential mechanism on one population: among subsets that differ in a point.

Two readings that the literature mixes up. Exact: the largest |ln p(w|D)/p(w|D')| over adjacent n-subsets D, D' of X. By
sensitivity: epsilon times (sensitivity on X)/(sensitivity), which is larger, because what a point adds to the losses of
all objects alike cancels in the normaliser. Lowy et al. 2023, section on simulations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from service.privacy.enclosure import Enclosure, Evidence, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.exponential_population import Population, subsets_of
from service.privacy.pmp.exponential_swap import SwapBounds

SUBSETS_AT_ONCE = 4096
PATTERNS_AT_ONCE = 2**18


def adjacent_epsilon(population: Population, bounds: SwapBounds, *, enumerate_subsets: bool) -> Enclosure:
    """The largest |ln p(w|D)/p(w|D')| over objects and adjacent n-subsets: by enumeration, or between bounds.

    Enumeration costs 2 m N C(2n, n - 1). Without it the upper end is the swap bound, and the lower one is attained by
    subsets that concentrate on one object each (exact for two objects).
    """
    if population.tells_nothing:
        return Enclosure.point(0.0)
    subsets = _all_subsets(population) if enumerate_subsets else _concentrated_subsets(population)
    largest = max(_largest_exchange(population.logits, members) for members in subsets)
    error = population.ratio_error + (population.object_count + 64 + 16 * population.spread) * UNIT_ROUNDOFF
    lower, upper = max(largest - error, 0.0), bounds.largest_swap
    return Enclosure(lower, min(upper, largest + error) if enumerate_subsets else upper, Evidence.CERTIFIED)


def _largest_exchange(logits: FloatArray, members: NDArray[np.bool_]) -> float:
    """The largest change of ln p(w|R + i) in i over (n - 1)-subsets R (rows of `members`) and objects."""
    normalisers = _log_normalisers(members @ logits.T, logits)
    above, below = np.where(members, np.inf, normalisers), np.where(members, -np.inf, normalisers)
    return max(float(((own - above).max(axis=1) - (own - below).min(axis=1)).max()) for own in logits)


def _log_normalisers(sums: FloatArray, logits: FloatArray) -> FloatArray:
    """ln of the sum over objects v of exp(L_v(R) + theta_vi): subsets x points."""
    found = np.full((len(sums), logits.shape[1]), -np.inf)
    for column, logit in zip(sums.T, logits, strict=True):
        np.maximum(found, column[:, None] + logit, out=found)
    rest = np.zeros_like(found)
    for column, logit in zip(sums.T, logits, strict=True):
        rest += np.exp(column[:, None] + logit - found)
    return found + np.log(rest)


def _all_subsets(population: Population) -> Iterator[NDArray[np.bool_]]:
    """All (n - 1)-subsets, in blocks."""
    points, size = 2 * population.half, population.half - 1
    for start in range(0, 2**points, PATTERNS_AT_ONCE):
        patterns = np.arange(start, min(start + PATTERNS_AT_ONCE, 2**points), dtype=np.int64)
        patterns = patterns[np.bitwise_count(patterns) == size]
        for first in range(0, len(patterns), SUBSETS_AT_ONCE):
            yield subsets_of(patterns[first : first + SUBSETS_AT_ONCE], points)


def _concentrated_subsets(population: Population) -> Iterator[NDArray[np.bool_]]:
    """For every pair (w, v) the n - 1 points that favour v most beside the one that does most of all."""
    logits, half = population.logits, population.half
    for own in logits:
        order = np.argsort(own - logits, axis=1, kind="stable")
        members = np.zeros(logits.shape, np.bool_)
        np.put_along_axis(members, order[:, 1:half], values=True, axis=1)
        yield members


def enumeration_cost(objects: int, points: int) -> float:
    """Numbers that enumeration looks at."""
    return 2.0 * objects * points * math.comb(points, points // 2 - 1)
