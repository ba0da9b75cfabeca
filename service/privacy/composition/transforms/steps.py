"""Steps of a run by kind, as lines know them: parameters, and how often each occurs. Exact numbers, losses in nats."""

from __future__ import annotations

from typing import NamedTuple


class SampledGaussianSteps(NamedTuple):
    """`count` Gaussian steps, each on a Poisson sample of the records."""

    noise_multiplier: float
    sample_rate: float
    count: int


class LaplaceSteps(NamedTuple):
    """`count` Laplace steps whose largest loss, before sampling at `sample_rate` <= 1, is `largest_loss`."""

    largest_loss: float
    sample_rate: float
    count: int


class TwoPointSteps(NamedTuple):
    """`count` steps whose loss is `loss` or minus that."""

    loss: float
    count: int
