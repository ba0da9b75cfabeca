"""Epsilon of weighted sums of profiles from expensive engines, against the sums of Gaussian profiles in many digits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.random import Generator
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.mixture.curve import MixtureTradeOff
from service.privacy.trade_off.mixture.shifted_mixture import ShiftedMixture, Shifts
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

WIDEST = 0.01


class Expensive(DelegatingCurve):
    """Gaussian curve whose enclosures are wide, as those of an engine that is not a closed form."""

    def __init__(self, mu: float, width: float) -> None:
        super().__init__(gaussian_curve(Enclosure.point(mu)))
        self.method, self.evidence, self._width, self._mu = "discretised", Evidence.CERTIFIED, width, mu

    @override
    def reversed(self) -> AbstractTradeOff:
        return Expensive(self._mu, self._width)

    @override
    def _number(self, number: Enclosure) -> Enclosure:
        if not 0 < number.upper < math.inf:
            return number
        return Enclosure(number.lower * (1 - self._width), number.upper * (1 + self._width), Evidence.CERTIFIED)

    @override
    def _array(self, bounds: EnclosureArray) -> EnclosureArray:
        return EnclosureArray(bounds.lower * (1 - self._width), np.minimum(bounds.upper * (1 + self._width), 1.0))


def gaussian_profile(mu: float, epsilon: Any) -> Any:
    """Return delta(epsilon) of mu-GDP in the digits of mpmath."""
    left, right = mpmath.ncdf(mpf(mu) / 2 - epsilon / mu), mpmath.ncdf(-mpf(mu) / 2 - epsilon / mu)
    return left - mpmath.exp(epsilon) * right


def drawn(random: Generator) -> tuple[float, float, float]:
    """Draw mu, a relative width of enclosures, and delta."""
    width = WIDEST * random.uniform() if random.uniform() < 0.5 else 1e-8
    return 10 ** random.uniform(-1.5, 0.7), width, 10 ** -random.uniform(0.1, 12)


@pytest.mark.parametrize("seed", range(40))
def test_epsilon_beside_large_losses_holds(seed: int) -> None:
    random = np.random.default_rng([31, seed])
    mu, width, delta = drawn(random)
    count = int(random.integers(1, 5))
    losses = np.sort(10 ** random.uniform(0, 3.5, count)) * random.choice([1, -1], count, p=[0.8, 0.2])
    masses = random.dirichlet(np.full(count, 0.3)).clip(1e-12)
    curve = ShiftedMixture(Expensive(mu, width), Shifts(losses, np.log(masses), 0.0, 1e-15))
    with at_most(math.inf if random.uniform() < 0.5 else 0.0):
        found = curve.epsilon(delta)
    with mpmath.workdps(40):
        low, high = (
            mpmath.fsum(
                mass * gaussian_profile(mu, mpf(end) - loss)
                for mass, loss in zip(masses.tolist(), losses.tolist(), strict=True)
            )
            for end in (found.lower, found.upper)
        )
    assert found.lower == 0 or low >= delta * (1 - 1e-12)
    assert high <= delta * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_epsilon_of_mixture_of_expensive_parts_holds(seed: int) -> None:
    random = np.random.default_rng([32, seed])
    _, width, delta = drawn(random)
    weights = [Fraction(int(each), 10**6) for each in random.multinomial(10**6 - 3, [0.98, 0.015, 0.005]) + 1]
    means = [10 ** random.uniform(-1.5, 1.2) for _ in weights]
    curve = MixtureTradeOff([(weight, Expensive(mu, width)) for weight, mu in zip(weights, means, strict=True)])
    with at_most(math.inf if random.uniform() < 0.5 else 0.0):
        found = curve.epsilon(delta)
    with mpmath.workdps(40):
        low, high = (
            mpmath.fsum(
                float(weight) * gaussian_profile(mu, mpf(end)) for weight, mu in zip(weights, means, strict=True)
            )
            for end in (found.lower, found.upper)
        )
    assert found.lower == 0 or low >= delta * (1 - 1e-12)
    assert high <= delta * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_epsilon_beside_losses_far_apart_needs_no_search(seed: int) -> None:
    """Without work, the enclosure is as narrow as the epsilons of the other steps.

    No profile is evaluated.
    """
    random = np.random.default_rng([33, seed])
    mu, delta = 10 ** random.uniform(-1, 0.5), 10 ** -random.uniform(2, 8)
    curve = ShiftedMixture(Expensive(mu, 1e-9), Shifts(np.array([5000.0, -5000.0]), np.array([0.0, -5000.0]), 0, 1e-15))
    with at_most(0.0):
        found = curve.epsilon(delta)
    assert found.relative_width() < 1e-9
