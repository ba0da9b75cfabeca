"""Runs of different steps with stated Renyi divergences: their bounds add up, and planning computes no curve."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from service.privacy.composition.planning import choose
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.discrete.discrete_gaussian import DiscreteGaussian
from service.privacy.mechanisms.gdp import Gdp
from service.privacy.mechanisms.rdp import Rdp
from service.privacy.mechanisms.zcdp import Zcdp
from service.privacy.trade_off.stated_class import dominating_polygon

RATES = np.array([1e-3, 0.5])


def _rdp_of(mu: float, draws: random.Random, directions: str = "both") -> Rdp:
    """Return the Renyi divergences a mu^2/2 of N(0, 1) from N(mu, 1) at random orders, rounded up."""
    orders = tuple(sorted({1 + 10 ** draws.uniform(-2, 2) for _ in range(draws.randint(1, 6))}))
    bounds = tuple(order * mu * mu / 2 * (1 + 1e-12) for order in orders)
    return Rdp(orders=orders, epsilons=bounds, directions=directions)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_sums_of_different_steps_hold_for_gaussian_noise(seed: int) -> None:
    draws = random.Random(seed)
    sizes = [10 ** draws.uniform(-2, 0) for _ in range(draws.randint(2, 30))]
    total = _rdp_of(sizes[0], draws)
    for size in sizes[1:]:
        more = total.plus(_rdp_of(size, draws))
        assert more is not None
        total = more
    square = math.fsum(size * size for size in sizes)
    assert all(bound >= order * square / 2 for order, bound in zip(total.orders, total.epsilons, strict=True))


@pytest.mark.parametrize("directions", ["both", "forward_only"])
def test_composed_classes_contain_gaussian_noise(directions: str) -> None:
    draws = random.Random(3)
    sizes = [10 ** draws.uniform(-2, 0) for _ in range(2)]
    noise = choose.pair(Gdp(mu=math.hypot(*sizes))).both.points(RATES)
    worst = choose.pair(Composed(mechanisms=tuple(_rdp_of(mu, draws, directions) for mu in sizes))).both.points(RATES)
    assert (worst.power.upper >= noise.power.lower * (1 - 1e-9)).all()
    assert (worst.power.lower <= worst.power.upper).all()


def test_different_zcdp_steps_have_the_upper_bounds_of_their_sum() -> None:
    draws = random.Random(5)
    sizes = [draws.uniform(0.01, 0.2) for _ in range(12)]
    known = choose.pair(Composed(mechanisms=tuple(Zcdp(rho=rho) for rho in sizes))).both
    total = choose.pair(Zcdp(rho=math.fsum(sizes) * (1 + 1e-15))).both
    for delta in (0.1, 1e-6, 1e-100):
        assert known.epsilon(delta).upper <= total.epsilon(delta).upper * (1 + 1e-9)


def test_sum_of_bounds_of_other_orders_keeps_the_next_stated_bound() -> None:
    first = Rdp(orders=(2.0, 8.0), epsilons=(0.5, 1.0), directions="forward_only")
    second = Rdp(orders=(3.0, 4.0, math.inf), epsilons=(0.25, 0.5, math.inf))
    known = first.plus(second)
    assert known == Rdp(
        orders=(2.0, 3.0, 4.0, 8.0, math.inf),
        epsilons=(0.75, 1.25, 1.5, math.inf, math.inf),
        directions="forward_only",
    )
    assert known == second.plus(first)


def test_steps_without_a_common_order_have_no_sum() -> None:
    first = Rdp(orders=(2.0, 8.0), epsilons=(0.5, math.inf))
    assert first.plus(Rdp(orders=(4.0,), epsilons=(1.0,))) == Rdp(
        orders=(2.0, 4.0, 8.0), epsilons=(1.5, math.inf, math.inf)
    )
    assert first.plus(Zcdp(rho=0.5)) is None


@pytest.mark.parametrize("number", [2, 3, 40])
def test_planning_builds_no_polygon(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a plan computes no curves")

    monkeypatch.setattr(dominating_polygon, "dominating_polygon", refuse)
    sizes = [5.123 + 0.1 * count for count in range(number)]
    for steps in (
        [DiscreteGaussian(sigma=sigma, sensitivity=5, dimension=2) for sigma in sizes],
        [Zcdp(rho=1 / sigma) for sigma in sizes],
        [Rdp(orders=(2.0 + 1 / sigma, 7.0), epsilons=(1 / sigma, 3 / sigma)) for sigma in sizes],
    ):
        assert choose.plan(Composed(mechanisms=tuple(steps))).cost.build > 0


def test_bounds_of_different_orders_are_no_wider_than_composed_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = (1.3, 1.7, 8.0, 20.0, 90.0)
    run = Composed(mechanisms=tuple(Rdp(orders=(order,), epsilons=(0.1 * order,)) for order in orders))
    both = choose.pair(run).both.epsilon(1e-3).upper
    monkeypatch.setattr(choose, "most_polygons", lambda _: 0)
    added = choose.pair(run).both.epsilon(1e-3).upper
    assert both < 0.99 * added
