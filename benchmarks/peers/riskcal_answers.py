"""riskcal: power read from dp-accounting's distribution. gamma of reconstruction is power at that rate."""

from __future__ import annotations

from collections.abc import Callable

from dp_accounting.pld import privacy_loss_distribution
from riskcal import analysis


def build(noise_multiplier: float, sample_rate: float, steps: int) -> dict[str, Callable[[float], float]]:
    step = privacy_loss_distribution.from_gaussian_mechanism(noise_multiplier, sampling_prob=sample_rate)
    composed = step.self_compose(steps)
    return {"gamma": lambda rate: 1 - float(analysis.get_beta_from_pld(composed, rate))}
