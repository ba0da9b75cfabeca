"""Sampling rates that are not doubles: one evaluation at the rounded rate bounds the error of the rounding.

Its enclosures cover those at the exact rate, so that no second evaluation at another double is needed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import numpy as np
import pytest

from service.privacy.composition.inversion.deformed.run import deformed_run
from service.privacy.composition.inversion.engine import ContourTradeOff, contour_pair
from service.privacy.composition.planning import choose
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.dpsgd import DpSgd
from tests.slow_marker import sample_of

COARSE: Final = 1e-9
"""Relative remainder of a rate, far above every rounding error."""
ALPHA: Final = 1e-3


def _numbers(curve: ContourTradeOff) -> Iterator[Enclosure]:
    yield curve.epsilon(1e-5)
    yield curve.profile_at(0.3)
    yield curve.power_at(ALPHA)
    yield curve.points(np.array([ALPHA])).type_two_error.at(0, curve.evidence)


def _curves(sigma: float, rate: float, count: int, kinds: int, rest: float) -> tuple[ContourTradeOff, ContourTradeOff]:
    steps = [SampledGaussianSteps(sigma * (1 + 0.01 * kind), rate, count, rest) for kind in range(kinds)]
    return contour_pair(0.0, steps)


@sample_of(2)
@pytest.mark.parametrize("kinds", [1, 5])
@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_enclosure_covers_rate_with_remainder(seed: int, remove: bool, kinds: int) -> None:
    """The enclosure for a rate and a remainder of either sign meets that for their sum, and is hardly wider."""
    draw = random.Random(seed)
    sigma, rate = draw.uniform(0.8, 2.5), draw.choice([0.002, 0.05, 0.6])
    count = round(draw.uniform(0.5, 4) * 1e3)
    for rest in (-COARSE * rate, COARSE * rate):
        split = _numbers(_curves(sigma, rate, count, kinds, rest)[remove])
        summed = _numbers(_curves(sigma, rate + rest, count, kinds, 0.0)[remove])
        for number, other in zip(split, summed, strict=True):
            assert max(number.lower, other.lower) <= min(number.upper, other.upper)
            assert number.relative_width() <= max(1e4 * COARSE, other.relative_width())


@pytest.mark.parametrize("reflected", [False, True])
@pytest.mark.parametrize("sigma", [0.5, 1.1])
def test_deformed_contours_use_remainder_of_rate(sigma: float, reflected: bool) -> None:
    """The contour for a rounded rate with its remainder agrees with the contour for the sum of both."""
    rate, count, delta, rest = 2.0**-10, 12, 1e-4, 2.0**-40
    found: list[tuple[float, float]] = []
    for step in (SampledStep(sigma, rate, count, rest), SampledStep(sigma, rate + rest, count)):
        run = deformed_run((step,), 0.0, reflected=reflected)
        assert run is not None
        ends = run.epsilon(delta, 0.0, 60.0)
        assert ends is not None
        found.append(ends)
    assert max(low for low, _ in found) <= min(high for _, high in found)


@sample_of(6)
@pytest.mark.parametrize("direction", ["add", "remove", "both"])
@pytest.mark.parametrize("seed", range(6))
def test_fixed_batches_are_as_narrow_as_poisson_batches(seed: int, direction: str) -> None:
    """Batches of b of n records have the curve of Poisson batches at the rate b/n with half the noise, as narrowly.

    The batches are drawn without replacement. b/n is enclosed by the doubles around it.
    """
    draw = random.Random(seed)
    size = draw.randint(50, 100_000)
    batch = draw.randint(1, size // draw.choice([2, 10, 40]))
    noise = draw.choice([0.5806, 1.3, 2.2, 6.0])
    steps = round(2 ** draw.uniform(1.6, 11))
    fixed = DpSgd(
        noise_multiplier=noise,
        sample_rate=batch / size,
        steps=steps,
        sampling="fixed_without_replacement",
        batch_size=batch,
        dataset_size=size,
    )
    poisson = DpSgd(noise_multiplier=noise / 2, sample_rate=batch / size, steps=steps)
    ours, theirs = (getattr(choose.pair(run), direction) for run in (fixed, poisson))
    for number, other in zip(_numbers(ours), _numbers(theirs), strict=True):
        assert number.upper - number.lower <= 2 * (other.upper - other.lower) + 1e-12 * other.upper
        assert max(number.lower, other.lower) * (1 - 1e-12) <= min(number.upper, other.upper)
