"""What readings of lines cost: by whether the loss has one hump, rare large jumps, or is far beyond anything asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from service.privacy.composition.planning.parts import Counted
from service.privacy.composition.planning.tariff import Prices, Tariff, one_curve
from service.privacy.mechanisms.abstract import (
    GaussianMixturePart,
    GaussianPart,
    LaplacePart,
    SampledGaussianPart,
    TwoPointPart,
)

ONE_HUMP: Final = Tariff(
    base=9_000,
    directed=Prices(
        point=4_000,
        spread=30_000,
        listed_point=20,
        profile=4_000,
        epsilon=20_000,
        complement=12_000,
        gdp_mu=25_000,
        ratio=2_000,
    ),
    hull=Prices(
        point=30_000,
        spread=120_000,
        listed_point=60,
        profile=8_000,
        epsilon=40_000,
        complement=30_000,
        gdp_mu=35_000,
        ratio=2_000,
    ),
)
"""Its lines are short."""
JUMPS: Final = Tariff(
    base=20_000,
    directed=Prices(
        point=150_000,
        spread=600_000,
        listed_point=300,
        profile=100_000,
        epsilon=250_000,
        complement=600_000,
        gdp_mu=2_000_000,
        ratio=2_000,
    ),
    hull=Prices(
        point=400_000,
        spread=1_500_000,
        listed_point=800,
        profile=200_000,
        epsilon=400_000,
        complement=1_200_000,
        gdp_mu=3_000_000,
        ratio=2_000,
    ),
)
"""Ruled by rare large jumps: lines are long or bent, and wide ones are read on lattices as well."""
EVERYTHING: Final = Tariff(
    base=9_000,
    directed=Prices(
        point=25_000,
        spread=50_000,
        listed_point=500,
        profile=30_000,
        epsilon=300_000,
        complement=50_000,
        gdp_mu=500_000,
        ratio=2_000,
    ),
    hull=Prices(
        point=50_000,
        spread=100_000,
        listed_point=1_000,
        profile=60_000,
        epsilon=600_000,
        complement=100_000,
        gdp_mu=1_000_000,
        ratio=2_000,
    ),
)
"""Tariff of a run that gives nearly everything away: what is asked about lies far out in the tails, mostly."""
LONG_AND_TELLING: Final = replace(
    EVERYTHING,
    directed=replace(EVERYTHING.directed, point=100_000, spread=200_000, gdp_mu=4_000_000),
    hull=replace(EVERYTHING.hull, point=200_000, spread=400_000, gdp_mu=8_000_000),
)
"""The same of a long run: no jump tells everything at once."""
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
DIRECT_NOISE: Final = 0.5
"""Noise multiplier of a sampled step below which the line of two steps is long, and often wide."""
SMOOTH_NOISE: Final = 1.25
"""Noise, over the shift, from which lines of two mixtures are short and narrow, where both hypotheses are mixed: no
loss has a limit then, beside which its law is dense.
"""
OF_A_MIXTURE: Final = 3
"""Two steps of mixtures cost the humps of the larger, and so many more, times what two shifted laws do."""
LARGEST_LOSS: Final = 30.0
"""Standard deviations of the loss of a run, roughly, from which it gives everything away."""
WEAK, NOTHING = 1e-2, 1e-13
"""Standard deviations of the loss of a run that reveals next to nothing, and of one with nothing to be found."""
MOST_JUMPS, LEAST_JUMPS = 5.0, 1e-7
"""Expected jumps of a run that are rare, and that are there at all."""
FEW_STEPS: Final = 30
"""Number of sampled steps, or of steps of two losses, up to which their loss has several humps."""
LARGEST_RATE: Final = 0.25
"""Largest rate of a step whose jumps are rare."""
SMOOTH: Final = 1.0
"""mu of Gaussian steps from which nothing beside them has jumps."""
LEAST_LAPLACE: Final = 0.05
"""Loss of a sampled Laplace step below which its transform has many nodes."""
MOST_PARTS: Final = 64
"""Every different step adds its own transform to each line; of many the sums are shared. Prices rise with the root."""
WIDE_JUMP: Final = 6.0
"""A jump this much larger than what smooths the loss leaves humps apart: lines are as long as it is wide."""
FARTHEST: Final = 6.0
"""Standard deviations of the noise to which jumps are looked at."""
LONG_RUN: Final = 10_000
"""Steps of a run that gives everything away little by little."""


LOOSE: Final = 1e-5
"""Relative tolerance from which lines are narrow enough, and lattices are not asked."""
WITHOUT_LATTICES: Final = 1 / 5


def contour(parts: tuple[Counted, ...], ends: int, tolerance: float) -> Tariff:
    """`ends`: how many roundings of the parameters are read."""
    kind = _kind(parts)
    humps = max((len(part.shifts) for part, _ in parts if isinstance(part, GaussianMixturePart)), default=0)
    if sum(count for _, count in parts) == 2 and tolerance < math.inf:
        if humps and is_direct(parts):
            return TWO_STEPS.scaled(humps + OF_A_MIXTURE)
        if kind is JUMPS and not humps:
            return TWO_STEPS
    alone = WITHOUT_LATTICES if kind is JUMPS and tolerance >= LOOSE else 1.0
    return kind.scaled(ends * alone * math.sqrt(min(len(parts), MOST_PARTS)))


def is_direct(parts: tuple[Counted, ...]) -> bool:
    """Whether the line of two steps is long, and often wide, so that their closed form is read first."""
    if any(isinstance(part, SampledGaussianPart) and part.noise_multiplier < DIRECT_NOISE for part, _ in parts):
        return True
    mixtures = [part for part, _ in parts if isinstance(part, GaussianMixturePart)]
    smooth = all(part.mirrored and part.noise_multiplier >= SMOOTH_NOISE * part.shifts[-1] for part in mixtures)
    return bool(mixtures) and not smooth and _kind(parts) not in (ONE_HUMP, WEAK_RUN)


def smoothed(different: int) -> Tariff:
    """Tariff of so many different responses beside a little noise: lines of some hundred thousand nodes, with a factor
    for every different one; a reading takes one or two.
    """
    line = 150_000.0 + 1_500.0 * different
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
        far = max(part.shifts)  # of a rate too small for 1 less it
        return (rate / part.mean_shift, rate) if rate > 0 else (1 / far, part.mean_shift / far)
    return (part.noise_multiplier if isinstance(part, SampledGaussianPart) else 1 / part.loss), part.sample_rate


def _kind(parts: tuple[Counted, ...]) -> Tariff:
    gaussian = math.sqrt(
        min(math.fsum(count * part.shift.upper**2 for part, count in parts if isinstance(part, GaussianPart)), 1e300)
    )
    jumping = [(*_jump(part), count) for part, count in parts if isinstance(part, _Jumping)]
    stated = [(part.epsilon, count) for part, count in parts if isinstance(part, TwoPointPart)]
    sampled = math.hypot(*(math.sqrt(count) * rate / noise for noise, rate, count in jumping))
    steps = sum(count for _, count in parts)
    if math.hypot(gaussian, sampled, *(math.sqrt(count) * epsilon for epsilon, count in stated)) > LARGEST_LOSS:
        return LONG_AND_TELLING if steps >= LONG_RUN and jumping else EVERYTHING
    smooth = math.hypot(gaussian, sampled)
    jumps = [_farthest(noise, rate) for noise, rate, count in jumping if rate < LARGEST_RATE and _rare(rate * count)]
    jumps += [epsilon for epsilon, count in stated if count <= FEW_STEPS]
    laplace = (part for part, _ in parts if isinstance(part, LaplacePart))
    long = steps < LONG_RUN and any(part.sample_rate < 1 and part.loss < LEAST_LAPLACE for part in laplace)
    seldom = sum(count for _, rate, count in jumping if rate < 1)
    few = 0 < seldom <= FEW_STEPS and sampled >= WEAK
    if gaussian < SMOOTH and (max(jumps, default=0.0) > WIDE_JUMP * smooth or long or few):
        return JUMPS
    return WEAK_RUN if NOTHING < smooth < WEAK else ONE_HUMP


def _rare(jumps: float) -> bool:
    return LEAST_JUMPS < jumps < MOST_JUMPS


def _farthest(noise: float, rate: float) -> float:
    """About the largest loss of a sampled step, in nats."""
    loss = min((FARTHEST + 0.5 / noise) / noise, 700.0)
    return math.log1p(rate * math.expm1(loss))
