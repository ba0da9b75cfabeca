"""Two-point steps with one Laplace step: power and type II error by the law of the loss, in many digits."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.planning.choose import pair
from service.privacy.trade_off.mixture.shifted_mixture import ShiftedMixture
from tests.privacy.cases import built, laplace
from tests.privacy.composition.inversion.test_mixed_runs import atoms, pure, repeated
from tests.slow_marker import sample_of

RATES = [1e-30, 1e-12, 1e-3, 0.3, 0.5, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12]


def missed(mu: Any, loss: Any) -> Any:
    """Return P1(L <= loss) of a Laplace step of shift mu. P0(L > loss) is P1(L < -loss)."""
    return mpf(1) if loss >= mu else mpf(0) if loss < -mu else mpmath.exp((loss - mu) / 2) / 2


def truth(mu: Any, steps: list[tuple[float, int]], rate: float) -> Any:
    """Return the type II error: at the threshold c with P0(L > c) <= rate <= P0(L >= c), and from there with slope
    -e^c.
    """
    shifts = atoms(steps)

    def false_positives(c: Any) -> Any:
        # P1(L < -c) without its jump at mu.
        return mpmath.fsum(q * mpmath.exp(-a) * (missed(mu, a - c) if a - c != mu else mpf(1) / 2) for a, q in shifts)

    high = mu + max(a for a, _ in shifts) + 1
    low = -high
    for _ in range(250):
        middle = (low + high) / 2
        low, high = (middle, high) if false_positives(middle) > rate else (low, middle)
    errors = mpmath.fsum(q * missed(mu, high - a) for a, q in shifts)
    return errors - mpmath.exp(high) * (mpf(rate) - false_positives(high))


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_power_and_type_two_error_keep_their_digits(seed: int) -> None:
    """The type II error is not computed as 1 minus the power, nor the power as 1 minus the error, whatever their
    size.
    """
    random = np.random.default_rng(seed)
    noise = float(10 ** random.uniform(-1.4, 0.7))
    steps = [(float(10 ** random.uniform(-1, 1)), int(random.integers(1, 4))) for _ in range(random.integers(1, 3))]
    parts = [repeated(pure(epsilon), count) for epsilon, count in steps]
    curve = pair(built({"type": "composed", "mechanisms": [laplace(noise), *parts]})).add
    assert isinstance(curve, ShiftedMixture)
    points = curve.points(np.array(RATES))
    with mpmath.workdps(60):
        for i, rate in enumerate(RATES):
            error = truth(1 / mpf(noise), steps, rate)
            for read, known in ((points.type_two_error, error), (points.power, 1 - error)):
                low, high = float(read.lower[i]), float(read.upper[i])
                assert low <= known <= high, (noise, steps, rate)
                assert high - low <= 1e-7 * high + 1e-300, (noise, steps, rate)


def test_type_two_error_near_rate_one_is_tiny() -> None:
    curve = pair(built({"type": "composed", "mechanisms": [laplace(0.2), pure(3.0)]})).add
    error = curve.points(np.array([math.nextafter(1.0, 0.0)])).type_two_error
    assert 0 < error.lower[0] <= error.upper[0] <= 2.0**-53
