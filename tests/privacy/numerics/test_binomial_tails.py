"""Binomial tails against sums in mpmath, within their stated errors.

The tails are compared where the ratio P(K > k)/P(K = k) fits a double.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from service.privacy.numerics.binomial_tails import BinomialTails, weighted_sums
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF


def truths(trials: int, log_odds: float, successes: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Return ln P(K = k) and P(K > k)/P(K = k) of a binomial number K at the current precision."""
    odds, normaliser = mpmath.exp(log_odds), trials * mpmath.log1p(mpmath.exp(log_odds))
    mass = mpmath.log(mpmath.binomial(trials, successes)) + successes * mpmath.mpf(log_odds) - normaliser
    term, total = mpmath.mpf(1), mpmath.mpf(0)
    for k in range(successes, trials):
        term *= mpmath.mpf(trials - k) / (k + 1) * odds
        total += term
        if term < total * mpmath.mpf(10) ** -30:
            break
    return mass, total


@pytest.mark.parametrize("trials", [1, 7, 400])
@pytest.mark.parametrize("log_odds", [-700.0, -30.0, -1.0, 0.0, 0.3, 30.0])
def test_masses_and_tails_are_within_error_bounds(trials: int, log_odds: float) -> None:
    tails = BinomialTails(trials, log_odds)
    first = max(tails.mode - 8, 0) if log_odds > 1 else 0
    places = np.unique(np.linspace(first, trials, 9).astype(np.int64))
    rows = tails.at(places)
    with mpmath.workdps(60):
        for index, place in enumerate(places.tolist()):
            mass, beyond = truths(trials, log_odds, place)
            assert abs(rows.log_mass[index] - mass) <= rows.mass_error[index]
            if beyond < 1e-290:
                assert rows.beyond[index] <= 1e-289
            elif beyond < 1e300:
                assert abs(rows.beyond[index] / beyond - 1) <= rows.beyond_error[index]
                error = rows.beyond_error[index] + 2 * FUNCTION_ERROR * (1 + abs(mpmath.log(beyond)))
                assert abs(rows.log_beyond[index] - mpmath.log(beyond)) <= error


@pytest.mark.parametrize("successes", [0, 5 * 10**8, 10**9])
def test_masses_of_many_trials_match_loggamma(successes: int) -> None:
    with mpmath.workdps(60):
        odds = mpmath.mpf("0.25")
        truth = mpmath.loggamma(10**9 + 1) - mpmath.loggamma(successes + 1) - mpmath.loggamma(10**9 - successes + 1)
        truth += successes * odds - 10**9 * mpmath.log1p(mpmath.exp(odds))
        assert abs(BinomialTails(10**9, 0.25).log_mass(successes) / truth - 1) <= 2 * UNIT_ROUNDOFF


@pytest.mark.parametrize("row", [1, 3, 16])
def test_weighted_sums_match_definition(row: int) -> None:
    random = np.random.default_rng([43, row])
    ratios, weights = random.uniform(0.0, 1.5, 40), random.uniform(0.0, 1.0, 40)
    for j, found in enumerate(weighted_sums(ratios, weights, row)):
        products = np.append(1.0, np.cumprod(ratios[j:-1]))
        assert found == pytest.approx(float(products @ weights[j:]), rel=1e-13)


@pytest.mark.parametrize(("trials", "log_odds"), [(10**6, 0.0), (5000, 3.0), (2000, 30.0)])
def test_tails_beyond_doubles_are_unbounded(trials: int, log_odds: float) -> None:
    tails = BinomialTails(trials, log_odds)
    rows = tails.at(np.array([0, trials // 4, tails.mode]))
    assert np.isinf(rows.beyond[:2]).all()
    assert np.isinf(rows.beyond_error[:2]).all()
    assert rows.beyond_error[2] < 1e-6
    with mpmath.workdps(60):
        for index, place in enumerate((0, trials // 4, tails.mode)):
            gammas = mpmath.loggamma(place + 1) + mpmath.loggamma(trials - place + 1)
            odds = mpmath.mpf(log_odds)
            mass = mpmath.loggamma(trials + 1) - gammas + place * odds - trials * mpmath.log1p(mpmath.exp(odds))
            assert abs(rows.log_mass[index] - mass) <= rows.mass_error[index]
