"""Guarantees of parts add up to upper bounds of a composition that no other bound narrows."""

from __future__ import annotations

import math
from typing import final

import numpy as np
import pytest
from scipy import special
from typing_extensions import override

from service.privacy.composition.planning import choose
from service.privacy.composition.planning.contour_inversion import bounded_by_guarantees
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.errors import NumericalFailure
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import at_most
from service.privacy.questions.gaussian_dp import mu
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.sum_of_guarantees import DELTAS, Guarantees, SumOfGuarantees
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from tests.privacy.cases import built, dpsgd, gaussian, laplace
from tests.slow_marker import sample_of, thorough

RATES = np.array([1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.99, 1 - 1e-9])
EPSILONS = np.array([-1.0, 0.0, 0.3, 2.0, 7.0, 40.0])
RUNS = {
    "contours beside others": [gaussian(2.0), dpsgd(1.0, 0.01, 100), {"type": "exponential", "epsilon": 0.3}],
    "groups of equal steps": [
        {"type": "repeated", "mechanism": laplace(5.0), "steps": 3},
        {"type": "repeated", "mechanism": {"type": "pure_dp", "epsilon": 0.1}, "steps": 2},
    ],
    "steps of one direction": [{"type": "poisson_sampled", "sample_rate": 0.2, "mechanism": laplace(4.0)}] * 3,
    "strong steps of one direction": [{"type": "poisson_sampled", "sample_rate": 0.2, "mechanism": laplace(0.7)}] * 3,
}


