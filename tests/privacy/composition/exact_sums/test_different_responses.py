"""Runs of different pure and approximate DP steps against all sums of losses in many digits, and other engines."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.exact_sums.exact_runs import halves, response_curve, responses_of
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.numerics.work import at_most
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built
from tests.privacy.response_oracles import Atoms
from tests.slow_marker import sample_of

Kind = tuple[float, int]
RUNS: list[list[Kind]] = [
    [(1.0, 1), (0.5, 1)],
    [(1.0, 1), (2.0, 1), (3.0, 1)],  # 1 + 2 = 3: losses coincide.
    [(0.1, 3), (0.3, 2), (0.7, 1)],
    [(1e-9, 2), (2e-9, 1), (5e-9, 3)],
    [(1e-12, 1), (5.0, 2)],
    [(20.0, 2), (30.0, 3), (0.1, 1)],
    [(0.05 + 0.01 * i, 1) for i in range(9)],
]
RATES = [1e-300, 1e-60, 1e-12, 1e-5, 0.01, 0.2, 0.49, 0.5, 0.51, 0.9, 1 - 1e-4, 1 - 1e-10]


def spec_of(kinds: list[Kind], deltas: list[float] | None = None) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": epsilon}, "steps": count}
        for epsilon, count in kinds
    ]
    steps += [{"type": "approximate_dp", "epsilon": 0.0, "delta": delta} for delta in deltas or []]
    return {"type": "composed", "mechanisms": steps}


def curve_of(kinds: list[Kind], deltas: list[float] | None = None) -> AbstractTradeOff:
    found = pair(built(spec_of(kinds, deltas)))
    assert found.add is found.remove
    assert found.add.method == "closed_form"
    return found.add


@pytest.mark.parametrize("kinds", RUNS[1:4])
def test_evaluations_are_counted_as_work(kinds: list[Kind]) -> None:
    """Evaluations count against the allowance of work, because a mixture evaluates thousands of points many times."""
    curve, counted = curve_of(kinds), list[float]()
    for number in (1000, 4000):
        rates = np.linspace(0.01, 0.99, number)
        for read in (curve.points, curve.profile):
            with at_most(math.inf) as work:
                read(rates)
            counted.append(work.done)
    assert counted[0] > 1000
    assert counted[1] > 50
    assert counted[2] > 1.5 * counted[0]
    assert counted[3] > 1.5 * counted[1]


def assert_encloses(truth: Any, found: Enclosure, width: float = 2e-11) -> None:
    assert found.lower <= truth <= found.upper
    if found.log_lower is not None and found.log_upper is not None and truth > 0:
        log = mpmath.log(truth)
        assert found.log_lower <= log <= found.log_upper
        assert found.log_upper - found.log_lower <= width * max(1.0, abs(float(log)))


@sample_of(7)
@pytest.mark.parametrize("kinds", RUNS, ids=str)
@pytest.mark.parametrize("deltas", [[], [1e-9, 0.01]], ids=str)
def test_every_quantity_matches_sums_over_all_losses(kinds: list[Kind], deltas: list[float]) -> None:
    curve = curve_of(kinds, deltas)
    with mpmath.workdps(360):
        outside = 1 - mpmath.fprod(1 - mpf(delta) for delta in deltas)
        truth = Atoms.of(kinds, outside)
        points = curve.points(np.array(RATES))
        for i, rate in enumerate(RATES):
            width = 2e-11 if 1 - rate > 10 * outside else 1e-8
            assert_encloses(truth.power(rate), points.power.at(i, curve.evidence), width)
            assert_encloses(truth.error(rate), points.type_two_error.at(i, curve.evidence), width)
        largest = sum(epsilon * count for epsilon, count in kinds)
        at = np.array([-1.1, -0.3, 0.0, 1e-4, 0.2, 0.61, 0.97, 1.2]) * largest
        profile = curve.profile(at)
        for i, e in enumerate(at):
            assert_encloses(truth.delta(float(e)), profile.at(i, curve.evidence), 1e-10)
        for delta in (1e-40, 1e-6, 0.02, 0.5):
            if delta > outside:
                found, known = curve.epsilon(delta), truth.epsilon(delta)
                assert found.lower <= known <= found.upper
                assert found.upper - found.lower <= 1e-9 * largest


@pytest.mark.parametrize("kinds", RUNS[:4], ids=str)
def test_points_on_and_beside_vertices_match_exact_sums(kinds: list[Kind]) -> None:
    curve = curve_of(kinds)
    with mpmath.workdps(60):
        truth = Atoms.of(kinds)
        vertices = [float(alpha) for alpha, _ in truth.vertices[1:-1]][:12]
        rates = [math.nextafter(v, side) for v in vertices for side in (0.0, v, 1.0)]
        points = curve.points(np.array(rates))
        for i, rate in enumerate(rates):
            assert points.power.lower[i] <= truth.power(rate) <= points.power.upper[i]
            assert points.type_two_error.lower[i] <= truth.error(rate) <= points.type_two_error.upper[i]


def test_twenty_four_kinds_lie_between_equal_runs() -> None:
    """The run of 24 nearly equal kinds of steps lies between runs of equal steps of the smallest and the largest
    epsilon.
    """
    curve = curve_of([(0.1 + 1e-9 * i, 1) for i in range(24)])
    least, most = curve_of([(0.1, 24)]), curve_of([(0.1 + 23e-9, 24)])
    for rate in (1e-9, 1e-3, 0.4, 0.9):
        assert least.power_at(rate).lower <= curve.power_at(rate).upper
        assert curve.power_at(rate).lower <= most.power_at(rate).upper
        assert curve.power_at(rate).relative_width() < 1e-12
    for delta in (1e-9, 1e-3):
        found = curve.epsilon(delta)
        assert least.epsilon(delta).lower <= found.upper
        assert found.lower <= most.epsilon(delta).upper
        assert found.relative_width() < 1e-11


@pytest.mark.parametrize("seed", range(3))
def test_random_runs_match_sums_over_all_losses(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(4):
        kinds = [
            (float(10 ** random.uniform(-4, 0.7)), int(random.integers(1, 4))) for _ in range(random.integers(2, 6))
        ]
        curve = curve_of(kinds)
        rates = np.concatenate((10 ** random.uniform(-20, 0, 3), random.uniform(0, 1, 2)))
        points = curve.points(rates)
        with mpmath.workdps(60):
            truth = Atoms.of(kinds)
            for i, rate in enumerate(rates):
                assert_encloses(truth.power(float(rate)), points.power.at(i, curve.evidence))
                assert_encloses(truth.error(float(rate)), points.type_two_error.at(i, curve.evidence))
            e = float(random.uniform(0, 1)) * float(curve.largest_log_ratio.lower)
            assert_encloses(truth.delta(e), curve.profile_at(e), 1e-10)


def test_exact_sums_agree_with_lattice() -> None:
    spec = spec_of([(0.3, 5), (0.7, 2), (1.1, 1)], [1e-6])
    mine = pair(built(spec)).add
    other = pair(built(spec), "discretised", options=EngineOptions(relative_tolerance=1e-3)).add
    for rate in (1e-6, 0.01, 0.5):
        assert mine.power_at(rate).lower <= other.power_at(rate).upper
        assert other.power_at(rate).lower <= mine.power_at(rate).upper
    assert mine.epsilon(1e-4).lower <= other.epsilon(1e-4).upper
    assert other.epsilon(1e-4).lower <= mine.epsilon(1e-4).upper


def test_halves_split_evenly_and_limits_are_enforced() -> None:
    first, second = halves(tuple((0.1 * i, 1) for i in range(1, 25)))
    assert len(first) == len(second) == 12
    too_many = built(spec_of([(math.sqrt(i), 1) for i in range(1, 37)]))
    assert responses_of(too_many.elementary_steps()) is None
    nothing = responses_of(built(spec_of([(0.0, 3)])).elementary_steps())
    assert nothing is not None
    assert response_curve(nothing).power_at(0.3).upper == 0.3


@pytest.mark.parametrize("kinds", [[(0.37, 5), (0.12, 3)], [(0.0045, 20)], [(0.48, 16)]], ids=str)
def test_rates_below_smallest_normal_double_are_enclosed(kinds: list[Kind]) -> None:
    """Powers are enclosed at rates alpha so small that the power is e^m alpha, with the largest loss m.

    There the probabilities that a randomised test adds underflow, and ratios overflow.
    """
    rates = np.array([5e-324, 1e-310, 3e-308])
    power = curve_of(kinds).points(rates).power
    with mpmath.workdps(400):
        truth = Atoms.of(kinds)
        for i, rate in enumerate(rates):
            assert power.lower[i] <= truth.power(float(rate)) <= power.upper[i]


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_losses_that_coincide_up_to_rounding_are_enclosed(seed: int) -> None:
    """Runs whose losses are multiples of one unit match a sum over integers.

    Their losses coincide up to rounding. Rates lie on vertices of the curve and between them, on both sides of 1/2.
    """
    random = np.random.default_rng(seed)
    unit = float(10 ** random.uniform(-2.5, -0.5))
    multiples = random.integers(1, 30, size=int(random.integers(8, 25))).tolist()
    with mpmath.workdps(40):
        law: dict[int, mpf] = {0: mpf(1)}
        for multiple in multiples:
            likely = 1 / (1 + mpmath.exp(-mpf(unit) * multiple))
            following: dict[int, mpf] = {}
            for loss, mass in law.items():
                for moved, share in ((-multiple, likely), (multiple, 1 - likely)):
                    following[loss + moved] = following.get(loss + moved, mpf(0)) + mass * share
            law = following
        vertices, reached = [], mpf(0)
        for loss in sorted(law, reverse=True):
            reached += law[loss]
            vertices.append((loss, reached))

        def power(rate: float) -> mpf:
            total, before = mpf(0), mpf(0)
            for loss, until in vertices:
                total += (min(until, mpf(rate)) - before) * mpmath.exp(mpf(unit) * loss)
                if until >= rate:
                    break
                before = until
            return total

        beside = [float(until) * factor for _, until in vertices[:-1:7] for factor in (1 - 1e-13, 1.0, 1 + 1e-13)]
        rates = np.concatenate((10 ** random.uniform(-9, 0, 60), beside))
        rates = rates[rates < 1]
        points = curve_of([(unit * (multiple + 5) - 5 * unit, 1) for multiple in multiples]).points(rates)
        for i, rate in enumerate(rates.tolist()):
            truth = power(rate)
            for found, value in ((points.power, truth), (points.type_two_error, 1 - truth)):
                margin = mpf(10) ** -11 + mpf(10) ** -30 / value  # Rounding of the multiples and of this difference.
                assert found.lower[i] <= value * (1 + margin), rate
                assert value * (1 - margin) <= found.upper[i], rate
