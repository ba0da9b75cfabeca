"""Domain, assumptions and cost of the generalised likelihood ratio test (GLRT) adversary's curves."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.threat_models.glrt import Glrt
from service.privacy.threat_models.glrt_step import GlrtStep, noncentrality_of
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built, dpsgd, gaussian, laplace, mixture, sampled
from tests.slow_marker import sample_of

SEVENTY = {"type": "repeated", "mechanism": gaussian(6.0), "steps": 70}
SAMPLED_RUN = dpsgd(1.0, 0.01, 10)


@pytest.mark.parametrize(
    ("spec", "method", "field"),
    [
        (laplace(1.0), "auto", "mechanism"),
        ({"type": "gdp", "mu": 1.0}, "auto", "mechanism"),
        ({"type": "pure_dp", "epsilon": 1.0}, "auto", "mechanism"),
        (sampled(0.5, laplace(1.0)), "auto", "mechanism"),
        (SAMPLED_RUN, "auto", "mechanism"),
        ({"type": "composed", "mechanisms": [gaussian(1.0), sampled(0.5, gaussian(1.0))]}, "auto", "mechanism"),
        (mixture((0.5, gaussian(1.0)), (0.5, gaussian(2.0))), "auto", "mechanism"),
        ({"type": "repeated", "mechanism": gaussian(1e-4), "steps": 10**6}, "auto", "mechanism"),
        (gaussian(1.0), "contour", "method"),
        (gaussian(1.0), "discretised", "method"),
        (gaussian(1.0), "magic", "method"),
        (sampled(0.5, gaussian(1.0)), "clt", "method"),
    ],
    ids=str,
)
def test_unsupported_combinations_are_rejected(spec: dict[str, Any], method: str, field: str) -> None:
    model, mechanism = Glrt(dimension=2), built(spec)
    with pytest.raises(UnsupportedCombination) as refusal:
        model.curves(mechanism, method)
    assert refusal.value.field == field


def test_sampled_runs_are_rejected_with_reason() -> None:
    with pytest.raises(UnsupportedCombination, match="no bound for an adversary who uses that fact"):
        Glrt(dimension=2).curves(built(SAMPLED_RUN))
    with pytest.raises(UnsupportedCombination) as refusal:
        Glrt(dimension=2, unknown_direction="fresh_each_step").curves(built(SAMPLED_RUN), "closed_form")
    assert refusal.value.field == "method"


@pytest.mark.parametrize(
    "fields", [{"dimension": 0}, {"dimension": 10**9 + 1}, {"dimension": 1, "unknown_direction": "up"}]
)
def test_fields_outside_domain_raise(fields: dict[str, Any]) -> None:
    with pytest.raises(OutOfDomain):
        Glrt(**fields)


def premises(model: Glrt, spec: dict[str, Any]) -> list[tuple[str, str]]:
    return [(premise.text, premise.holds) for premise in model.premises(built(spec))]


def test_premises_depend_on_direction_and_mechanism() -> None:
    common, fresh = Glrt(dimension=5), Glrt(dimension=5, unknown_direction="fresh_each_step")
    assert [holds for _, holds in premises(common, gaussian(1.0))] == ["unknown"] * 2
    assert "5 coordinates" in premises(common, gaussian(1.0))[1][0]
    assert "same vector in every step" in premises(common, SEVENTY)[2][0]
    assert premises(fresh, SEVENTY)[2][1] == "no"
    assert premises(fresh, SAMPLED_RUN)[2][1] == "unknown"
    assert "no bound" in premises(fresh, SAMPLED_RUN)[2][0]
    assert common.worst_case(built(SEVENTY)) == WorstCase("add_or_remove_one")


@pytest.mark.parametrize("spec", [gaussian(1.0), sampled(0.1, gaussian(1.0)), gaussian(1e4), SEVENTY])
def test_cost_depends_on_evaluated_curve(spec: dict[str, Any]) -> None:
    mechanism = built(spec)
    exact = Glrt(dimension=10).plan(mechanism).cost
    assert exact.evaluate > WorstCase().plan(mechanism).cost.evaluate
    fresh = Glrt(dimension=10, unknown_direction="fresh_each_step").plan(mechanism, "discretised").cost
    assert fresh.evaluate > exact.evaluate


def test_noncentrality_is_correctly_rounded() -> None:
    step = GlrtStep(dimension=1, noise_multiplier=3.0, sample_rate=1.0)
    third = noncentrality_of(((step, 1),))
    assert Fraction(third.lower) < Fraction(1, 9) < Fraction(third.upper)
    assert third.upper - third.lower <= 2 * math.ulp(third.upper)
    assert noncentrality_of(((step, 9),)) == Enclosure.point(1.0)


@sample_of(5)
@pytest.mark.parametrize("dimension", [1, 2, 50, 10**9])
@pytest.mark.parametrize(("noise", "steps"), [(1e15, 1), (1e-2, 1), (1e-4, 10**4)])
def test_range_limits_give_ordered_narrow_bounds(dimension: int, noise: float, steps: int) -> None:
    """Bounds are ordered, and epsilon is narrow, at the limits of the parameter ranges.

    Noncentralities are from 1e-30 to 1e12, with extreme rates and epsilons.
    """
    run = {"type": "repeated", "mechanism": gaussian(noise), "steps": steps}
    pair = Glrt(dimension=dimension).curves(built(run))
    rates = np.array([0.0, 5e-324, 1e-300, 1e-12, 0.3, 1 - 2.0**-53, 1.0])
    epsilons = np.array([-np.inf, -1e6, -1e3, -1e-9, 0.0, 1e-300, 1e-9, 1.0, 1e3, 1e6, np.inf])
    for curve in (pair.add, pair.remove, pair.both):
        points = curve.points(rates)
        for bounds in (points.power, points.type_two_error, curve.profile(epsilons)):
            assert ((bounds.lower >= 0) & (bounds.lower <= bounds.upper) & (bounds.upper <= 1)).all()
        assert curve.epsilon(1e-5).relative_width() < 1e-6
        assert curve.epsilon(1e-300).relative_width() < 1e-6
