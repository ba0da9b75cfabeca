"""Scalar evaluation of the Gaussian profile: bit-for-bit equal to the array evaluation."""

from __future__ import annotations

import math

import numpy as np

from service.privacy.enclosure import single
from service.privacy.trade_off.shifted import gaussian

READINGS = 4_000


def test_scalar_evaluation_equals_array_evaluation() -> None:
    random = np.random.default_rng(20261123)
    mus = 10 ** random.uniform(math.log10(gaussian.SMALL_SHIFT), 4, READINGS)
    # a = eps / mu - mu / 2 over the whole range without special cases, and a little beyond it.
    thresholds = np.concatenate((random.uniform(-6, 45, READINGS // 2), 10 ** random.uniform(-8, 4.1, READINGS // 2)))
    epsilons = np.maximum(mus * (thresholds + 0.5 * mus), 0.0)
    read = 0
    with np.errstate(all="ignore"):
        for epsilon, mu in zip(epsilons.tolist(), mus.tolist(), strict=True):
            plain = gaussian._plain_log_profile(epsilon, mu)
            if plain is None:
                continue
            read += 1
            value, error = gaussian._log_profile(single(epsilon), single(mu), gaussian._difference)
            assert plain == (float(value), float(error))
    assert read > READINGS / 2
