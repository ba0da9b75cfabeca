"""What readings of the GLRT adversary's curves cost, in the manner of `composition/planning/tariff.py`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from service.privacy.composition.comparison.asymptotic.tariff import ASYMPTOTIC
from service.privacy.composition.planning.tariff import Prices, Tariff
from service.privacy.threat_models.glrt_step import GlrtSteps

EXACT: Final = Tariff(
    base=5_000,
    directed=Prices(
        point=25_000,
        spread=40_000,
        listed_point=200,
        profile=12_000,
        epsilon=80_000,
        complement=40_000,
        gdp_mu=200_000,
    ),
    hull=Prices(
        point=80_000,
        spread=120_000,
        listed_point=600,
        profile=20_000,
        epsilon=150_000,
        complement=80_000,
        gdp_mu=1_000_000,
    ),
)
"""Chi-square tails, two laws for every number."""
SAMPLED: Final = Tariff(
    base=5_000,
    directed=Prices(
        point=100_000,
        spread=120_000,
        listed_point=2_500,
        profile=12_000,
        epsilon=80_000,
        complement=120_000,
        gdp_mu=1_000_000,
    ),
    hull=Prices(
        point=120_000,
        spread=240_000,
        listed_point=3_000,
        profile=20_000,
        epsilon=150_000,
        complement=200_000,
        gdp_mu=1_200_000,
    ),
)
"""The rates of the remove direction are searched for."""
COMPOSED: Final = Tariff(
    base=500_000,
    directed=Prices(
        point=3_000_000,
        spread=7_000_000,
        listed_point=2_000,
        profile=4_000_000,
        epsilon=5_000_000,
        complement=10_000_000,
        gdp_mu=10_000_000,
    ),
    hull=Prices(
        point=8_000_000,
        spread=15_000_000,
        listed_point=5_000,
        profile=8_000_000,
        epsilon=10_000_000,
        complement=16_000_000,
        gdp_mu=18_000_000,
    ),
)
"""Lattices whose nodes are read off the steps' own curves; a delta far out in the tail costs several times this."""
WEAK: Final = 0.1
WEAK_MU: Final = 15
"""Distance of the means in standard deviations below which mu of Gaussian DP is searched for to the limits of the
curve, and how much dearer that is."""
SHARE_OF_A_PART: Final = 1 / 4


def glrt_tariff(steps: GlrtSteps, method: str) -> Tariff:
    """The prices of steps by a method."""
    if method == "discretised":
        return COMPOSED.scaled(1 + SHARE_OF_A_PART * (len(steps) - 1))
    if method == "clt":
        return ASYMPTOTIC
    first = steps[0][0]
    known = SAMPLED if first.sample_rate < 1 else EXACT
    noncentrality = math.fsum(count / step.noise_multiplier**2 for step, count in steps)
    distance = noncentrality / math.sqrt(2 * first.dimension + 4 * noncentrality)
    if distance * first.sample_rate >= WEAK:
        return known
    return replace(known, directed=_weak(known.directed), hull=_weak(known.hull))


def _weak(prices: Prices) -> Prices:
    return replace(prices, gdp_mu=WEAK_MU * prices.gdp_mu)
