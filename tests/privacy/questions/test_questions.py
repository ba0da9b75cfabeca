"""Questions as functionals of a curve: the papers' formulas, edge values, directions, suprema."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy import optimize, special

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain
from service.privacy.questions import gaussian_dp, membership, profile, reconstruction, unlearning
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.slow_marker import sample_of


def pair_of(spec: dict[str, Any]) -> TradeOffPair:
    return WorstCase().curves(built(spec))


def add_of(spec: dict[str, Any]) -> AbstractTradeOff:
    return pair_of(spec).add


PURE_2 = {"type": "pure_dp", "epsilon": 2.0}
LOOSE = {"type": "approximate_dp", "epsilon": 1.0, "delta": 0.01}
NOTHING = {"type": "gdp", "mu": 0.0}
CURVES = {
    "gaussian": gaussian(1.0),
    "laplace": laplace(1.0),
    "pure_dp": PURE_2,
    "approximate_dp": LOOSE,
    "sampled_gaussian": sampled(0.3, gaussian(0.8)),
    "sampled_laplace": sampled(0.3, laplace(0.8)),
    "dpsgd": dpsgd(1.0, 0.02, 300),
}
every_curve = pytest.mark.parametrize("spec", CURVES.values(), ids=CURVES.keys())
every_direction = pytest.mark.parametrize("direction", ["add", "remove", "both"])


def encloses(value: Enclosure, truth: float | mpf, slack: float = 0.0) -> bool:
    return mpf(value.lower) <= mpf(truth) * (1 + slack) and mpf(truth) * (1 - slack) <= mpf(value.upper)


# The two enclosures below need not be equal, but must have a common number.
def meet(first: Enclosure, second: Enclosure) -> bool:
    return first.lower <= second.upper and second.lower <= first.upper


@sample_of(7)
@every_curve
@every_direction
def test_accuracy_is_largest_over_all_rates(spec: dict[str, Any], direction: str) -> None:
    curve: AbstractTradeOff = getattr(pair_of(spec), direction)
    rates = np.concatenate((np.geomspace(1e-9, 0.4, 150), np.linspace(0.4, 1, 150)))
    for prior in (0.01, 0.3, 0.5, 0.8, 0.999):
        best = membership.attack_accuracy(curve, prior).value
        power = curve.power(rates)
        at_rates = prior * power.lower + (1 - prior) * (1 - rates)
        assert (at_rates <= best.upper + 1e-15).all()
        assert best.lower >= max(prior, 1 - prior) * (1 - 1e-14)
        assert at_rates.max() >= best.lower - 5e-3  # Error of the grid.
        for rate in (1e-6, 0.2):
            at_rate = membership.attack_accuracy(curve, prior, rate).value
            assert at_rate.lower <= best.upper


@every_curve
def test_accuracy_at_prior_mirrors_complement(spec: dict[str, Any]) -> None:
    """The accuracy at the prior p of the direction add is that at 1 - p of remove.

    A member with prior p under add is a non-member with prior 1 - p under remove.
    """
    pair = pair_of(spec)
    for prior in (1e-9, 0.2, 0.5, 0.7):
        assert meet(
            membership.attack_accuracy(pair.add, prior).value, membership.attack_accuracy(pair.remove, 1 - prior).value
        )


@every_curve
def test_advantage_does_not_depend_on_direction(spec: dict[str, Any]) -> None:
    pair = pair_of(spec)
    readings = [membership.advantage(curve).value for curve in (pair.add, pair.remove, pair.both)]
    assert meet(readings[0], readings[1])
    assert meet(readings[0], readings[2])
    even = membership.attack_accuracy(pair.add, 0.5).value
    assert encloses(even, 0.5 + mpf(readings[0].lower) / 2, slack=1e-6)


@every_curve
@pytest.mark.parametrize("prior", [1e-12, 0.1, 0.5, 0.99])
def test_predictive_values_are_ordered(spec: dict[str, Any], prior: float) -> None:
    curve = add_of(spec)
    for question, blind in (
        (membership.positive_predictive_value, prior),
        (membership.negative_predictive_value, 1 - prior),
    ):
        most, least = question(curve, prior).value, question(curve, prior, side="at_least").value
        slack = 1 + 1e-12
        for rate in (1e-9, 0.01, 0.5, 0.999):
            above, below = question(curve, prior, rate).value, question(curve, prior, rate, "at_least").value
            assert least.lower <= below.upper
            assert below.lower <= blind * slack
            assert blind <= above.upper * slack
            assert above.lower <= most.upper


def test_predictive_values_of_pure_dp_match_theorem() -> None:
    """Predictive values of pure DP match Theorem 1 and Corollary 1 of Thudi et al. 2022.

    They are attained at rates on the first and last segment of the curve.
    """
    curve = add_of(PURE_2)
    with mpmath.workdps(40):
        for prior in (1e-30, 0.25, 0.9):
            p, growth = mpf(prior), mpmath.exp(2)
            ppv_high, ppv_low = 1 / (1 + (1 - p) / (p * growth)), 1 / (1 + growth * (1 - p) / p)
            npv_high, npv_low = 1 / (1 + p / ((1 - p) * growth)), 1 / (1 + growth * p / (1 - p))
            for rate in (None, 1e-3):
                assert encloses(membership.positive_predictive_value(curve, prior, rate).value, ppv_high)
                assert encloses(membership.positive_predictive_value(curve, prior, rate, "at_least").value, ppv_low)
            for rate in (None, 0.99):
                assert encloses(membership.negative_predictive_value(curve, prior, rate).value, npv_high)
                assert encloses(membership.negative_predictive_value(curve, prior, rate, "at_least").value, npv_low)
            over = membership.advantage_over_prior(curve, prior).value
            assert encloses(over, 2 * (ppv_high - p))
            assert over.relative_width() < 1e-13


@pytest.mark.parametrize("rate", [1e-300, 1e-20, 1e-17, 3e-9, 0.3])
def test_least_predictive_value_at_small_rates_matches_formula(rate: float) -> None:
    """The smallest predictive value at a tiny rate matches the type II error of the Gaussian curve at 1 - rate.

    The double 1 - rate is 1.
    """
    with mpmath.workdps(400):
        tail = mpf(rate)
        x = mpf(float(special.ndtri(rate)))
        for _ in range(12):
            cdf = mpmath.erfc(-x / mpmath.sqrt(2)) / 2
            x -= (cdf - tail) * mpmath.exp(x * x / 2) * mpmath.sqrt(2 * mpmath.pi)
        least = mpmath.erfc((1 - x) / mpmath.sqrt(2)) / 2  # Phi(Phi^-1(rate) - mu), mu = 1
        truth = least / (least + tail)
    value = membership.positive_predictive_value(add_of(gaussian(1.0)), 0.5, rate, "at_least").value
    assert encloses(value, truth)
    assert value.relative_width() < 1e-9 or least < 1e-300


def test_without_information_posterior_is_prior() -> None:
    curve = add_of(NOTHING)
    for prior in (0.0, 0.2, 1.0):
        assert encloses(membership.positive_predictive_value(curve, prior).value, prior)
        assert encloses(membership.positive_predictive_value(curve, prior, 0.3).value, prior, 1e-15)
        assert encloses(membership.attack_accuracy(curve, prior).value, max(prior, 1 - prior))
        assert membership.advantage_over_prior(curve, prior).value == Enclosure.point(0.0)
    assert membership.advantage(curve).value.upper == 0
    assert profile.epsilon(curve, 0.0).value == Enclosure.point(0.0)
    reading = gaussian_dp.mu(curve, 1e-9, 1e-9)
    assert (reading.value.upper, reading.global_mu.upper) == (0.0, 0.0)


@every_curve
def test_edges_have_exact_answers(spec: dict[str, Any]) -> None:
    curve = add_of(spec)
    singular = spec.get("delta", 0.0)
    assert membership.attack_accuracy(curve, 0.0).value == Enclosure.point(1.0)
    assert membership.attack_accuracy(curve, 1.0).value == Enclosure.point(1.0)
    assert membership.positive_predictive_value(curve, 0.0).value.upper == 0
    assert membership.positive_predictive_value(curve, 1.0).value.lower == 1
    assert membership.negative_predictive_value(curve, 0.0).value.lower == 1
    assert membership.negative_predictive_value(curve, 1.0).value.upper == 0
    assert reconstruction.gamma(curve, 1.0).value.lower == 1
    at_zero = reconstruction.gamma(curve, 0.0).value
    assert (at_zero.lower, at_zero.upper) == (singular, singular)
    assert profile.delta(curve, math.inf).value.upper == singular
    assert profile.epsilon(curve, 1.0).value.upper == 0
    limit = membership.positive_predictive_value(curve, 0.1, 0.0)
    assert limit.value == membership.positive_predictive_value(curve, 0.1).value
    assert limit.notes
    assert unlearning.deletion_capacity(curve, 0.0, 0.5).value.lower == math.inf
    assert unlearning.deletion_capacity(curve, 1.0, 0.5).value.upper == 0
    assert unlearning.deletion_capacity(curve, 0.3, 0.0).value.lower == math.inf
    assert unlearning.deletion_capacity(curve, 0.3, 1.0).value.upper == 0


def test_safe_value_is_the_conservative_bound() -> None:
    curve = add_of(CURVES["sampled_laplace"])
    readings = {
        "upper": [
            profile.epsilon(curve, 1e-5),
            profile.delta(curve, 0.1),
            reconstruction.gamma(curve, 0.1),
            membership.advantage(curve),
            membership.attack_accuracy(curve, 0.1),
            membership.positive_predictive_value(curve, 0.1),
            membership.negative_predictive_value(curve, 0.1),
            membership.advantage_over_prior(curve, 0.1),
            gaussian_dp.mu(curve, 1e-9, 1e-9),
        ],
        "lower": [
            membership.positive_predictive_value(curve, 0.1, side="at_least"),
            membership.negative_predictive_value(curve, 0.1, side="at_least"),
            unlearning.deletion_capacity(curve, 0.01, 0.8),
        ],
    }
    for end, group in readings.items():
        for reading in group:
            assert reading.safe_end == end
            assert reading.safe_value == getattr(reading.value, end)
            assert reading.source


@pytest.mark.parametrize("prior", [1e-12, 1e-4, 0.02, 0.6])
@pytest.mark.parametrize("confidence", [1e-9, 0.8, 0.999])
def test_deletion_capacity_of_pure_dp_matches_formula(prior: float, confidence: float) -> None:
    with mpmath.workdps(40):
        log_l = -mpmath.log1p(mpmath.exp(2) * mpf(prior) / (1 - mpf(prior)))
        truth = int(mpmath.floor(mpmath.log(mpf(confidence)) / log_l))
    reading = unlearning.deletion_capacity(add_of(PURE_2), prior, confidence)
    assert (reading.value.lower, reading.value.upper) == (truth, truth)


def test_ambiguous_floor_returns_both_integers() -> None:
    """A number of deletions that no enclosure separates from the next one is answered by both integers.

    The confidence B is L^3, rounded to a double, where L is the smallest probability that a record is no member. 2 and
    3 deletions are possible, so 2 is safe.
    """
    growth = math.exp(2) * 0.25 / 0.75
    reading = unlearning.deletion_capacity(add_of(PURE_2), 0.25, (1 / (1 + growth)) ** 3)
    assert (reading.value.lower, reading.value.upper) == (2.0, 3.0)
    assert reading.safe_value == 2.0


@pytest.mark.parametrize("spec", [gaussian(1.0), LOOSE], ids=["gaussian", "delta > 0"])
def test_unbounded_ratios_leave_no_capacity(spec: dict[str, Any]) -> None:
    reading = unlearning.deletion_capacity(add_of(spec), 0.01, 0.5)
    assert reading.value == Enclosure.point(0.0)
    assert reading.notes


def largest_mu(curve: AbstractTradeOff, low: float, high: float) -> float:
    """Compute sup of Phi^-1(power) - Phi^-1(alpha) by dense search and refinement, uncertified, without slopes."""

    def negative(x: float) -> float:
        points = curve.points(np.array([special.ndtr(x)]))
        beta = 0.5 * float(points.type_two_error.lower[0] + points.type_two_error.upper[0])
        power = 0.5 * float(points.power.lower[0] + points.power.upper[0])
        return x - float(special.ndtri(power) if power < 0.5 else -special.ndtri(beta))

    grid = np.linspace(special.ndtri(low), special.ndtri(high), 80)
    values = [negative(float(x)) for x in grid]
    best = int(np.argmin(values))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = optimize.minimize_scalar(negative, bounds=(left, right), method="bounded", options={"xatol": 1e-10})
    return -min(values[best], float(refined.fun))


@sample_of(7)
@every_curve
@every_direction
def test_gdp_mu_is_the_supremum_over_its_range(spec: dict[str, Any], direction: str) -> None:
    curve: AbstractTradeOff = getattr(pair_of(spec), direction)
    for rate_min, error_min in ((1e-9, 1e-9), (1e-3, 1e-6), (0.2, 0.05)):
        reading = gaussian_dp.mu(curve, rate_min, error_min)
        last = float(curve.reversed().type_two_error(np.array([error_min])).lower[0])
        searched = largest_mu(curve, rate_min, last) if last > rate_min else 0.0
        assert searched <= reading.value.upper * (1 + 1e-9)  # Differences of quantiles lose some digits.
        assert reading.value.lower >= searched - 1e-7 * (1 + searched)
        assert reading.value.upper <= reading.global_mu.upper * (1 + 1e-12)
        assert reading.value.relative_width() <= 1e-8 or reading.value.upper < 1e-6


def test_gdp_mu_of_gaussian_is_its_mu() -> None:
    for mu in (1e-3, 1.0, 7.0):
        reading = gaussian_dp.mu(add_of({"type": "gdp", "mu": mu}), 1e-9, 1e-9)
        assert encloses(reading.value, mu)
        assert reading.value.relative_width() < 1e-9
        assert reading.global_mu == Enclosure.point(mu)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 40.0, 650.0, 720.0, 1e5])
def test_global_mu_of_pure_dp_touches_at_kink(epsilon: float) -> None:
    value = gaussian_dp.mu(add_of({"type": "pure_dp", "epsilon": epsilon}), 0.0, 0.0).global_mu
    with mpmath.workdps(40):
        target = -mpmath.log1p(mpmath.exp(mpf(epsilon)))

        def log_tail(mu: mpf) -> mpf:
            half = mu / 2 / mpmath.sqrt(2)
            return mpmath.log(mpmath.erfc(half) / 2)

        assert log_tail(mpf(value.upper)) <= target <= log_tail(mpf(value.lower))
    assert value.relative_width() < 1e-10


def test_global_mu_of_sampled_steps_matches_formula() -> None:
    assert encloses(gaussian_dp.mu(add_of(sampled(0.01, gaussian(0.5))), 1e-9, 1e-9).global_mu, 2.0)
    for spec in (laplace(0.5), sampled(0.2, laplace(0.5))):
        curve = add_of(spec)
        reading = gaussian_dp.mu(curve, 1e-9, 1e-9)
        assert reading.value.lower <= reading.global_mu.upper
        assert reading.global_mu.relative_width() < 1e-8
        assert encloses(reading.global_mu, largest_mu(curve, 1e-14, 1 - 1e-14), slack=1e-9)
    assert gaussian_dp.mu(add_of(LOOSE), 1e-9, 1e-9).global_mu.lower == math.inf


Question = Callable[[AbstractTradeOff, float], object]
QUESTIONS: dict[str, Question] = {
    "epsilon": profile.epsilon,
    "gamma": reconstruction.gamma,
    "accuracy prior": membership.attack_accuracy,
    "accuracy rate": lambda curve, bad: membership.attack_accuracy(curve, 0.5, bad),
    "ppv prior": membership.positive_predictive_value,
    "ppv rate": lambda curve, bad: membership.positive_predictive_value(curve, 0.5, bad),
    "npv prior": membership.negative_predictive_value,
    "npv rate": lambda curve, bad: membership.negative_predictive_value(curve, 0.5, bad),
    "advantage over prior": membership.advantage_over_prior,
    "capacity prior": lambda curve, bad: unlearning.deletion_capacity(curve, bad, 0.5),
    "capacity confidence": lambda curve, bad: unlearning.deletion_capacity(curve, 0.5, bad),
    "mu rate": lambda curve, bad: gaussian_dp.mu(curve, bad, 0.5),
    "mu error": lambda curve, bad: gaussian_dp.mu(curve, 0.5, bad),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS.keys())
@pytest.mark.parametrize("bad", [-1e-9, 1.0000001, math.nan, math.inf])
def test_values_outside_domain_raise(question: Callable[[AbstractTradeOff, float], object], bad: float) -> None:
    with pytest.raises(OutOfDomain):
        question(add_of(gaussian(1.0)), bad)


def test_mu_over_empty_range_has_note() -> None:
    """The answer mu = 0 has a note if no point of the curve is in the range, because everything is revealed."""
    revealed = gaussian_dp.mu(add_of({"type": "approximate_dp", "epsilon": 0.0, "delta": 1.0}), 1e-9, 1e-9)
    assert (revealed.value.upper, revealed.global_mu.lower) == (0.0, math.inf)
    assert revealed.notes == (gaussian_dp.NOTHING_IN_RANGE,)
    assert gaussian_dp.mu(add_of(gaussian(1.0)), 1e-9, 1e-9).notes == ()
    assert gaussian_dp.mu(add_of({"type": "pure_dp", "epsilon": 0.0}), 1e-9, 1e-9).notes == ()


@pytest.mark.parametrize("seed", range(4))
def test_mu_over_possibly_empty_range_is_not_zero(seed: int) -> None:
    """mu is not 0 if only one curve of a bracket has no point in its range, because curves between may have points.

    The answer has a note on that.
    """
    generator = np.random.default_rng([20261202, seed])
    revealing = add_of({"type": "approximate_dp", "epsilon": 10.0 ** generator.uniform(2, 6), "delta": 0.5})
    for least in (add_of(gaussian(10.0 ** generator.uniform(-1, 2))), revealing):
        found = gaussian_dp.mu(Bracketed(least, revealing), *(10.0 ** -generator.uniform(1, 9, 2)))
        expected = gaussian_dp.NOTHING_IN_RANGE if found.value.upper == 0 else gaussian_dp.RANGE_MAY_BE_EMPTY
        assert found.notes == (expected,)
