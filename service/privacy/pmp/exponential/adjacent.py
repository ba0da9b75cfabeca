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

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.exponential.population import Population, subsets_of
from service.privacy.pmp.exponential.swap import SwapBounds

OBJECTS_TRIED = 16
"""Objects, and rivals of each, whose extreme subsets are looked at where not all subsets are."""
SUBSETS_AT_ONCE = 4096
PATTERNS_AT_ONCE = 2**18


def adjacent_epsilon(
    population: Population, bounds: SwapBounds, *, enumerate_subsets: bool, at_most: float = math.inf
) -> Enclosure:
    """The largest |ln p(w|D)/p(w|D')| (nats) over objects and adjacent n-subsets: by enumeration, or between bounds.

    Enumeration costs 2 m N C(2n, n - 1). Without it the upper end is the swap bound, and the lower one is attained by
    subsets that concentrate on one object each (exact for two objects). `at_most`: an epsilon of differential privacy
    that is proved for all data.
    """
    if population.tells_nothing:
        return Enclosure.point(0.0)
    if enumerate_subsets:
        largest = max(_largest_exchange(population.logits, members) for members in _all_subsets(population))
    else:
        largest = _attained_exchange(population, bounds)
    error = population.ratio_error + (population.object_count + 64 + 16 * population.spread) * UNIT_ROUNDOFF
    lower, upper = max(largest - error, 0.0), min(bounds.largest_swap, at_most)
    return Enclosure(lower, min(upper, largest + error) if enumerate_subsets else upper, Evidence.CERTIFIED)


def _largest_exchange(logits: FloatArray, members: NDArray[np.bool_], own: FloatArray | None = None) -> float:
    """The largest change of ln p(w|R + i) in i over (n - 1)-subsets R (rows of `members`) and all or `own` objects."""
    normalisers = _log_normalisers(members @ logits.T, logits)
    above, below = np.where(members, np.inf, normalisers), np.where(members, -np.inf, normalisers)
    chosen = logits if own is None else own
    return max(float(((row - above).max(axis=1) - (row - below).min(axis=1)).max()) for row in chosen)


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


def _attained_exchange(population: Population, bounds: SwapBounds) -> float:
    """The largest change of ln p(w|R + i) for some w and R: the objects with the largest swaps, each with the n - 1
    points that most favour an object v against it, beside the one that does most of all.
    """
    logits, half, largest = population.logits, population.half, 0.0
    for chosen in np.argsort(-bounds.gain.max(axis=1), kind="stable")[:OBJECTS_TRIED]:
        differences = logits[chosen] - logits
        rivals = np.argsort(-np.ptp(differences, axis=1), kind="stable")[:OBJECTS_TRIED]
        order = np.argsort(differences[rivals], axis=1, kind="stable")
        members = np.zeros(order.shape, np.bool_)
        np.put_along_axis(members, order[:, 1:half], values=True, axis=1)
        largest = max(largest, _largest_exchange(logits, members, own=logits[[chosen]]))
    return largest


def enumeration_cost(objects: int, points: int) -> float:
    """Numbers that enumeration looks at."""
    return 2.0 * objects * points * math.comb(points, points // 2 - 1)
