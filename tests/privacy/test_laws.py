"""Laws of trade-off curves, tested for every case of every mechanism in the catalogue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from service.privacy.enclosure import EnclosureArray
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.privacy.numerics.arrays import FloatArray
from service.privacy.questions import membership
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import CASES, Case, Direction, Published
from tests.slow_marker import sample_of

DIRECTIONS: tuple[Direction, ...] = ("add", "remove", "both")
RATES = np.concatenate((np.geomspace(1e-12, 1e-3, 7), np.linspace(0.01, 0.99, 13), 1 - np.geomspace(1e-3, 1e-9, 4)))
EPSILONS = np.array([-6.0, -1.5, -0.3, -1e-3, 0.0, 1e-3, 0.2, 0.9, 2.0, 5.0, 11.0])

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)
every_case_in_a_direction = sample_of(len(CASES))
"""`make test` tests each case in one direction, and `make thorough` in the others."""


@cache
def pair_of(name: str) -> TradeOffPair:
    return next(case for case in CASES if case.name == name).worst_case


@cache
def points_of(name: str, direction: Direction) -> CurvePoints:
    return curve_of(name, direction).points(RATES)


def curve_of(name: str, direction: Direction) -> AbstractTradeOff:
    curve: AbstractTradeOff = getattr(pair_of(name), direction)
    return curve


def mass_outside(spec: Mapping[str, Any]) -> float:
    """Return the probability under H1 of outcomes that H0 excludes, from the deltas in the specification."""
    if "components" in spec:
        return sum(part["weight"] * mass_outside(part["mechanism"]) for part in spec["components"])
    if spec["type"] == "repeated":
        return -math.expm1(spec["steps"] * math.log1p(-mass_outside(spec["mechanism"])))
    if spec["type"] == "composed":
        return -math.expm1(math.fsum(math.log1p(-mass_outside(part)) for part in spec["mechanisms"]))
    return spec.get("delta", 0.0)


def possible(smaller: FloatArray, larger: FloatArray, slack: float = 0.0) -> bool:
    """Return whether `smaller <= larger` may hold for the true values (lower bounds on the left, upper on the
    right).
    """
    return bool((smaller <= (larger + slack * np.abs(larger) if slack else larger)).all())


def test_every_mechanism_of_the_catalogue_has_cases() -> None:
    covered = {case.spec["type"] for case in CASES}
    assert set(MECHANISMS) - covered == set(), "add rows to tests/privacy/cases.py for these mechanisms"
    assert covered - set(MECHANISMS) == set()


@every_case_in_a_direction
@every_case
@every_direction
def test_enclosures_are_ordered_probabilities(case: Case, direction: Direction) -> None:
    points = points_of(case.name, direction)
    for bounds in (points.type_two_error, points.power, curve_of(case.name, direction).profile(EPSILONS)):
        assert (bounds.lower >= 0).all()
        assert (bounds.lower <= bounds.upper).all()
        assert (bounds.upper <= 1).all()
        if bounds.log_lower is not None and bounds.log_upper is not None:
            assert (bounds.log_lower <= bounds.log_upper).all()
            assert (bounds.log_upper <= 0).all()


@every_case_in_a_direction
@every_case
@every_direction
def test_power_increases_and_type_two_error_decreases(case: Case, direction: Direction) -> None:
    points = points_of(case.name, direction)
    assert possible(points.power.lower[:-1], points.power.upper[1:])
    assert possible(points.type_two_error.lower[1:], points.type_two_error.upper[:-1])
    assert possible(points.log_slope.lower[1:], points.log_slope.upper[:-1])


@every_case_in_a_direction
@every_case
@every_direction
def test_type_two_error_is_convex(case: Case, direction: Direction) -> None:
    beta = points_of(case.name, direction).type_two_error
    left, middle, right = RATES[:-2], RATES[1:-1], RATES[2:]
    share = (right - middle) / (right - left)
    chord = share * beta.upper[:-2] + (1 - share) * beta.upper[2:]
    assert possible(beta.lower[1:-1], chord, slack=1e-14)


@every_case_in_a_direction
@every_case
@every_direction
def test_curve_lies_below_diagonal(case: Case, direction: Direction) -> None:
    points = points_of(case.name, direction)
    assert possible(points.type_two_error.lower, np.nextafter(1 - RATES, 2))
    assert possible(RATES, points.power.upper)


@every_case_in_a_direction
@every_case
@every_direction
def test_delta_decreases_to_power_at_rate_zero(case: Case, direction: Direction) -> None:
    curve = curve_of(case.name, direction)
    far = curve.profile(np.array([1e12]))
    assert far.lower[0] <= curve.singular_power.upper, "replace `singular_power` of this curve"
    assert curve.singular_power.lower <= far.upper[0]


@every_case_in_a_direction
@every_case
@every_direction
def test_power_and_type_two_error_add_up_to_one(case: Case, direction: Direction) -> None:
    points = points_of(case.name, direction)
    assert possible(points.power.lower + points.type_two_error.lower, np.ones_like(RATES), slack=1e-15)
    assert possible(np.ones_like(RATES), points.power.upper + points.type_two_error.upper, slack=1e-15)


@every_case_in_a_direction
@every_case
@every_direction
def test_slopes_support_the_curve(case: Case, direction: Direction) -> None:
    """Every curve f lies above its tangents: f(b) >= f(a) - e^c (b - a) for all rates b, with the log slope c at a."""
    points = points_of(case.name, direction)
    beta = points.type_two_error
    steep, flat = (np.exp(np.minimum(end, 700)) for end in (points.log_slope.upper, points.log_slope.lower))
    for index, rate in enumerate(RATES):
        ahead, behind = RATES[rate < RATES], RATES[rate > RATES]
        assert possible(beta.lower[index] - steep[index] * (ahead - rate), beta.upper[rate < RATES], slack=1e-12)
        assert possible(beta.lower[index] + flat[index] * (rate - behind), beta.upper[rate > RATES], slack=1e-12)


@every_case_in_a_direction
@every_case
@every_direction
def test_edges_are_exact(case: Case, direction: Direction) -> None:
    curve = curve_of(case.name, direction)
    ends = curve.points(np.array([0.0, 1.0]))
    assert (ends.power.lower[1], ends.power.upper[1]) == (1.0, 1.0)
    assert (ends.type_two_error.lower[1], ends.type_two_error.upper[1]) == (0.0, 0.0)
    singular = mass_outside(case.spec)
    if case.spec.get("directions") == "forward_only" and direction != "add":
        # The law without the record may have outcomes of this probability that the record excludes.
        singular = -math.expm1(-case.spec["epsilons"][0])
    rounding = 1e-14 * singular if case.spec["type"] in ("repeated", "composed", "rdp") else 0.0
    is_exact = singular - rounding <= ends.power.lower[0] <= ends.power.upper[0] <= singular + rounding
    assert is_exact, "edit mass_outside of tests/privacy/test_laws.py, if the law may reveal the record"
    profile = curve.profile(np.array([np.inf, -np.inf]))
    assert (profile.lower[0], profile.upper[0]) == (ends.power.lower[0], ends.power.upper[0])
    assert (profile.lower[1], profile.upper[1]) == (1.0, 1.0)
    assert curve.epsilon(1.0).upper == 0
    at_zero = curve.epsilon(0.0)
    assert at_zero.upper == math.inf if singular > 0 else at_zero.upper == max(curve.largest_log_ratio.upper, 0)


@every_case_in_a_direction
@every_case
@every_direction
def test_profile_is_conjugate_of_power(case: Case, direction: Direction) -> None:
    """delta(eps) >= power(alpha) - e^eps alpha for every alpha, with equality where the power has the slope e^eps."""
    curve, points = curve_of(case.name, direction), points_of(case.name, direction)
    profile = curve.profile(EPSILONS)
    for index, eps in enumerate(EPSILONS):
        assert possible(
            points.power.lower - math.exp(eps) * RATES, profile.upper[index] * np.ones_like(RATES), slack=1e-14
        )
    usable = np.abs(points.log_slope.upper) < 30
    if not usable.any():
        return  # Such a strong mechanism has no tangent that doubles can represent.
    slopes, rates = points.log_slope.upper[usable], RATES[usable]
    at_slopes = curve.profile(slopes)
    reached = points.power.upper[usable] - np.exp(slopes) * rates
    width = points.log_slope.upper[usable] - points.log_slope.lower[usable]
    # The slope is known up to its width; the tangent depends on it to first order.
    slack = 1e-13 + np.exp(slopes) * rates * np.expm1(np.minimum(width, 1.0)) + np.where(width > 1, np.inf, 0.0)
    assert (at_slopes.lower <= reached + slack).all()


@every_case_in_a_direction
@every_case
@every_direction
def test_profile_decreases_from_one_and_stays_above_its_floor(case: Case, direction: Direction) -> None:
    profile = curve_of(case.name, direction).profile(EPSILONS)
    assert possible(profile.lower[1:], profile.upper[:-1])
    assert possible(np.maximum(0.0, -np.expm1(EPSILONS)), profile.upper)


@every_case
def test_remove_profile_is_determined_by_add(case: Case) -> None:
    """delta_remove(eps) = 1 - e^eps + e^eps delta_add(-eps)."""
    pair = pair_of(case.name)
    remove, add = pair.remove.profile(EPSILONS), pair.add.profile(-EPSILONS)
    factor = np.exp(EPSILONS)
    slack = 1e-14 * (1 + factor)
    assert (remove.lower <= 1 - factor + factor * add.upper + slack).all()
    assert (1 - factor + factor * add.lower <= remove.upper + slack).all()


@every_case
def test_add_and_remove_are_inverse_functions(case: Case) -> None:
    pair, points = pair_of(case.name), points_of(case.name, "add")
    for low, high in ((points.type_two_error.lower, points.type_two_error.upper),):
        back_from_low = pair.remove.type_two_error(low)
        back_from_high = pair.remove.type_two_error(high)
    inside = (high > 1e-290) & (high < 1 - 1e-13)  # Elsewhere f is flat, or its inverse is ill-defined.
    assert (back_from_high.lower[inside] <= RATES[inside]).all()
    assert (back_from_low.upper[inside] >= RATES[inside] * (1 - 1e-15)).all()


@every_case
def test_double_swap_is_identity(case: Case) -> None:
    curve = curve_of(case.name, "add")
    twice = curve.reversed().reversed().power(RATES)
    assert (twice.lower <= points_of(case.name, "add").power.upper).all()
    assert (twice.upper >= points_of(case.name, "add").power.lower).all()


@every_case_in_a_direction
@every_case
@every_direction
def test_epsilon_inverts_delta(case: Case, direction: Direction) -> None:
    curve = curve_of(case.name, direction)
    for delta in (1e-9, 1e-4, 0.05):
        eps = curve.epsilon(delta)
        if math.isinf(eps.upper):
            assert curve.singular_power.upper > delta
            continue
        ends = curve.profile(np.array([eps.lower, eps.upper]))
        assert ends.lower[1] <= delta
        assert eps.lower == 0 or ends.upper[0] >= delta


@every_case
def test_both_is_hull_of_add_and_remove(case: Case) -> None:
    add, remove, both = (points_of(case.name, direction) for direction in DIRECTIONS)
    assert possible(np.maximum(add.power.lower, remove.power.lower), both.power.upper)
    assert possible(both.type_two_error.lower, np.minimum(add.type_two_error.upper, remove.type_two_error.upper))
    pair = pair_of(case.name)
    profiles = [getattr(pair, direction).profile(EPSILONS) for direction in DIRECTIONS]
    assert possible(np.maximum(profiles[0].lower, profiles[1].lower), profiles[2].upper)
    assert possible(profiles[2].lower, np.maximum(profiles[0].upper, profiles[1].upper))
    for delta in (1e-8, 0.01):
        largest = max(pair.add.epsilon(delta).upper, pair.remove.epsilon(delta).upper)
        assert pair.both.epsilon(delta).upper == largest


@every_case
def test_both_lies_between_the_chords_and_the_tangents_of_add_and_remove(case: Case) -> None:
    """One release may draw the direction: every chord between both powers is attained, and no tangent is exceeded."""
    pair = pair_of(case.name)
    if pair.add is pair.remove:
        return
    add, remove, both = (points_of(case.name, direction).power for direction in DIRECTIONS)
    tops = np.maximum(pair.add.profile(EPSILONS).upper, pair.remove.profile(EPSILONS).upper)
    tangents = (tops + np.exp(EPSILONS) * RATES[:, None]).min(axis=1)
    assert possible(both.lower, tangents, 1e-12)
    first, second = np.meshgrid(RATES, RATES, indexing="ij")
    for rate, most in zip(RATES.tolist(), both.upper.tolist(), strict=True):
        left, right = np.nonzero((first < rate) & (rate < second))
        share = (RATES[right] - rate) / (RATES[right] - RATES[left])
        for low, high in ((add.lower, remove.lower), (remove.lower, add.lower)):
            assert possible(share * low[left] + (1 - share) * high[right], np.full(len(share), most), 1e-9)


@every_case
def test_both_is_its_own_inverse(case: Case) -> None:
    both = points_of(case.name, "both").type_two_error
    inside = (both.upper > 1e-290) & (both.upper < 1 - 1e-13)
    back = curve_of(case.name, "both").type_two_error(np.clip(both.upper, 0, 1))
    assert (back.lower[inside] <= RATES[inside]).all()


@every_case
def test_enclosures_are_narrow(case: Case) -> None:
    """Enclosures have a relative width of at most 1e-6, unless two theorems enclose the worst case."""
    if pair_of(case.name).bracket is not None:
        return
    for direction in ("add", "remove"):
        points = points_of(case.name, direction)
        for bounds in (points.power, points.type_two_error):
            assert narrow(bounds), direction


def narrow(bounds: EnclosureArray) -> bool:
    relative = (bounds.upper - bounds.lower) / np.maximum(bounds.upper, 1e-300)
    return bool((np.where(bounds.upper > 1e-290, relative, 0.0) <= 1e-6).all())


@pytest.mark.parametrize(
    ("case", "published"),
    [pytest.param(case, row, id=f"{case.name}-{row.reading}-{row.at:g}") for case in CASES for row in case.published],
)
def test_published_values_are_enclosed(case: Case, published: Published) -> None:
    curve = curve_of(case.name, published.direction)
    if published.reading == "epsilon":
        answer = curve.epsilon(published.at)
        lower, upper = answer.lower, answer.upper
    else:
        read = curve.power if published.reading == "power" else curve.profile
        bounds = read(np.array([published.at]))
        lower, upper = float(bounds.lower[0]), float(bounds.upper[0])
    assert lower <= published.value + published.tolerance
    assert published.value - published.tolerance <= upper


@every_case_in_a_direction
@every_case
@every_direction
def test_extreme_log_ratios_bound_every_slope(case: Case, direction: Direction) -> None:
    curve, slopes = curve_of(case.name, direction), points_of(case.name, direction).log_slope
    for ratio in (curve.largest_log_ratio, curve.smallest_log_ratio):
        is_bracket = pair_of(case.name).bracket is not None
        assert is_bracket or ratio.lower == ratio.upper or ratio.relative_width() <= 1e-12
    assert (slopes.lower <= curve.largest_log_ratio.upper).all()
    assert (slopes.upper >= curve.smallest_log_ratio.lower).all()
    reverse = curve.reversed()
    assert reverse.largest_log_ratio.lower <= -curve.smallest_log_ratio.lower
    assert reverse.largest_log_ratio.upper >= -curve.smallest_log_ratio.upper


FAR_RATES = np.array([1e-300, 1e-30, 1e-9, 0.01, 0.4, 0.9, 1 - 1e-9, 1 - 1e-15])


@every_case_in_a_direction
@every_case
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_extreme_log_ratios_limit_every_quantity(case: Case, direction: Direction) -> None:
    """Bounds at rates near 0 and 1 and at large epsilons keep the limits that the extreme log-likelihood ratios set."""
    curve = curve_of(case.name, direction)
    if curve.singular_power.upper > 0 or case.name == "mixture_of_runs":
        return  # There is no largest ratio, or the evaluation that far out is too expensive.
    largest, smallest = curve.largest_log_ratio.upper, curve.smallest_log_ratio.lower
    rates = FAR_RATES if curve.method == "closed_form" else FAR_RATES[2:6]  # Contours that far out are expensive.
    points = curve.points(rates)
    highest, lowest = np.log(rates) + largest, np.log1p(-rates) + smallest
    slack = 1e-12 * (1 + np.abs(highest))
    assert (log_ends(points.power)[1] <= highest + slack).all()
    assert (log_ends(points.type_two_error)[0] >= lowest - 1e-12 * (1 + np.abs(lowest))).all()
    if largest < math.inf:
        assert (curve.profile(np.array([largest, largest + 1])).upper <= 1e-300).all()
    for rate, single in ((rate, curve.power_at(float(rate))) for rate in rates[:3]):
        assert single.upper <= math.exp(min(largest, 700.0)) * rate * (1 + 1e-10) or largest > 700


@every_case
def test_predictive_values_at_a_rate_are_within_extremes(case: Case) -> None:
    curve, prior = curve_of(case.name, "add"), 0.01
    if curve.method != "closed_form":
        return  # The evaluation that far out is too expensive.
    most = membership.positive_predictive_value(curve, prior).value.upper
    least = membership.negative_predictive_value(curve, prior).value.upper
    for rate in (1e-300, 1e-30, 1e-6, 0.3):
        assert membership.positive_predictive_value(curve, prior, rate).value.upper <= most * (1 + 1e-11)
        assert membership.negative_predictive_value(curve, prior, 1 - rate).value.upper <= least * (1 + 1e-11)
