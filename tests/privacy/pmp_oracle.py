"""Practical membership privacy by plain enumeration with 40 digits, independent of the service."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import mpmath
from mpmath import mpf

Logits = Sequence[Sequence[Any]]
DIGITS = 40


def log_laws(logits: Logits) -> dict[tuple[int, ...], list[Any]]:
    """Return ln of the probability p(w|D) of each object w, for every n-subset D of the 2n points.

    `logits` has the shape (objects, points).
    """
    points = len(logits[0])
    laws: dict[tuple[int, ...], list[Any]] = {}
    with mpmath.workdps(DIGITS):
        for subset in combinations(range(points), points // 2):
            sums = [mpmath.fsum(row[point] for point in subset) for row in logits]
            largest = max(sums)
            normaliser = largest + mpmath.log(mpmath.fsum(mpmath.exp(value - largest) for value in sums))
            laws[subset] = [value - normaliser for value in sums]
    return laws


def log_ratios(logits: Logits) -> list[list[Any]]:
    """Return ln(P(w | x in D)/P(w | x not in D)) for objects w and points x, shape (objects, points).

    D is a random half of the points.
    """
    laws, points = log_laws(logits), len(logits[0])
    with mpmath.workdps(DIGITS):
        return [[_log_ratio(laws, chosen, point) for point in range(points)] for chosen in range(len(logits))]


def _log_ratio(laws: dict[tuple[int, ...], list[Any]], chosen: int, point: int) -> Any:
    with_point = [law[chosen] for subset, law in laws.items() if point in subset]
    without = [law[chosen] for subset, law in laws.items() if point not in subset]
    largest = max(*with_point, *without)
    sums = [mpmath.fsum(mpmath.exp(value - largest) for value in part) for part in (with_point, without)]
    return mpmath.log(sums[0]) - mpmath.log(sums[1])


def epsilon(logits: Logits) -> Any:
    """Return the parameter of practical membership privacy (PMP): the largest absolute log ratio."""
    return max(abs(ratio) for row in log_ratios(logits) for ratio in row)


def adjacent_epsilon(logits: Logits) -> Any:
    """Return the largest |ln p(w|D)/p(w|D')| over objects w and subsets D, D' that differ in one point."""
    laws = log_laws(logits)
    return max(
        abs(one - other)
        for subset, law in laws.items()
        for other_subset, other_law in laws.items()
        if len(set(subset) ^ set(other_subset)) == 2
        for one, other in zip(law, other_law, strict=True)
    )


def distance_logits(points: Any, objects: Any, clip_radius: Any, scale: Any) -> list[list[Any]]:
    """Return -scale |w - x| with every point clipped to the radius, in 40 digits. Doubles are taken as exact."""
    with mpmath.workdps(DIGITS):
        clipped = [_clipped([mpf(value) for value in point], mpf(clip_radius)) for point in points]
        return [
            [
                -mpf(scale) * mpmath.sqrt(mpmath.fsum((mpf(w) - x) ** 2 for w, x in zip(chosen, point, strict=True)))
                for point in clipped
            ]
            for chosen in objects
        ]


def _clipped(point: list[Any], radius: Any) -> list[Any]:
    norm = mpmath.sqrt(mpmath.fsum(value**2 for value in point))
    return [value * min(mpf(1), radius / norm) for value in point] if norm else point
