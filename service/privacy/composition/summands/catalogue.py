"""The summand of each description of a step: the only switch on the kind of a step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from service.privacy.composition.summands.abstract import Summand
from service.privacy.composition.summands.gaussian_mixture import GaussianMixtureSteps
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps
from service.privacy.composition.summands.sampled_laplace import LaplaceSteps
from service.privacy.composition.summands.two_points import TwoPointSteps
from service.privacy.mechanisms.abstract import (
    GaussianMixturePart,
    GaussianPart,
    LaplacePart,
    Part,
    SampledGaussianPart,
    TwoPointPart,
)


@dataclass(frozen=True, slots=True)
class DescribedRun:
    """A run as engines see it: one Gaussian law and summands."""

    gaussian_mu_squared: float
    """Sum of N mu^2 over Gaussian steps without sampling, 0 without any."""
    summands: tuple[Summand, ...]
    revealing: tuple[tuple[float, int], ...]
    """Probabilities with which steps reveal everything, and the number of such steps."""


def described_run(parts: Iterable[tuple[Part, int]]) -> DescribedRun:
    """Return the run of the described steps, each with its count."""
    squares = list[float]()
    summands, revealing = list[Summand](), list[tuple[float, int]]()
    for part, count in parts:
        match part:
            case GaussianPart():
                squares.append(count * part.shift.upper**2)
            case SampledGaussianPart():
                summands.append(SampledGaussianSteps(part.noise_multiplier, part.sample_rate, count))
            case LaplacePart():
                summands.append(LaplaceSteps(part.loss, part.sample_rate, count))
            case GaussianMixturePart():
                summands.append(GaussianMixtureSteps(part, count))
            case TwoPointPart():
                revealing.append((part.delta, count))
                if part.epsilon > 0:
                    summands.append(TwoPointSteps(part.epsilon, count))
    return DescribedRun(math.fsum(squares), tuple(summands), tuple(revealing))
