"""Moments and curves of sampled Gaussian steps with so much noise that tilts are in the thousands."""

from __future__ import annotations

import math
import random
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps, TruncatedSampledGaussian

mp: Any = mpmath


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("seed", range(3))
def test_moments_at_large_tilts_match_quadrature(seed: int, sign: int) -> None:
    """Moments M(s) = E0 w^s at large tilts s match adaptive quadrature in 30 digits.

    w is the likelihood ratio, and p the sampling rate. There (1 - p)^s alone would be useless.
    """
    draw = random.Random(seed)
    sigma, rate, count = 10 ** draw.uniform(2, 6), draw.uniform(0.1, 0.9), 1000
    tilt = sign * draw.uniform(0.05, 0.5) * sigma / rate
    law = TruncatedSampledGaussian((SampledGaussianSteps(sigma, rate, count),), rate / sigma * math.sqrt(count), 40.0)
    value, error = law.value(law.moments(tilt))
    with mp.workdps(30):
        s, p, noise = mp.mpf(tilt), mp.mpf(rate), mp.mpf(sigma)

        def integrand(y: Any) -> Any:
            return mp.npdf(y) * mp.exp(s * mp.log1p(p * mp.expm1(y / noise - 1 / (2 * noise**2))))

        truth = count * mp.log(mp.quad(integrand, [-14, -4, 0, 4, 14]))
        assert abs(truth - mp.mpf(float(value))) <= mp.mpf(float(error))
    assert float(error) < 1e-9 * max(abs(float(value)), 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_remove_direction_is_as_narrow_for_small_losses(seed: int) -> None:
    """Both directions are equally narrow and nearly equal for small losses, whose law is nearly Gaussian."""
    draw = random.Random(seed)
    sigma, rate, count = 10 ** draw.uniform(3, 6), draw.uniform(0.2, 0.8), round(10 ** draw.uniform(3, 5))
    deviation = math.sqrt(count) * rate / sigma
    epsilon = np.array([score * deviation for score in (4.0, 7.0, 11.0)])
    add, remove = (curve.profile(epsilon) for curve in contour_pair(0.0, [SampledGaussianSteps(sigma, rate, count)]))
    for profile in (add, remove):
        assert (profile.upper - profile.lower <= 1e-8 * profile.upper).all()
    assert np.allclose(add.upper, remove.upper, rtol=0.2)
