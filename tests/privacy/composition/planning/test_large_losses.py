"""Runs with a few steps that reveal nearly everything, beside other steps."""

from __future__ import annotations

import math
import random
from typing import Any

import mpmath
import pytest

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.neighbours import Neighbours
from tests.privacy.cases import built, gaussian


def sums(masses: dict[int, Any], count: int) -> dict[int, Any]:
    """Return the masses of a sum of `count` independent whole numbers with the masses `masses`."""
    found = {0: mpmath.mpf(1)}
    for _ in range(count):
        total: dict[int, Any] = {}
        for whole, mass in found.items():
            for place, other in masses.items():
                total[whole + place] = total.get(whole + place, mpmath.mpf(0)) + mass * other
        found = total
    return found


def gaussian_delta(mu: Any, epsilon: Any) -> Any:
    below = mpmath.ncdf(-mu / 2 - epsilon / mu)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - (mpmath.exp(epsilon) * below if below > 0 else 0)


@pytest.mark.parametrize("seed", range(4))
def test_large_losses_shift_the_curve_of_the_other_steps(seed: int) -> None:
    """Check epsilons and advantages of reports with losses above 300 nats beside Gaussian steps."""
    chance = random.Random(seed)
    loss, options, count = chance.choice([310.0, 700.0, 3000.0]), chance.choice([3, 10**6]), chance.choice([1, 4, 20])
    noise = math.exp(chance.uniform(-2, 2))
    reports: dict[str, Any] = {"type": "randomized_response", "epsilon": loss, "options": options}
    repeated = {"type": "repeated", "steps": count, "mechanism": reports}
    run = built({"type": "composed", "mechanisms": [repeated, gaussian(noise)]})
    curve = choose.plan(run, "auto", Neighbours("replace_one")).curves.add
    mu = 2 / mpmath.mpf(noise)
    with mpmath.workdps(60):
        most = mpmath.exp(mpmath.mpf(loss))
        total = most + options - 1
        masses = sums({1: most / total, 0: (options - 2) / total, -1: 1 / total}, count)

        def delta(epsilon: float) -> Any:
            return mpmath.fsum(mass * gaussian_delta(mu, epsilon - place * loss) for place, mass in masses.items())

        for wanted in (1e-3, 1e-10, 1e-100):
            found = curve.epsilon(wanted)
            assert found.upper - found.lower <= 1e-6 * found.upper
            assert delta(found.lower) >= wanted * (1 - 1e-12)
            assert delta(found.upper) <= wanted * (1 + 1e-12)
        advantage = curve.profile_at(0.0)
        assert advantage.lower <= delta(0.0) <= advantage.upper
        assert advantage.relative_width() < 1e-9
