"""Audits from counts: the region against exact binomial sums, mu and epsilon against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from service.privacy.audits.counts import Rate, Region, clopper_pearson, epsilon, gdp_mu, region
from service.privacy.errors import OutOfDomain


def at_least(successes: int, trials: int, rate: Fraction) -> Fraction:
    """Return P(Bin(trials, rate) >= successes) as an exact fraction."""
    return sum(
        (math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes, trials + 1)), Fraction()
    )


@pytest.mark.parametrize("trials", [1, 2, 7, 40])
@pytest.mark.parametrize("tail", [0.25, 0.0125, 2.5e-10])
def test_clopper_pearson_bounds_solve_binomial_tails(trials: int, tail: float) -> None:
    for successes in range(trials + 1):
        rate = clopper_pearson(successes, trials, tail)
        for count, low, high in (
            (successes, rate.lower, rate.complement_upper),
            (trials - successes, rate.complement_lower, rate.upper),
        ):
            if count == 0:
                assert (low, high) == (0.0, 1.0)
                continue
            assert at_least(count, trials, Fraction(low)) <= tail
            assert at_least(count, trials, Fraction(low) * (1 + Fraction(1, 10**8))) > tail * (1 - 1e-8)
            assert at_least(count, trials, 1 - Fraction(high)) <= tail  # The other bound, from its complement.


def test_clopper_pearson_without_successes_matches_closed_form() -> None:
    rate = clopper_pearson(0, 10**9, 0.0125)
    assert rate.lower == 0
    assert rate.upper == pytest.approx(-math.expm1(math.log(0.0125) / 1e9), rel=1e-8)
    assert rate.upper > -math.expm1(math.log(0.0125) / 1e9)


def test_clopper_pearson_matches_published_chart() -> None:
    """The chart of Clopper and Pearson shows (0.057, 0.437) for 4 of 20 at 95 %."""
    rate = clopper_pearson(4, 20, 0.025)
    assert (round(rate.lower, 3), round(rate.upper, 3)) == (0.057, 0.437)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("rates", [(0.3, 0.1), (0.5, 0.5), (0.02, 0.9)])
def test_joint_region_has_promised_coverage(confidence: float, rates: tuple[float, float]) -> None:
    """The counts whose region contains the true rates have at least the promised probability, summed exactly."""
    trials = 12
    covered = 0.0
    for hits in range(trials + 1):
        for alarms in range(trials + 1):
            found = region(hits, trials, alarms, trials, confidence)
            inside = all(
                side.lower <= true <= side.upper
                for side, true in zip((found.true_positive_rate, found.false_positive_rate), rates, strict=True)
            )
            chance = math.prod(
                math.comb(trials, k) * true**k * (1 - true) ** (trials - k)
                for k, true in zip((hits, alarms), rates, strict=True)
            )
            covered += chance * inside
    assert covered >= confidence


def needed_mu(hits: float, alarms: float) -> float:
    return abs(float(norm.ppf(hits) - norm.ppf(alarms)))


def needed_epsilon(hits: float, alarms: float, delta: float) -> float:
    """Return the smallest epsilon that (epsilon, delta)-DP allows for a test and for the opposite test.

    `hits` is the true positive rate of the test, and `alarms` its false positive rate. Each test gives two
    inequalities.
    """
    pairs = ((hits, alarms), (alarms, hits), (1 - alarms, 1 - hits), (1 - hits, 1 - alarms))
    return max(0.0, *(math.log((left - delta) / right) if left > delta else 0.0 for left, right in pairs))


@pytest.mark.parametrize(
    "counts",
    [(180, 1000, 10, 1000), (10, 1000, 180, 1000), (500, 1000, 480, 1000), (0, 30, 30, 30), (995, 1000, 700, 900)],
)
def test_enclosure_covers_mu_and_epsilon_of_all_rates_in_region(counts: tuple[int, int, int, int]) -> None:
    found = region(*counts, 0.95)
    mu, pure, approximate = gdp_mu(found), epsilon(found, 0.0), epsilon(found, 1e-3)
    hits, alarms = (
        np.linspace(side.lower, side.upper, 12)[1:-1] for side in (found.true_positive_rate, found.false_positive_rate)
    )
    for hit in hits.tolist():
        for alarm in alarms.tolist():
            assert mu.lower <= needed_mu(hit, alarm) <= mu.upper
            assert pure.lower <= needed_epsilon(hit, alarm, 0.0) <= pure.upper
            assert approximate.lower <= needed_epsilon(hit, alarm, 1e-3) <= approximate.upper


def test_lower_bound_is_attained_at_corner_of_region() -> None:
    found = region(180, 1000, 10, 1000, 0.95)
    hit, alarm = found.true_positive_rate.lower, found.false_positive_rate.upper
    assert gdp_mu(found).lower == pytest.approx(needed_mu(hit, alarm), rel=1e-11)
    assert gdp_mu(found).lower < needed_mu(hit, alarm)
    assert epsilon(found, 1e-3).lower == pytest.approx(math.log((hit - 1e-3) / alarm), rel=1e-11)


def test_complemented_attack_gives_same_bounds() -> None:
    found, opposite = region(180, 1000, 10, 900, 0.95), region(820, 1000, 890, 900, 0.95)
    assert gdp_mu(found) == gdp_mu(opposite)
    assert epsilon(found, 1e-4) == epsilon(opposite, 1e-4)


def test_higher_confidence_gives_smaller_lower_bound() -> None:
    proved = [gdp_mu(region(180, 1000, 10, 1000, confidence)).lower for confidence in (0.5, 0.9, 0.99, 0.999999)]
    assert proved == sorted(proved, reverse=True)


def test_mu_and_epsilon_of_small_rates_keep_relative_accuracy() -> None:
    """The lower bounds of mu and epsilon keep their digits for rates near 1e-9, and for rates as close to 1."""
    low = Rate(estimate=2e-9, lower=1e-9, upper=3e-9, complement_lower=1 - 3e-9, complement_upper=1 - 1e-9)
    high = Rate(estimate=0.5, lower=0.4, upper=0.6, complement_lower=0.4, complement_upper=0.6)
    found = gdp_mu(Region(true_positive_rate=high, false_positive_rate=low))
    assert found.lower == pytest.approx(float(norm.ppf(0.4) + norm.isf(3e-9)), rel=1e-10)
    reverse = Region(true_positive_rate=low.reversed(), false_positive_rate=high.reversed())
    assert gdp_mu(reverse).lower == pytest.approx(float(norm.isf(3e-9) + norm.ppf(0.4)), rel=1e-10)


def test_guessing_gives_lower_bounds_of_zero() -> None:
    for counts in ((5, 10, 5, 10), (0, 10, 0, 10), (10, 10, 10, 10)):
        found = region(*counts, 0.9)
        assert gdp_mu(found).lower == epsilon(found, 0.0).lower == 0


@pytest.mark.parametrize(
    ("counts", "name"),
    [((0, 0, 1, 2), "members"), ((3, 2, 0, 1), "true_positives"), ((1, 1, -1, 1), "false_positives")],
)
def test_invalid_counts_raise_out_of_domain(counts: tuple[int, int, int, int], name: str) -> None:
    with pytest.raises(OutOfDomain) as caught:
        region(*counts, 0.9)
    assert caught.value.name == name
