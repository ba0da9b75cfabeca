"""What readings in ball arithmetic cost."""

from __future__ import annotations

import math
from typing import Final

from service.privacy.composition.tariff import Prices, Tariff
from service.privacy.mechanisms.abstract import SampledGaussianPart, Steps

LEAST_STEPS: Final = 100
LEAST_NOISE: Final = 0.5
LEAST_LOSS, LARGE_LOSS = 0.1, 6.0
"""Standard deviations of the loss, roughly, of a run whose lines are short."""
GROUND_TRUTH_CLOSED: Final = 3_000
GROUND_TRUTH_LINES: Final = 250_000
GROUND_TRUTH_HARD: Final = 24
"""Microseconds of a reading in ball arithmetic at 25 digits, by a closed form or on two lines; hard ones are dearer."""


def ground_truth(steps: Steps, digits: int) -> Tariff:
    """A list is read number by number."""
    reading = ground_truth_reading(steps, digits)
    directed = Prices(
        point=reading,
        spread=0,
        listed_point=reading,
        profile=reading,
        epsilon=2 * reading,
        complement=60 * reading,
        gdp_mu=40 * reading,
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


def ground_truth_reading(steps: Steps, digits: int) -> float:
    """Price of one number in ball arithmetic. Lines are long where few steps, little noise or rare sampling make the
    loss one of rare large jumps.
    """
    sampled = [(part, count) for step, count in steps if isinstance(part := step.part(), SampledGaussianPart)]
    if not sampled or (len(steps) == 1 and steps[0][1] == 1):
        return GROUND_TRUTH_CLOSED
    loss = math.sqrt(math.fsum(count * (part.sample_rate / part.noise_multiplier) ** 2 for part, count in sampled))
    noise = min(part.noise_multiplier for part, _ in sampled)
    many = sum(count for _, count in sampled) >= LEAST_STEPS
    easy = many and noise >= LEAST_NOISE and LEAST_LOSS <= loss <= LARGE_LOSS
    share = (1 + len(sampled)) / 2
    return GROUND_TRUTH_LINES * (1 if easy else GROUND_TRUTH_HARD) * share * digits / 25
