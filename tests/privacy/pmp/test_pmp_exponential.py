"""PMP of the exponential mechanism against 40-digit enumeration, reference values, and laws.

PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.pmp.attacks import success_bound, tight_eta
from service.privacy.pmp.exponential import exact as exponential_exact
from service.privacy.pmp.exponential.adjacent import adjacent_epsilon
from service.privacy.pmp.exponential.exact import exact_log_ratios
from service.privacy.pmp.exponential.losses import Losses, ball_sensitivity, norms_of
from service.privacy.pmp.exponential.parameter import ExponentialPmp, Sampling, exponential_pmp
from service.privacy.pmp.exponential.population import Population
from service.privacy.pmp.exponential.swap import swap_bounds
from tests.privacy import pmp_oracle
from tests.privacy.references import FOLDER
from tests.slow_marker import sample_of

ROWS: dict[str, dict[str, Any]] = {row["id"]: row for row in json.loads((FOLDER / "pmp.json").read_text())}
CASES = {
    "em_1d_n2_two": ROWS["em_1d_n2_two"]["inputs"],
    "em_large_eps_two": ROWS["em_large_eps_two"]["inputs"],
    "em_n12": ROWS["em_n12"]["inputs"] | {"X": [[-1.5 + 0.25 * k] for k in range(24)]},
}


def population_of(case: dict[str, Any]) -> tuple[Losses, Population]:
    losses = Losses.euclidean(np.array(case["X"]), np.array(case["W"]), case["C"])
    return losses, Population.of(losses, case["eps"] / (2 * case["Delta_l"] * case["n"]))


def exact(population: Population) -> ExponentialPmp:
    return exponential_pmp(population, swap_bounds(population), None, exact=True)


def given(logits: FloatArray) -> Population:
    """Return a population of an exponential mechanism with these logits, whose losses are exact."""
    return Population.of(Losses.given(-logits), 1.0)


def drawn(seed: int, size: float = 1.0) -> FloatArray:
    """Draw logits of 1 to 4 objects at 2 to 8 points, of about this size."""
    generator = np.random.default_rng(seed)
    objects, half = int(generator.integers(2, 5)), int(generator.integers(1, 5))
    return size * generator.normal(size=(objects, 2 * half))


def holds(enclosure: Enclosure, truth: Any) -> bool:
    return mpmath.mpf(enclosure.lower) <= truth <= mpmath.mpf(enclosure.upper)


@pytest.mark.parametrize("name", CASES)
def test_pmp_matches_reference(name: str) -> None:
    row, found = ROWS[name], exact(population_of(CASES[name])[1])
    assert found.epsilon.lower - row["abs_tol"] <= row["value"] <= found.epsilon.upper + row["abs_tol"]
    assert found.epsilon.upper - found.epsilon.lower <= 1e-11 * max(found.epsilon.upper, 1.0)
    assert found.epsilon.evidence is Evidence.CERTIFIED


@pytest.mark.parametrize("name", ["em_1d_n2", "em_large_eps"])
def test_population_quantities_match_reference(name: str) -> None:
    losses, population = population_of(case := CASES[f"{name}_two"])
    by_sensitivity = case["eps"] * losses.widest_range / (case["Delta_l"] * case["n"])
    assert by_sensitivity == pytest.approx(ROWS[f"{name}_sens"]["value"], abs=ROWS[f"{name}_sens"]["abs_tol"])
    bounds = swap_bounds(population)
    # The reference takes the mean of e^s over the partners; the service takes that of e^-s, which is never the smaller
    # bound.
    reference, tolerance = ROWS[f"{name}_swap"]["value"], ROWS[f"{name}_swap"]["abs_tol"]
    assert ROWS[f"{name}_two"]["value"] <= bounds.either.max() <= reference + tolerance
    assert mean_of_largest_swaps(population) == pytest.approx(reference, abs=tolerance)


def mean_of_largest_swaps(population: Population) -> float:
    """Return the swap bound of epsilon: the largest ln of the mean of e^s over the n largest s.

    s bounds the change of the log probability of an object if a point is swapped for another one, in both directions.
    """
    logits, half = population.logits, population.half
    found: list[float] = []
    for own in logits:
        swaps = (own - logits)[:, :, None] - (own - logits)[:, None, :]
        for largest in (swaps.max(axis=0), (-swaps).max(axis=0)):
            np.fill_diagonal(largest, -np.inf)
            chosen = np.sort(largest, axis=1)[:, -half:]
            top = chosen.max(axis=1)
            found += list(top + np.log(np.exp(chosen - top[:, None]).mean(axis=1)))
    return max(found)


@pytest.mark.parametrize("notion", ["EM PMP", "EM DP on X", "EM PMP bound"])
def test_every_reference_row_is_tested(notion: str) -> None:
    """Every row of the reference file is tested, except rows whose inputs are those of a row outside the file."""
    tested = {
        *CASES,
        "em_two_n50",
        *(f"{name}_{kind}" for name in ("em_1d_n2", "em_large_eps") for kind in ("sens", "swap")),
    }
    for row in ROWS.values():
        if row["notion"] == notion:
            assert row["id"] in tested or row["inputs"]["same_inputs_as"] not in ROWS, row["id"]


@sample_of(10)
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("seed", range(6))
def test_every_ratio_matches_plain_enumeration(seed: int, size: float) -> None:
    logits = drawn(seed, size)
    population = given(logits)
    found, truth = exact_log_ratios(population), pmp_oracle.log_ratios(logits.tolist())
    for computed, exactly in zip(found.values.ravel(), (value for row in truth for value in row), strict=True):
        assert abs(mpmath.mpf(computed) - exactly) <= found.error
    assert found.error <= 1e-12 * max(size, 1.0)
    assert holds(exact(population).epsilon, pmp_oracle.epsilon(logits.tolist()))


@pytest.mark.parametrize("seed", range(4))
def test_clipped_distances_with_outliers_match_enumeration(seed: int) -> None:
    generator = np.random.default_rng(seed)
    points, objects = generator.normal(size=(8, 3)), generator.normal(size=(3, 3))
    points[0] *= 1e6
    points[1] = 0.0
    losses = Losses.euclidean(points, objects, 50.0)
    truth = pmp_oracle.epsilon(pmp_oracle.distance_logits(points.tolist(), objects.tolist(), 50.0, 2.5))
    assert holds(exact(Population.of(losses, 2.5)).epsilon, truth)


@pytest.mark.parametrize("seed", range(10))
def test_distant_objects_cost_no_digits(seed: int) -> None:
    """Epsilon keeps its digits if objects lie at any distance up to 1e9 from the points, with logits up to 1e15."""
    generator = np.random.default_rng(seed)
    dimension, radius = int(generator.integers(1, 3)), float(10 ** generator.uniform(-6, 0))
    points = generator.normal(size=(2 * int(generator.integers(2, 4)), dimension))
    objects = generator.normal(size=(4, dimension)) * 10 ** generator.uniform(-1, 9, (4, 1))
    objects[1] = -objects[0]
    scale = 1 / (2 * ball_sensitivity(objects, radius))
    population = Population.of(Losses.euclidean(points, objects, radius), scale)
    with mpmath.workdps(60):
        logits = pmp_oracle.distance_logits(points.tolist(), objects.tolist(), radius, scale)
        truth, adjacent = pmp_oracle.epsilon(logits), pmp_oracle.adjacent_epsilon(logits)
    found = exact(population).epsilon
    among = adjacent_epsilon(population, swap_bounds(population), enumerate_subsets=True)
    assert holds(found, truth)
    assert holds(among, adjacent)
    assert found.relative_width() < 1e-9
    assert among.relative_width() < 1e-9


def test_linear_and_log_sums_agree() -> None:
    population = given(drawn(3, 2.0))
    linear, logarithmic = exponential_exact._linear_sums(population), exponential_exact._log_sums(population)
    for one, other in zip(linear, logarithmic, strict=True):
        assert np.abs(one - other).max() <= 1e-13


def test_single_direction_is_too_small() -> None:
    """Proposition 9 as printed bounds only the ratio of a point in the data over a point outside, not the inverse
    ratio.

    For some data the inverse ratio is larger: the erratum `pmp-proposition-9` of the guide.
    """
    too_small = 0
    for seed in range(8):
        population = given(drawn(seed, 2.0))
        ratios = exact_log_ratios(population).values
        assert exact(population).epsilon.upper >= max(ratios.max(), -ratios.min())
        too_small += bool(-ratios.min() > 1.01 * ratios.max())
    assert 0 < too_small < 8


def test_maximiser_is_position_of_largest_ratio() -> None:
    for seed in range(10):
        population = given(drawn(seed))
        found, ratios = exact(population), exact_log_ratios(population)
        ratio = ratios.values[found.object_index, found.point_index]
        assert abs(ratio) == np.abs(ratios.values).max()
        assert found.direction == ("in_over_out" if ratio > 0 else "out_over_in")


@pytest.mark.parametrize("size", [0.1, 3.0, 300.0])
@pytest.mark.parametrize("seed", range(6))
def test_swap_bounds_hold_for_every_object_point_and_direction(seed: int, size: float) -> None:
    population = given(drawn(seed, size))
    ratios, bounds = exact_log_ratios(population), swap_bounds(population)
    assert (ratios.values - ratios.error <= bounds.with_point).all()
    assert (-ratios.values - ratios.error <= bounds.without).all()
    assert (bounds.with_point <= bounds.gain).all()
    assert (bounds.without <= bounds.loss).all()


@pytest.mark.parametrize("size", [0.1, 3.0, 300.0])
@pytest.mark.parametrize("seed", range(6))
def test_adjacent_subsets_match_oracle(seed: int, size: float) -> None:
    logits = drawn(seed, size)[:, :6]
    population = given(logits)
    bounds, truth = swap_bounds(population), pmp_oracle.adjacent_epsilon(logits.tolist())
    enumerated = adjacent_epsilon(population, bounds, enumerate_subsets=True)
    enclosed = adjacent_epsilon(population, bounds, enumerate_subsets=False)
    assert holds(enumerated, truth)
    assert holds(enclosed, truth)
    assert enumerated.upper - enumerated.lower <= 1e-12 * max(size, 1.0)
    if len(logits) == 2:
        assert enclosed.lower == pytest.approx(enumerated.lower, rel=1e-12)


def test_one_record_of_two_equals_differential_privacy() -> None:
    """The PMP parameter equals that of differential privacy if the data are one record of two (n = 1).

    PMP is practical membership privacy: the attacker does not know which records were drawn.
    """
    population = given(drawn(1)[:, :2])
    bounds = swap_bounds(population)
    worst = adjacent_epsilon(population, bounds, enumerate_subsets=True)
    assert exact(population).epsilon.upper == pytest.approx(worst.upper, rel=1e-12)


def test_pmp_is_at_most_privacy_among_adjacent_subsets() -> None:
    for seed in range(10):
        population = given(drawn(seed, 2.0))
        worst = adjacent_epsilon(population, swap_bounds(population), enumerate_subsets=True)
        assert exact(population).epsilon.lower <= worst.upper


@pytest.mark.parametrize("logits", [np.ones((4, 6)), np.zeros((1, 4)), np.tile([0.5, 7.0, -3.0, 1e9], (3, 1))])
def test_objects_with_equal_losses_reveal_nothing(logits: FloatArray) -> None:
    population = given(logits)
    bounds = swap_bounds(population)
    for found in (exact(population), exponential_pmp(population, bounds, Sampling(100, 0, 0.9), exact=False)):
        assert (found.epsilon.lower, found.epsilon.upper) == (0.0, 0.0)
    assert adjacent_epsilon(population, bounds, enumerate_subsets=True).upper == 0.0
    assert bounds.either.max() == 0.0


def test_shift_of_all_logits_of_a_point_cancels() -> None:
    logits = drawn(5)
    outliers = 1e3 * np.arange(logits.shape[1])
    one, other = exact(given(logits)).epsilon, exact(given(logits + outliers)).epsilon
    assert one.lower <= other.upper
    assert other.lower <= one.upper


def test_order_of_points_and_objects_does_not_matter() -> None:
    logits = drawn(7)
    turned = exact(given(logits[::-1, ::-1])).epsilon
    assert exact(given(logits)).epsilon.upper == pytest.approx(turned.upper, rel=1e-12)


@pytest.mark.parametrize(("radius", "longest"), [(10.0, 1.0), (0.5, 1.0), (2.0, 0.0)])
def test_sensitivity_of_distances_in_ball_is_attained(radius: float, longest: float) -> None:
    """The largest change of the distance to an object, C + min(C, |w|), is attained by two points of the ball.

    C is the radius of the ball, and w the position of the object. One point is at the far side of the ball, and the
    other is the nearest to the object.
    """
    objects = np.array([[longest, 0.0], [0.0, longest / 2]])
    nearest = min(longest, radius)
    attained = float(norms_of(objects[0] - np.array([-radius, 0.0])) - norms_of(objects[0] - np.array([nearest, 0.0])))
    assert ball_sensitivity(objects, radius) == pytest.approx(attained, rel=1e-15)


def test_norms_of_large_and_small_vectors_do_not_overflow() -> None:
    vectors = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]])
    assert norms_of(vectors) == pytest.approx([5e200, 5e-200, 0.0], rel=1e-15)


def test_conversions_match_reference() -> None:
    for row in ROWS.values():
        if row["notion"] not in ("PMP->MIA", "PMP->MIP"):
            continue
        convert = success_bound if row["notion"] == "PMP->MIA" else tight_eta
        found = convert(Enclosure.point(row["inputs"]["eps"]))
        assert found.lower - row["abs_tol"] <= row["value"] <= found.upper + row["abs_tol"]
        assert found.upper - found.lower <= 1e-14


def test_conversions_at_limits_are_exact() -> None:
    nothing, everything = Enclosure.point(0.0), Enclosure.point(math.inf)
    assert holds(success_bound(nothing), Fraction(1, 2))
    assert (tight_eta(nothing).lower, success_bound(everything).upper, tight_eta(everything).upper) == (0.0, 1.0, 0.5)
