"""dp-accounting: the noise multiplier for an epsilon at delta 1e-5, to its default tolerance of 1e-6."""

from __future__ import annotations

from collections.abc import Callable

from dp_accounting import dp_event
from dp_accounting.mechanism_calibration import calibrate_dp_mechanism
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

DELTA = 1e-5


def build(noise: str, noise_multiplier: float, sample_rate: float, steps: int) -> dict[str, Callable[[float], float]]:
    del noise, noise_multiplier

    def event(multiplier: float) -> dp_event.DpEvent:
        step = dp_event.PoissonSampledDpEvent(sample_rate, dp_event.GaussianDpEvent(multiplier))
        return dp_event.SelfComposedDpEvent(step, steps)

    return {"eps": lambda epsilon: calibrate_dp_mechanism(PLDAccountant, event, epsilon, DELTA)}
