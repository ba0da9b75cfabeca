"""Cost calibration at run time: slow, bounded, and never a reason to refuse what was accepted before."""

from __future__ import annotations

import math

import numpy as np
import pytest

from service.execution.cost_calibration import MAX_RATIO, CostCalibration
from service.telemetry.metrics import Metrics
from tests.execution.fakes import counted

RATIO = 'privacy_bounds_price_ratio{computation="bounds",engine="contour"}'


def expected(corrections: CostCalibration, cost: int = 1_000_000) -> float:
    return corrections.corrected_cost("bounds", "contour", cost) / cost


def test_correction_converges_to_measured_ratio(metrics: Metrics) -> None:
    corrections = CostCalibration(metrics)
    assert expected(corrections) == 1
    for _ in range(200):
        corrections.observe("bounds", "contour", 1_000_000, 3.0)
    assert expected(corrections) == pytest.approx(3, rel=1e-3)
    assert counted(metrics, RATIO) == pytest.approx(3, rel=1e-3)
    assert (
        corrections.corrected_cost("bounds", "discretised", 10)
        == corrections.corrected_cost("curves", "contour", 10)
        == 10
    )


@pytest.mark.parametrize("seed", range(3))
def test_corrections_move_slowly_and_stay_within_bounds(metrics: Metrics, seed: int) -> None:
    """Corrections of estimated costs move slowly and stay within bounds, for any measurement and any estimate."""
    corrections, random = CostCalibration(metrics), np.random.default_rng(seed)
    before = expected(corrections)
    for _ in range(300):
        cost, seconds = int(10 ** random.uniform(0, 9)), 10 ** random.uniform(-9, 3)
        corrections.observe("bounds", "contour", cost, seconds)
        after = expected(corrections)
        assert 1 / MAX_RATIO <= after <= MAX_RATIO * (1 + 1e-6)
        assert abs(math.log(after / before)) <= 2 * math.log(MAX_RATIO) / 16 * (1 + 1e-6)
        before = after


def test_rejection_limit_is_only_raised(metrics: Metrics) -> None:
    corrections = CostCalibration(metrics)
    for seconds, refused_at in ((8.0, 1_000_000), (1e-6, 125_000)):
        for _ in range(300):
            corrections.observe("bounds", "contour", 1_000_000, seconds)
        assert corrections.rejection_cost("bounds", "contour", 1_000_000) == pytest.approx(refused_at, rel=1e-3)


def test_computations_shorter_than_dispatch_are_ignored(metrics: Metrics) -> None:
    corrections = CostCalibration(metrics)
    for _ in range(300):
        corrections.observe("bounds", "contour", 10, 0.0001)
    assert expected(corrections) == 1
