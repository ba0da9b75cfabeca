"""What readings of series in the cumulants of the loss cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.tariff import Prices, Tariff
from service.privacy.mechanisms.abstract import AbstractStep, GaussianMixturePart, Steps
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.pure_dp import PureDp

ASYMPTOTIC: Final = Tariff(
    base=8_000,
    directed=Prices(
        point=500,
        spread=2_000,
        listed_point=10,
        profile=250,
        epsilon=2_500,
        complement=5_000,
        gdp_mu=500_000,
        ratio=5_000,
    ),
    hull=Prices(
        point=4_000,
        spread=10_000,
        listed_point=40,
        profile=500,
        epsilon=5_000,
        complement=100_000,
        gdp_mu=1_100_000,
    ),
)
"""Series in the cumulants of the loss."""
SADDLEPOINT: Final = Tariff(
    base=6_000,
    directed=Prices(
        point=10_000,
        spread=20_000,
        listed_point=50,
        profile=10_000,
        epsilon=60_000,
        complement=60_000,
        gdp_mu=3_000_000,
        ratio=15_000,
    ),
    hull=Prices(
        point=20_000,
        spread=40_000,
        listed_point=100,
        profile=20_000,
        epsilon=100_000,
        complement=200_000,
        gdp_mu=4_000_000,
        ratio=15_000,
    ),
)
"""Every point is a root of the generating function: mu takes thousands of them, and of a single sampled step more."""
LARGEST_LOSS, EXTREME, EXTREME_EXPONENTIAL = 100.0, 200_000, 3_000_000
"""Nats in one step from which cumulants of its loss take long, and how long; of several exponential steps, whose roots
lie far out as well.
"""
MIXED: Final = 100_000
"""Cumulants of a step of a mixture of shifted Gaussians, at all tilts that are looked at."""
SHARE_OF_A_PART: Final = 1 / 4
"""Share of the price that every further kind of step adds."""


def series(steps: Steps) -> Tariff:
    """Tariff of the expansion at the mean: every different step has cumulants of its own."""
    return ASYMPTOTIC.scaled(1 + SHARE_OF_A_PART * (len(steps) - 1))


def saddlepoint(steps: Steps) -> Tariff:
    """Tariff of the expansion at the tilt of each threshold."""
    known = SADDLEPOINT.scaled(1 + SHARE_OF_A_PART * (len(steps) - 1))
    mixed = sum(isinstance(step.part(), GaussianMixturePart) for step, _ in steps)
    if mixed:
        known = replace(known, base=known.base + MIXED * mixed)
    extreme = [(step, count) for step, count in steps if _is_extreme(step)]
    if not extreme:
        return known
    repeated = any(isinstance(step, Exponential) and count > 1 for step, count in extreme)
    return replace(known, base=known.base + (EXTREME_EXPONENTIAL if repeated else EXTREME))


def _is_extreme(step: AbstractStep) -> bool:
    inner = step.mechanism if isinstance(step, PoissonSampled) else step
    if isinstance(inner, Gaussian | Laplace):
        return inner.noise_multiplier < 1 / LARGEST_LOSS
    return isinstance(inner, Exponential | PureDp | ApproximateDp) and inner.epsilon > LARGEST_LOSS
