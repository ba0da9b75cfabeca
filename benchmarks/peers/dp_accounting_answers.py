"""dp-accounting: a privacy loss distribution on its default grid of 1e-4."""

from __future__ import annotations

from collections.abc import Callable

from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution


def distribution(
    noise: str, noise_multiplier: float, sample_rate: float, steps: int
) -> privacy_loss_distribution.PrivacyLossDistribution:
    laws = {
        "gaussian": privacy_loss_distribution.from_gaussian_mechanism,
        "laplace": privacy_loss_distribution.from_laplace_mechanism,
    }
    return laws[noise](noise_multiplier, sampling_prob=sample_rate).self_compose(steps)


def build(
    noise: str, noise_multiplier: float, sample_rate: float, steps: int, neighboring_relation: str = "add_or_remove_one"
) -> dict[str, Callable[[float], float]]:
    if neighboring_relation == "replace_one":
        step = privacy_loss_distribution.from_gaussian_mechanism(
            noise_multiplier, sampling_prob=sample_rate, neighboring_relation=NeighboringRelation.REPLACE_ONE
        )
        composed = step.self_compose(steps)
    else:
        composed = distribution(noise, noise_multiplier, sample_rate, steps)
    return {"eps": composed.get_epsilon_for_delta, "delta": composed.get_delta_for_epsilon}
