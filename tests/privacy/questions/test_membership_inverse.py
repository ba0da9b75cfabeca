"""Inverses of membership bounds: against 60 digits, at range limits, and by attaining their target and no more."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest
from mpmath import mpf

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain
from service.privacy.questions import membership, membership_inverse, unlearning
from tests.privacy.threat_models.test_prior_aware import EPSILONS, close, pure


@pytest.mark.parametrize("target", [1e-9, 0.1, 0.5, 0.75, 0.999])
@pytest.mark.parametrize("prior", [1e-12, 0.05, 0.5, 0.9])
def test_largest_epsilon_matches_closed_form(target: float, prior: float) -> None:
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
def test_largest_epsilon_keeps_digits_near_prior(gap: float, prior: float) -> None:
    found = membership_inverse.largest_epsilon(prior * (1 + gap), prior)
    assert found is not None
    with mpmath.workdps(60):
        a, p = mpf(prior * (1 + gap)), mpf(prior)
        assert close(found.value, mpmath.log(a / (1 - a)) - mpmath.log(p / (1 - p)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("target", [1e-300, 0.1, 0.5, 0.999])
def test_largest_sampling_rate_matches_closed_form(epsilon: float, target: float) -> None:
    found = membership_inverse.largest_sampling_rate(target, epsilon)
    with mpmath.workdps(700):
        a = mpf(target)
        assert close(found.value, a / (a + (1 - a) * mpmath.exp(mpf(epsilon))))
    if found.value.lower > 1e-300:
        assert membership.positive_predictive_value(pure(epsilon), found.safe_value).value.lower <= target


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_prior_of_largest_advantage_matches_closed_form(epsilon: float) -> None:
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
def test_largest_prior_for_deletions_attains_capacity(deletions: int, confidence: float) -> None:
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


def test_prior_for_one_deletion_mirrors_accuracy() -> None:
    """The largest prior is 1 - the largest positive predictive value at a prior of B, the confidence."""
    for epsilon, confidence in ((1.0, 0.8), (0.2, 0.99), (5.0, 0.5)):
        prior = membership_inverse.largest_prior_for_deletions(epsilon, confidence, 1).value
        rest = 1 - membership.positive_predictive_value(pure(epsilon), confidence).value.upper
        assert prior.lower == pytest.approx(rest, rel=1e-12)


def test_inverses_at_range_limits_are_exact() -> None:
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
def test_inverses_outside_domain_raise(name: str, call: Any) -> None:
    with pytest.raises(OutOfDomain) as caught:
        call()
    assert caught.value.name == name
