"""What readings of lines cost: by whether the loss has one hump, rare large jumps, or is far beyond anything asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from service.privacy.composition.parts import Counted
from service.privacy.composition.tariff import Prices, Tariff, one_curve
from service.privacy.mechanisms.abstract import GaussianMixturePart, GaussianPart, LaplacePart, SampledGaussianPart

ONE_HUMP: Final = Tariff(
    base=9_000,
    directed=Prices(
        point=4_000,
        spread=30_000,
        listed_point=200,
        profile=4_000,
        epsilon=20_000,
        complement=12_000,
        gdp_mu=80_000,
        ratio=2_000,
    ),
    hull=Prices(
        point=30_000,
        spread=120_000,
        listed_point=500,
        profile=8_000,
        epsilon=40_000,
        complement=30_000,
        gdp_mu=150_000,
        ratio=2_000,
    ),
)
"""Its lines are short."""
JUMPS: Final = Tariff(
    base=20_000,
    directed=Prices(
        point=500_000,
        spread=1_500_000,
        listed_point=3_000,
        profile=180_000,
        epsilon=400_000,
        complement=1_500_000,
        gdp_mu=1_200_000,
        ratio=2_000,
    ),
    hull=Prices(
        point=1_000_000,
        spread=4_000_000,
        listed_point=8_000,
        profile=300_000,
        epsilon=700_000,
        complement=2_500_000,
        gdp_mu=2_500_000,
        ratio=2_000,
    ),
)
"""Ruled by rare large jumps: lines are long or bent, and wide ones are read on lattices as well."""
EVERYTHING: Final = Tariff(
    base=9_000,
    directed=Prices(
        point=700_000,
        spread=1_500_000,
        listed_point=500,
        profile=8_000,
        epsilon=60_000,
        complement=1_000_000,
        gdp_mu=2_000_000,
        ratio=2_000,
    ),
    hull=Prices(
        point=1_200_000,
        spread=3_000_000,
        listed_point=1_000,
        profile=20_000,
        epsilon=120_000,
        complement=2_000_000,
        gdp_mu=6_000_000,
        ratio=2_000,
    ),
)
"""Tariff of a run that gives nearly everything away: what is asked about lies far out in the tails, mostly."""
WEAK_RUN: Final = replace(
    ONE_HUMP,
    directed=replace(ONE_HUMP.directed, gdp_mu=500_000),
    hull=replace(ONE_HUMP.hull, gdp_mu=1_000_000),
)
"""Tariff of a run that reveals next to nothing: mu is searched for next to the limits of the curve."""
TWO_STEPS: Final = Tariff(
    base=3_000,
    directed=Prices(
        point=200_000,
        spread=2_000_000,
        listed_point=2_000,
        profile=12_000,
        epsilon=100_000,
        complement=500_000,
        gdp_mu=600_000,
        ratio=2_000,
    ),
    hull=Prices(
        point=1_000_000,
        spread=5_000_000,
        listed_point=8_000,
        profile=25_000,
        epsilon=200_000,
        complement=2_000_000,
        gdp_mu=1_200_000,
        ratio=2_000,
    ),
)
"""The closed form of one step at thresholds that the other shifts: each number is searched for by itself."""
LARGEST_LOSS: Final = 30.0
"""Standard deviations of the loss of a run, roughly, from which it gives everything away."""
WEAK, NOTHING = 1e-2, 1e-13
"""Standard deviations of the loss of a run that reveals next to nothing, and of one with nothing to be found."""
MOST_JUMPS, LEAST_JUMPS = 30.0, 1e-7
"""Expected jumps of a run that are rare, and that are there at all."""
FEW_STEPS: Final = 30
"""Number of sampled steps below which their loss has several humps."""
LARGEST_RATE: Final = 0.25
"""Largest rate of a step whose jumps are rare."""
LEAST_NOISE, LARGEST_NOISE = 0.02, 40.0
"""Noise of a step that jumps: below it a jump tells everything, above it no jump is large."""
LEAST_STEPS, LEAST_LOSS, SMOOTH_NOISE = 100, 0.1, 0.5
"""Steps, standard deviations of their loss, and noise, from which on the jumps of a run make one hump."""
SMOOTH: Final = 1.0
"""mu of Gaussian steps from which nothing beside them has jumps."""
LEAST_LAPLACE: Final = 0.05
"""Loss of a sampled Laplace step below which its transform has many nodes."""
SHARE_OF_A_PART: Final = 1 / 40
"""Every different step adds its own transform to each line."""


LOOSE: Final = 1e-5
"""Relative tolerance from which lines are narrow enough, and lattices are not asked."""
WITHOUT_LATTICES: Final = 1 / 5


def contour(parts: tuple[Counted, ...], ends: int, tolerance: float) -> Tariff:
    """`ends`: how many roundings of the parameters are read."""
    kind = _kind(parts)
    mixed = any(isinstance(part, GaussianMixturePart) for part, _ in parts)
    if kind is JUMPS and sum(count for _, count in parts) == 2 and tolerance < math.inf and not mixed:
        return TWO_STEPS
    alone = WITHOUT_LATTICES if kind is JUMPS and tolerance >= LOOSE else 1.0
    return kind.scaled(ends * alone * (1 + SHARE_OF_A_PART * (len(parts) - 1)))


def smoothed(different: int) -> Tariff:
    """Tariff of so many different responses beside a little noise: lines of some hundred thousand nodes, with a factor
    for every different one; a reading takes one or two.
    """
    line = 60_000.0 + 1_500.0 * different
    prices = Prices(
        point=2 * line,
        spread=12 * line,
        listed_point=300,
        profile=2 * line,
        epsilon=2 * line,
        complement=10 * line,
        gdp_mu=20 * line,
    )
    return one_curve(10_000, prices)


_Jumping = SampledGaussianPart | LaplacePart | GaussianMixturePart


def _jump(part: _Jumping) -> tuple[float, float]:
    """Noise and rate of a step whose loss is mostly small; of a mixture, those of a step of about its mean loss."""
    if isinstance(part, GaussianMixturePart):
        rate = 1 - part.weights[0] if part.shifts[0] == 0 else 1.0
        return rate / part.mean_shift, rate
    return (part.noise_multiplier if isinstance(part, SampledGaussianPart) else 1 / part.loss), part.sample_rate


def _kind(parts: tuple[Counted, ...]) -> Tariff:
    gaussian = math.sqrt(
        min(math.fsum(count * part.shift.upper**2 for part, count in parts if isinstance(part, GaussianPart)), 1e300)
    )
    jumping = [(*_jump(part), count) for part, count in parts if isinstance(part, _Jumping)]
    sampled = math.hypot(*(math.sqrt(count) * rate / noise for noise, rate, count in jumping))
    if math.hypot(gaussian, sampled) > LARGEST_LOSS:
        return EVERYTHING
    many = sum(count for _, _, count in jumping) >= LEAST_STEPS and sampled >= LEAST_LOSS
    if many and min(noise for noise, _, _ in jumping) >= SMOOTH_NOISE:
        return ONE_HUMP
    jumps = math.fsum(
        count * rate for noise, rate, count in jumping if rate < LARGEST_RATE and LEAST_NOISE <= noise <= LARGEST_NOISE
    )
    seldom = sum(count for _, rate, count in jumping if rate < 1)
    few = 0 < seldom <= FEW_STEPS and sampled >= WEAK
    laplace = (part for part, _ in parts if isinstance(part, LaplacePart))
    long = any(part.sample_rate < 1 and part.loss < LEAST_LAPLACE for part in laplace)
    if gaussian < SMOOTH and (LEAST_JUMPS < jumps < MOST_JUMPS or few or long):
        return JUMPS
    return WEAK_RUN if NOTHING < math.hypot(gaussian, sampled) < WEAK else ONE_HUMP
