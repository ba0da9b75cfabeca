"""PMP parameter of the exponential mechanism by enumeration of all n-subsets, met in the middle.

A subset is D = A + B, with A from the first n points and B from the last. Let theta_w be the logits of the object w,
a_w = exp(sum over A of theta_w), b_w = exp(sum over B of theta_w), and Z = sum over v of a_v b_v. The sum of p(w|D) =
a_w b_w/Z over all B of one size is a_w sum_B b_w/Z. These sums are matrix products, without an exponential per subset.
If products would underflow, the sums run in log space. All sums have positive terms, also the sums over subsets without
a given point. Source: Lowy et al. 2023, Proposition 9, in both directions. PMP is practical membership privacy: the
attacker does not know which records were drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.exponential.population import LARGEST_LINEAR_SPREAD, Population, log_sum, subsets_of

LARGEST_BLOCK = 2**18
"""Largest size of a block of the matrix of subsets of both halves."""


@final
@dataclass(frozen=True, slots=True)
class LogRatios:
    """Values of ln(P(w | x in D)/P(w | x not in D)), shape (objects, points), with absolute errors up to `error`.

    P(w | x in D) is the probability that the exponential mechanism draws the object w, given that the data D contain
    the point x.
    """

    values: FloatArray
    error: float


def exact_log_ratios(population: Population) -> LogRatios:
    """Compute ln(P(w | x in D)/P(w | x not in D)) of all objects and points from sums over all C(2n, n) subsets.

    P(w | x in D) is the probability that the mechanism draws the object w, given that the data D contain the point
    x. The cost is 3 m C(2n, n) multiplications, or in log space about m C(2n, n) exponentials. The memory is m
    2^(n+1) numbers and some megabytes, for m objects. The error is four times that of a logit sum, plus a term of
    the order of C(n, n/2) u.
    """
    linear = population.spread <= LARGEST_LINEAR_SPREAD
    log_with, log_without = _linear_sums(population) if linear else _log_sums(population)
    return LogRatios(log_with - log_without, population.ratio_error + 2 * _summation_error(population))


def _summation_error(population: Population) -> float:
    """Return the absolute error bound of the logarithm of a sum of p(w|D) over subsets, for exact logits.

    p(w|D) is the probability that the mechanism draws the object w from the data D, and u = 2^-53. Each of the m
    objects has a term. Terms are within (m + 64) u, from exponentials, the normaliser, the quotient and the products. A
    sum over one half has at most C(n, n/2) terms. Each term is a sum of as many terms over the other half, and there
    are n + 1 sizes. In log space each of these sums rounds numbers of the size of the spread of the logits and of the
    logarithms of counts.
    """
    half = population.half
    additions = 2 * math.comb(half, half // 2) + 2 * half + population.object_count + 128
    return (additions + 16 * (population.spread + 2 * half)) * UNIT_ROUNDOFF


@final
@dataclass(frozen=True, slots=True)
class _Meeting:
    """Subsets of k of the first n points, and of n - k of the other n points, for one k.

    Members and logits have shape (subsets, n) and (subsets, objects). The logits are shifted so that the largest logit
    of every subset is 0. The shift cancels in the probability p(w|D) that the mechanism draws the object w from the
    data D.
    """

    members: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    logits: tuple[FloatArray, FloatArray]

    def blocks(self, numbers: int) -> Iterator[slice]:
        """Yield slices of the subsets of the first n points, each with at most about `numbers` pairs of subsets.

        A pair has a subset of the first n points, and a subset of the other n points.
        """
        first, other = (len(members) for members in self.members)
        rows = max(1, numbers // other)
        return (slice(start, start + rows) for start in range(0, first, rows))


def _meetings(population: Population) -> Iterator[_Meeting]:
    half = population.half
    halves = population.logits[:, :half], population.logits[:, half:]
    members = subsets_of(np.arange(2**half, dtype=np.int64), half)
    sizes = members.sum(axis=1)
    for size in range(half + 1):
        chosen = members[sizes == size], members[sizes == half - size]
        yield _Meeting(chosen, (_shifted(chosen[0] @ halves[0].T), _shifted(chosen[1] @ halves[1].T)))


def _shifted(logits: FloatArray) -> FloatArray:
    return logits - logits.max(axis=1, keepdims=True)


def _linear_sums(population: Population) -> tuple[FloatArray, FloatArray]:
    """Return ln of the sums of p(w|D) over subsets with and without each point, shape (objects, points).

    p(w|D) is the probability that the exponential mechanism draws the object w from the data D.
    """
    half = population.half
    with_point, without = np.zeros_like(population.logits), np.zeros_like(population.logits)
    for meeting in _meetings(population):
        first, other = np.exp(meeting.logits[0]), np.exp(meeting.logits[1])
        first_sums, other_sums = np.empty_like(first), np.zeros_like(other)
        for rows in meeting.blocks(LARGEST_BLOCK):
            inverse = 1 / (first[rows] @ other.T)
            first_sums[rows] = inverse @ other
            other_sums += inverse.T @ first[rows]
        for place, members, sums in (
            (0, meeting.members[0], first * first_sums),
            (half, meeting.members[1], other * other_sums),
        ):
            columns = slice(place, place + half)
            with_point[:, columns] += sums.T @ members
            without[:, columns] += sums.T @ ~members
    return np.log(with_point), np.log(without)


def _log_sums(population: Population) -> tuple[FloatArray, FloatArray]:
    """Return ln of the sums of p(w|D) over subsets with and without each point, shape (objects, points).

    p(w|D) is the probability that the exponential mechanism draws the object w from the data D. Every sum is computed
    from logarithms and scaled by its largest term.
    """
    half = population.half
    with_point, without = np.full_like(population.logits, -np.inf), np.full_like(population.logits, -np.inf)
    for meeting in _meetings(population):
        first, other = meeting.logits
        first_sums, other_sums = np.empty_like(first), np.full_like(other, -np.inf)
        for rows in meeting.blocks(LARGEST_BLOCK // population.object_count):
            logits = first[rows, None, :] + other
            logits -= log_sum(logits, 2)[:, :, None]
            first_sums[rows] = log_sum(logits, 1)
            other_sums = np.logaddexp(other_sums, log_sum(logits, 0))
        for place, members, sums in ((0, meeting.members[0], first_sums), (half, meeting.members[1], other_sums)):
            for point in range(half):
                column = members[:, point]
                for total, chosen in ((with_point, column), (without, ~column)):
                    if chosen.any():
                        held = total[:, place + point]
                        total[:, place + point] = np.logaddexp(held, log_sum(sums[chosen], 0))
    return with_point, without
