"""Compositions whose steps reveal everything with some probability: delta and power at extreme epsilons and rates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, gaussian, laplace, sampled
from tests.slow_marker import sample_of

FAR = np.array([3.0, 6.0, 20.0])
"""Above every finite loss in these tests, where delta is the singular mass."""
RATES = np.array([1e-6, 1e-3, 0.5, 1 - 1e-6])


def discretised(*parts: dict[str, Any]) -> TradeOffPair:
    options = EngineOptions(relative_tolerance=1e-3)
    return pair(built({"type": "composed", "mechanisms": list(parts)}), "discretised", options=options)


def approximate_dp(epsilon: float, delta: float, steps: int = 1) -> dict[str, Any]:
    step = {"type": "approximate_dp", "epsilon": epsilon, "delta": delta}
    return {"type": "repeated", "mechanism": step, "steps": steps}


RUNS = {
    "nothing beside it": (approximate_dp(0.0, 1e-3, 3), -math.expm1(3 * math.log1p(-1e-3))),
    "two atoms beside it": (approximate_dp(1.1, 0.01, 2), -math.expm1(2 * math.log1p(-0.01))),
}


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("run", "mass"), RUNS.values(), ids=RUNS)
def test_delta_beyond_finite_losses_is_singular_mass(run: dict[str, Any], mass: float, direction: str) -> None:
    found = getattr(discretised(run, laplace(2.0)), direction).profile(FAR)
    assert (found.lower <= mass * (1 + 1e-14)).all()
    assert (found.upper >= mass * (1 - 1e-14)).all()
    np.testing.assert_allclose(found.lower, mass, rtol=1e-12)
    np.testing.assert_allclose(found.upper, mass, rtol=1e-3)


@sample_of(2)
@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize(("run", "mass"), RUNS.values(), ids=RUNS)
def test_power_is_at_least_that_of_singular_mass_test(run: dict[str, Any], mass: float, direction: str) -> None:
    """The power at alpha is at least q + (1 - q) alpha, where q is the probability of outcomes that H0 excludes.

    A test that rejects these outcomes, and a share alpha of all others, has this power.
    """
    points = getattr(discretised(run), direction).points(RATES)
    assert (points.power.lower >= (mass + (1 - mass) * RATES) * (1 - 1e-12)).all()
    assert (points.type_two_error.upper <= (1 - mass) * (1 - RATES) * (1 + 1e-9)).all()


@pytest.mark.parametrize("direction", ["add", "remove"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 3.0])
def test_delta_far_out_is_singular_mass_without_overflow(epsilon: float, direction: str) -> None:
    """Delta at large epsilons is the singular mass 1e-3, because losses beyond epsilon have a negligible
    probability.
    """
    curves = discretised(sampled(0.06, gaussian(9.6)), approximate_dp(0.0, 1e-3))
    found = getattr(curves, direction).profile(np.array([epsilon]))
    assert found.lower[0] <= 1e-3 * (1 + 1e-12)
    assert found.upper[0] >= 1e-3 * (1 - 1e-12)
