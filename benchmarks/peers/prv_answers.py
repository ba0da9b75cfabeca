"""prv-accountant: the upper bound of its bracket. The default errors are those of its authors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prv_accountant import (
    GaussianMechanism,
    LaplaceMechanism,
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
    PRVAccountant,
)

DELTA_ERROR: Final = 1e-8


def build(
    noise: str, noise_multiplier: float, sample_rate: float, steps: int, epsilon_error: float = 0.01
) -> dict[str, Callable[[float], float]]:
    accountant = PRVAccountant(
        prvs=[_step(noise, noise_multiplier, sample_rate)],
        max_self_compositions=[steps],
        eps_error=epsilon_error,
        delta_error=DELTA_ERROR,
    )
    return {
        "eps": lambda delta: float(accountant.compute_epsilon(delta, [steps])[2]),
        "delta": lambda epsilon: float(accountant.compute_delta(epsilon, [steps])[2]),
    }


def _step(noise: str, noise_multiplier: float, sample_rate: float) -> PrivacyRandomVariable:
    if sample_rate < 1:
        if noise != "gaussian":
            raise ValueError("it samples Gaussian noise only")
        return PoissonSubsampledGaussianMechanism(sample_rate, noise_multiplier)
    return LaplaceMechanism(mu=1 / noise_multiplier) if noise == "laplace" else GaussianMechanism(noise_multiplier)
