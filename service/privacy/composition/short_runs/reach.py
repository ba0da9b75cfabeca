"""Runs that are short enough for two laws on few cells."""

from __future__ import annotations

import math
from typing import Final

from service.privacy.mechanisms.abstract import SampledGaussianPart, Steps
from service.privacy.mechanisms.poisson_sampled import PoissonSampled

FEW_STEPS: Final = 12
"""Largest number of steps at any sampling rate."""
MOST_STEPS: Final = 28
"""Largest number of steps. Contours are short for more steps."""
MOST_SAMPLED: Final = 1.0
"""Largest mean number of steps, among more than FEW_STEPS, that sample the record."""
LEAST_NOISE, MOST_NOISE = 0.3, 2.0
"""Smallest and largest noise multiplier. Contours of runs with more noise are short, and often narrower."""
LEAST_RATE, MOST_RATE = 1e-5, 0.99
"""Smallest and largest sampling rate."""
FARTHEST: Final = 16.0
"""Largest standard score with a finite loss in the laws."""
MOST_UNITS: Final = 3_000_000
"""Twice the largest number of units in the range of the loss of a step. Likely losses of a run have a similar range."""
LEAST_UNITS: Final = 25
"""Smallest number of units in the usual size of a loss, so that values are fine enough."""


def is_short_run(steps: Steps) -> bool:
    """Return whether a run has from 2 to MOST_STEPS steps, all of them equal Poisson-sampled Gaussian releases."""
    total = sum(count for _, count in steps)
    if not (1 < total <= MOST_STEPS and len(steps) == 1 and all(_is_served(step) for step, _ in steps)):
        return False
    sampled = sum(count * step.sample_rate for step, count in steps if isinstance(step, PoissonSampled))
    return total <= FEW_STEPS or sampled <= MOST_SAMPLED


def _is_served(step: object) -> bool:
    """Return whether `step` is a Poisson-sampled Gaussian release with a noise and a rate in reach.

    The usual size of a loss is p min(1, mu) for the sampling rate p and mu = 1/noise. The losses of far outcomes may
    not be too large in comparison, because all losses are integer multiples of one unit.
    """
    part = step.part() if isinstance(step, PoissonSampled) else None
    if not isinstance(part, SampledGaussianPart):
        return False
    noise, rate = part.noise_multiplier, part.sample_rate
    if not (LEAST_NOISE <= noise <= MOST_NOISE and LEAST_RATE <= rate <= MOST_RATE):
        return False
    mu = 1 / noise
    losses = math.log1p(rate * math.expm1(FARTHEST * mu - mu * mu / 2)) - math.log1p(-rate)
    return 2 * LEAST_UNITS * losses <= MOST_UNITS * rate * min(mu, 1.0)
