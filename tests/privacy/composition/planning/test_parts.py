"""A run is at least as easy to attack as each part: no bound of a composition is weaker than that of a part."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import pytest
from typing_extensions import override

from service.privacy.composition.planning import choose
from service.privacy.composition.planning.sub_runs import with_sub_runs
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import at_most
from service.privacy.questions import membership, profile
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.combinators.data_processing_bound import DataProcessingBound
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from tests.privacy.cases import built, dpsgd, gaussian, laplace
from tests.slow_marker import sample_of, thorough

RATES = np.array([1e-6, 0.03, 0.6])
LAST_DIGITS = 1 - 1e-5
"""Enclosures narrower than this are treated as exact."""


@final
class Vague(AbstractTradeOff):
    """Stub of a curve with almost trivial bounds: each quantity lies between 0 and its own upper bound."""

    evidence, method = Evidence.CERTIFIED, "vague"

    def __init__(self, curve: AbstractTradeOff) -> None:
        self.curve = curve

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure(0.0, math.inf, self.evidence)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return Enclosure(-math.inf, 0.0, self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure.point(0.0)

    @property
    @override
    def global_gdp_mu(self) -> None:
        return None

    @override
    def reversed(self) -> AbstractTradeOff:
        return Vague(self.curve.reversed())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        points, anything = self.curve.points(alpha), np.full_like(alpha, np.inf)
        return CurvePoints(
            EnclosureArray(points.type_two_error.lower, 1 - alpha),
            EnclosureArray(alpha, points.power.upper),
            EnclosureArray(-anything, anything),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return EnclosureArray(np.zeros_like(epsilon), self.curve.profile(epsilon).upper)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return Enclosure(0.0, self.curve.epsilon(delta).upper, self.evidence)


def test_lower_bounds_of_parts_carry_over_to_composition() -> None:
    """Lower bounds of the strongest part of a composition raise those of the composition, and stay below the truth."""
    generator = np.random.default_rng(41)
    for _ in range(20):
        noises = 10 ** generator.uniform(-0.5, 1.5, size=int(generator.integers(2, 5)))
        steps = built({"type": "composed", "mechanisms": [gaussian(noise) for noise in noises]}).elementary_steps()
        true = gaussian_curve(Enclosure.point(float(np.sqrt((noises**-2.0).sum()))))
        strongest = gaussian_curve(
            Enclosure.point((1 - 1e-14) / float(noises.min()))
        )  # mu of a part has an error of a few ulps.

        def cheaply(part: Steps) -> TradeOffPair:
            return part[0][0].curves()

        served = with_sub_runs(TradeOffPair(Vague(true), Vague(true), ""), steps, cheaply)
        epsilon, delta = float(generator.uniform(-1, 3)), float(10 ** generator.uniform(-12, -1))
        for curve in (served.add, served.remove):
            assert (curve.power(RATES).lower >= strongest.power(RATES).lower).all()
            assert (curve.power(RATES).lower <= true.power(RATES).upper).all()
            for rate in RATES.tolist():
                assert strongest.power_at(rate).lower <= curve.power_at(rate).lower <= true.power_at(rate).upper
            assert (curve.type_two_error(RATES).upper <= strongest.type_two_error(RATES).upper).all()
            assert (curve.type_two_error(RATES).upper >= true.type_two_error(RATES).lower).all()
            assert curve.profile_at(epsilon).lower >= strongest.profile_at(epsilon).lower
            assert curve.profile_at(epsilon).lower <= true.profile_at(epsilon).upper
            assert strongest.epsilon(delta).lower <= curve.epsilon(delta).lower <= true.epsilon(delta).upper
            assert curve.largest_log_ratio.lower == math.inf
            assert curve.smallest_log_ratio.upper == -math.inf


@pytest.mark.parametrize("rates", [RATES[1:2], thorough(RATES)], ids=len)
def test_part_that_reveals_everything_determines_the_run(rates: FloatArray) -> None:
    steps = {"type": "composed", "mechanisms": [dpsgd(1.0, 0.5, 10**12), {"type": "pure_dp", "epsilon": 1.0}]}
    pair = WorstCase().curves(built(steps))
    assert pair.add.power(rates).lower.min() >= 1 - 1e-11
    assert pair.add.type_two_error(rates).upper.max() <= 1e-300


def test_part_above_composition_raises_numerical_failure() -> None:
    weak, strong = (gaussian_curve(Enclosure.point(mu)) for mu in (1.0, 1.001))
    served = DataProcessingBound(Vague(weak), lambda: [strong])
    with pytest.raises(NumericalFailure):
        served.power(np.array([0.1]))
    with pytest.raises(NumericalFailure):
        served.power_at(0.1)
    with pytest.raises(NumericalFailure):
        served.profile(np.array([1.0]))
    with pytest.raises(NumericalFailure):
        served.epsilon(1e-3)


def test_run_beyond_every_lattice_is_answered() -> None:
    """A run of 10^12 steps, too long for every lattice, is answered with an epsilon near the mean loss under H1.

    Its mean is below steps/2, the mean without sampling.
    """
    steps = 10**12
    curve = WorstCase().curves(built(dpsgd(1.0, 0.5, steps))).add
    assert membership.advantage(curve).value.upper == 1
    assert curve.power(RATES).lower.min() >= 1 - 1e-11
    y = np.linspace(-12, 13, 20_001)
    loss, weights = np.log1p(0.5 * np.expm1(y - 0.5)), np.exp(-0.5 * y * y) / math.sqrt(2 * math.pi) * (y[1] - y[0])
    mean = steps * float((weights * np.exp(loss)) @ loss)
    found = profile.epsilon(curve, 1e-5).value
    assert found.lower <= mean * (1 + 1e-4) <= found.upper * (1 + 2e-4) <= steps / 2 * 1.01
    assert found.relative_width() <= 0.1


def test_power_near_one_needs_no_second_engine() -> None:
    """The power of a run that reveals nearly everything is answered by one engine, although the error is wide."""
    generator = np.random.default_rng(43)
    for _ in range(5):
        parts = [laplace(float(generator.uniform(0.5, 1))), gaussian(float(generator.uniform(0.3, 3)))]
        many = {"type": "repeated", "mechanism": parts[0], "steps": int(generator.integers(4_000, 40_000))}
        served = WorstCase().curves(built({"type": "composed", "mechanisms": [many, parts[1]]}))
        assert served.add.power_at(float(10 ** generator.uniform(-12, -1))).lower >= 1 - 1e-11
        assert served.second is not None
        assert served.second.times == 0


def drawn(generator: np.random.Generator) -> list[dict[str, Any]]:
    def size(low: float, high: float) -> float:
        return float(10 ** generator.uniform(low, high))

    parts: list[dict[str, Any]] = [
        {"type": "pure_dp", "epsilon": size(-2, 1.5)},
        {"type": "approximate_dp", "epsilon": size(-2, 1), "delta": size(-9, -1)},
        gaussian(size(-1, 2)),
        laplace(size(-1, 2)),
    ]
    return [parts[place] for place in generator.choice(len(parts), 2, replace=False)]


@pytest.mark.parametrize("seed", range(1))
def test_composition_is_no_weaker_than_its_parts(seed: int) -> None:
    generator = np.random.default_rng([31, seed])
    parts = drawn(generator)
    epsilon = float(generator.uniform(0, 4))
    composed = WorstCase().curves(built({"type": "composed", "mechanisms": parts})).add
    power, delta = composed.power(RATES[1:2]), profile.delta(composed, epsilon).value
    for part in parts:
        alone = WorstCase().curves(built(part)).add
        assert (power.lower >= alone.power(RATES[1:2]).lower * LAST_DIGITS).all(), part
        assert delta.lower >= profile.delta(alone, epsilon).value.lower * LAST_DIGITS, part
        assert composed.largest_log_ratio.upper >= alone.largest_log_ratio.lower
        assert composed.singular_power.upper >= alone.singular_power.lower


SYMMETRIC: tuple[dict[str, Any], ...] = (
    {"type": "composed", "mechanisms": [gaussian(2.0), laplace(3.0)]},
    {"type": "composed", "mechanisms": [gaussian(2.0), {"type": "approximate_dp", "epsilon": 0.1, "delta": 1e-6}]},
    {"type": "composed", "mechanisms": [laplace(3.0), laplace(3.0), {"type": "pure_dp", "epsilon": 0.3}]},
    {"type": "repeated", "steps": 1000, "mechanism": laplace(30.0)},
)


@pytest.mark.parametrize("spec", SYMMETRIC)
def test_symmetric_run_is_composed_once(spec: dict[str, Any]) -> None:
    """Both directions share one curve, whose numbers equal those of the swapped hypotheses."""
    pair = WorstCase().curves(built(spec))
    assert pair.both is pair.add is pair.remove
    swapped = pair.add.reversed()
    first, second = pair.add.epsilon(1e-5), swapped.epsilon(1e-5)
    assert max(first.lower, second.lower) <= min(first.upper, second.upper)


def test_directions_of_asymmetric_steps_differ() -> None:
    """A single sampled step makes a run asymmetric."""
    pair = WorstCase().curves(built({"type": "composed", "mechanisms": [gaussian(2.0), dpsgd(1.0, 0.1, 3)]}))
    assert pair.add is not pair.remove
    assert pair.remove.epsilon(1e-5).upper < pair.add.epsilon(1e-5).lower


@sample_of(1)
@pytest.mark.parametrize("seed", range(2))
def test_single_steps_bound_runs_whose_work_is_spent(seed: int) -> None:
    """A run without remaining work has at least the power of its strongest single step."""
    random = np.random.default_rng([31, seed])
    noise = float(10 ** random.uniform(-4, -2))
    revealing = {"type": "gaussian_mixture", "noise_multiplier": noise, "shifts": [0.3, 7.0], "weights": [0.5, 0.5]}
    others = [
        {"type": "sparse_vector", "threshold_epsilon": 0.1, "query_epsilon": random.uniform(0.01, 1), "positives": 2},
        {"type": "laplace", "noise_multiplier": float(10 ** random.uniform(0, 1))},
    ]
    whole = choose.pair(built({"type": "composed", "mechanisms": [revealing, *others]}))
    with at_most(0.0):
        for rate in (1e-300, 1e-12, 0.1):
            power = whole.add.points(np.array([rate])).power
            assert 1 - 1e-9 <= power.lower[0] <= power.upper[0] <= 1
        assert whole.both.profile_at(1.0).lower >= 1 - 1e-9
        assert whole.add.epsilon(1e-5).lower >= 0.01 / noise**2
