"""What readings in ball arithmetic cost."""

from __future__ import annotations

import math
from typing import Final

from service.privacy.composition.planning.tariff import Prices, Tariff
from service.privacy.mechanisms.abstract import GaussianMixturePart, SampledGaussianPart, Steps

LEAST_STEPS: Final = 100
LEAST_NOISE: Final = 0.5
LEAST_LOSS, LARGE_LOSS = 0.1, 6.0
"""Standard deviations of the loss, roughly, of a run whose lines are short."""
WEAK_LOSS: Final = 1e-6
"""... of a run that reveals next to nothing, whose lines are short as well, whatever its shifts."""
GROUND_TRUTH_CLOSED: Final = 3_000
GROUND_TRUTH_LINES: Final = 250_000
GROUND_TRUTH_HARD: Final = 24
"""Microseconds of a reading in ball arithmetic at 25 digits, by a closed form or on two lines; hard ones are dearer."""
LIMITS: Final = 10_000
"""The extreme losses, which need no line."""
TERMS_AT_ONCE: Final = 20
"""Shifts of a mixture that take as long as all else of it."""


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
        ratio=LIMITS,
    )
    if not any(isinstance(step.part(), SampledGaussianPart | GaussianMixturePart) for step, _ in steps):
        return Tariff(base=0, directed=directed, hull=directed, alone=True)
    hull = Prices(
        point=60 * reading,
        spread=0,
        listed_point=60 * reading,
        profile=2 * reading,
        epsilon=4 * reading,
        complement=120 * reading,
        gdp_mu=1_000 * reading,
        ratio=LIMITS,
    )
    return Tariff(base=0, directed=directed, hull=hull, alone=True)


def _mean_loss(part: SampledGaussianPart | GaussianMixturePart) -> float:
    if isinstance(part, GaussianMixturePart):
        return part.mean_shift
    return part.sample_rate / part.noise_multiplier


def _noise(part: SampledGaussianPart | GaussianMixturePart) -> float:
    """Over the distance of neighbouring shifts, the least of which counts."""
    if isinstance(part, GaussianMixturePart):
        return part.noise_multiplier / (part.shifts[1] - part.shifts[0])
    return part.noise_multiplier


def ground_truth_reading(steps: Steps, digits: int) -> float:
    """Price of one number in ball arithmetic. Lines are long where few steps, little noise or rare sampling make the
    loss one of rare large jumps.
    """
    known = [(step.part(), count) for step, count in steps]
    sampled = [(part, count) for part, count in known if isinstance(part, SampledGaussianPart | GaussianMixturePart)]
    terms = sum(len(part.shifts) for part, _ in sampled if isinstance(part, GaussianMixturePart))
    if not sampled or (len(steps) == 1 and steps[0][1] == 1):
        return GROUND_TRUTH_CLOSED * (1 + terms)
    loss = math.sqrt(math.fsum(count * _mean_loss(part) ** 2 for part, count in sampled))
    noise = min(_noise(part) for part, _ in sampled)
    many = sum(count for _, count in sampled) >= LEAST_STEPS
    easy = many and noise >= LEAST_NOISE and LEAST_LOSS <= loss <= LARGE_LOSS
    if loss < WEAK_LOSS:
        return GROUND_TRUTH_LINES * digits / 25
    share = (1 + len(sampled)) / 2 * (1 + min(terms, 2) + terms / TERMS_AT_ONCE)
    return GROUND_TRUTH_LINES * (1 if easy else GROUND_TRUTH_HARD) * share * digits / 25
