"""PMP of the Gaussian mechanism: Proposition 12 and the exact value on a line, against references, oracles and laws.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.numerics.arrays import FloatArray
from service.privacy.pmp.gaussian import upper_bound as bounds
from service.privacy.pmp.gaussian.lower_bound import exposure_lower_bound
from service.privacy.pmp.gaussian.parameter import (
    GaussianPmp,
    GaussianRelease,
    gaussian_pmp,
    success_bound,
    worst_case_epsilon,
)
from service.privacy.pmp.gaussian.points import QueryPoints
from service.privacy.pmp.gaussian.upper_bound import exposure_upper_bound
from tests.slow_marker import sample_of

ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row for row in json.loads((Path(__file__).parents[1] / "reference" / "pmp.json").read_text("utf-8"))
}
RANDOM = np.random.default_rng(11)


def summed(values: Any, noise_std: float, delta: float, clip_radius: float | None = None) -> GaussianPmp:
    points = np.array(values, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 else points
    return gaussian_pmp(points, GaussianRelease("sum", len(points) // 2, clip_radius, noise_std), delta)


def oracle_mean(epsilon: mpf, points: FloatArray, point: int, noise_std: float) -> mpf:
    """Return the mean delta over all other points of exchanging one point for the other, in 40 digits.

    It is the left side of Proposition 12 of the paper on practical membership privacy.
    """
    total = mpf(0)
    for other in np.delete(points, point, axis=0):
        squares = [(mpf(float(a)) - mpf(float(b))) ** 2 for a, b in zip(points[point], other, strict=True)]
        ratio = mpmath.sqrt(sum(squares, mpf(0))) / mpf(noise_std)
        if ratio > 0:
            total += mpmath.ncdf(ratio / 2 - epsilon / ratio)
            total -= mpmath.exp(epsilon) * mpmath.ncdf(-ratio / 2 - epsilon / ratio)
    return total / (len(points) - 1)


@pytest.mark.parametrize(("upper", "lower"), [("p12_eps", "true_eps"), ("p12_n6", None)])
def test_sums_match_reference(upper: str, lower: str | None) -> None:
    row = ROWS[upper]
    given = row["inputs"]
    found = summed(given["f"], given["sigma"], given["delta"])
    assert found.epsilon.upper == pytest.approx(row["value"], rel=0, abs=row["abs_tol"])
    assert found.known is not None
    assert found.known.points == len(given["f"])
    if lower:
        assert found.epsilon.lower == pytest.approx(ROWS[lower]["value"], rel=0, abs=ROWS[lower]["abs_tol"])


def test_lower_bound_for_six_of_twelve_matches_reference() -> None:
    row = ROWS["true_n6"]
    given = row["inputs"]
    # The reference covers the two extreme points, which are the most exposed.
    found = summed(given["f"], given["sigma"], given["delta"])
    assert found.epsilon.lower == pytest.approx(row["value"], rel=0, abs=row["abs_tol"])


def test_mean_matches_reference() -> None:
    row = ROWS["p12_mean_n100"]
    release = GaussianRelease("mean", row["inputs"]["n"], None, row["inputs"]["sigma"])
    found = gaussian_pmp(np.linspace(-1, 1, 200)[:, None], release, row["inputs"]["delta"])
    assert found.epsilon.upper == pytest.approx(row["value"], rel=0, abs=row["abs_tol"])
    assert found.point in (0, 199)


@sample_of(4)
@pytest.mark.parametrize("delta", [1e-200, 1e-20, 1e-3, 0.3])
@pytest.mark.parametrize("dimension", [1, 3])
def test_proposition_12_matches_40_digits(dimension: int, delta: float) -> None:
    points = RANDOM.standard_normal((9, dimension)) * RANDOM.choice([1.0, 10.0], (9, 1))
    found = exposure_upper_bound(QueryPoints.of(points, None, 1 / 0.75), delta)
    with mpmath.workdps(mpmath.mp.dps + 250):
        means = [oracle_mean(mpf(found.epsilon), points, point, 0.75) for point in range(9)]
        assert max(means) <= delta
        below = oracle_mean(mpf(found.epsilon) * (1 - mpf("1e-10")), points, found.point, 0.75)
        assert below > delta or found.epsilon == 0


def test_all_search_strategies_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three strategies find the same upper bound of epsilon.

    The simplest one solves for every point. The others screen all pairs first, or widen epsilon.
    """
    shapes = [RANDOM.standard_normal((300, 4)), RANDOM.standard_normal((300, 1)) ** 3, _circle(300)]
    for points in shapes:
        placed = QueryPoints.of(points, None, 1.0)
        quick = exposure_upper_bound(placed, 1e-3)
        with monkeypatch.context() as patched:
            patched.setattr(bounds, "FIRST_ROWS", 300)
            simple = exposure_upper_bound(placed, 1e-3)
        with monkeypatch.context() as patched:
            patched.setattr(bounds, "LARGEST_EXACT_WORK", 0)
            widened = exposure_upper_bound(placed, 1e-3)
        assert quick.epsilon == pytest.approx(simple.epsilon, rel=1e-11)
        assert simple.epsilon * (1 - 1e-11) <= widened.epsilon <= simple.epsilon * (1 + 1e-3)


