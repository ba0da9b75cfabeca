"""Differential privacy of the exponential mechanism on one population, for subsets that differ in a point.

The literature uses two different parameters. The exact parameter is the largest |ln p(w|D)/p(w|D')| over adjacent
n-subsets D, D' of X. The parameter by sensitivity is epsilon times (sensitivity on X)/(sensitivity). It is larger,
because a part of the losses that is equal for all objects cancels in the normaliser. Source: Lowy et al. 2023, section
on simulations.
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
"""Number of objects, and of rivals of each, whose extreme subsets are evaluated without an enumeration."""
SUBSETS_AT_ONCE = 4096
PATTERNS_AT_ONCE = 2**18


def adjacent_epsilon(
    population: Population, bounds: SwapBounds, *, enumerate_subsets: bool, at_most: float = math.inf
) -> Enclosure:
    """Compute the largest |ln p(w|D)/p(w|D')| (nats) over objects and adjacent n-subsets.

    p(w|D) is the probability that the mechanism draws the object w from the data D.

    Parameters
    ----------
    population : Population
        The mechanism on the population.
    bounds : SwapBounds
        Its swap bounds: how much a replaced point changes ln p(w|D).
    enumerate_subsets : bool
        Whether to enumerate all subsets, at a cost of 2 m N C(2n, n - 1) for m objects and N = 2n points. Otherwise the
        upper bound is the swap bound. The lower bound is then attained by subsets that concentrate on one object each
        (exact for two objects).
    at_most : float
        An epsilon of differential privacy that is proved for all data. No result is larger.

    Returns
    -------
    Enclosure
        The parameter in nats.
    """
    if population.is_constant:
        return Enclosure.point(0.0)
    if enumerate_subsets:
        largest = max(_largest_exchange(population.logits, members) for members in _all_subsets(population))
    else:
        largest = _attained_exchange(population, bounds)
    error = population.ratio_error + (population.object_count + 64 + 16 * population.spread) * UNIT_ROUNDOFF
    lower, upper = max(largest - error, 0.0), min(bounds.largest_swap, at_most)
    return Enclosure(lower, min(upper, largest + error) if enumerate_subsets else upper, Evidence.CERTIFIED)


def _largest_exchange(logits: FloatArray, members: NDArray[np.bool_], own: FloatArray | None = None) -> float:
    """Return the largest change of ln p(w|D) when one point of D is exchanged, over objects w and rows R of `members`.

    p(w|D) is the probability that the exponential mechanism draws the object w from the data D, and D consists of a
    subset R of n - 1 points and one further point. `logits` are those of all objects. `own` has the logits of the
    objects w; with None, w runs over all objects.
    """
    normalisers = _log_normalisers(members @ logits.T, logits)
    above, below = np.where(members, np.inf, normalisers), np.where(members, -np.inf, normalisers)
    chosen = logits if own is None else own
    return max(float(((row - above).max(axis=1) - (row - below).min(axis=1)).max()) for row in chosen)


def _log_normalisers(sums: FloatArray, logits: FloatArray) -> FloatArray:
    """Return ln of the sum over objects v of exp(L_v(R) + theta_vi), shape (subsets, points).

    theta_vi is the logit of the object v at the point i (minus its scaled loss). L_v(R) in `sums` is the sum of
    theta_vi over the points of the subset R.
    """
    found = np.full((len(sums), logits.shape[1]), -np.inf)
    for column, logit in zip(sums.T, logits, strict=True):
        np.maximum(found, column[:, None] + logit, out=found)
    rest = np.zeros_like(found)
    for column, logit in zip(sums.T, logits, strict=True):
        rest += np.exp(column[:, None] + logit - found)
    return found + np.log(rest)


def _all_subsets(population: Population) -> Iterator[NDArray[np.bool_]]:
    """Yield all subsets of n - 1 of the 2 n points in blocks, as masks of shape (subsets, points)."""
    points, size = 2 * population.half, population.half - 1
    for start in range(0, 2**points, PATTERNS_AT_ONCE):
        patterns = np.arange(start, min(start + PATTERNS_AT_ONCE, 2**points), dtype=np.int64)
        patterns = patterns[np.bitwise_count(patterns) == size]
        for first in range(0, len(patterns), SUBSETS_AT_ONCE):
            yield subsets_of(patterns[first : first + SUBSETS_AT_ONCE], points)


def _attained_exchange(population: Population, bounds: SwapBounds) -> float:
    """Return a change of ln p(w|D) that some object w and data D attain when one point of D is exchanged.

    The result is a lower bound of the largest change. p(w|D) is the probability that the mechanism draws w from the
    data D. The objects are those with the largest swap bounds. For each object, D has the n - 1 points that most favour
    a rival object, except for the point that favours this rival most. `bounds` are the swap bounds of the objects.
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
    """Return the number of terms of an enumeration of all adjacent subsets.

    Parameters
    ----------
    objects, points : int
        Numbers of objects and of points.

    Returns
    -------
    float
        Approximate number of terms.
    """
    return 2.0 * objects * points * math.comb(points, points // 2 - 1)
