"""Prices of readings of curves, in microseconds of CPU, and what becomes of them when curves are put together.

Figures are of first readings in a warm process, near the middle of what was measured (`python -m benchmarks.prices`).
Prices order queues, quote waits and refuse what surely exceeds the limits; nothing's safety rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices of readings of one curve, each in microseconds."""

    point: float
    """Power or type II error at one rate."""
    spread: float
    """What a list of points costs beyond its points, at most: they are far apart."""
    listed_point: float
    profile: float
    """delta at an epsilon."""
    epsilon: float
    complement: float
    """The type II error at 1 - a, for an a whose complement is not a number."""
    gdp_mu: float
    ratio: float = 1_000
    """The largest or smallest log-likelihood ratio, and the mass beyond all of them."""

    def times(self, factor: float) -> Prices:
        """All of them times the factor."""
        return Prices(**{field.name: getattr(self, field.name) * factor for field in fields(Prices)})

    def plus(self, other: Prices) -> Prices:
        """Prices of both curves, each read once."""
        return Prices(
            **{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(Prices)}
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """Prices of all readings of a mechanism. `base`: once for every direction that is read."""

    base: float
    directed: Prices
    """Prices of the curve of one direction."""
    hull: Prices
    """Prices of the curve of both directions, which is searched for; the same object where there is one curve only."""
    alone: bool = False
    """Whether every number is read by itself, so that the last of many costs as much as the first."""
    by_profile: bool = False
    """Whether its points are searched for in its profile, so that those of a mixture are, too."""

    @property
    def is_one_curve(self) -> bool:
        """Whether all directions are one curve."""
        return self.hull is self.directed

    def scaled(self, factor: float) -> Tariff:
        """All prices times the factor."""
        if factor == 1:
            return self
        directed = self.directed.times(factor)
        hull = directed if self.is_one_curve else self.hull.times(factor)
        return replace(self, base=self.base * factor, directed=directed, hull=hull)


def one_curve(base: float, prices: Prices, *, alone: bool = False) -> Tariff:
    """The tariff of a mechanism with one curve for all directions."""
    return Tariff(base=base, directed=prices, hull=prices, alone=alone)


SEARCH_ROUNDS, SEARCH_LOOKS, SEARCH_OF_ONE = 12, 100, 120
"""Readings of each part that a point of a mixture of closed forms takes; points in each; points for each further rate.
"""
SHARED_LEVELS, SHARED_OF_ONE = 10, 8
"""The same where levels are shared: profiles, beside a point; points for each further rate."""
ROUNDS_OF_A_ROOT, COMPLEMENT_READINGS, MU_POINTS, MU_PROFILES = 15, 20, 2, 40
"""What else is searched for on a mixture: epsilon by profiles; complements by points, mu by tangents."""
PROFILES_OF_A_POINT: Final = 40
"""First readings of the profile that a point takes where it is searched for in that: others are near them."""
MIXED_HULL: Final = 1.5
"""How much dearer points of both directions of a mixture are than those of one, as measured."""


def mixed_tariff(parts: Sequence[Tariff], *, shared: bool) -> Tariff:
    """The tariff of curves that are mixed: every point is searched for, by levels of the likelihood ratio and, unless
    these are `shared`, on each part the point of each level.
    """
    by_profile = any(part.by_profile for part in parts)
    directed = _searched([part.directed for part in parts], by_profile=by_profile, shared=shared)
    hull = directed
    if not all(part.is_one_curve for part in parts):
        both = _searched([part.hull for part in parts], by_profile=by_profile, shared=shared)
        # The hull reads points and profiles of the curves of both directions.
        hull = replace(
            both,
            point=MIXED_HULL * directed.point,
            spread=MIXED_HULL * directed.spread,
            listed_point=MIXED_HULL * directed.listed_point,
        )
    return Tariff(base=math.fsum(part.base for part in parts), directed=directed, hull=hull)


def _searched(parts: Sequence[Prices], *, by_profile: bool, shared: bool) -> Prices:
    profile = sum(part.profile for part in parts)
    if by_profile:
        point = listed = PROFILES_OF_A_POINT * profile
    elif shared:
        point = sum(part.point for part in parts) + SHARED_LEVELS * profile
        listed = sum(SHARED_OF_ONE * part.listed_point for part in parts)
    else:
        point = sum(SEARCH_ROUNDS * (part.point + SEARCH_LOOKS * part.listed_point) for part in parts)
        listed = sum(SEARCH_OF_ONE * part.listed_point for part in parts)
    return Prices(
        point=point,
        spread=point,
        listed_point=listed,
        profile=profile,
        epsilon=ROUNDS_OF_A_ROOT * profile + sum(part.epsilon for part in parts),
        complement=COMPLEMENT_READINGS * point,
        gdp_mu=MU_POINTS * point + MU_PROFILES * profile,
        ratio=sum(part.ratio for part in parts),
    )
