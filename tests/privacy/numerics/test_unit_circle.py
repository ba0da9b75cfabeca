"""Points of the unit circle minus their first terms, and Fourier sums, against mpmath and their definitions."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.unit_circle import FourierSums, multiples

SEED = 20312


@pytest.mark.parametrize("phase", [1e-12, 1e-5, 0.3, 0.79, 0.81, -2.0, 3.1])
def test_multiples_are_accurate_for_tiny_phases(phase: float) -> None:
    count = 9
    full, rest = multiples(np.array([[phase]]), count)
    with mpmath.workdps(50):
        for k in range(1, count):
            x = k * mpmath.mpf(phase)
            whole = mpmath.expm1(mpmath.mpc(0, x))
            left = whole - mpmath.mpc(0, x)
            lost = (8 * k + 16) * UNIT_ROUNDOFF
            assert abs(mpmath.mpc(full[k, 0]) - whole) <= lost * min(abs(x), 2 * k)
            # The power series omits 4e-13 of the imaginary part; the real part is exact up to rounding.
            assert abs(mpmath.mpc(rest[k, 0]) - left) <= (lost + 4e-13) * max(x**2, abs(left))


@pytest.mark.parametrize("points", [3, 40, 600])
@pytest.mark.parametrize("nodes", [1, 2, 50])
def test_fourier_sums_are_within_rounding_bound(points: int, nodes: int) -> None:
    random = np.random.default_rng([SEED, points, nodes])
    weights = random.normal(size=(2, 3, nodes)) + 1j * random.normal(size=(2, 3, nodes))
    step, x = random.uniform(0.01, 0.2, 3), random.uniform(-3.0, 3.0, (points, 3))
    sums = FourierSums(weights, step)
    phases = x[:, :, None] * step[:, None] * np.arange(nodes)
    truth = np.einsum("sln,xln->sxl", weights, np.exp(-1j * phases)).real
    size = np.abs(weights).sum(axis=-1)[:, None, :]
    # Both sides round their phases h k x, and the direct sum has errors of its own.
    allowed = (sums.rounding(points) + nodes + 16) * UNIT_ROUNDOFF + 8 * UNIT_ROUNDOFF * np.abs(phases).max()
    assert (np.abs(sums.real(x) - truth) <= allowed * size).all()
