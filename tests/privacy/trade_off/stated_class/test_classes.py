"""Stated classes against reference values, against a second computation, and their laws."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
import pytest
from numpy.random import Generator, default_rng
from scipy import optimize

from service.privacy.enclosure import Enclosure
from service.privacy.questions import gaussian_dp
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from tests.privacy.cases import built
from tests.slow_marker import sample_of

REFERENCE: Final = Path(__file__).parents[2] / "reference" / "laws.json"
ROWS: Final[list[dict[str, Any]]] = [
    row
    for row in json.loads(REFERENCE.read_text("utf-8"))["rows"]
    if row["inputs"].get("mechanism", {}).get("type") in ("zcdp", "rdp")
]
TIGHT: Final = 1e-9
CASES: Final = 300
MANY: Final = pytest.param(CASES, marks=pytest.mark.thorough)


def zcdp(rho: float) -> dict[str, Any]:
    return {"type": "zcdp", "rho": rho}


def curve(spec: dict[str, Any], records: int = 1) -> AbstractTradeOff:
    spec = {
        name: [math.inf if each == "infinity" else each for each in value] if name == "orders" else value
        for name, value in spec.items()
    }
    return WorstCase(records=None if records == 1 else records).curves(built(spec)).add


def answer(row: dict[str, Any]) -> Enclosure:
    inputs = row["inputs"]
    found = curve(inputs["mechanism"], inputs.get("records", 1))
    match row["kind"]:
        case "class_delta":
            return found.profile_at(inputs["epsilon"])
        case "class_epsilon":
            return found.epsilon(inputs["delta"])
        case "class_gdp_mu":
            return gaussian_dp.mu(found, 1e-9, 1e-9).global_mu
        case _:
            return found.power_at(inputs["false_positive_rate"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_reference_value_is_enclosed(row: dict[str, Any]) -> None:
    found, value, error = answer(row), row["value"], row["rel_tol"]
    assert found.relative_width() <= TIGHT
    if found.upper > 1e-290:
        assert found.lower * (1 - error) <= value <= found.upper * (1 + error)
    else:
        assert found.log_lower is not None
        assert found.log_upper is not None
        assert found.log_lower - error - 1e-13 <= math.log(value) <= found.log_upper + error + 1e-13


def divergence(order: float, p: float, q: float) -> float:
    """Return the Renyi divergence of (p, 1 - p) from (q, 1 - q) of an order by its definition, in doubles."""
    if order == 1:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    if math.isinf(order):
        return max(math.log(p / q), math.log((1 - p) / (1 - q)))
    first = order * math.log(p) + (1 - order) * math.log(q)
    second = order * math.log1p(-p) + (1 - order) * math.log1p(-q)
    return (max(first, second) + math.log1p(math.exp(-abs(first - second)))) / (order - 1)


def largest_power(order: float, bound: float, q: float) -> float:
    """Return the largest power p whose Renyi divergences from the rate q, in both orders, are at most `bound`.

    The search halves an interval.
    """

    def excess(p: float) -> float:
        return max(divergence(order, p, q), divergence(order, q, p)) - bound

    low, high = q, 1 - 1e-15
    if excess(high) <= 0:
        return 1.0
    return float(optimize.brentq(excess, low, high, xtol=1e-16, rtol=1e-14))


def brute_force(spec: dict[str, Any], q: float) -> float:
    """Return the largest power of the class `spec` at the rate q, as the smallest bound over all orders.

    For zCDP the order is searched.
    """
    if spec["type"] == "rdp":
        return min(
            largest_power(float(order), bound, q) for order, bound in zip(spec["orders"], spec["epsilons"], strict=True)
        )
    rho = spec["rho"]

    def power(log_above: float) -> float:
        order = 1 + math.exp(log_above)
        return largest_power(order, rho * order, q)

    grid = np.linspace(-6.0, 7.0, 53)
    best = float(grid[int(np.argmin([power(x) for x in grid]))])
    found = optimize.minimize_scalar(power, bounds=(best - 0.5, best + 0.5), method="bounded", options={"xatol": 1e-7})
    return min(float(found.fun), largest_power(1.0, rho, q))


def drawn(random: Generator) -> tuple[dict[str, Any], float]:
    q = float(np.exp(random.uniform(math.log(1e-5), math.log(0.9))))
    rho = float(np.exp(random.uniform(math.log(0.01), math.log(2.0))))
    if random.uniform() < 0.5:
        return zcdp(rho), q
    orders = sorted({1 + round(float(np.exp(random.uniform(-2, 4))), 3) for _ in range(random.integers(1, 6))})
    orders = [1.0, *orders] if random.uniform() < 0.2 else orders
    factors = np.maximum.accumulate(rho * np.array(orders) * random.uniform(0.5, 2.0, len(orders)))
    epsilons = factors.tolist()
    if random.uniform() < 0.3:
        orders, epsilons = [*orders, math.inf], [*epsilons, epsilons[-1] + float(random.exponential())]
    return {"type": "rdp", "orders": orders, "epsilons": epsilons}, q


@pytest.mark.parametrize("cases", [12, MANY])
def test_power_agrees_with_brute_force_over_orders(cases: int) -> None:
    random = default_rng([20261127, cases])
    for _ in range(cases):
        spec, q = drawn(random)
        found, expected = curve(spec).power_at(q), brute_force(spec, q)
        assert found.relative_width() <= TIGHT
        assert found.upper == pytest.approx(expected, rel=2e-7), (spec, q)


@pytest.mark.parametrize("cases", [2, MANY])
def test_delta_agrees_with_brute_force_over_orders_and_rates(cases: int) -> None:
    """delta of a class is the largest value of T(q) - e^eps q over the rates q, by a search over orders and rates.

    T(q) is the largest power at the rate q. The difference is concave in q.
    """
    random = default_rng([20261128, cases])
    for _ in range(cases):
        spec, _ = drawn(random)
        found = curve(spec)
        epsilon = float(random.uniform(0.0, 1.2)) * found.epsilon(1e-3).upper

        def loss(logit: float, spec: dict[str, Any] = spec, epsilon: float = epsilon) -> float:
            q = 1 / (1 + math.exp(-logit))
            return math.exp(epsilon) * q - brute_force(spec, q)

        best = optimize.minimize_scalar(loss, bounds=(-40.0, 8.0), method="bounded", options={"xatol": 1e-9})
        delta = found.profile_at(epsilon)
        assert delta.relative_width() <= TIGHT
        assert delta.upper == pytest.approx(-float(best.fun), rel=1e-6, abs=1e-8), (spec, epsilon)


@pytest.mark.parametrize(("rho", "q"), [(1e-12, 1e-3), (1e-6, 1e-12), (0.3, 1e-60), (2.0, 1e-4), (0.02, 0.4)])
def test_boundary_pair_satisfies_bounds_at_60_digits(rho: float, q: float) -> None:
    """The pair at the lower bound of the power is a member of the class, and a pair above the upper bound is not."""
    found = curve(zcdp(rho))
    point = found.points(np.array([q]))
    with mpmath.workdps(80):
        rate, bound = mpmath.mpf(q), mpmath.mpf(rho)
        low, high = (
            1 - mpmath.mpf(float(end)) for end in (point.type_two_error.upper[0], point.type_two_error.lower[0])
        )
        if point.power.upper[0] < 0.5:
            low, high = (mpmath.mpf(float(end)) for end in (point.power.lower[0], point.power.upper[0]))

        def worst(p: Any) -> Any:
            orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(k) / 40) for k in range(-120, 361, 2)]
            return max(excess(p, a) for a in orders)

        def excess(p: Any, a: Any) -> Any:
            terms = [
                max(
                    mpmath.log(x**a * y ** (1 - a) + (1 - x) ** a * (1 - y) ** (1 - a))
                    for x, y in ((p, rate), (rate, p))
                )
            ]
            return terms[0] / (a - 1) / (bound * a) - 1

        assert worst(low) <= 0
        beyond = rate + (high - rate) * mpmath.mpf("1.02") if high < 0.5 else 1 - (1 - high) * mpmath.mpf("0.98")
        assert worst(beyond) > 0


@pytest.mark.parametrize("seed", range(12))
def test_class_is_symmetric_and_concave(seed: int) -> None:
    spec, _ = drawn(default_rng([1, seed]))
    found = curve(spec)
    rates = np.linspace(0.02, 0.98, 25)
    points = found.points(rates)
    back = found.points(np.clip(points.type_two_error.upper, 1e-300, 1 - 1e-12)).type_two_error
    assert (back.lower <= rates * (1 + 1e-9) + 1e-9).all()  # f(f(q)) = q
    assert (np.diff(points.power.lower) >= -1e-12).all()
    middle = 0.5 * (points.power.lower[:-2] + points.power.lower[2:])
    assert (points.power.upper[1:-1] >= middle - 1e-12).all()


@pytest.mark.parametrize("epsilon", [1e-3, 0.7, 5.0])
def test_order_infinity_alone_is_pure_dp(epsilon: float) -> None:
    found, pure = curve({"type": "rdp", "orders": [math.inf], "epsilons": [epsilon]}), ApproximateDpTradeOff(epsilon, 0)
    rates = np.array([1e-12, 1e-3, 0.2, 0.5, 0.9])
    assert found.points(rates).power.upper == pytest.approx(pure.points(rates).power.upper, rel=1e-12)
    for each in (0.0, 0.3 * epsilon, 0.9 * epsilon):
        assert found.profile_at(each).upper == pytest.approx(pure.profile_at(each).upper, rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_numbers_rise_with_rho_and_lie_between_gaussian_noise_and_conversion(seed: int) -> None:
    random = default_rng([2, seed])
    rho, delta = float(np.exp(random.uniform(-9, 3))), float(np.exp(random.uniform(-30, -2)))
    found = curve(zcdp(rho)).epsilon(delta)
    assert found.lower <= curve(zcdp(1.1 * rho)).epsilon(delta).upper
    gaussian = curve({"type": "gdp", "mu": math.sqrt(2 * rho) * (1 - 1e-15)}).epsilon(delta)
    assert gaussian.lower <= found.upper
    orders = 1 + np.logspace(-3, 6, 2000)
    converted = rho * orders + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    assert found.lower <= max(float(converted.min()), 0.0)  # Canonne, Kamath, Steinke 2020, Proposition 12


@pytest.mark.parametrize("rho", [1e-12, 1e-6, 1e-2, 0.5, 15.29, 1e4])
def test_extreme_arguments_are_tight(rho: float) -> None:
    found = curve(zcdp(rho))
    for delta in (1e-300, 1e-12, 1e-3):
        assert found.epsilon(delta).relative_width() <= TIGHT
    for rate in (1e-300, 1e-12, 0.5, 1 - 1e-12):
        points = found.points(np.array([rate]))
        assert points.power.at(0, found.evidence).relative_width() <= TIGHT
        assert points.type_two_error.at(0, found.evidence).relative_width() <= TIGHT


@sample_of(1)
@pytest.mark.parametrize("spec", [zcdp(0.2), {"type": "rdp", "orders": [2.0, 8.0], "epsilons": [0.2, 1.0]}])
def test_records_are_a_chain(spec: dict[str, Any]) -> None:
    one, three = curve(spec), curve(spec, 3)
    for rate in (1e-9, 1e-3, 0.3, 0.9):
        once = one.power_at(one.power_at(one.power_at(rate).upper).upper)
        assert three.power_at(rate).upper == pytest.approx(once.upper, rel=1e-11)
    delta = three.profile_at(1.0)
    rates = np.exp(np.linspace(-12, -0.1, 400))
    best = (three.points(rates).power.upper - math.e * rates).max()
    assert best <= delta.upper
    assert delta.lower <= best * (1 + 1e-3)
    assert three.profile_at(three.epsilon(1e-5).upper).lower <= 1e-5 * (1 + 1e-9)


def test_forward_bounds_reveal_more_than_both() -> None:
    bounds = {"type": "rdp", "orders": [2.0, 4.0], "epsilons": [0.5, 1.0]}
    forward = WorstCase().curves(built(bounds | {"directions": "forward_only"}))
    both = WorstCase().curves(built(bounds))
    replaced = WorstCase("replace_one").curves(built(bounds | {"directions": "forward_only"}))
    assert forward.remove.singular_power.lower == pytest.approx(-math.expm1(-0.5), rel=1e-12)
    assert math.isinf(forward.remove.epsilon(0.3).lower)
    rates = np.array([1e-6, 0.1, 0.5, 0.8])
    assert (forward.add.points(rates).power.upper >= both.add.points(rates).power.lower).all()
    assert replaced.add.points(rates).power.upper == pytest.approx(both.add.points(rates).power.upper, rel=1e-12)
    for epsilon in (0.0, 0.4, 2.0):
        swapped = 1 - math.exp(epsilon) + math.exp(epsilon) * forward.remove.profile_at(-epsilon).upper
        assert forward.add.profile_at(epsilon).lower <= max(swapped, 0.0) + 1e-12


@pytest.mark.parametrize(
    "spec",
    [
        {"type": "repeated", "steps": 4, "mechanism": zcdp(0.05)},
        pytest.param(
            {"type": "composed", "mechanisms": [zcdp(0.1), {"type": "gaussian", "noise_multiplier": 3.0}]},
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_runs_are_brackets_around_members(spec: dict[str, Any]) -> None:
    pair = WorstCase().curves(built(spec))
    assert pair.bracket is not None
    total = 0.2 if spec["type"] == "repeated" else 0.1 + 0.5 / 9
    gaussian, added = curve({"type": "gdp", "mu": math.sqrt(2 * total)}), curve(zcdp(total))
    for epsilon in (0.0, 1.0):
        delta = pair.both.profile_at(epsilon)
        assert delta.lower <= added.profile_at(epsilon).upper
        assert delta.upper >= gaussian.profile_at(epsilon).lower
        assert delta.lower >= gaussian.profile_at(epsilon).lower * (1 - 1e-6)
        if spec["type"] == "repeated":
            assert delta.upper <= added.profile_at(epsilon).upper * (1 + 1e-9)


GROUPS: Final[list[dict[str, Any]]] = [
    row for row in json.loads(REFERENCE.read_text("utf-8"))["rows"] if row["id"].startswith("pure-group")
]


@pytest.mark.parametrize("row", GROUPS, ids=lambda row: row["id"])
def test_group_of_pure_dp_has_reference_power(row: dict[str, Any]) -> None:
    inputs = row["inputs"]
    pair = WorstCase(records=inputs["records"]).curves(built(inputs["mechanism"]))
    found = pair.add.power_at(inputs["false_positive_rate"])
    assert pair.bracket is None
    assert found.lower * (1 - 1e-12) <= row["value"] <= found.upper * (1 + 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "records"), [(0.3, 0.0, 6), (1.0, 1e-3, 3), (0.0, 0.01, 4), (0.5, 1e-6, 20), (2.0, 0.3, 3)]
)
def test_group_is_iterated_curve_of_one_record(epsilon: float, delta: float, records: int) -> None:
    found = WorstCase(records=records).curves(built({"type": "approximate_dp", "epsilon": epsilon, "delta": delta})).add
    rates = np.exp(np.linspace(-20, -1e-3, 2001))
    power = rates
    for _ in range(records):
        one = 1 - math.exp(-epsilon) * (1 - delta - power)
        power = np.minimum(np.minimum(delta + math.exp(epsilon) * power, one), 1.0)
    few = slice(None, None, 100)
    assert found.points(rates[few]).power.upper == pytest.approx(power[few], rel=1e-11)
    for each in (0.0, 0.4 * epsilon * records, 0.95 * epsilon * records):
        value = found.profile_at(each)
        brute = float((power - math.exp(each) * rates).max())
        assert value.relative_width() <= TIGHT
        assert brute * (1 - 1e-12) <= value.upper
        assert value.lower <= max(brute * (1 + 0.02), delta * 200)


def test_group_of_pure_dp_composes_as_discrete_laplace_noise() -> None:
    run = {"type": "repeated", "steps": 5, "mechanism": {"type": "pure_dp", "epsilon": 0.5}}
    pair = WorstCase(records=3).curves(built(run))
    noise = {"type": "discrete_laplace", "scale": 2.0, "sensitivity": 3}
    same = WorstCase().curves(built({"type": "repeated", "steps": 5, "mechanism": noise}))
    assert pair.bracket is None
    assert pair.both.epsilon(1e-5).upper == pytest.approx(same.both.epsilon(1e-5).upper, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_strong_and_faint_bounds_have_no_false_numbers(seed: int) -> None:
    """Classes with bounds of hundreds of nats, or of 1e-9, have powers and deltas on the right side of simple limits.

    Complements lose digits there.
    """
    random = default_rng([3, seed])
    scale = float(np.exp(random.uniform(2, 8))) if seed % 2 else float(np.exp(random.uniform(-20, -8)))
    orders = [1.0 + float(np.exp(random.uniform(-3, 0))), 4.0, 60.0, math.inf]
    directions = "forward_only" if seed % 3 == 0 else "both"
    spec = {"type": "rdp", "orders": orders, "epsilons": [scale * each for each in (1.1, 4.0, 60.0, 90.0)]}
    pair = WorstCase().curves(built(spec | {"directions": directions}))
    for found in (pair.add, pair.remove):
        rates = np.array([4.8e-253, 1e-60, 1e-6, 0.5, 1 - 1e-9])
        points = found.points(rates)
        assert (points.power.lower >= np.maximum(rates, found.singular_power.lower) * (1 - 1e-12)).all()
        assert (np.diff(points.power.upper) >= -1e-12).all()
        assert (points.type_two_error.upper <= (1 - rates) * (1 + 1e-12)).all()
        for epsilon in (0.0, 0.5 * scale, 20 * scale, 100 * scale):
            delta = found.profile_at(epsilon)
            reached = points.power.lower - np.exp(np.minimum(epsilon, 700.0)) * rates
            assert delta.upper >= reached.max() * (1 - 1e-12)
            assert delta.upper >= found.singular_power.lower * (1 - 1e-12)
