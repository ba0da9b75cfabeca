"""Steps of a run by kind, as lines know them: parameters, and how often each occurs. Exact numbers, losses in nats."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from service.privacy.mechanisms.abstract import GaussianMixturePart


class SampledGaussianSteps(NamedTuple):
    """`number` Gaussian steps, each on a Poisson sample of the records."""

    noise_multiplier: float
    sample_rate: float
    number: int


class LaplaceSteps(NamedTuple):
    """`number` Laplace steps whose largest loss, before sampling at `sample_rate` <= 1, is `largest_loss`."""

    largest_loss: float
    sample_rate: float
    number: int


class TwoPointSteps(NamedTuple):
    """`number` steps whose loss is `loss` or minus that."""

    loss: float
    number: int


class GaussianMixtureSteps(NamedTuple):
    """`number` steps that are a mixture of shifted Gaussians with the record."""

    part: GaussianMixturePart
    number: int


class ChiSquareSteps(NamedTuple):
    """`number` steps of noisy SGD on samples of the records, as the membership adversary sees them: T has a chi-square
    law of `dimension` degrees (`sampled_chi_square_grid.py`). `effective_batch_size` is N > 1, a share of the records.
    """

    dimension: int
    susceptibility: float
    effective_batch_size: Fraction
    sample_rate: float
    number: int
