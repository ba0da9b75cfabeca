"""Polygons above the boundaries of classes: above random members, symmetric, and from few searches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from numpy.random import Generator

from service.privacy.composition.planning import choose
from service.privacy.mechanisms import stated_divergences
from service.privacy.mechanisms.composed import Composed
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.mixture import Mixture, WeightedMechanism
from service.privacy.mechanisms.rdp import Rdp
from service.privacy.mechanisms.stated_divergences import COARSE, FINE, StatedDivergences, class_curve
from service.privacy.mechanisms.zcdp import Zcdp
from service.privacy.numerics.balls import doubles
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.polygon import PolygonTradeOff
from service.privacy.trade_off.stated_class.curve import SymmetricClassTradeOff
from service.privacy.trade_off.stated_class.dominating_polygon import dominating_polygon
from service.privacy.trade_off.stated_class.region import AbstractRegion
from service.privacy.trade_off.stated_class.renyi import RenyiRegion
from service.privacy.trade_off.stated_class.zcdp import ZcdpRegion

SEED = 20261128
HUGE = 100.0
"""Bound of a class whose middle is at rates that are no doubles."""
MOST_SEARCHES = 8
"""Largest number of lines of one polygon whose active bound is searched for without a guess."""
MOST_COARSE = 60
"""Largest number of lines of a polygon after the allowed work is spent."""


def drawn(random: Generator) -> StatedDivergences:
    """Draw a class of mechanisms with bounds in both directions, for one or several records."""
    size, records = 10 ** random.uniform(-6, 1.5), int(random.choice([1, 1, 1, 2, 3]))
    if random.uniform() < 0.5:
        return Zcdp(rho=size, records=records)
    orders = sorted({1 + 10 ** random.uniform(-2, 2.5) for _ in range(random.integers(1, 8))})
    bounds = [size * order for order in orders]
    if random.uniform() < 0.3:
        orders, bounds = [*orders, math.inf], [*bounds, 2 * bounds[-1]]
    return Rdp(orders=tuple(orders), epsilons=tuple(bounds), records=records)


@pytest.mark.parametrize("ratio", [FINE, *COARSE])
@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(8, 100))]
)
def test_polygon_is_symmetric_and_above_all_members(seed: int, ratio: float) -> None:
    """Check that no member of a class has more power than its polygon beside the probability delta."""
    random = np.random.default_rng([SEED, seed])
    curve = class_curve(drawn(random))
    assert isinstance(curve, SymmetricClassTradeOff)
    found = dominating_polygon(curve.frontier, ratio)
    if found is None:  # all lines below the middle may be one, or all rates too small
        assert ratio != FINE or curve.region.bound_at_infinity or curve.region.least_bound * curve.records**2 > HUGE
        return
    polygon, revealed = found
    corners, swapped = polygon.corners, polygon.corners.swapped()
    assert (corners.rate == swapped.rate).all()
    assert (corners.power == swapped.power).all()
    for rate in (*10 ** random.uniform(-30, -0.3, 6), 0.5, 0.9, 0.999):
        with ctx.workprec(curve.frontier.bits):
            member = curve.frontier.at(arb(rate), 1 - arb(rate))
            power = doubles(member.power)[0]
        inside = float(np.interp(rate / (1 - revealed), corners.rate, corners.power))
        assert power <= (revealed + (1 - revealed) * inside) * (1 + 1e-9)


def test_lines_are_found_from_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that nearly all lines of a polygon start from the solution before, and not from a search."""
    searches = 0
    for kind in (ZcdpRegion, RenyiRegion):
        located = kind.located

        def counted(region: Any, base: Any, located: Any = located) -> Any:
            nonlocal searches
            searches += 1
            return located(region, base)

        monkeypatch.setattr(kind, "located", counted)
    for seed in range(4):
        step = drawn(np.random.default_rng([SEED, 1, seed]))
        curve = class_curve(step)
        assert isinstance(curve, SymmetricClassTradeOff)
        searches = 0
        dominating_polygon(curve.frontier, FINE)
        assert searches <= MOST_SEARCHES * step.records, step


def test_polygons_have_few_lines_after_the_work_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a mixture of classes without work has coarse polygons."""
    lines = 0
    line = AbstractRegion.line

    def counted(region: AbstractRegion, *arguments: Any) -> Any:
        nonlocal lines
        lines += 1
        return line(region, *arguments)

    monkeypatch.setattr(AbstractRegion, "line", counted)
    parts = [Composed(mechanisms=(Zcdp(rho=0.01 * number), Laplace(noise_multiplier=3.0))) for number in range(1, 3)]
    mixture = Mixture(components=tuple(WeightedMechanism(weight=0.5, mechanism=part) for part in parts))
    stated_divergences._polygon_curve.cache_clear()
    with at_most(0.0):
        spent = choose.pair(mixture).add.profile_at(1.0)
    assert 0 < lines <= 2 * MOST_COARSE
    assert 0 < spent.lower <= spent.upper <= 1


def test_first_polygon_of_a_request_serves_also_after_its_work_is_spent() -> None:
    step = stated_divergences.DominatingPolygon(step=Zcdp(rho=0.3))
    with at_most(1e6) as work:
        first = step.curves()
        work.end = work.done
        assert step.curves() is first
    with at_most(0.0):
        coarse = step.curves().add
    assert isinstance(first.add, type(coarse))
    rates = np.array([1e-9, 1e-3, 0.3])
    assert (first.add.points(rates).power.upper <= coarse.points(rates).power.upper).all()
    fine, few = (each.curve for each in (first.add, coarse))  # type: ignore[attr-defined]
    assert isinstance(fine, PolygonTradeOff)
    assert isinstance(few, PolygonTradeOff)
    assert len(few.corners.rate) < len(fine.corners.rate) / 5
