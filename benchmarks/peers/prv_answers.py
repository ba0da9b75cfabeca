"""prv-accountant: the upper end of its bracket, with the errors that its authors use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

EPSILON_ERROR: Final = 0.01
DELTA_ERROR: Final = 1e-8


def build(noise_multiplier: float, sample_rate: float, steps: int) -> dict[str, Callable[[float], float]]:
    step = PoissonSubsampledGaussianMechanism(noise_multiplier=noise_multiplier, sampling_probability=sample_rate)
    accountant = PRVAccountant(
        prvs=[step], max_self_compositions=[steps], eps_error=EPSILON_ERROR, delta_error=DELTA_ERROR
    )
    return {
        "eps": lambda delta: float(accountant.compute_epsilon(delta, [steps])[2]),
        "delta": lambda epsilon: float(accountant.compute_delta(epsilon, [steps])[2]),
    }
