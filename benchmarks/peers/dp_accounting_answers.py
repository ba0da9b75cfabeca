"""dp-accounting: a privacy loss distribution on its default grid of 1e-4."""

from __future__ import annotations

from collections.abc import Callable

from dp_accounting.pld import privacy_loss_distribution


def build(noise_multiplier: float, sample_rate: float, steps: int) -> dict[str, Callable[[float], float]]:
    step = privacy_loss_distribution.from_gaussian_mechanism(noise_multiplier, sampling_prob=sample_rate)
    composed = step.self_compose(steps)
    return {"eps": composed.get_epsilon_for_delta, "delta": composed.get_delta_for_epsilon}
