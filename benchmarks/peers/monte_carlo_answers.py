"""Plain Monte Carlo in NumPy (Hayes, Mahloujifar, Balle 2023, Algorithm 1).

It draws the total log-likelihood ratio under each hypothesis. The threshold is a quantile of one sample. The power is
the share of the other sample above the threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

SEED: Final = 0
AT_ONCE: Final = 1_000_000
"""Losses of single steps that are held in memory together."""


def build(
    noise: str, noise_multiplier: float, sample_rate: float, steps: int, samples: int = 1_000_000
) -> dict[str, Callable[[float], float]]:
    random = np.random.default_rng(SEED)
    draw = random.normal if noise == "gaussian" else random.laplace

    def log_ratio(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        if noise == "gaussian":
            log_shifted = (2 * outputs - 1) / (2 * noise_multiplier**2)
        else:
            log_shifted = (np.abs(outputs) - np.abs(outputs - 1)) / noise_multiplier
        return np.log(1 - sample_rate + sample_rate * np.exp(log_shifted))

    absent, present = np.empty(samples), np.empty(samples)
    rows = max(1, AT_ONCE // steps)
    for start in range(0, samples, rows):
        shape = min(rows, samples - start), steps
        drawn = slice(start, start + rows)
        absent[drawn] = log_ratio(draw(0.0, noise_multiplier, shape)).sum(axis=1)
        included = random.random(shape) < sample_rate
        present[drawn] = log_ratio(draw(0.0, noise_multiplier, shape) + included).sum(axis=1)
    return {"gamma": lambda rate: float(np.mean(present > np.quantile(absent, 1 - rate)))}
