"""What readings of series in the cumulants of the loss, of samples of it, and of ball arithmetic cost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from service.privacy.composition.tariff import Prices, Tariff
from service.privacy.mechanisms.abstract import AbstractStep, GaussianPart, SampledGaussianPart, Steps
from service.privacy.mechanisms.approximate_dp import ApproximateDp
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.mechanisms.pure_dp import PureDp

ASYMPTOTIC: Final = Tariff(
    base=5_000,
    directed=Prices(
        point=2_000,
        spread=3_000,
        listed_point=10,
        profile=2_000,
        epsilon=5_000,
        complement=10_000,
        gdp_mu=500_000,
        ratio=5_000,
    ),
    hull=Prices(
        point=10_000,
        spread=20_000,
        listed_point=40,
        profile=2_000,
        epsilon=10_000,
        complement=200_000,
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
SHARE_OF_A_PART: Final = 1 / 4
"""Share of the price that every further kind of step adds."""


def series(steps: Steps) -> Tariff:
    """Tariff of the expansion at the mean: every different step has cumulants of its own."""
    return ASYMPTOTIC.scaled(1 + SHARE_OF_A_PART * (len(steps) - 1))


def saddlepoint(steps: Steps) -> Tariff:
    """Tariff of the expansion at the tilt of each threshold."""
    known = SADDLEPOINT.scaled(1 + SHARE_OF_A_PART * (len(steps) - 1))
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


SAMPLED_RUN: Final = Tariff(
    base=0,
    directed=Prices(
        point=500, spread=1_000, listed_point=10, profile=500, epsilon=5_000, complement=25_000, gdp_mu=100_000
    ),
    hull=Prices(
        point=5_000, spread=10_000, listed_point=40, profile=1_000, epsilon=10_000, complement=100_000, gdp_mu=400_000
    ),
)
"""Readings of a sample that is drawn and sorted; drawing it is priced by its size."""
CHUNK: Final = 2**18
"""Draws at a time."""
TABLE, DRAWN_CHUNK = 10_000, 20_000
"""Price of a table of a law, or of a power of it; of as many draws from a table."""


def monte_carlo(steps: Steps, sensitivity: float, samples: int) -> Tariff:
    """The first reading pays for the draws of both hypotheses."""
    laws = [count for step, count in steps if not isinstance(step.part(sensitivity), GaussianPart)]
    tables = sum(TABLE * (count.bit_length() + count.bit_count() - 1) for count in laws)
    chunks = len(laws) * (2_000 + DRAWN_CHUNK * samples / CHUNK)
    bands = 300 * math.sqrt(samples)
    draws = 2_000 + tables + bands + 2 * chunks + 2 * samples * (0.15 + 0.03 * len(steps))
    return replace(SAMPLED_RUN, base=draws)


LEAST_STEPS: Final = 100
LEAST_NOISE: Final = 0.5
LEAST_LOSS, LARGE_LOSS = 0.1, 6.0
"""Standard deviations of the loss, roughly, of a run whose lines are short."""
GROUND_TRUTH_CLOSED: Final = 3_000
GROUND_TRUTH_LINES: Final = 250_000
GROUND_TRUTH_HARD: Final = 24
"""Microseconds of a reading in ball arithmetic at 25 digits, by a closed form or on two lines; hard ones are dearer."""


def ground_truth(steps: Steps, sensitivity: float, digits: int) -> Tariff:
    """A list is read number by number."""
    reading = ground_truth_reading(steps, sensitivity, digits)
    directed = Prices(
        point=reading,
        spread=0,
        listed_point=reading,
        profile=reading,
        epsilon=2 * reading,
        complement=60 * reading,
        gdp_mu=200 * reading,
    )
    hull = Prices(
        point=60 * reading,
        spread=0,
        listed_point=60 * reading,
        profile=2 * reading,
        epsilon=4 * reading,
        complement=120 * reading,
        gdp_mu=1_000 * reading,
    )
    return Tariff(base=0, directed=directed, hull=hull)


def ground_truth_reading(steps: Steps, sensitivity: float, digits: int) -> float:
    """Price of one number in ball arithmetic. Lines are long where few steps, little noise or rare sampling make the
    loss one of rare large jumps.
    """
    sampled = [
        (part, count) for step, count in steps if isinstance(part := step.part(sensitivity), SampledGaussianPart)
    ]
    if not sampled or (len(steps) == 1 and steps[0][1] == 1):
        return GROUND_TRUTH_CLOSED
    loss = math.sqrt(math.fsum(count * (part.sample_rate / part.noise_multiplier) ** 2 for part, count in sampled))
    noise = min(part.noise_multiplier for part, _ in sampled)
    many = sum(count for _, count in sampled) >= LEAST_STEPS
    easy = many and noise >= LEAST_NOISE and LEAST_LOSS <= loss <= LARGE_LOSS
    share = (1 + len(sampled)) / 2
    return GROUND_TRUTH_LINES * (1 if easy else GROUND_TRUTH_HARD) * share * digits / 25
