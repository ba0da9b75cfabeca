"""Curves of losses with finitely many values, against the polygon of their masses in many digits."""

from __future__ import annotations

from typing import Any, Final

import mpmath
import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.neighbours import ONE_REPLACED, Neighbours
from tests.privacy.cases import built

mp: Any = mpmath
DIGITS: Final = 700
"""Digits of the oracle: 1 - alpha and its type II error are tiny where alpha is near 1."""


def discrete_laplace(random: np.random.Generator) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Draw noise on a count that a record moves by some integer; return its masses under H0 and H1 by falling loss."""
    scale, moved = float(10 ** random.uniform(-1, 3)), int(random.integers(1, 6))
    fall = mp.exp(-1 / mp.mpf(scale))
    inner = [(1 - fall) / (1 + fall) * fall**x for x in range(moved + 1)]
    masses = [(inner[moved - x], inner[x]) for x in range(1, moved)]
    ends = fall**moved / (1 + fall), 1 / (1 + fall)
    spec = {"type": "discrete_laplace", "scale": scale, "sensitivity": moved}
    return spec, [ends, *masses, ends[::-1]]


def randomized_response(random: np.random.Generator) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Draw a report of one of several values; return its masses under H0 and H1 by falling loss."""
    epsilon, options = float(10 ** random.uniform(-6, 2)), int(random.choice([3, 10, 10**6]))
    ratio = mp.exp(epsilon)
    every = ratio + options - 1
    spec = {"type": "randomized_response", "epsilon": epsilon, "options": options}
    return spec, [(1 / every, ratio / every), ((options - 2) / every,) * 2, (ratio / every, 1 / every)]


def largest_power(masses: list[tuple[Any, Any]], alpha: Any) -> Any:
    """Return the power at a rate: the Neyman-Pearson test adds outcomes by falling loss, and a part of the last one."""
    rate, power = mp.mpf(0), mp.mpf(0)
    for absent, present in masses:
        if rate + absent >= alpha:
            return power + present / absent * (alpha - rate)
        rate, power = rate + absent, power + present
    return mp.mpf(1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("draw", "neighbours"), [(discrete_laplace, Neighbours()), (randomized_response, ONE_REPLACED)]
)
def test_points_at_tiny_rates_and_errors_are_enclosed(draw: Any, neighbours: Neighbours, seed: int) -> None:
    random = np.random.default_rng([20261202, seed])
    with mp.workdps(DIGITS):
        spec, masses = draw(random)
        rates = np.concatenate([10.0 ** random.uniform(-307, 0, 60), 1 - 10.0 ** random.uniform(-15, 0, 10)])
        curve = choose.pair(built(spec), "auto", neighbours).add
        errors, powers = curve.points(rates).type_two_error, curve.power(rates)
        for index, alpha in enumerate(rates.tolist()):
            truth = largest_power(masses, mp.mpf(alpha))
            assert errors.lower[index] <= 1 - truth <= errors.upper[index]
            assert powers.lower[index] <= truth <= powers.upper[index]
            assert powers.upper[index] - powers.lower[index] <= 1e-11 * powers.upper[index]


@pytest.mark.parametrize("seed", range(8))
def test_deltas_next_to_the_smallest_double_are_enclosed(seed: int) -> None:
    """A rare report has delta(x) = p (e^epsilon - e^x)/(e^epsilon + k - 1), which may be below 1e-308."""
    random = np.random.default_rng([20261206, seed])
    rate, epsilon = 10.0 ** random.uniform(-307, -295), 10.0 ** random.uniform(-3, 1)
    options = 10 ** int(random.integers(1, 12))
    report = {"type": "randomized_response", "epsilon": epsilon, "options": options}
    spec = {"type": "poisson_sampled", "sample_rate": rate, "mechanism": report}
    curve = choose.pair(built(spec), "auto", ONE_REPLACED).add
    thresholds = random.uniform(0, epsilon, 12)
    with mp.workdps(40):
        size, ratio = mp.mpf(rate) / (mp.exp(epsilon) + options - 1), mp.exp(epsilon)
        found = curve.profile(thresholds)
        for index, threshold in enumerate(thresholds.tolist()):
            truth = size * (ratio - mp.exp(threshold))
            assert found.lower[index] <= truth <= found.upper[index]
            delta = float(truth)
            ends = curve.epsilon(delta)
            assert delta == 0 or ends.lower <= max(mp.log(ratio - delta / size), 0) <= ends.upper
    assert curve.profile_at(epsilon).upper == 0
