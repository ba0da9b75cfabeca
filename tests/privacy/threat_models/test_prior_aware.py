"""Effect of a prior: Theorem 1 and Corollary 1 to the last digits, printed errors of Thudi et al., and laws."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import mpmath
import pytest
from mpmath import mpf

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.questions import membership, profile, unlearning
from service.privacy.questions.bayes import Odds, posterior, posterior_at_log_ratio
from service.privacy.questions.earlier_bounds import DpParameters
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built, dpsgd, gaussian, laplace
from tests.resources.fakes import StubCurve

EPSILONS = [0.0, 1e-12, 1e-3, 0.5, 1.0, 2.0, 8.0, 40.0, 690.0, 1000.0]
PRIORS = [0.0, 1e-300, 1e-10, 0.05, 0.1, 0.5, 0.75, 0.999, 1 - 2**-53, 1.0]
RELATIVE_ERROR = mpf("1e-14")


def pure(epsilon: float) -> AbstractTradeOff:
    return WorstCase().curves(built({"type": "pure_dp", "epsilon": epsilon})).add


def close(value: Enclosure, truth: mpf) -> bool:
    """Return whether the bounds enclose the truth within 1e-14, by logarithm if it is subnormal."""
    if not mpf(value.lower) <= truth <= mpf(value.upper):
        return False
    if truth < mpf("1e-305"):
        if truth == 0 or value.log_lower is None or value.log_upper is None:
            return True
        return value.log_lower <= mpmath.log(truth) <= value.log_upper
    return max(truth - value.lower, value.upper - truth) <= RELATIVE_ERROR * truth


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_pure_dp_matches_theorem_1_and_corollary_1(epsilon: float, prior: float) -> None:
    curve = pure(epsilon)
    with mpmath.workdps(700):
        p, e = mpf(prior), mpmath.exp(mpf(epsilon))
        most, least = p * e / (p * e + (1 - p)), p / (p + (1 - p) * e)
        assert close(membership.positive_predictive_value(curve, prior).value, most)
        assert close(membership.positive_predictive_value(curve, prior, side="at_least").value, least)
        cleared, doubted = (1 - p) * e / ((1 - p) * e + p), (1 - p) / (1 - p + p * e)
        assert close(membership.negative_predictive_value(curve, prior).value, cleared)
        assert close(membership.negative_predictive_value(curve, prior, side="at_least").value, doubted)
        assert close(membership.advantage_over_prior(curve, prior).value, 2 * (most - p))
        if prior == 0.5:
            assert close(membership.attack_accuracy(curve, prior).value, most)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.3])
@pytest.mark.parametrize("prior", [1e-10, 0.1, 0.4999, 0.5, 0.9, 1 - 1e-10])
def test_largest_accuracy_matches_closed_form(epsilon: float, delta: float, prior: float) -> None:
    curve = WorstCase().curves(built({"type": "approximate_dp", "epsilon": epsilon, "delta": delta})).add
    with mpmath.workdps(700):
        p, d, e = mpf(prior), mpf(delta), mpmath.exp(mpf(epsilon))
        truth = max((e + d) / (1 + e), p + (1 - p) * d, 1 - p + p * d)
        assert close(membership.attack_accuracy(curve, prior).value, truth)


@pytest.mark.parametrize("prior", [5e-324, 1e-310, 1e-30, 0.3, 0.5, 0.7, 1 - 1e-15])
@pytest.mark.parametrize("log_ratio", [-3000.0, -1399.0, -700.5, -1e-9, 0.0, 3e-5, 20.0, 741.0, 1401.0])
def test_posteriors_are_enclosed_when_odds_overflow(prior: float, log_ratio: float) -> None:
    with mpmath.workdps(2000):
        odds = mpf(prior) / (1 - mpf(prior)) * mpmath.exp(mpf(log_ratio))
        truth, log_truth = odds / (1 + odds), -mpmath.log1p(1 / odds)
        value = posterior_at_log_ratio(Odds.of(prior), Enclosure.point(log_ratio))
        assert value.lower <= truth <= value.upper
        assert value.log_lower <= log_truth <= value.log_upper
        rest = posterior_at_log_ratio(Odds.of(prior).reversed(), Enclosure.point(-log_ratio))
        assert rest.lower <= 1 - truth <= rest.upper


@pytest.mark.parametrize("prior", [1e-310, 1e-12, 0.5, 1 - 1e-12])
@pytest.mark.parametrize(("likelihood", "other"), [(1.0, 1e-300), (1e-300, 1.0), (3e-200, 1e-200), (0.3, 0.2), (0, 1)])
def test_posterior_of_two_likelihoods_matches_bayes(prior: float, likelihood: float, other: float) -> None:
    value = posterior(Odds.of(prior), Enclosure.point(likelihood), Enclosure.point(other))
    with mpmath.workdps(700):
        p = mpf(prior)
        truth = p * likelihood / (p * likelihood + (1 - p) * other)
        assert value.lower <= truth <= value.upper
        if prior > 1e-300 and truth > mpf("1e-305"):
            assert close(value, truth)


# Printed errors of Thudi et al. 2022.


def test_erlingsson_at_epsilon_2_is_93_percent() -> None:
    """The bound of Erlingsson at epsilon 2 is 93 %, where Section 5.1 of Thudi et al. prints 95 %."""
    [erlingsson] = [b.value.upper for b in DpParameters(2.0, 0.0).attack_accuracy(0.5, None) if b.name == "erlingsson"]
    assert erlingsson == pytest.approx(0.932332, abs=1e-6)
    assert round(100 * erlingsson, 1) == 93.2


def test_less_noise_than_printed_suffices_in_section_5_2() -> None:
    """(1, 1e-5)-DP needs a noise multiplier of 3.7306317, and 3.7305 is not enough.

    Section 5.2 of Thudi et al. uses 4.0412.
    """

    def delta(sigma: float) -> Enclosure:
        return profile.delta(WorstCase().curves(built(gaussian(sigma))).both, 1.0).value

    assert delta(3.7306317).upper <= 1e-5 < delta(3.7305).lower
    assert delta(4.0412).upper == pytest.approx(2.4098e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("expected_members", "printed", "right"), [(1, 6065.1757, 820), (0.5, 12130.8, 1641), (50, 120.818, 16)]
)
def test_printed_deletion_capacity_is_too_large(expected_members: float, printed: float, right: int) -> None:
    """The printed formula of the deletion capacity overstates it by about e^2.

    Section 6 and Figure 7 of Thudi et al. have the confidence B = 0.8, N = 10000 records, and eps = 1.
    """
    prior = expected_members / 10_000
    by_print = math.log(0.8) / -math.log1p(math.exp(-1) * prior / (1 - prior))
    assert by_print == pytest.approx(printed, rel=1e-4)
    capacity = unlearning.deletion_capacity(pure(1.0), prior, 0.8).value
    assert (capacity.lower, capacity.upper) == (right, right)


# Unlearning.


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("prior", [1e-6, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.8, 0.99])
def test_guarantee_is_that_of_one_deletion(epsilon: float, prior: float, confidence: float) -> None:
    curve = pure(epsilon)
    guarantee = unlearning.unlearning_guarantee(curve, prior, confidence)
    capacity = unlearning.deletion_capacity(curve, prior, confidence).value
    assert guarantee.reading.safe_end == "lower"
    assert guarantee.reading.value == membership.negative_predictive_value(curve, prior, side="at_least").value
    if capacity.lower == 0 and capacity.upper == 1:  # L = B within rounding: 0.99 without any release.
        assert (epsilon, prior, confidence, guarantee.holds) == (0.0, 0.01, 0.99, "unknown")
    else:
        assert guarantee.holds == ("yes" if capacity.lower >= 1 else "no")


def test_guarantee_at_its_own_bound_is_unknown() -> None:
    value = unlearning.unlearning_guarantee(pure(1.0), 0.1, 0.5).reading.value
    for confidence, holds in ((value.lower, "yes"), (value.upper, "unknown"), (math.nextafter(value.upper, 1), "no")):
        assert unlearning.unlearning_guarantee(pure(1.0), 0.1, confidence).holds == holds


def test_guarantees_at_range_limits_are_exact() -> None:
    assert unlearning.unlearning_guarantee(pure(1.0), 0.0, 1.0).holds == "yes"
    assert unlearning.unlearning_guarantee(pure(1.0), 1.0, 1e-300).holds == "no"
    assert unlearning.unlearning_guarantee(pure(1.0), 1.0, 0.0).holds == "yes"
    unbounded = WorstCase().curves(built(gaussian(1.0))).add
    assert unlearning.unlearning_guarantee(unbounded, 0.5, 1e-300).holds == "no"
    assert unlearning.unlearning_guarantee(unbounded, 0.5, 0.0).holds == "yes"
    for prior, confidence in ((-0.1, 0.5), (0.5, 1.1), (math.nan, 0.5)):
        with pytest.raises(OutOfDomain):
            unlearning.unlearning_guarantee(unbounded, prior, confidence)


def test_approximation_gives_unknown_guarantee() -> None:
    curve = StubCurve("clt", Evidence.ASYMPTOTIC, 1.0)
    assert unlearning.unlearning_guarantee(curve, 0.5, 0.5).holds == "unknown"


# General curves, from their definition.


@pytest.mark.parametrize("spec", [laplace(1.0), gaussian(0.7), dpsgd(1.0, 0.05, 50)], ids=lambda spec: spec["type"])
def test_largest_predictive_value_increases_with_prior_and_decreases_with_rate(spec: dict[str, Any]) -> None:
    curve = WorstCase().curves(built(spec)).add
    priors = [1e-9, 0.01, 0.3, 0.9]
    at_a_rate = [membership.positive_predictive_value(curve, prior, 1e-3).value for prior in priors]
    assert all(low.upper < high.lower for low, high in pairwise(at_a_rate))
    by_rate = [membership.positive_predictive_value(curve, 0.1, rate).value for rate in (1e-9, 1e-3, 0.5)]
    assert all(high.upper >= low.lower for high, low in pairwise(by_rate))
