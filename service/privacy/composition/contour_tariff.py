"""What readings of lines cost: more the farther the loss is from having one hump of moderate width."""

from __future__ import annotations

import math
from typing import Final

from service.privacy.composition.parts import Counted
from service.privacy.composition.tariff import Prices, Tariff
from service.privacy.mechanisms.abstract import GaussianPart, LaplacePart, SampledGaussianPart

CONTOUR: Final = Tariff(
    base=5_500,
    directed=Prices(
        point=2_500, spread=30_000, listed_point=200, profile=2_500, epsilon=4_000, complement=500_000, gdp_mu=80_000
    ),
    hull=Prices(
        point=40_000, spread=120_000, listed_point=500, profile=6_000, epsilon=8_000, complement=900_000, gdp_mu=500_000
    ),
)
"""A run whose loss has one hump: its lines are short."""
LEAST_STEPS: Final = 100
LEAST_NOISE: Final = 0.5
LEAST_LOSS, LARGE_LOSS, LARGEST_LOSS = 0.1, 6.0, 30.0
"""Standard deviations of the loss of a run, roughly."""
SHARE_OF_A_PART: Final = 1 / 40
"""Every different step adds its own transform to each line."""
LARGE: Final = 8
"""How much dearer a run may be that gives nearly everything away."""
HARD: Final = 60
"""How much dearer a run may be whose loss is ruled by rare large jumps, or that gives everything away."""


def contour(parts: tuple[Counted, ...], ends: int) -> Tariff:
    """`ends`: how many roundings of the parameters are read."""
    sampled = [(part, count) for part, count in parts if isinstance(part, SampledGaussianPart)]
    if not sampled:
        losses = [(part.sample_rate * part.loss, count) for part, count in parts if isinstance(part, LaplacePart)]
        losses += [(part.shift.upper, count) for part, count in parts if isinstance(part, GaussianPart)]
        return CONTOUR.scaled(LARGE if math.hypot(*(math.sqrt(n) * loss for loss, n in losses)) > LARGE_LOSS else 1)
    loss = math.sqrt(math.fsum(count * (part.sample_rate / part.noise_multiplier) ** 2 for part, count in sampled))
    noise = min(part.noise_multiplier for part, _ in sampled)
    many = sum(count for _, count in sampled) >= LEAST_STEPS
    easy = many and noise >= LEAST_NOISE and LEAST_LOSS <= loss <= LARGEST_LOSS
    hard = (LARGE if loss > LARGE_LOSS else 1) if easy else HARD
    return CONTOUR.scaled(ends * hard * (1 + SHARE_OF_A_PART * (len(sampled) - 1)))
