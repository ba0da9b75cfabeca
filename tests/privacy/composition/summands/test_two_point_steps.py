"""Two-point steps on a contour, compared with many-digit computations."""

from __future__ import annotations

import math
from dataclasses import astuple

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.summands.two_points import TwoPointOnContour, TwoPointParts, TwoPointSteps
from service.privacy.trade_off.enclosed.logs import log_ends

STEPS: tuple[tuple[TwoPointSteps, ...], ...] = (
    (TwoPointSteps(1.0, 1),),
    (TwoPointSteps(1e-7, 100_000),),
    (TwoPointSteps(0.01, 1000), TwoPointSteps(2.5, 7)),
    (TwoPointSteps(30.0, 3),),
    (TwoPointSteps(800.0, 2),),
)
TILTS = (-12.0, -0.7, 0.0, 0.25, 0.5, 1.0, 1 + 1e-9, 2.3, 15.0)


@pytest.mark.parametrize("steps", STEPS)
def test_cumulants_enclose_many_digits(steps: tuple[TwoPointSteps, ...]) -> None:
    found = TwoPointParts(steps).cumulants(np.array(TILTS))
    with mpmath.workdps(60):
        for i, tilt in enumerate(TILTS):
            u = mpf(tilt) - mpf("0.5")
            truth = mpmath.fsum(
                n * mpmath.log(mpmath.cosh(u * mpf(e)) / mpmath.cosh(mpf(e) / 2)) for e, n in map(astuple, steps)
            )
            first = mpmath.fsum(n * mpf(e) * mpmath.tanh(u * mpf(e)) for e, n in map(astuple, steps))
            second = mpmath.fsum(n * (mpf(e) / mpmath.cosh(u * mpf(e))) ** 2 for e, n in map(astuple, steps))
            assert abs(truth - mpf(found.value[i])) <= found.error[i]
            assert found.error[i] <= 1e-13 * (abs(truth) + min(sum(e * n for e, n in map(astuple, steps)), 1e3)) + 1e-15
            assert float(first) == pytest.approx(found.first[i], rel=1e-12, abs=1e-300)
            assert float(second) == pytest.approx(found.second[i], rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("theta", [-3.0, 0.5, 0.9, 4.0])
def test_contour_values_enclose_many_digits(steps: tuple[TwoPointSteps, ...], theta: float) -> None:
    largest = max(e for e, _ in map(astuple, steps))
    for step in (1e-3 / largest, math.pi / (2 * largest), 37.0 / largest):
        found = TwoPointOnContour(TwoPointParts(steps), theta).values(step, 4)
        assert np.isfinite(found.difference).all()
        with mpmath.workdps(60):
            for k in range(5):
                z = mpmath.mpc(theta, k * mpf(step)) - mpf("0.5")
                u = mpf(theta) - mpf("0.5")
                truth = mpmath.fprod(
                    (mpmath.cosh(z * mpf(e)) / mpmath.cosh(u * mpf(e))) ** n for e, n in map(astuple, steps)
                )
                computed = mpmath.exp(mpmath.mpc(complex(found.difference[k])))
                # Where the modulus is tiny, its error exceeds it.
                assert abs(truth - computed) <= abs(computed) * mpmath.expm1(mpf(found.error[k])) + mpf(10) ** -290
                assert (
                    abs(computed) * mpmath.expm1(mpf(found.error[k]))
                    < 1e-12 * max(n for _, n in map(astuple, steps)) + 1e-11
                )


@pytest.mark.parametrize("epsilon", [1e-320, 1e-200, 1e6, 1e15])
def test_extreme_losses_give_finite_bounds(epsilon: float) -> None:
    parts = TwoPointParts((TwoPointSteps(epsilon, 1), TwoPointSteps(epsilon, 10**9)))
    cumulants = parts.cumulants(np.array(TILTS))
    for values in (cumulants.value, cumulants.first, cumulants.second, cumulants.error):
        assert np.isfinite(values).all()
    on_contour = TwoPointOnContour(parts, 0.5).values(1.0, 3)
    assert np.isfinite(on_contour.difference).all()
    assert not np.isnan(on_contour.error).any()


@pytest.mark.parametrize("seed", [1, 2, 4, 5])
def test_steep_contours_respect_bound_of_the_step(seed: int) -> None:
    """A run with a Gaussian step of tiny mu is no harder to attack than its two-point step.

    Tilts theta reach 1/mu there, and products of theta and the threshold lose digits.
    """
    random = np.random.default_rng([71, seed])
    epsilon, mu = float(10 ** random.uniform(0.5, 3.2)), float(10 ** random.uniform(-9, -5))
    alpha = np.array([1e-9, 1e-3, 0.3, 0.9, 1 - 1e-9])
    points = contour_pair(mu**2, (TwoPointSteps(epsilon, 1),))[0].points(alpha)
    alone = np.log1p(-alpha) - epsilon
    steep = np.log(alpha) + epsilon < 0
    error, power = log_ends(points.type_two_error), log_ends(points.power)
    rounding = 1e-15 * (1 + epsilon)
    assert (error[0] <= np.where(steep, 0.0, alone) + rounding).all()
    assert (power[1] >= np.where(steep, np.log(alpha) + epsilon, np.log1p(-np.exp(alone))) - rounding).all()
