"""Deformed contours of few and of different steps, for every quantity, against independent nested integrals."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import math
import random
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.inversion.deformed.run import deformed_run
from service.privacy.composition.inversion.engine import ContourTradeOff, contour_pair
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps
from service.privacy.composition.summands.sampled_step import SampledStep
from tests.slow_marker import sample_of, thorough

Step = tuple[float, float]

_SPACING = mpf("0.03125")
"""Spacing of the outer sum; the inner step is in closed form.

The error falls like e^{-2 pi a/h}, with a up to pi sigma.
"""


def _tails(step: Step, threshold: mpf) -> tuple[mpf, mpf]:
    """Return P0(L > t) and P1(L > t) of the loss L of one sampled step at the threshold t."""
    sigma, rate = mpf(step[0]), mpf(step[1])
    ratio = (mpmath.exp(threshold) - 1 + rate) / rate
    if ratio <= 0:
        return mpf(1), mpf(1)
    y = sigma * mpmath.log(ratio) + 1 / (2 * sigma)
    tail, moved = mpmath.ncdf(-y), mpmath.ncdf(1 / sigma - y)
    return tail, (1 - rate) * tail + rate * moved


def _gaussian_tails(mu: mpf, threshold: mpf) -> tuple[mpf, mpf]:
    y = threshold / mu + mu / 2
    return mpmath.ncdf(-y), mpmath.ncdf(mu - y)


def _sum_tails(first: Step, tails: Callable[[mpf], tuple[mpf, mpf]], threshold: float) -> tuple[mpf, mpf]:
    """Return P0(S > c) and P1(S > c) of the loss S of two steps at the threshold c, as a sum over outcomes of the
    first.

    The first step is sampled, and the second has the given tails.
    """
    sigma, rate = mpf(first[0]), mpf(first[1])
    null = alternative = mpf(0)
    for k in range(-450, 450 + int(32 / first[0])):
        y = k * _SPACING
        ratio = 1 - rate + rate * mpmath.exp(y / sigma - 1 / (2 * sigma**2))
        weight = _SPACING * mpmath.npdf(y)
        low, high = tails(mpf(threshold) - mpmath.log(ratio))
        null, alternative = null + weight * low, alternative + weight * ratio * high
    return null, alternative


def _check(curve: ContourTradeOff, null: mpf, alternative: mpf, slope: float, *, narrow: bool) -> None:
    """Check power, slope and delta of a curve at the test S > c, with c = `slope`.

    `null` is P0(S > c), `alternative` is P1(S > c), and delta(c) = P1(S > c) - e^c P0(S > c). With `narrow` the power
    must be enclosed to a relative width of 2e-6.
    """
    power = curve.points(np.array([float(null)])).power
    slack = 1e-11 * (1 + math.exp(slope) * float(null / alternative))  # Rounding of the rate.
    assert power.lower[0] <= float(alternative) * (1 + slack)
    assert float(alternative) <= power.upper[0] * (1 + slack)
    if narrow:
        assert power.upper[0] - power.lower[0] <= 2e-6 * power.upper[0]
    delta = float(alternative - mpmath.exp(slope) * null)
    if delta > 1e-9:
        profile = curve.profile(np.array([slope]))
        assert profile.lower[0] <= delta * (1 + 1e-10)
        assert delta <= profile.upper[0] * (1 + 1e-10)
        if slope > 0:
            epsilon = curve.epsilon(delta)
            assert epsilon.lower <= slope * (1 + 1e-9)
            assert slope * (1 - 1e-9) <= epsilon.upper
            assert not narrow or epsilon.upper - epsilon.lower <= 2e-6 * epsilon.upper


@pytest.mark.parametrize("seed", [0, thorough(1)])
def test_two_different_steps_match_nested_integral(seed: int) -> None:
    """Powers, slopes and deltas of two different sampled steps match nested integrals, in both directions.

    The noise is small, rates are from 1e-4 to 0.3, and thresholds are on either side of the usual losses.
    """
    generator = random.Random(seed)
    steps = [(generator.uniform(0.3, 1.5), 10 ** generator.uniform(-4, -0.5)) for _ in range(2)]
    steps.sort(key=lambda step: step[1])  # The sum is smoother with the rarer step outside.
    least = sum(math.log1p(-rate) for _, rate in steps)
    threshold = least + 10 ** generator.uniform(-1.5, 0.5) * -least
    with mpmath.workdps(25):
        null, alternative = _sum_tails(steps[0], lambda t: _tails(steps[1], t), threshold)
        curves = contour_pair(0.0, [SampledGaussianSteps(*step, 1) for step in steps])
        _check(curves[0], null, alternative, threshold, narrow=True)
        _check(curves[1], 1 - alternative, 1 - null, -threshold, narrow=False)


@pytest.mark.parametrize(("mu", "step", "threshold"), [(0.02, (0.5, 1e-3), 0.3), (0.3, (0.8, 1e-5), 0.9)])
def test_rare_step_with_gaussian_step_matches_nested_integral(mu: float, step: Step, threshold: float) -> None:
    """A rarely sampled step beside a Gaussian step matches a nested integral.

    The test calls the deformed contour itself, because straight contours may serve these runs too.
    """
    with mpmath.workdps(25):
        null, alternative = _sum_tails(step, lambda t: _gaussian_tails(mpf(mu), t), threshold)
        run = deformed_run((SampledStep(*step, 1),), mu**2, reflected=False)
        assert run is not None
        found = run.points(float(null), math.log(float(alternative)))
        truth = float(mpmath.log(alternative))
        assert found.lower[0, 0] <= truth + 1e-10
        assert truth - 1e-10 <= found.upper[0, 0] < found.lower[0, 0] + 1e-5
        _check(contour_pair(mu**2, (SampledGaussianSteps(*step, 1),))[0], null, alternative, threshold, narrow=True)


def test_two_nearly_equal_kinds_match_one_kind() -> None:
    """The deformed contour of two nearly equal kinds agrees with that of one kind."""
    for reflected in (False, True):
        split = deformed_run(
            (SampledStep(0.5, 1e-3, 3), SampledStep(0.5, 1e-3 * (1 + 1e-15), 5)),
            0.0,
            reflected=reflected,
        )
        whole = deformed_run((SampledStep(0.5, 1e-3, 8),), 0.0, reflected=reflected)
        assert split is not None
        assert whole is not None
        one, other = (run.points(1e-4, math.log(3e-4)) for run in (split, whole))
        assert (one.lower[:2] <= other.upper[:2] + 1e-12).all()
        assert (other.lower[:2] <= one.upper[:2] + 1e-12).all()
        assert float(one.width()[0]) < 1e-6


@sample_of(2)
@pytest.mark.parametrize(
    "steps",
    [
        thorough(((0.2, 1e-300, 2), (0.5, 0.5, 1))),
        ((0.2, 1 - 2.0**-52, 2),),
        ((1e15, 0.3, 2), (0.3, 0.01, 2)),
        ((0.002, 0.3, 2),),
        thorough(((0.3, 0.01, 2), (15.0, 1e-12, 10**9))),
    ],
)
def test_range_limits_are_answered(steps: tuple[tuple[float, float, int], ...]) -> None:
    pair = contour_pair(0.0, [SampledGaussianSteps(*step) for step in steps])
    for curve in pair:
        points = curve.points(np.array([1e-12]))
        for bounds in (points.power, points.type_two_error, curve.profile(np.array([0.1]))):
            assert (bounds.lower <= bounds.upper).all()
    epsilon = pair[sum(count for *_, count in steps) % 2].epsilon(
        1e-6
    )  # In one direction only, because the search is expensive.
    assert 0 <= epsilon.lower <= epsilon.upper


def test_power_at_small_rates_approaches_largest_likelihood_ratio() -> None:
    """In the remove direction power/alpha approaches prod (1 - p)^-N at small rates alpha.

    The product is over the kinds of steps, each with N steps and the sampling rate p. It is the largest likelihood
    ratio.
    """
    remove = contour_pair(0.0, (SampledGaussianSteps(0.3, 0.01, 2), SampledGaussianSteps(0.35, 0.02, 1)))[1]
    power = remove.points(np.array([1e-9])).power
    largest = 1e-9 / (0.99**2 * 0.98)
    assert power.upper[0] <= largest * (1 + 1e-9)
    assert power.upper[0] - power.lower[0] <= 1e-6 * largest