@final
class Unbounded(DelegatingCurve):
    """Curve with the lower bounds of another curve, and no upper bounds of power, delta and epsilon."""

    is_capped = True

    @override
    def reversed(self) -> AbstractTradeOff:
        return Unbounded(self.curve.reversed())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points = self.curve.points(alpha)
        nothing, everything = np.zeros_like(alpha), np.ones_like(alpha)
        return CurvePoints(
            EnclosureArray(nothing, points.type_two_error.upper),
            EnclosureArray(points.power.lower, everything),
            points.log_slope,
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return EnclosureArray(self.curve.profile(epsilon).lower, np.ones_like(epsilon))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return Enclosure(self.curve.epsilon(delta).lower, math.inf, self.evidence)


@sample_of(2)
@pytest.mark.parametrize("name", [thorough(name) if name.startswith("strong") else name for name in RUNS])
def test_guarantees_of_sub_runs_bound_the_run(name: str) -> None:
    mechanism = built({"type": "composed", "mechanisms": RUNS[name]})
    true = choose.pair(mechanism, options=EngineOptions(relative_tolerance=0.1))
    steps = tuple(mechanism.elementary_steps())
    unknown = Unbounded(true.add)
    found = bounded_by_guarantees(TradeOffPair(unknown, unknown.reversed(), ""), steps)
    for curve, exact in ((found.add, true.add), (found.remove, true.remove)):
        points, known = curve.points(RATES), exact.points(RATES)
        assert (points.power.upper >= known.power.lower).all()
        assert (points.type_two_error.lower <= known.type_two_error.upper).all()
        assert points.power.upper[1] < 0.1
        assert points.type_two_error.lower[1] > 0.5
        assert [curve.power_at(rate).upper for rate in RATES[:3].tolist()] == points.power.upper[:3].tolist()
        profile = curve.profile(EPSILONS)
        assert (profile.upper >= exact.profile(EPSILONS).lower).all()
        assert profile.upper[-1] <= 1e-4
        for delta in (1e-30, 1e-8, 1e-3, 0.5):
            assert exact.epsilon(delta).lower <= curve.epsilon(delta).upper < math.inf
        with at_most(0.0):
            assert exact.epsilon(1e-8).lower <= curve.epsilon(1e-8).upper < math.inf


@pytest.mark.parametrize("seed", range(4))
def test_guarantees_of_gaussian_steps_add_up(seed: int) -> None:
    """The sums of epsilon and delta over the steps dominate the exact numbers of mu^2 = sum of mu_i^2."""
    rng = np.random.default_rng(seed)
    shifts, counts = np.exp(rng.uniform(-5, 1, 3)), rng.integers(1, 20, 3)
    parts = [
        [(gaussian_curve(Enclosure.point(float(mu))), int(count))] for mu, count in zip(shifts, counts, strict=True)
    ]
    guarantees = Guarantees(lambda: parts)
    exact = gaussian_curve(Enclosure.point(math.sqrt(float(counts @ shifts**2))))
    for delta in DELTAS[1:]:
        total = sum(count * part.epsilon(delta / 3 / count).upper for ((part, count),) in parts)
        assert guarantees.epsilon(delta) == pytest.approx(total, rel=1e-6)
        assert guarantees.epsilon(delta) >= exact.epsilon(delta).lower
    assert (np.exp(guarantees.log_delta(EPSILONS)) >= exact.profile(EPSILONS).lower).all()
    assert (np.exp(guarantees.log_power(RATES)) >= exact.points(RATES).power.lower * (1 - 1e-12)).all()
    assert (np.exp(guarantees.log_error(RATES)) <= exact.points(RATES).type_two_error.upper * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(4))
def test_equal_shares_of_epsilon_bound_delta(seed: int) -> None:
    """Deltas of Gaussian steps at equal shares of epsilon add up to at least delta of the exact sum, and rates too."""
    rng = np.random.default_rng([20261128, 1, seed])
    shifts, counts = 10 ** rng.uniform(-9, 0, 3), rng.integers(1, 20, 3)
    guarantees = Guarantees(
        lambda: [
            [(gaussian_curve(Enclosure.point(float(shift))), int(n))] for shift, n in zip(shifts, counts, strict=True)
        ]
    )
    root = math.sqrt(float(counts @ shifts**2))
    exact = gaussian_curve(Enclosure.point(root))
    near = root * np.array([0.0, 1e-3, 0.3, 1.0, 4.0])
    upper = np.exp(guarantees.log_delta(near))
    assert (upper >= exact.profile(near).lower).all()
    assert upper[0] == pytest.approx(float(counts @ special.erf(shifts / math.sqrt(8))), rel=1e-9)
    assert (np.exp(guarantees.log_power(RATES)) >= exact.points(RATES).power.lower * (1 - 1e-12)).all()
    assert (np.exp(guarantees.log_error(RATES)) <= exact.points(RATES).type_two_error.upper * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(4))
def test_rounds_of_small_losses_add_up(seed: int) -> None:
    """N rounds have at most N times the advantage of one round, and at most sqrt(N) times its mu over all rates.

    No engine resolves losses this small.
    """
    rng = np.random.default_rng([20261128, 2, seed])
    options, epsilon = int(10 ** rng.uniform(4, 9)), float(10 ** rng.uniform(-11, -9))
    randomizer = {"type": "randomized_response", "options": options, "epsilon": epsilon}
    step = {"type": "shuffled_reports", "reports": int(rng.integers(20, 300)), "randomizer": randomizer}
    rounds = int(10 ** rng.uniform(0.5, 3))
    alone = choose.pair(built(step), neighbours=Neighbours(REPLACE)).add
    run = choose.pair(
        built({"type": "repeated", "mechanism": step, "steps": rounds}), neighbours=Neighbours(REPLACE)
    ).add
    with at_most(3e5):
        assert run.profile_at(0.0).upper <= rounds * alone.profile_at(0.0).upper * (1 + 1e-9)
    one = mu(alone, 0.0, 0.0, lower=False).value.upper
    with at_most(3e5):
        several = mu(run, 0.0, 0.0, lower=False).value.upper
    assert one <= several <= math.sqrt(rounds) * one * (1 + 1e-9)


def test_parts_below_the_composition_raise_numerical_failure() -> None:
    weak, strong = (gaussian_curve(Enclosure.point(mu)) for mu in (0.1, 5.0))
    bounded = SumOfGuarantees(Unbounded(strong), Guarantees(lambda: [[(weak, 1)]]))
    with pytest.raises(NumericalFailure):
        bounded.epsilon(1e-6)
    with pytest.raises(NumericalFailure):
        bounded.power(np.array([1e-9]))
    with pytest.raises(NumericalFailure):
        bounded.power_at(1e-9)
    with pytest.raises(NumericalFailure):
        bounded.profile(np.array([20.0]))


def test_many_small_losses_concentrate() -> None:
    """N pure steps of epsilon e are about Gaussian with mu = e sqrt(N), far below the sum N e."""
    step = {"type": "repeated", "mechanism": {"type": "staircase", "epsilon": 1e-6, "gamma": 0.4}, "steps": 10**12}
    found = choose.pair(built(step)).add.epsilon(1e-6)
    assert found.upper <= 0.5 + 2 * math.sqrt(0.5 * math.log(1e6)) + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_guarantees_of_tiny_losses_are_not_below_those_of_one_part(seed: int) -> None:
    """Check sums of guarantees against a single part, for losses whose squares underflow as well."""
    random = np.random.default_rng([20261128, seed])
    parts = []
    for _ in range(int(random.integers(1, 4))):
        step = laplace(float(10 ** random.uniform(-0.5, 1)))
        sampled = {"type": "poisson_sampled", "sample_rate": float(10 ** random.uniform(-299, -2)), "mechanism": step}
        parts.append((choose.plan(built(sampled)).curves.add, int(random.integers(1, 1000))))
    guarantees = Guarantees(lambda: [[part] for part in parts])
    for part, _ in parts:
        for delta in (*DELTAS, float(part.profile(np.zeros(1)).lower[0]) / 2):
            assert guarantees.epsilon(delta) >= part.epsilon(delta).lower