def _circle(count: int) -> FloatArray:
    angles = np.arange(count) * 2 * np.pi / count
    return np.stack((np.cos(angles), np.sin(angles)), axis=1)


def test_padded_distances_are_upper_bounds() -> None:
    for points in (
        RANDOM.standard_normal((200, 3)),
        RANDOM.standard_normal((200, 60)) * 10.0 ** RANDOM.uniform(-6, 6, (200, 1)),
        1e9 + RANDOM.standard_normal((200, 2)),
    ):
        placed = QueryPoints.of(points, None, 1.0)
        padded = np.sqrt(placed.padded_squares(np.arange(200)).astype(np.float64)) * placed.unit
        exact = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
        assert (padded >= exact).all()
        assert (placed.ratios(7) >= np.delete(exact[7], 7)).all()


def test_one_record_of_two_equals_differential_privacy() -> None:
    """Both bounds of the PMP parameter meet that of differential privacy if the data are one record of two (n = 1).

    PMP is practical membership privacy: the attacker does not know which records were drawn.
    """
    for delta in (1e-200, 1e-5, 0.2):
        release = GaussianRelease("sum", 1, 0.5, 0.4)
        found = gaussian_pmp(np.array([[-0.5], [0.5]]), release, delta).epsilon
        worst = worst_case_epsilon(release, delta)
        assert found.lower == pytest.approx(worst.upper, rel=1e-9)
        assert found.upper == pytest.approx(worst.upper, rel=1e-11)


def brute_truth(values: list[float], size: int, noise_std: float, delta: float) -> float:
    """Return the exact PMP parameter of points on a line, by sums over all subsets on a fine grid of outcomes.

    The parameter is the largest over all points and both orders of the laws. PMP is practical membership privacy: the
    attacker does not know which records were drawn.
    """
    largest = 0.0
    outcomes = np.linspace(min(values) * len(values) - 12, max(values) * len(values) + 12, 400_001)
    step = outcomes[1] - outcomes[0]
    for point in range(len(values)):
        laws: list[FloatArray] = []
        for has in (True, False):
            subsets = [s for s in itertools.combinations(range(len(values)), size) if (point in s) == has]
            sums = [sum(values[i] for i in s) for s in subsets]
            laws.append(np.mean([np.exp(-0.5 * ((outcomes - total) / noise_std) ** 2) for total in sums], axis=0))
        masses = [law * step / (noise_std * math.sqrt(2 * math.pi)) for law in laws]
        for one, other in (masses, masses[::-1]):
            low, high = 0.0, 50.0
            for _ in range(50):
                middle = 0.5 * (low + high)
                excess = np.maximum(one - math.exp(middle) * other, 0).sum()
                low, high = (middle, high) if excess > delta else (low, middle)
            largest = max(largest, low)
    return largest


@sample_of(2)
@pytest.mark.parametrize(("size", "count"), [(1, 4), (2, 4), (3, 4), (2, 5)])
def test_bounds_on_line_enclose_grid_of_outcomes(size: int, count: int) -> None:
    values = [0.0, 0.4, 1.7, -0.8, 0.9][:count]
    placed = QueryPoints.of(np.array(values)[:, None], None, 1 / 0.6)
    bound = exposure_upper_bound(placed, 0.02)
    found = exposure_lower_bound(placed, size, bound, 0.02)
    assert found.points == count
    assert found.epsilon == pytest.approx(brute_truth(values, size, 0.6, 0.02), rel=1e-5)
    assert found.epsilon <= bound.epsilon


