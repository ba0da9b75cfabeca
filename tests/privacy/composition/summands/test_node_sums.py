"""Second-order summands against their definitions in many digits, close to the tilts where they vanish."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.summands.node_sums import excess, mean_excess
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from tests.slow_marker import sample_of


def _tilts(random: np.random.Generator) -> list[float]:
    """Draw tilts left and right of the poles 0 and 1, near and far, as contours of strong and weak runs have."""
    away = 10.0 ** random.uniform(-15, 1.5, 12)
    return [float(pole + side * distance) for pole in (0, 1) for side in (-1, 1) for distance in away]


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_summands_keep_digits_near_poles(seed: int) -> None:
    random = np.random.default_rng(seed)
    for tilt in _tilts(random):
        most = 0.39 / max(1.0, abs(tilt))
        loss = random.choice([-1.0, 1.0], 40) * most * 10.0 ** random.uniform(-8, 0, 40)
        weight = random.uniform(0.5, 1.5, 40)
        grown, weights = weight * np.expm1(loss), weight * np.exp(tilt * loss)
        found, size = excess(loss, weight, grown, tilt, weights)
        with mpmath.workdps(60):
            for x, w, summand, large in zip(loss, weight, found, size, strict=True):
                truth = mpf(w) * (mpmath.expm1(mpf(tilt) * mpf(x)) - mpf(tilt) * mpmath.expm1(mpf(x)))
                assert abs(mpf(summand) - truth) <= 16 * UNIT_ROUNDOFF * large


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_summands_of_means_keep_digits_near_poles(seed: int) -> None:
    random = np.random.default_rng(seed)
    for tilt in _tilts(random):
        most = 0.49 / (1 + abs(tilt))
        loss = random.choice([-1.0, 1.0], (1, 40)) * most * 10.0 ** random.uniform(-8, 0, (1, 40))
        weights = random.uniform(0.5, 1.5, (1, 40))
        grown = weights * np.exp(-tilt * loss) * np.expm1(loss)
        found, size = mean_excess(loss, grown, weights, tilt, np.ones(1))
        with mpmath.workdps(60):
            for x, w, summand, large in zip(loss[0], weights[0], found[0], size[0], strict=True):
                truth = mpf(w) * (mpf(x) - mpmath.exp(-mpf(tilt) * mpf(x)) * mpmath.expm1(mpf(x)))
                # Near 1/2 the second order vanishes, and only the third remains.
                scale = large + w * (x * (1 + abs(tilt))) ** 2 * (abs(tilt - 0.5) < 0.1)
                assert abs(mpf(summand) - truth) <= 16 * UNIT_ROUNDOFF * scale
