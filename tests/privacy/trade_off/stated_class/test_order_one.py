"""Epsilons of classes with bounds of order 1, or of orders near 1."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built
from tests.slow_marker import sample_of, thorough

LARGEST = 1e7
"""Nats. Larger epsilons are enclosed, but not narrowly."""


def epsilon(orders: list[float], bounds: list[float], delta: float) -> Enclosure:
    spec = {"type": "rdp", "orders": orders, "epsilons": bounds}
    return WorstCase("add_or_remove_one").curves(built(spec), "auto").add.epsilon(delta)


def largest_power(rate: mpmath.mpf, bound: float) -> mpmath.mpf:
    """Return the power p with the Kullback-Leibler divergence KL(p || rate) = `bound`, by bisection."""
    low, high = rate, 1 - mpmath.mpf(10) ** -45
    for _ in range(160):
        p = (low + high) / 2
        divergence = p * mpmath.log(p / rate) + (1 - p) * mpmath.log((1 - p) / (1 - rate))
        low, high = (p, high) if divergence < bound else (low, p)
    return low


def of_the_definition(bound: float, delta: float) -> float:
    """Return epsilon of a class with one bound of order 1, by its definition: the largest ln((T(q) - delta)/q).

    T(q) is the largest power at the rate q. The search over ln q is by golden section.
    """

    def value(log_rate: mpmath.mpf) -> mpmath.mpf:
        rate = mpmath.exp(log_rate)
        excess = (largest_power(rate, bound) - delta) / rate
        return mpmath.log(excess) if excess > 0 else mpmath.mpf("-inf")

    loss = bound / delta
    middle = mpmath.log(bound / (loss - 1)) - loss if loss > 2 else mpmath.log(2 * delta / loss)
    left, right, part = middle - 4, min(middle + 4, mpmath.mpf(-0.5)), (mpmath.sqrt(5) - 1) / 2
    for _ in range(70):
        inner = right - part * (right - left), left + part * (right - left)
        left, right = (left, inner[1]) if value(inner[0]) > value(inner[1]) else (inner[0], right)
    return float(value((left + right) / 2))


@sample_of(1)
@pytest.mark.parametrize(
    ("bound", "delta"),
    [(1e-4, 1e-5), (1e-9, 1e-5), thorough(1e-6, 1e-5), thorough(0.01, 1e-5), thorough(1e-4, 1e-3), thorough(0.5, 1e-3)],
)
def test_epsilon_of_order_one_agrees_with_definition(bound: float, delta: float) -> None:
    with mpmath.workdps(40):
        expected = of_the_definition(bound, delta)
    found = epsilon([1.0], [bound], delta)
    assert found.lower * (1 - 1e-12) <= expected <= found.upper * (1 + 1e-12)
    assert found.relative_width() <= 1e-9


@pytest.mark.parametrize("first", [0, *map(thorough, range(40, 200, 40))])
def test_epsilons_near_order_one_are_narrow(first: int) -> None:
    checked = 0
    for seed in range(first, first + 40):
        random = np.random.default_rng([5, seed])
        count = int(random.integers(1, 5))
        orders = {1.0 if random.uniform() < 0.5 else float(1 + 10 ** random.uniform(-7, 2)) for _ in range(count)}
        least = 10 ** random.uniform(-9, 1)
        bounds = sorted(float(least * (1 + i) * random.uniform(1, 1.5)) for i in range(len(orders)))
        delta = float(10 ** random.uniform(*((-12, -0.5) if random.uniform() < 0.8 else (-300, -12))))
        found = epsilon(sorted(orders), bounds, delta)
        if found.lower < LARGEST:
            checked += 1
            assert found.upper - found.lower <= 1e-9 * max(found.upper, 1e-12), (seed, found)
    assert checked > 30
