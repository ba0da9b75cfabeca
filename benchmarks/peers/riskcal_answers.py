"""riskcal: power from the distribution of dp-accounting.

Gamma of reconstruction robustness is the power at the baseline rate.
"""

from __future__ import annotations

from collections.abc import Callable

from riskcal import analysis

from benchmarks.peers.dp_accounting_answers import distribution


def build(noise: str, noise_multiplier: float, sample_rate: float, steps: int) -> dict[str, Callable[[float], float]]:
    composed = distribution(noise, noise_multiplier, sample_rate, steps)
    return {"gamma": lambda rate: 1 - float(analysis.get_beta_from_pld(composed, rate))}
