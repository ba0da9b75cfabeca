"""Empirical ROC curves and their confidence bands; p-values against the uniform distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from service.privacy.audits.roc import distance_from_uniform, empirical_roc


def test_roc_rates_are_shares_of_counts() -> None:
    roc = empirical_roc(np.array([3.0, 2.0, 2.0, 0.0]), np.array([1.0, 2.0, 0.5, 2.5]), 0.95, 100)
    assert roc.thresholds.tolist() == [2.5, 2.0, 1.0, 0.5]
    assert roc.false_positive_rate.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert roc.true_positive_rate.tolist() == [0.25, 0.75, 0.75, 0.75]


def test_tied_scores_share_one_threshold() -> None:
    roc = empirical_roc(np.zeros(3), np.zeros(5), 0.9, 10)
    assert (roc.false_positive_rate.tolist(), roc.true_positive_rate.tolist()) == ([1.0], [1.0])


def test_band_half_widths_match_massart() -> None:
    roc = empirical_roc(np.zeros(200), np.zeros(50), 0.95, 2)
    for width, count in ((roc.true_positive_half_width, 200), (roc.false_positive_half_width, 50)):
        assert 2 * math.exp(-2 * count * width**2) == pytest.approx(0.025)


def test_bands_hold_simultaneously() -> None:
    """At most the promised share of 400 uniform samples leaves its band, with a margin of four standard deviations."""
    generator = np.random.Generator(np.random.PCG64(0))
    missed = 0
    for _ in range(400):
        roc = empirical_roc(generator.random(60), generator.random(40), 0.8, 1000)
        truth = 1 - roc.thresholds
        ends = (*roc.true_positive_ends(), *roc.false_positive_ends())
        missed += bool(
            np.any(truth < ends[0]) or np.any(truth > ends[1]) or np.any(truth < ends[2]) or np.any(truth > ends[3])
        )
    assert missed <= 400 * 0.2 + 4 * math.sqrt(400 * 0.2 * 0.8)


def test_thresholds_are_limited_and_resolve_small_rates() -> None:
    generator = np.random.Generator(np.random.PCG64(1))
    roc = empirical_roc(generator.random(10_000), generator.random(10_000), 0.95, 100)
    assert 60 <= roc.thresholds.size <= 100
    assert roc.false_positive_rate[0] == 1e-4
    assert roc.false_positive_rate[-1] == 1
    assert np.all(np.diff(roc.thresholds) < 0)


def test_distance_matches_kolmogorov_smirnov() -> None:
    values = np.random.Generator(np.random.PCG64(2)).random(500) ** 1.2
    distance, critical = distance_from_uniform(values)
    assert distance == pytest.approx(kstest(values, "uniform").statistic, rel=1e-12)
    assert kstest(np.zeros(500) + critical, "uniform").statistic > critical
