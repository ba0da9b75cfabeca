"""Engines at the limits of the parameter ranges: no overflow, no division by zero, no NaN, and ordered bounds.

Warnings are errors in these tests.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.errors import UnsupportedCombination
from service.privacy.numerics.exponentials import exp_held
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built
from tests.slow_marker import thorough

RATES = (1e-300, 1e-160, 1e-12, 0.5, 1 - 2.0**-52, 1 - 2.0**-53)
NOISES = (1e-4, 1e-3, 0.04, 1.0, 1e6, 1e15)
COUNTS = (1, 2, 1000, 10**9, 10**12)
PROBABILITIES = (1e-300, 1e-100, 1e-9, 0.5, 1 - 2.0**-53)
EPSILONS = (0.0, 1e-12, 1.0, 700.0, 1e6)
METHODS = ("auto", "contour", "discretised")
WORK = 4e5


def draw_one(random: Generator, values: tuple[Any, ...]) -> Any:
    return values[random.integers(len(values))]


def step(random: Generator) -> dict[str, Any]:
    """Draw a step of any kind with parameters at the limits of their ranges."""
    noise = {"type": draw_one(random, ("gaussian", "laplace")), "noise_multiplier": draw_one(random, NOISES)}
    kinds: tuple[dict[str, Any], ...] = (
        noise,
        {"type": "poisson_sampled", "sample_rate": draw_one(random, RATES), "mechanism": noise},
        {"type": "pure_dp", "epsilon": draw_one(random, EPSILONS)},
        {"type": "approximate_dp", "epsilon": draw_one(random, EPSILONS), "delta": draw_one(random, PROBABILITIES)},
    )
    return {"type": "repeated", "mechanism": draw_one(random, kinds), "steps": draw_one(random, COUNTS)}


def assert_in_order(curve: AbstractTradeOff, random: Generator) -> None:
    rates = np.array([draw_one(random, PROBABILITIES) for _ in range(2)])
    points = curve.points(rates)
    ends = [points.power, points.type_two_error, curve.profile(np.array([draw_one(random, EPSILONS)]))]
    for bounds in ends:
        assert ((bounds.lower >= 0) & (bounds.lower <= bounds.upper) & (bounds.upper <= 1)).all()
    found = curve.epsilon(draw_one(random, PROBABILITIES))
    assert 0 <= found.lower <= found.upper


@pytest.mark.parametrize("seed", [2, *map(thorough, (0, 1, *range(3, 12)))])
def test_extreme_runs_have_ordered_bounds(seed: int) -> None:
    random = np.random.default_rng([20261205, seed])
    for _ in range(6):
        parts = [step(random) for _ in range(random.integers(1, 4))]
        spec: dict[str, Any] = {"type": "composed", "mechanisms": parts}
        with at_most(WORK):
            try:
                found = pair(built(spec), draw_one(random, METHODS), options=EngineOptions(relative_tolerance=1e-3))
            except UnsupportedCombination:
                continue
            assert_in_order(draw_one(random, (found.add, found.remove)), random)


@pytest.mark.parametrize("exponent", [-math.inf, -1e308, -700.0, 0.0, 700.0, 1e308, math.inf])
def test_clipped_exponentials_are_finite(exponent: float) -> None:
    assert math.isfinite(exp_held(exponent))
    assert math.isnan(exp_held(math.nan))
