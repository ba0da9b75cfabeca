"""What readings of membership curves cost, as in `composition/planning/tariff.py`: microseconds, measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.closed_form_tariff import ONE_SHAPE
from service.privacy.composition.planning.tariff import Prices, Tariff

GAUSSIAN: Final = replace(ONE_SHAPE, base=20_000)
"""A closed form, whose mu takes many digits."""

WHOLE: Final = Tariff(
    base=10_000,
    directed=Prices(
        point=8_000, spread=10_000, listed_point=40, profile=3_000, epsilon=20_000, complement=10_000, gdp_mu=150_000
    ),
    hull=Prices(
        point=15_000, spread=20_000, listed_point=200, profile=7_000, epsilon=45_000, complement=25_000, gdp_mu=700_000
    ),
)
"""Steps on the whole data set: a closed form with tails of chi-square laws."""

SAMPLED_ONCE: Final = Tariff(
    base=10_000,
    directed=Prices(
        point=8_000, spread=12_000, listed_point=60, profile=3_000, epsilon=35_000, complement=12_000, gdp_mu=1_000_000
    ),
    hull=Prices(
        point=15_000,
        spread=300_000,
        listed_point=2_000,
        profile=7_000,
        epsilon=70_000,
        complement=200_000,
        gdp_mu=8_000_000,
    ),
)
"""One step on a sample of it."""

LATTICES: Final = Tariff(
    base=100_000,
    directed=Prices(
        point=7_000_000,
        spread=14_000_000,
        listed_point=5_000,
        profile=6_000_000,
        epsilon=7_000_000,
        complement=14_000_000,
        gdp_mu=60_000_000,
    ),
    hull=Prices(
        point=18_000_000,
        spread=60_000_000,
        listed_point=20_000,
        profile=12_000_000,
        epsilon=16_000_000,
        complement=40_000_000,
        gdp_mu=180_000_000,
    ),
)
"""Sampled steps, composed: every node of a lattice takes two tails."""

LINES: Final = Tariff(
    base=15_000,
    directed=Prices(
        point=30_000,
        spread=100_000,
        listed_point=40,
        profile=30_000,
        epsilon=60_000,
        complement=60_000,
        gdp_mu=300_000,
    ),
    hull=Prices(
        point=80_000,
        spread=300_000,
        listed_point=120,
        profile=60_000,
        epsilon=120_000,
        complement=150_000,
        gdp_mu=600_000,
    ),
)
"""The same on lines, which have the moments of one step."""
SHORT_LINE_MU, SHORT_LINE_STEPS, SHORT_LINE_RECORDS = 2.0, 64, 1.0
"""mu of a step up to which, and steps and expected samples of the record from which, lines are short, and narrow."""

LAW: Final = Tariff(
    base=50_000,
    directed=Prices(
        point=4_000_000,
        spread=4_000_000,
        listed_point=60_000,
        profile=300_000,
        epsilon=3_000_000,
        complement=30_000_000,
        gdp_mu=200_000_000,
    ),
    hull=Prices(
        point=10_000_000,
        spread=30_000_000,
        listed_point=200_000,
        profile=600_000,
        epsilon=6_000_000,
        complement=80_000_000,
        gdp_mu=600_000_000,
    ),
)
"""A law of susceptibilities: dozens of closed forms at each of hundreds of levels."""
OF_LATTICES: Final = Tariff(
    base=500_000,
    directed=Prices(
        point=15_000_000,
        spread=20_000_000,
        listed_point=100_000,
        profile=6_000_000,
        epsilon=15_000_000,
        complement=150_000_000,
        gdp_mu=600_000_000,
    ),
    hull=Prices(
        point=45_000_000,
        spread=200_000_000,
        listed_point=300_000,
        profile=12_000_000,
        epsilon=30_000_000,
        complement=400_000_000,
        gdp_mu=900_000_000,
    ),
)
"""The same of a few runs on lattices."""

LOOSE: Final = 1e-3
"""From this tolerance on lattices are coarse."""
COARSER: Final = 1 / 4


def lines(step_mu: float, rate: float, steps: int) -> Tariff:
    """The tariff of lines, and of the lattices that are asked as well where these are wide."""
    short = step_mu <= SHORT_LINE_MU and steps >= SHORT_LINE_STEPS and steps * rate >= SHORT_LINE_RECORDS
    return LINES if short else LATTICES


def lattices(tolerance: float) -> Tariff:
    """The tariff of lattices as fine as the tolerance wants."""
    return LATTICES.scaled(COARSER) if tolerance >= LOOSE else LATTICES


def law_of_susceptibilities(*, closed: bool) -> Tariff:
    """The tariff of a mixture between two others, of closed forms or of a few composed runs."""
    return LAW if closed else OF_LATTICES


def of_gaussian_steps(run: Tariff) -> Tariff:
    """The tariff of a run of sampled Gaussian steps, which has one of its own, for mu_step."""
    return replace(run, base=run.base + GAUSSIAN.base)
