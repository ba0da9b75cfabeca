"""Runs of (epsilon, delta)-DP steps of large epsilons beside noise: delta is the probability that all is revealed."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built, gaussian
from tests.slow_marker import sample_of


def gaussian_delta(mu: Any, threshold: Any) -> Any:
    """Return the profile of N(0, 1) against N(mu, 1) at a threshold (nats), by erfc."""

    def tail(x: Any) -> Any:
        return mp.erfc(x / mp.sqrt(2)) / 2

    return tail(threshold / mu - mu / 2) - mp.exp(threshold) * tail(threshold / mu + mu / 2)


@sample_of(5)
@pytest.mark.parametrize("seed", range(30))
def test_delta_counts_beside_large_losses(seed: int) -> None:
    """Check delta, epsilon and a point of a run against the mixture of shifted Gaussian profiles."""
    random = np.random.default_rng([20261205, seed])
    large, noise = float(10 ** random.uniform(1.5, 4.5)), float(10 ** random.uniform(-0.5, 2))
    revealed, count = float(10 ** random.uniform(-12, -0.1)), int(random.integers(1, 3))
    stated = {"type": "approximate_dp", "epsilon": large, "delta": revealed}
    run = built({"type": "composed", "mechanisms": [*count * [stated], gaussian(noise)]})
    curves = WorstCase("add_or_remove_one", None).curves(run)
    for curve in (curves.add, curves.remove, curves.both):
        assert curve.epsilon(revealed / 2).lower == np.inf
        assert curve.power_at(0.0).lower >= revealed * (1 - 1e-9)
    with mp.workdps(60):
        kept, rare = (1 - mp.mpf(revealed)) ** count, 1 / (1 + mp.exp(mp.mpf(large)))
        for share in (0.0, 0.5, 1.0, 3.0):
            threshold = share * large
            truth = 1 - kept
            for k in range(count + 1):
                weight = mp.binomial(count, k) * rare**k * (1 - rare) ** (count - k)
                shift = (count - 2 * k) * mp.mpf(large)
                # The losses +-epsilon have these weights under H1: a shift of the loss moves the threshold.
                truth += kept * weight * gaussian_delta(1 / mp.mpf(noise), threshold - shift)
            found = curves.add.profile_at(threshold)
            assert (
                mp.mpf(found.lower) * (1 - mp.mpf(10) ** -25) <= truth <= mp.mpf(found.upper) * (1 + mp.mpf(10) ** -25)
            )
