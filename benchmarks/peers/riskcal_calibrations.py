"""riskcal: the noise multiplier at which a limit is kept.

All options are defaults except the search range for error rates. The default range (0.1 to 50) takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable

from riskcal.calibration import (
    find_noise_multiplier_for_advantage_dpsgd,
    find_noise_multiplier_for_err_rates_dpsgd,
)

NARROWED = {"noise_min": 0.5, "noise_max": 4.0}


def build(
    noise: str, noise_multiplier: float, sample_rate: float, steps: int, false_positive_rate: float = 0.1
) -> dict[str, Callable[[float], float]]:
    del noise, noise_multiplier  # A Gaussian whose noise is searched.
    run = {"sample_rate": sample_rate, "num_steps": steps}
    return {
        "advantage": lambda limit: find_noise_multiplier_for_advantage_dpsgd(advantage=limit, **run),
        "power": lambda limit: find_noise_multiplier_for_err_rates_dpsgd(
            beta=1 - limit, alpha=false_positive_rate, **run, **NARROWED
        ),
    }
