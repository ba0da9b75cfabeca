"""What readings of lattices cost, of any composed steps and of several exponential ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from service.privacy.composition.options import MIXED_TOLERANCE, EngineOptions
from service.privacy.composition.tariff import Prices, Tariff, one_curve
from service.privacy.mechanisms.abstract import Steps
from service.privacy.mechanisms.exponential import Exponential

DISCRETISED: Final = Tariff(
    base=100_000,
    directed=Prices(
        point=1_200_000,
        spread=3_000_000,
        listed_point=400,
        profile=1_200_000,
        epsilon=1_500_000,
        complement=5_000_000,
        gdp_mu=4_000_000,
    ),
    hull=Prices(
        point=5_000_000,
        spread=10_000_000,
        listed_point=1_000,
        profile=2_400_000,
        epsilon=3_000_000,
        complement=10_000_000,
        gdp_mu=12_000_000,
    ),
)
"""Lattices as fine as the default tolerance wants; a looser tolerance costs a hundredth."""
RECURSION: Final = Prices(
    point=3_000, spread=0, listed_point=2_000, profile=1_500, epsilon=1_500, complement=200_000, gdp_mu=8_000_000
)
"""Composed exponential steps, after the recursion: thousands of nodes for every rate."""
LONGEST_RECURSION: Final = 100
COARSER: Final = 1 / 4
"""What lattices for the tolerance of a mixture's components may still cost, where they must be made anew."""
SHARE_OF_A_PART: Final = 1 / 40


def lattices(steps: Steps, sensitivity: float, options: EngineOptions) -> Tariff:
    """Of any steps."""
    del sensitivity
    coarser = COARSER if options.relative_tolerance >= MIXED_TOLERANCE else 1.0
    return DISCRETISED.scaled(coarser * (1 + SHARE_OF_A_PART * (len(steps) - 1)))


def adaptive_exponential(steps: Steps, sensitivity: float, options: EngineOptions) -> Tariff:
    """A recursion, read by itself; beside other steps, or beyond its reach, a part of a few lattices."""
    count = sum(count for step, count in steps if isinstance(step, Exponential))
    base = 30_000 + 10_000 * min(count, LONGEST_RECURSION)
    if count == sum(count for _, count in steps) <= LONGEST_RECURSION:
        return one_curve(base, RECURSION)
    known = lattices(steps, sensitivity, options).scaled(3 * COARSER)
    return replace(known, base=known.base + base)
