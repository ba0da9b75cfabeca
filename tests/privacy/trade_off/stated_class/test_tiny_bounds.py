"""Classes with very small bounds, alone and in runs: answers in order, and at most those of larger classes."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built
from tests.slow_marker import sample_of, thorough

SIZES: Final = (5e-324, 1e-300, 1e-100, 1e-36, 1e-30, 1e-20, 1e-15, 1e-10)
IN_RUNS: Final = (1e-300, 1e-36, 1e-16, 1e-10)
PURE: Final[dict[str, Any]] = {"type": "pure_dp", "epsilon": 1.0}
ROUNDING: Final = 1e-12


def zcdp(size: float) -> dict[str, Any]:
    return {"type": "zcdp", "rho": size}


def rdp(size: float, *orders: float, directions: str = "both") -> dict[str, Any]:
    return {"type": "rdp", "orders": orders, "epsilons": (size,) * len(orders), "directions": directions}


def advantage(spec: dict[str, Any]) -> Enclosure:
    return WorstCase().curves(built(spec)).both.profile_at(0.0)


def families(size: float) -> dict[str, dict[str, Any]]:
    return {
        "zcdp": zcdp(size),
        "one order": rdp(size, 2.0),
        "all kinds of orders": rdp(size, 1.0, 1.5, 2.0, 1e9, math.inf),
        "forward only": rdp(size, 2.0, directions="forward_only"),
    }


@sample_of(2)
@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        *((family, IN_RUNS[::3]) for family in families(1.0) if family != "one order"),
        thorough("one order", IN_RUNS[::3]),
        *(thorough(family, IN_RUNS) for family in families(1.0)),
    ],
    ids=str,
)
def test_tiny_classes_have_ordered_answers(family: str, sizes: tuple[float, ...]) -> None:
    before = {"alone": 0.0, "repeated": 0.0, "composed": 0.0}
    for size in sizes:
        spec = families(size)[family]
        runs = {
            "alone": spec,
            "repeated": {"type": "repeated", "steps": 3, "mechanism": spec},
            "composed": {"type": "composed", "mechanisms": [spec, PURE]},
        }
        found = {name: advantage(run) for name, run in runs.items()}
        for name, answer in found.items():
            assert 0 <= answer.lower <= answer.upper <= 1
            assert before[name] <= answer.upper * (1 + ROUNDING)
            before[name] = answer.upper
        assert found["alone"].lower <= found["repeated"].upper <= 3 * found["alone"].upper * (1 + ROUNDING) + 1e-322
        of_pure = math.tanh(0.5)
        assert found["composed"].lower <= of_pure + found["alone"].upper + ROUNDING
        assert found["composed"].upper >= of_pure * (1 - ROUNDING)
        assert found["composed"].upper <= of_pure + 1e-4


@pytest.mark.parametrize("size", SIZES)
def test_advantage_of_tiny_bounds_has_its_limit(size: float) -> None:
    """On p + q = 1 a small divergence of order a is a D^2/8, and the advantage p - q is D/4."""
    for spec, order in ((zcdp(size), 1.0), (rdp(size, 1.0), 1.0), (rdp(size, 2.0), 2.0), (rdp(size, 1.0001), 1.0001)):
        limit = math.sqrt(size) / math.sqrt(2 * order)
        found = advantage(spec)
        assert found.lower == pytest.approx(limit, rel=1e-6)
        assert found.upper == pytest.approx(limit, rel=1e-6)


@pytest.mark.parametrize("seed", range(24))
def test_bounds_of_very_different_sizes_are_answered(seed: int) -> None:
    """Check profiles at thresholds where one hypothesis has an exponentially smaller mass than the other."""
    random = np.random.default_rng([20261201, seed])
    finite = 1 + 10 ** np.sort(random.uniform(-13, 9, int(random.integers(1, 5))))
    orders = [1.0, *finite.tolist(), math.inf]
    epsilons = np.sort(10 ** np.append(random.uniform(-300, 6, len(finite)), random.uniform(-300, 6, 2)))
    directions = str(random.choice(["both", "forward_only"]))
    spec = {"type": "rdp", "orders": orders, "epsilons": epsilons.tolist(), "directions": directions}
    curves = WorstCase().curves(built(spec))
    for curve in (curves.add, curves.remove, curves.both):
        last = 1.0
        for threshold in sorted([0.0, *epsilons.tolist(), 1.0, 720.0, 1e4]):
            delta = curve.profile_at(threshold)
            assert 0 <= delta.lower <= delta.upper
            assert delta.lower <= last
            last = delta.upper


@sample_of(6)
@pytest.mark.parametrize("seed", range(24))
def test_rounds_of_groups_of_tiny_bounds_have_ordered_answers(seed: int) -> None:
    """Rounds of rho-zCDP for several records have bounds, between those of one round and their sum."""
    random = np.random.default_rng([20261128, seed])
    spec, rounds = zcdp(10.0 ** random.integers(-14, -8)), int(random.integers(2, 4))
    group = WorstCase(records=int(random.integers(2, 10)))
    alone, several = (
        group.curves(built(mechanism)).both.profile_at(0.0)
        for mechanism in (spec, {"type": "repeated", "steps": rounds, "mechanism": spec})
    )
    assert 0 < alone.lower <= several.upper * (1 + ROUNDING)
    assert several.lower <= several.upper <= rounds * alone.upper * (1 + ROUNDING)
