"""Releases that reveal nearly nothing: no power is above that of a guess, in all digits and at all rates."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.neighbours import ONE_REPLACED, Neighbours
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled

RELATIONS: Final = (Neighbours(), ONE_REPLACED, Neighbours(records=3))
NEARLY: Final = Fraction(1, 10**40)
"""Relative distance from a guess that the releases do not reach at the rates of these tests."""


def rates_of(random: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.concatenate([10.0 ** random.uniform(-100, 0, 40), 1 - 10.0 ** random.uniform(-15, 0, 10)])


def check(curve: AbstractTradeOff, rates: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    errors, powers = curve.points(rates).type_two_error, curve.power(rates)
    for index, alpha in enumerate(map(Fraction, rates.tolist())):
        assert Fraction(float(powers.lower[index])) <= alpha * (1 + NEARLY) + NEARLY * NEARLY * NEARLY
        assert Fraction(float(errors.upper[index])) >= (1 - alpha) * (1 - NEARLY)


@pytest.mark.parametrize("direction", ["add", "remove", "both"])
@pytest.mark.parametrize("neighbours", RELATIONS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_rare_samples_have_bounds_of_guesses(seed: int, neighbours: Neighbours, direction: str) -> None:
    """Check runs whose advantage is at most the number of steps times the sampling rate, far below all rates."""
    random = np.random.default_rng([20261203, seed])
    rate, noise, steps = (
        10.0 ** random.uniform(-250, -160),
        10.0 ** random.uniform(-0.5, 3),
        int(random.integers(1, 99)),
    )
    spec = dpsgd(noise, rate, steps) if seed % 2 else sampled(rate, gaussian(noise))
    check(getattr(choose.pair(built(spec), "contour", neighbours), direction), rates_of(random))


@pytest.mark.parametrize("seed", range(4))
def test_rare_samples_of_laplace_noise_have_bounds_of_guesses(seed: int) -> None:
    random = np.random.default_rng([20261204, seed])
    rate, noise, steps = (
        10.0 ** random.uniform(-250, -160),
        10.0 ** random.uniform(-0.5, 3),
        int(random.integers(1, 99)),
    )
    spec = {"type": "repeated", "steps": steps, "mechanism": sampled(rate, laplace(noise))}
    check(choose.pair(built(spec)).both, rates_of(random))


@pytest.mark.parametrize("seed", range(4))
def test_classes_without_work_have_bounds_of_guesses(seed: int) -> None:
    """Check the curves of rho-zCDP that are not computed: the advantage is at most the square root of rho."""
    random = np.random.default_rng([20261205, seed])
    rho = 10.0 ** random.uniform(-305, -295)
    with at_most(1e-3):
        check(choose.pair(built({"type": "zcdp", "rho": rho})).add, rates_of(random))