TRUTH = "service.privacy.pmp.gaussian.lower_bound"


@sample_of(6)
@pytest.mark.parametrize("noise_std", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("size", [1, 4, 6, 11])
def test_three_lower_bounds_are_ordered(size: int, noise_std: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower bound by enumerated subsets is at least that by half-lines, which is at least that by moments."""
    values = [*RANDOM.standard_normal(11).tolist(), 6.0]
    placed = QueryPoints.of(np.array(values)[:, None], None, 1 / noise_std)
    bound = exposure_upper_bound(placed, 1e-3)
    truth = exposure_lower_bound(placed, size, bound, 1e-3)
    monkeypatch.setattr(f"{TRUTH}.enumerable_subsets", lambda *_: 0)
    half_lines = exposure_lower_bound(placed, size, bound, 1e-3)
    monkeypatch.setattr(f"{TRUTH}.half_line_exposure", lambda *_: None)
    moments = exposure_lower_bound(placed, size, bound, 1e-3)
    assert truth.method == "sets"
    assert moments.method == "moments"
    assert 0 <= moments.epsilon <= half_lines.epsilon <= truth.epsilon * (1 + 1e-9) + 1e-9
    if truth.epsilon < 12:  # Masses are above rounding error, and the best sets of an outlier are half-lines.
        assert half_lines.method == "half_lines"
        assert half_lines.epsilon == pytest.approx(truth.epsilon, rel=1e-3, abs=1e-3)


def test_moments_detect_far_outliers() -> None:
    values = [*RANDOM.standard_normal(199).tolist(), 3e4]
    found = summed(values, 1.0, 1e-3)
    assert found.known is not None
    assert found.known.method == "moments"
    assert found.epsilon.lower > 1


def test_half_lines_of_many_points_match_draws() -> None:
    """The lower bound by half-lines for 100 of 200 points matches the best half-line of simulated releases."""
    values = RANDOM.standard_normal(200) / 3
    found = summed(values, 1.0, 0.01)
    assert found.known is not None
    assert found.known.method == "half_lines"
    own, others = values[found.point], np.delete(values, found.point)
    generator = np.random.default_rng(3)
    order = generator.permuted(np.broadcast_to(others, (100_000, 199)), axis=1)
    noise = generator.standard_normal(100_000)
    laws = own + order[:, :99].sum(axis=1) + noise, order[:, :100].sum(axis=1) + noise
    best = 0.0
    for threshold in np.linspace(-12, 12, 200):
        above = [float((law > threshold).mean()) for law in laws]
        below = [1 - mass for mass in above]
        for mass, rest in (above, above[::-1], below, below[::-1]):
            if min(mass - 0.01, rest) > 0.05:
                best = max(best, math.log((mass - 0.01) / rest))
    assert best - 0.05 <= found.epsilon.lower


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_bounds_are_ordered_and_invariant(dimension: int) -> None:
    points = RANDOM.standard_normal((10, dimension))
    found = summed(points, 0.8, 0.01)
    moved = summed(points[::-1] + 3.0, 0.8, 0.01)
    quieter = summed(points, 1.6, 0.01)
    assert found.epsilon.lower <= found.epsilon.upper
    assert moved.epsilon.upper == pytest.approx(found.epsilon.upper, rel=1e-10)
    assert moved.epsilon.lower == pytest.approx(found.epsilon.lower, rel=1e-7)
    assert moved.point == 9 - found.point
    assert quieter.epsilon.upper < found.epsilon.upper
    # The mean of n records with noise s is the sum with noise n s.
    mean = gaussian_pmp(points, GaussianRelease("mean", 5, None, 0.16), 0.01)
    assert mean.epsilon.upper == pytest.approx(found.epsilon.upper, rel=1e-11)


def test_clipped_parameter_is_at_most_worst_case() -> None:
    points = RANDOM.standard_normal((30, 2)) * 100
    release = GaussianRelease("sum", 15, 1.0, 0.5)
    found = gaussian_pmp(points, release, 1e-4)
    assert found.epsilon.upper <= worst_case_epsilon(release, 1e-4).upper
    inside = points / np.maximum(np.linalg.norm(points, axis=1), 1)[:, None]
    assert found.epsilon.upper == pytest.approx(summed(inside, 0.5, 1e-4).epsilon.upper, rel=1e-9)


def test_duplicates_and_large_deltas_give_zero() -> None:
    assert summed([2.0] * 6, 1.0, 0.0).epsilon.upper == 0
    assert summed([2.0] * 6, 1.0, 1e-9).epsilon.upper == 0
    assert summed([0.0, 0.0, 0.0, 1.0], 1.0, 1.0).epsilon.upper == 0
    assert summed([0.0, 0.01, 0.02, 0.03], 1.0, 0.1).epsilon.upper == 0
    endless = summed([0.0, 0.0, 0.0, 1.0], 1.0, 0.0).epsilon
    assert (endless.lower, endless.upper) == (math.inf, math.inf)
    doubled = summed([0.0, 0.0, 1.0, 1.0], 1.0, 0.01)
    assert 0 < doubled.epsilon.lower <= doubled.epsilon.upper
    # Far from the origin no accuracy is lost, because differences are taken first.
    far = summed((1e8 + np.arange(10.0)).tolist(), 1.0, 1e-3)
    assert far.epsilon.upper == pytest.approx(summed(np.arange(10.0).tolist(), 1.0, 1e-3).epsilon.upper, rel=1e-11)


def test_duplicates_give_finite_lower_bound() -> None:
    """Duplicate points have a finite lower bound, however small the noise is.

    The data are half of ten points, five ones and five zeros, so the log ratio is at most ln(9/4).
    """
    release = GaussianRelease("sum", 1, None, 1e-3)
    found = gaussian_pmp(np.repeat([0.0, 1.0], 5)[:, None], release, 0.0).epsilon
    assert (found.lower, found.upper) == (0, math.inf)


@pytest.mark.parametrize(
    ("epsilon", "delta", "prior", "value"),
    [
        (0.0, 0.0, 0.5, 0.5),
        (1.0, 0.0, 0.5, 1 / (1 + math.exp(-1))),
        (1.0, 0.01, 0.5, (math.e + 0.01) / (1 + math.e)),
        (math.inf, 0.0, 0.5, 1.0),
        (0.1, 0.0, 0.1, 0.9),
        (0.1, 0.5, 0.9, 0.95),
    ],
)
def test_success_bounds_match_closed_form(epsilon: float, delta: float, prior: float, value: float) -> None:
    assert success_bound(epsilon, delta, prior) == pytest.approx(value, rel=1e-14)
    assert success_bound(epsilon, delta, prior) >= value * (1 - 1e-16)


def test_success_bounds_are_attained() -> None:
    """The bound of the success equals that of the best test under an (epsilon, delta) trade-off.

    The best test is found by a search over its false positive rates.
    """
    rates = np.linspace(0, 1, 200_001)
    for epsilon, delta, prior in ((0.7, 0.05, 0.3), (2.0, 1e-3, 0.5), (0.2, 0.2, 0.6)):
        power = np.minimum(
            np.minimum(1.0, math.exp(epsilon) * rates + delta), 1 - math.exp(-epsilon) * (1 - delta - rates)
        )
        best = float((prior * power + (1 - prior) * (1 - rates)).max())
        assert success_bound(epsilon, delta, prior) == pytest.approx(best, abs=1e-5)


def test_table_error_is_padded() -> None:
    """The tabulated upper bound of delta is at least the exact mean for each point, and at most 1 % above it."""
    points = RANDOM.standard_normal((400, 5))
    placed = QueryPoints.of(points, None, 1.0)
    shares = bounds._shares(placed, np.arange(400), 2.0, math.log(1e-3))
    for point in range(0, 400, 40):
        mean = bounds._log_mean_upper(2.0, placed.ratios(point))
        assert shares[point] >= math.exp(mean - math.log(1e-3)) * (1 - 1e-9)
        assert shares[point] <= math.exp(mean - math.log(1e-3)) * 1.01
