"""What a prior changes: Theorem 1 and Corollary 1 to the last digits, where Thudi et al. are wrong as printed, laws."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import mpmath
import pytest
from mpmath import mpf

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import OutOfDomain
from service.privacy.questions import membership, membership_inverse, profile, unlearning
from service.privacy.questions.bayes import Odds, posterior, posterior_at_log_ratio
from service.privacy.questions.earlier_bounds import DpParameters
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.computations.fakes import Renamed
from tests.privacy.cases import built, dpsgd, gaussian, laplace

EPSILONS = [0.0, 1e-12, 1e-3, 0.5, 1.0, 2.0, 8.0, 40.0, 690.0, 1000.0]
PRIORS = [0.0, 1e-300, 1e-10, 0.05, 0.1, 0.5, 0.75, 0.999, 1 - 2**-53, 1.0]
RELATIVE_ERROR = mpf("1e-14")


def pure(epsilon: float) -> AbstractTradeOff:
    return WorstCase().curves(built({"type": "pure_dp", "epsilon": epsilon})).add


def close(value: Enclosure, truth: mpf) -> bool:
    """Both ends around the truth and within 1e-14 of it; around its logarithm where it is no normal double."""
    if not mpf(value.lower) <= truth <= mpf(value.upper):
        return False
    if truth < mpf("1e-305"):
        if truth == 0 or value.log_lower is None or value.log_upper is None:
            return True
        return value.log_lower <= mpmath.log(truth) <= value.log_upper
    return max(truth - value.lower, value.upper - truth) <= RELATIVE_ERROR * truth


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_pure_dp_is_theorem_1_and_corollary_1(epsilon: float, prior: float) -> None:
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


@pytest.mark.parametrize("prior", [5e-324, 1e-310, 1e-30, 0.3, 0.5, 0.7, 1 - 1e-15])
@pytest.mark.parametrize("log_ratio", [-3000.0, -1399.0, -700.5, -1e-9, 0.0, 3e-5, 20.0, 741.0, 1401.0])
def test_posteriors_are_enclosed_wherever_odds_are_no_doubles(prior: float, log_ratio: float) -> None:
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
def test_posteriors_of_two_likelihoods(prior: float, likelihood: float, other: float) -> None:
    value = posterior(Odds.of(prior), Enclosure.point(likelihood), Enclosure.point(other))
    with mpmath.workdps(700):
        p = mpf(prior)
        truth = p * likelihood / (p * likelihood + (1 - p) * other)
        assert value.lower <= truth <= value.upper
        if prior > 1e-300 and truth > mpf("1e-305"):
            assert close(value, truth)


# Where Thudi et al. 2022 are wrong as printed.


def test_erlingsson_at_epsilon_2_is_93_percent() -> None:
    """Section 5.1 prints 95 %."""
    [erlingsson] = [b.value.upper for b in DpParameters(2.0, 0.0).attack_accuracy(0.5, None) if b.name == "erlingsson"]
    assert erlingsson == pytest.approx(0.932332, abs=1e-6)
    assert round(100 * erlingsson, 1) == 93.2


def test_less_noise_than_printed_is_enough_in_section_5_2() -> None:
    """Section 5.2 takes sigma = 4.0412 for (1, 1e-5); 3.7306 is enough, 3.7306 - 1e-4 is not."""

    def delta(sigma: float) -> Enclosure:
        return profile.delta(WorstCase().curves(built(gaussian(sigma))).both, 1.0).value

    assert delta(3.7306317).upper <= 1e-5 < delta(3.7305).lower
    assert delta(4.0412).upper == pytest.approx(2.4098e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("expected_members", "printed", "right"), [(1, 6065.1757, 820), (0.5, 12130.8, 1641), (50, 120.818, 16)]
)
def test_deletion_capacity_has_the_sign_of_a_lower_bound(expected_members: float, printed: float, right: int) -> None:
    """Section 6 and Figure 7: B = 0.8, N = 10000, eps = 1; the printed formula overstates by about e^2."""
    prior = expected_members / 10_000
    by_print = math.log(0.8) / -math.log1p(math.exp(-1) * prior / (1 - prior))
    assert by_print == pytest.approx(printed, rel=1e-4)
    capacity = unlearning.deletion_capacity(pure(1.0), prior, 0.8).value
    assert (capacity.lower, capacity.upper) == (right, right)


# Unlearning.


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("prior", [1e-6, 0.01, 0.3, 0.9])
@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.8, 0.99])
def test_one_deletion_is_the_guarantee(epsilon: float, prior: float, confidence: float) -> None:
    curve = pure(epsilon)
    guarantee = unlearning.unlearning_guarantee(curve, prior, confidence)
    capacity = unlearning.deletion_capacity(curve, prior, confidence).value
    assert guarantee.reading.safe_end == "lower"
    assert guarantee.reading.value == membership.negative_predictive_value(curve, prior, side="at_least").value
    if capacity.lower == 0 and capacity.upper == 1:  # L = B within rounding: 0.99 without any release
        assert (epsilon, prior, confidence, guarantee.holds) == (0.0, 0.01, 0.99, "unknown")
    else:
        assert guarantee.holds == ("yes" if capacity.lower >= 1 else "no")


def test_a_guarantee_at_its_own_edge_is_unknown() -> None:
    value = unlearning.unlearning_guarantee(pure(1.0), 0.1, 0.5).reading.value
    for confidence, holds in ((value.lower, "yes"), (value.upper, "unknown"), (math.nextafter(value.upper, 1), "no")):
        assert unlearning.unlearning_guarantee(pure(1.0), 0.1, confidence).holds == holds


def test_guarantees_at_their_ends() -> None:
    assert unlearning.unlearning_guarantee(pure(1.0), 0.0, 1.0).holds == "yes"
    assert unlearning.unlearning_guarantee(pure(1.0), 1.0, 1e-300).holds == "no"
    assert unlearning.unlearning_guarantee(pure(1.0), 1.0, 0.0).holds == "yes"
    unbounded = WorstCase().curves(built(gaussian(1.0))).add
    assert unlearning.unlearning_guarantee(unbounded, 0.5, 1e-300).holds == "no"
    assert unlearning.unlearning_guarantee(unbounded, 0.5, 0.0).holds == "yes"
    for prior, confidence in ((-0.1, 0.5), (0.5, 1.1), (math.nan, 0.5)):
        with pytest.raises(OutOfDomain):
            unlearning.unlearning_guarantee(unbounded, prior, confidence)


def test_an_approximation_guarantees_nothing() -> None:
    curve = Renamed("clt", Evidence.ASYMPTOTIC, 1.0)
    assert unlearning.unlearning_guarantee(curve, 0.5, 0.5).holds == "unknown"


# Inverses.


@pytest.mark.parametrize("target", [1e-9, 0.1, 0.5, 0.75, 0.999])
@pytest.mark.parametrize("prior", [1e-12, 0.05, 0.5, 0.9])
def test_the_largest_epsilon_is_the_largest(target: float, prior: float) -> None:
    found = membership_inverse.largest_epsilon(target, prior)
    if found is None:
        assert target < prior
        return
    with mpmath.workdps(50):
        a, p = mpf(target), mpf(prior)
        assert close(found.value, mpmath.log(a * (1 - p) / (p * (1 - a))))
    reached = membership.positive_predictive_value(pure(found.safe_value), prior).value
    assert reached.lower <= target
    beyond = membership.positive_predictive_value(pure(found.value.upper * (1 + 1e-12) + 1e-12), prior).value
    assert beyond.lower > target


@pytest.mark.parametrize("gap", [2**-52, 2**-40, 1e-9])
@pytest.mark.parametrize("prior", [2**-30, 0.25, 0.5, 0.75])
def test_the_largest_epsilon_keeps_its_digits_close_to_the_prior(gap: float, prior: float) -> None:
    found = membership_inverse.largest_epsilon(prior * (1 + gap), prior)
    assert found is not None
    with mpmath.workdps(60):
        a, p = mpf(prior * (1 + gap)), mpf(prior)
        assert close(found.value, mpmath.log(a / (1 - a)) - mpmath.log(p / (1 - p)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("target", [1e-300, 0.1, 0.5, 0.999])
def test_the_largest_sampling_rate_is_the_largest(epsilon: float, target: float) -> None:
    found = membership_inverse.largest_sampling_rate(target, epsilon)
    with mpmath.workdps(700):
        a = mpf(target)
        assert close(found.value, a / (a + (1 - a) * mpmath.exp(mpf(epsilon))))
    if found.value.lower > 1e-300:
        assert membership.positive_predictive_value(pure(epsilon), found.safe_value).value.lower <= target


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_prior_has_a_larger_advantage(epsilon: float) -> None:
    prior, advantage = membership_inverse.prior_of_largest_advantage(epsilon)
    with mpmath.workdps(700):
        assert close(prior.value, 1 / (1 + mpmath.exp(mpf(epsilon) / 2)))
        assert close(advantage.value, 2 * mpmath.tanh(mpf(epsilon) / 4))
    curve = pure(epsilon)
    at_best = membership.advantage_over_prior(curve, prior.value.upper).value
    assert at_best.upper >= advantage.value.lower * (1 - 1e-12)
    for other in (1e-9, 0.01, 0.2, 0.4, 0.5, 0.8):
        assert membership.advantage_over_prior(curve, other).value.lower <= advantage.value.upper


@pytest.mark.parametrize("deletions", [1, 2, 10, 1000, 10**9])
@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.8, 0.999])
def test_capacities_are_reached_and_not_more(deletions: int, confidence: float) -> None:
    for epsilon in (0.0, 0.3, 1.0, 12.0):
        found = membership_inverse.largest_prior_for_deletions(epsilon, confidence, deletions)
        with mpmath.workdps(60):
            root = mpf(confidence) ** (mpf(1) / deletions)
            assert close(found.value, (1 - root) / (1 - root + root * mpmath.exp(mpf(epsilon))))
        below, above = found.value.lower * (1 - 1e-12), found.value.upper * (1 + 1e-12)
        assert unlearning.deletion_capacity(pure(epsilon), below, confidence).value.lower >= deletions
        assert unlearning.deletion_capacity(pure(epsilon), above, confidence).value.upper < deletions
        back = membership_inverse.largest_epsilon_for_deletions(below * 0.9, confidence, deletions)
        assert back is not None
        assert back.safe_value > epsilon
        capacity = unlearning.deletion_capacity(pure(back.safe_value * (1 - 1e-12)), below * 0.9, confidence).value
        assert capacity.lower >= deletions


def test_one_deletion_is_the_mirrored_accuracy() -> None:
    """p_max = 1 - the largest positive accuracy at a prior of B."""
    for epsilon, confidence in ((1.0, 0.8), (0.2, 0.99), (5.0, 0.5)):
        prior = membership_inverse.largest_prior_for_deletions(epsilon, confidence, 1).value
        rest = 1 - membership.positive_predictive_value(pure(epsilon), confidence).value.upper
        assert prior.lower == pytest.approx(rest, rel=1e-12)


def test_inverses_at_their_ends() -> None:
    largest_epsilon = membership_inverse.largest_epsilon
    for target, prior in ((1.0, 0.5), (0.3, 0.0), (0.0, 0.0), (1.0, 1.0)):
        found = largest_epsilon(target, prior)
        assert found is not None
        assert found.safe_value == math.inf
    assert largest_epsilon(0.5, 0.6) is largest_epsilon(0.999, 1.0) is largest_epsilon(0.0, 0.1) is None
    same = largest_epsilon(0.3, 0.3)
    assert same is not None
    assert (same.value.lower, same.value.upper) == (0.0, 0.0)
    smallest = largest_epsilon(1 - 2**-53, 5e-324)
    assert smallest is not None
    assert smallest.value.lower == pytest.approx(1074 * math.log(2) + 53 * math.log(2), rel=1e-13)
    for target in (0.0, 1.0):
        assert membership_inverse.largest_sampling_rate(target, 3.0).value == Enclosure.point(target)
    deletions = membership_inverse.largest_epsilon_for_deletions
    for prior, confidence in ((0.0, 0.5), (0.5, 0.0), (1.0, 0.0)):
        found = deletions(prior, confidence, 5)
        assert found is not None
        assert found.safe_value == math.inf
    for prior, confidence in ((1.0, 0.5), (0.5, 1.0), (0.5, 0.5)):
        assert deletions(prior, confidence, 5) is None
    assert deletions(0.5, 0.5, 1) is not None  # (1 - p)^m = B exactly
    assert deletions(0.5, 0.25, 2) is not None
    assert deletions(0.5, math.nextafter(0.25, 1), 2) is None
    huge = deletions(0.5, 5e-324, 1)
    assert huge is not None
    assert huge.value.lower == pytest.approx(1074 * math.log(2), rel=1e-12)
    assert membership_inverse.largest_prior_for_deletions(1.0, 0.0, 3).value == Enclosure.point(1.0)
    assert membership_inverse.largest_prior_for_deletions(1.0, 1.0, 3).value == Enclosure.point(0.0)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("prior", lambda: membership_inverse.largest_epsilon(0.5, -0.1)),
        ("positive_predictive_value", lambda: membership_inverse.largest_epsilon(1.5, 0.1)),
        ("positive_predictive_value", lambda: membership_inverse.largest_sampling_rate(math.nan, 1.0)),
        ("epsilon", lambda: membership_inverse.largest_sampling_rate(0.5, -1.0)),
        ("epsilon", lambda: membership_inverse.prior_of_largest_advantage(math.inf)),
        ("confidence", lambda: membership_inverse.largest_epsilon_for_deletions(0.5, 2.0, 1)),
        ("deletions", lambda: membership_inverse.largest_prior_for_deletions(0.5, 0.5, 0)),
    ],
)
def test_inverses_say_what_is_outside(name: str, call: Any) -> None:
    with pytest.raises(OutOfDomain) as caught:
        call()
    assert caught.value.name == name


# Earlier bounds.


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1, 0.9])
def test_earlier_bounds_never_undercut(epsilon: float, delta: float) -> None:
    curve = WorstCase().curves(built({"type": "approximate_dp", "epsilon": epsilon, "delta": delta})).add
    known = DpParameters(epsilon, delta)

    def undercut(ours: Enclosure, bounds: Any) -> list[str]:
        return [bound.name for bound in bounds if not ours.lower <= bound.value.upper]

    assert not undercut(membership.advantage(curve).value, known.advantage())
    for prior in (0.0, 1e-9, 0.1, 0.5, 0.9, 1.0):
        rates = (None, 0.0, 1e-7, 0.3, 1.0)
        for rate in rates:
            accuracy = membership.attack_accuracy(curve, prior, rate).value
            assert not undercut(accuracy, known.attack_accuracy(prior, rate))
            value = membership.positive_predictive_value(curve, prior, rate).value
            assert not undercut(value, known.positive_predictive_value(prior, rate))
        gain = membership.advantage_over_prior(curve, prior).value
        assert not undercut(gain, known.advantage_over_prior(prior))


def test_which_earlier_bounds_apply() -> None:
    def names(bounds: Any) -> list[str]:
        return [bound.name for bound in bounds]

    pure_dp, approximate = DpParameters(1.0, 0.0), DpParameters(1.0, 1e-5)
    assert names(pure_dp.advantage()) == ["yeom", "erlingsson"]
    assert names(approximate.advantage()) == ["erlingsson"]
    assert names(pure_dp.attack_accuracy(0.5, None)) == ["yeom", "erlingsson", "sablayrolles"]
    assert names(approximate.attack_accuracy(0.5, None)) == ["erlingsson"]
    assert names(pure_dp.attack_accuracy(0.4, None)) == []
    assert names(approximate.attack_accuracy(0.4, 0.1)) == ["jayaraman"]
    assert names(pure_dp.positive_predictive_value(0.4, None)) == ["sablayrolles"]
    assert names(pure_dp.positive_predictive_value(0.4, 0.1)) == ["sablayrolles", "jayaraman"]
    assert names(approximate.positive_predictive_value(0.4, None)) == []
    assert names(pure_dp.advantage_over_prior(0.4)) == ["sablayrolles"]
    for bounds in (pure_dp.advantage(), pure_dp.attack_accuracy(0.5, None), pure_dp.advantage_over_prior(0.3)):
        assert all(0 <= bound.value.lower <= bound.value.upper <= 2 and bound.source for bound in bounds)


@pytest.mark.parametrize(
    ("epsilon", "yeom", "erlingsson", "sablayrolles"),
    [(1.0, 1.0, 0.816060279414279, 0.75), (2.0, 1.0, 0.932332358381694, 1.0), (0.1, 0.552585459, 0.547581291, 0.525)],
)
def test_printed_values_of_earlier_bounds(epsilon: float, yeom: float, erlingsson: float, sablayrolles: float) -> None:
    """Section 5.1: at epsilon 1 they are 81.6 % and 75 %, at epsilon 2 93.2 % (printed 95 %) and 100 %."""
    found = {bound.name: bound.value.upper for bound in DpParameters(epsilon, 0.0).attack_accuracy(0.5, None)}
    wanted = {"yeom": yeom, "erlingsson": erlingsson, "sablayrolles": sablayrolles}
    assert found == pytest.approx(wanted, abs=1e-9)


def test_erlingsson_with_delta_is_valid_and_not_tight() -> None:
    """1 - e^-eps + delta e^-eps against (e^eps - 1 + 2 delta)/(e^eps + 1)."""
    [erlingsson] = DpParameters(1.0, 0.01).advantage()
    assert erlingsson.value.upper == pytest.approx(1 - 0.99 * math.exp(-1), rel=1e-14)
    assert erlingsson.value.upper > 0.4675


# General curves, from their definition.


@pytest.mark.parametrize("spec", [laplace(1.0), gaussian(0.7), dpsgd(1.0, 0.05, 50)], ids=lambda spec: spec["type"])
def test_the_best_predictive_value_rises_with_the_prior_and_falls_with_the_rate(spec: dict[str, Any]) -> None:
    curve = WorstCase().curves(built(spec)).add
    priors = [1e-9, 0.01, 0.3, 0.9]
    at_a_rate = [membership.positive_predictive_value(curve, prior, 1e-3).value for prior in priors]
    assert all(low.upper < high.lower for low, high in pairwise(at_a_rate))
    by_rate = [membership.positive_predictive_value(curve, 0.1, rate).value for rate in (1e-9, 1e-3, 0.5)]
    assert all(high.upper >= low.lower for high, low in pairwise(by_rate))
