"""Best of several runs that reveal so much that rates of attacks are below the smallest double."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.composition.planning.choose import pair
from tests.privacy.cases import built, gaussian, selected
from tests.slow_marker import sample_of

LAWS: list[tuple[str, dict[str, Any], Callable[[Any], Any]]] = [
    ("fixed", {"count": 5}, lambda z: z**5),
    ("fixed", {"count": 400}, lambda z: z**400),
    ("geometric", {"mean": 8.0}, lambda z: z / 8 / (1 - 7 * z / 8)),
    ("poisson", {"mean": 12.0}, lambda z: mpmath.exp(12 * (z - 1))),
    ("binomial", {"count": 6, "probability": 0.25}, lambda z: (1 - (1 - z) / 4) ** 6),
]


def strongest(phi: Callable[[Any], Any], mu: Any, epsilon: float) -> Any:
    """Return the largest delta of two kinds of scores of a Gaussian run: all runs in one set, or no information."""
    level, none = mpmath.exp(epsilon), phi(mpmath.mpf(0))

    def all_in(place: Any) -> Any:
        return phi(mpmath.ncdf(place)) - none - level * (phi(mpmath.ncdf(place - mu)) - none)

    low, high = mpmath.mpf(-30), mpmath.mpf(30)
    for _ in range(11):
        places = [low + (high - low) * k / 24 for k in range(25)]
        best = max(range(25), key=lambda k: all_in(places[k]))
        low, high = places[max(best - 1, 0)], places[min(best + 1, 24)]
    alone = mpmath.ncdf(mu / 2 - epsilon / mu) - level * mpmath.ncdf(-mu / 2 - epsilon / mu)
    return max(all_in((low + high) / 2), (1 - none) * alone)


@sample_of(3)
@pytest.mark.parametrize(
    ("law", "numbers", "phi"), LAWS, ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_attacks_at_unrepresentable_rates_are_attained_and_strong(
    law: str, numbers: dict[str, Any], phi: Callable[[Any], Any]
) -> None:
    """Compare lower bounds of epsilon and delta with the attacks themselves, and with the upper bounds."""
    chance = random.Random(f"{law} {numbers}")
    noise = math.exp(chance.uniform(-5, -3.5))
    curve = pair(built(selected(gaussian(noise), law, **numbers))).add
    with mpmath.workdps(40):
        mu = 1 / mpmath.mpf(noise)
        for delta in (0.1, 1e-10):
            found = curve.epsilon(delta)
            assert found.upper * 0.8 <= found.lower <= found.upper
            assert strongest(phi, mu, found.lower) >= delta * (1 - 1e-9)
            known = curve.profile_at(found.lower * 0.9)
            assert delta * 0.5 <= known.lower <= strongest(phi, mu, found.lower * 0.9) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("law", "numbers"), [("poisson", {"mean": 1e5}), ("binomial", {"count": 10**6, "probability": 0.5})]
)
def test_upper_bounds_are_finite_where_a_single_run_has_no_probability(law: str, numbers: dict[str, Any]) -> None:
    """Check that the probability of exactly one run counts also below the smallest double."""
    curve = pair(built(selected({"type": "pure_dp", "epsilon": 1000.0}, law, **numbers))).add
    assert 1000 <= curve.epsilon(1e-5).lower <= curve.epsilon(1e-5).upper <= 1e6
    points = curve.points(np.array([1e-300, 1e-5, 0.5]))
    assert not np.isnan(points.power.lower).any()
    assert (points.type_two_error.lower <= points.type_two_error.upper).all()


@pytest.mark.parametrize("epsilon", [3.0, 30.0, 3000.0])
def test_advantage_is_at_most_the_probability_of_any_run(epsilon: float) -> None:
    curve = pair(built(selected({"type": "pure_dp", "epsilon": epsilon}, "binomial", count=2, probability=0.25))).add
    advantage = curve.profile_at(0.0)
    assert advantage.lower <= advantage.upper <= (1 - 0.75**2) * (1 + 1e-9)
    assert epsilon < 30 or advantage.lower >= (1 - 0.75**2) * (1 - 1e-9)
