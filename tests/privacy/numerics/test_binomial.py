"""Intervals from samples: their defining probabilities by scipy, and their exact coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from service.privacy.numerics.binomial import BinomialIntervals, mean_above, mean_below
from service.privacy.numerics.distribution_band import DistributionBand

FAILURES = (1e-12, 1e-3, 0.3)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("samples", [1, 20, 100_000])
def test_share_bounds_leave_failure_probability_in_each_tail(samples: int, failure: float) -> None:
    counts = np.unique(np.array([0, 1, samples // 2, samples - 1, samples]))
    intervals = BinomialIntervals(samples, failure)
    lower, upper = intervals.share_below(counts), intervals.share_above(counts)
    assert (lower[counts == 0] == 0.0).all()
    assert (upper[counts == samples] == 1.0).all()
    hit, missed = counts > 0, counts < samples
    assert binom.sf(counts[hit] - 1, samples, lower[hit]) == pytest.approx(failure, rel=1e-8)
    assert binom.cdf(counts[missed], samples, upper[missed]) == pytest.approx(failure, rel=1e-8)


@pytest.mark.parametrize("failure", FAILURES)
def test_share_bounds_have_promised_coverage(failure: float) -> None:
    samples, counts = 60, np.arange(61)
    intervals = BinomialIntervals(samples, failure)
    lower, upper = intervals.share_below(counts), intervals.share_above(counts)
    for share in (1e-12, 0.01, 0.5, 0.97):
        masses = np.asarray(binom.pmf(counts, samples, share))
        assert masses[lower > share].sum() <= failure * (1 + 1e-9)
        assert masses[upper < share].sum() <= failure * (1 + 1e-9)


@pytest.mark.parametrize("failure", FAILURES)
def test_ranks_are_first_and_last_valid_ones(failure: float) -> None:
    samples, probabilities = 1000, np.array([0.0, 1e-12, 1e-3, 0.5, 0.999, 1.0])
    intervals = BinomialIntervals(samples, failure)
    reaching, within = intervals.rank_reaching(probabilities), intervals.rank_within(probabilities)
    for share, first, last in zip(probabilities, reaching, within, strict=True):
        # P(Beta(k, n - k + 1) <= q) = P(Binomial(n, q) >= k)
        fails = np.asarray(binom.sf(np.arange(samples + 1), samples, share))  # At k - 1 = 0, 1, ..., n.
        expected = np.flatnonzero(fails[:samples] <= failure)
        assert first == (expected[0] + 1 if expected.size else samples + 1)
        certain = np.flatnonzero(fails[:samples] >= 1 - failure)
        assert last == (certain[-1] + 1 if certain.size else 0)


@pytest.mark.parametrize("failure", FAILURES)
def test_bounds_of_means_solve_their_equation(failure: float) -> None:
    means, samples = np.array([1e-9, 0.01, 0.5, 0.99]), 500
    above = mean_above(means, samples, failure)
    divergence = means * np.log(means / above) + (1 - means) * np.log((1 - means) / (1 - above))
    assert samples * divergence == pytest.approx(-np.log(failure), rel=1e-6)
    assert mean_below(1 - means, samples, failure) == pytest.approx(1 - above, rel=1e-12, abs=1e-15)
    assert mean_above(np.array([0.0]), samples, failure)[0] == pytest.approx(-np.expm1(np.log(failure) / samples))


@pytest.mark.parametrize("samples", [1, 2, 50, 4000])
def test_bands_are_ordered_and_hold_simultaneously(samples: int) -> None:
    failure = 0.05
    band = DistributionBand.of(samples, failure)
    assert (band.lower <= band.upper).all()
    assert (np.sort(samples + 1 - band.ranks) == band.ranks).all()
    counts = np.arange(samples + 1)
    lower, upper = band.share_below(counts), band.share_above(counts)
    assert (lower <= counts / samples).all()
    assert (counts / samples <= upper).all()
    draws = np.sort(np.random.default_rng([44, samples]).uniform(size=(400, samples)), axis=1)
    # The mass above the k-th largest of n uniform draws is 1 minus the draw.
    beyond = 1 - draws[:, ::-1]
    held = (lower[1:] <= beyond) & (beyond <= upper[:-1])
    assert held.all(axis=1).mean() >= 1 - failure
