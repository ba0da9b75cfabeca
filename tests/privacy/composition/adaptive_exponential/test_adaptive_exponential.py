"""Composed exponential steps against nested searches, explicit strategies, fixed shifts and dominating pairs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from service.privacy.composition.adaptive_exponential.adaptive_run import ExponentialRunTradeOff
from service.privacy.composition.adaptive_exponential.recursion import any_order, fixed_order
from service.privacy.composition.lattice.engine import discretised_pair
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.mechanisms.exponential import Exponential
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.bounded_range import ExponentialTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.two_outcomes import TwoOutcomesTradeOff
from tests.privacy.cases import built
from tests.slow_marker import sample_of, thorough

SHARES = np.linspace(0.0, 1.0, 1501)
"""Shifts of a search, as shares of epsilon. The error of the search is of second order."""
MISSED = 2e-5
"""Relative tolerance of delta, except far in the tail."""


def exponential(epsilon: float, steps: int = 1) -> dict[str, Any]:
    step = {"type": "exponential", "epsilon": epsilon}
    return step if steps == 1 else {"type": "repeated", "steps": steps, "mechanism": step}


def composed(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "composed", "mechanisms": list(parts)}


def curves(spec: dict[str, Any], **options: Any) -> TradeOffPair:
    return pair(built(spec), options=EngineOptions(**options))


def high_mass(eta: float, t: FloatArray) -> FloatArray:
    """Return the mass under P1 of the larger of both losses, t and t - eta, of an exponential step."""
    return np.expm1(t - eta) / math.expm1(-eta)


def one_step(eta: float, x: FloatArray) -> FloatArray:
    inside = np.expm1(0.5 * (np.clip(x, -eta, eta) - eta)) ** 2 / -math.expm1(-eta)
    return np.where(x < -eta, -np.expm1(np.minimum(x, 0.0)), inside)


def searched(etas: tuple[float, ...], x: FloatArray) -> FloatArray:
    """Return delta at each epsilon of `x` for exponential steps of the ranges `etas` in this order, by a search.

    The last step has a closed form. Only the shifts of a list are tried, so the result is a lower bound of delta.
    """
    if len(etas) == 1:
        return one_step(etas[0], x)
    eta, later = etas[0], etas[1:]
    t = eta * (SHARES if len(etas) == 2 else SHARES[::30])
    high = searched(later, (x[:, None] - t).ravel()).reshape(len(x), -1)
    low = searched(later, (x[:, None] - t + eta).ravel()).reshape(len(x), -1)
    mass = high_mass(eta, t)
    return (mass * high + (1 - mass) * low).max(axis=1)


def test_adaptive_optimum_matches_known_values() -> None:
    two, ten = curves(exponential(1.0, 2)), curves(exponential(1.0, 10))
    assert two.bracket is None
    assert ten.bracket is None
    for found, known, digits in (
        (two.both.profile_at(0.0), 0.303365, 1e-6),
        (two.both.profile_at(1.0), 0.057005, 1e-6),
        (ten.both.profile_at(1.0), 0.3684, 5e-5),
        (ten.both.epsilon(1e-6), 7.72, 5e-3),
    ):
        assert known - digits <= found.lower <= found.upper <= known + digits
        assert found.relative_width() < 5e-5


@pytest.mark.parametrize("etas", [(1.0, 1.0), (0.05, 0.05), (6.0, 6.0), (0.5, 2.0), (2.0, 0.5), (0.25, 0.5, 1.0)])
def test_enclosure_contains_nested_search(etas: tuple[float, ...]) -> None:
    """The enclosure of delta contains the result of a nested search over the shifts of all steps.

    Any list of shifts is a strategy. Steps of increasing range give the largest delta found.
    """
    total = sum(etas)
    x = total * np.array([-0.4, 0.0, 0.15, 0.4, 0.7])
    curve = ExponentialRunTradeOff(tuple((eta, etas.count(eta)) for eta in sorted(set(etas))), 1e-9)
    bounds, found = curve.profile(x), searched(etas, x)
    assert (found <= bounds.upper).all()
    if list(etas) == sorted(etas):
        missed = MISSED if len(etas) == 2 else 100 * MISSED
        assert (bounds.lower <= found * (1 + missed)).all()
        assert (bounds.upper - bounds.lower <= 2e-4 * bounds.upper).all()


def test_two_steps_match_closed_form() -> None:
    """delta(x) of two equal steps of the range eta is (1 - 2 e^{(x - eta)/2}/cosh(eta/4) + e^{x - eta})/(1 - e^-eta).

    The first step has the shift eta/2, the best one for these x.
    """
    eta = 1.3
    x = eta * np.array([0.0, 0.21, 0.5])
    root = np.exp(0.5 * (x - eta)) / math.cosh(0.25 * eta)
    truth = (1 - 2 * root + np.exp(x - eta)) / -math.expm1(-eta)
    bounds = ExponentialRunTradeOff(((eta, 2),), 1e-9).profile(x)
    assert (bounds.lower <= truth).all()
    assert (truth <= bounds.upper).all()


@pytest.mark.parametrize(("eta", "steps"), [(1e-200, 3), (1e-3, 2), (1.0, 5), (8.0, 3), (700.0, 2)])
def test_profile_near_largest_loss_is_a_product(eta: float, steps: int) -> None:
    """Near the largest loss every step must have its larger loss, so delta is a product over the steps.

    The best shifts are equal, because ln(1 - e^-a) is concave.
    """
    curve = ExponentialRunTradeOff(((eta, steps),), 1e-9)
    away = eta * np.array([1e-6, 0.01, 0.4, 0.99])
    logs = (steps + 1) * np.log(-np.expm1(-away / (steps + 1))) - steps * math.log(-math.expm1(-eta))
    bounds = curve.profile(steps * eta - away)
    assert bounds.log_lower is not None
    assert bounds.log_upper is not None
    # steps * eta - away has a rounding error.
    off = (steps + 1) * 4e-16 * steps * eta / away
    assert (bounds.log_lower - off <= logs).all()
    assert (logs <= bounds.log_upper + off).all()
    assert (bounds.log_upper - bounds.log_lower <= 1e-10 * (1 + np.abs(logs)) + 4 * off).all()
    for delta in (1e-30, 1e-12):
        epsilon = curve.epsilon(delta)
        reached = curve.profile(np.array([epsilon.lower, epsilon.upper]))
        assert reached.upper[0] >= delta or epsilon.lower == 0
        assert reached.lower[1] <= delta


def strategy(generator: np.random.Generator, etas: tuple[float, ...]) -> list[tuple[float, float]]:
    """Return (loss, H1-mass) of every outcome of a random strategy against exponential steps of the ranges `etas`.

    The strategy draws the order of the steps, and the shift of each step after every earlier outcome.
    """
    if not etas:
        return [(0.0, 1.0)]
    at = int(generator.integers(len(etas)))
    eta, left = etas[at], etas[:at] + etas[at + 1 :]
    t = eta * float(generator.beta(2, 2))
    mass = float(high_mass(eta, np.array(t)))
    return [
        (loss + shift, share * part)
        for shift, share in ((t, mass), (t - eta, 1 - mass))
        for loss, part in strategy(generator, left)
    ]


@pytest.mark.parametrize("runs", [10, thorough(40)])
def test_random_strategy_does_not_exceed_curve(runs: int) -> None:
    generator = np.random.default_rng(5)
    kinds = (0.25, 0.5, 1.0, 2.0, 4.0)
    for _ in range(runs):
        etas = tuple(sorted(generator.choice(kinds, size=int(generator.integers(2, 6))).tolist()))
        curve = ExponentialRunTradeOff(tuple((eta, etas.count(eta)) for eta in sorted(set(etas))), 1e-3)
        x = sum(etas) * generator.uniform(-0.9, 0.99, 30)
        upper = curve.profile(x).upper
        for _ in range(20):
            losses, masses = np.array(strategy(generator, etas)).T
            assert ((masses * np.maximum(-np.expm1(x[:, None] - losses), 0.0)).sum(axis=1) <= upper + 1e-15).all()


def fixed_shift(eta: float, steps: int, share: float, x: FloatArray) -> FloatArray:
    """Return delta at x of the attack in which each of the steps takes the shift `share` * `eta`."""
    heads = np.arange(steps + 1)
    losses = steps * (share - 1) * eta + eta * heads
    masses = binom.pmf(heads, steps, float(high_mass(eta, np.array(share * eta))))
    return (masses * np.maximum(-np.expm1(np.minimum(x[:, None] - losses, 0.0)), 0.0)).sum(axis=1)


def randomised_responses(eta: float, steps: int, x: FloatArray) -> FloatArray:
    """Return delta of pure DP steps, an upper bound because losses stay between -eta and eta."""
    heads = np.arange(steps + 1)
    masses = binom.pmf(heads, steps, 1 / (1 + math.exp(-eta)))
    return (masses * np.maximum(-np.expm1(np.minimum(x[:, None] - (2 * heads - steps) * eta, 0.0)), 0.0)).sum(axis=1)


@pytest.mark.parametrize(("eta", "steps"), [(0.2, 4), (1.0, 20), (5.0, 6)])
def test_delta_lies_between_fixed_shifts_and_dominating_pair(eta: float, steps: int) -> None:
    curve = ExponentialRunTradeOff(((eta, steps),), 1e-9)
    dominating = discretised_pair(((Exponential(epsilon=eta), steps),), EngineOptions(relative_tolerance=1e-4)).add
    x = 0.5 * math.sqrt(steps) * eta * np.array([0.0, 1.0, 2.0, 3.0])
    bounds, above = curve.profile(x), dominating.profile(x)
    for share in (0.3, 0.5, 0.6, 0.8):
        assert (fixed_shift(eta, steps, share, x) <= bounds.lower * (1 + 1e-3)).all()
    assert (bounds.upper < above.lower).all()


def drawn_runs() -> list[tuple[float, int]]:
    generator = np.random.default_rng(11)
    runs = [
        (float(np.exp(generator.uniform(math.log(1e-3), math.log(1e3)))), int(np.exp(generator.uniform(0.7, 4.6))))
        for _ in range(8)
    ]
    return [*runs, (5.0, 60), (40.0, 100), (200.0, 30), (1000.0, 2), (500.0, 60)]


@sample_of(6)
@pytest.mark.parametrize(("eta", "steps"), drawn_runs())
def test_delta_is_enclosed_to_one_thousandth(eta: float, steps: int) -> None:
    """Enclosures of delta are at most 0.001 wide at 1300 thresholds, and lie between attacks and an upper bound."""
    curve = ExponentialRunTradeOff(((eta, steps),), 1e-5)
    near_the_end = steps * eta - min(eta, 1.0) * np.linspace(0.0, 20.0 * math.sqrt(steps), 300)
    x = np.concatenate([steps * eta * np.linspace(-0.2, 1.0, 1000), near_the_end])
    bounds = curve.profile(x)
    assert (bounds.upper - bounds.lower <= 1e-3).all()
    attacks = np.max([fixed_shift(eta, steps, share, x) for share in (0.5, 0.7, 0.9, 0.95, 0.99)], axis=0)
    assert (attacks <= bounds.upper * (1 + 1e-9) + 1e-15).all()
    assert (bounds.lower <= randomised_responses(eta, steps, x) * (1 + 1e-9) + 1e-15).all()
    power = curve.points(np.array([1e-6, 0.01, 0.1, 0.5, 0.9])).power
    assert (power.upper - power.lower <= 1e-3).all()
    for delta in (1e-3, 0.1):
        epsilon = curve.epsilon(delta)
        ends = curve.profile(np.array([epsilon.lower, epsilon.upper]))
        assert ends.upper[0] >= delta * (1 - 1e-9) or epsilon.lower == 0
        assert ends.lower[1] <= delta * (1 + 1e-9)
        assert ends.upper[0] - ends.lower[1] <= 3e-3


def test_one_step_matches_closed_form() -> None:
    for eta in (1e-12, 0.3, 5.0, 40.0):
        h = eta / 64
        high, low = any_order(h, ((64, 1),)), fixed_order(h, (64,))
        known = ExponentialTradeOff(eta).profile(np.arange(65, dtype=np.float64) * h)
        assert (low.profile <= known.upper).all()
        assert (known.lower <= high.profile).all()
        assert (high.profile - low.profile <= 1e-10 * high.profile + 1e-300).all()


def test_delta_increases_with_steps_and_epsilon() -> None:
    x = np.array([-1.0, 0.0, 0.5, 2.0])
    for growing in ([(2, 1.0), (3, 1.0), (10, 1.0)], [(5, 0.5), (5, 0.501), (5, 0.7)]):
        runs = [ExponentialRunTradeOff(((epsilon, steps),), 1e-9).profile(x) for steps, epsilon in growing]
        for less, more in itertools.pairwise(runs):
            assert (less.lower <= more.upper).all()


@pytest.mark.parametrize("groups", [((0.3, 2),), ((1.0, 7),), ((0.5, 2), (1.0, 3)), ((0.0123, 5),), ((9.0, 4),)])
def test_points_are_conjugate_of_profile_and_self_inverse(groups: tuple[tuple[float, int], ...]) -> None:
    curve = ExponentialRunTradeOff(groups, 1e-9)
    rates = np.array([1e-300, 1e-40, 1e-12, 1e-5, 0.01, 0.2, 0.5, 0.7, 0.99, 1 - 1e-9])
    points = curve.points(rates)
    largest = curve.largest_log_ratio.upper
    x = np.linspace(-largest, largest, 4001)
    profile = curve.profile(x)
    for index, rate in enumerate(rates.tolist()):
        growth = np.exp(np.minimum(x + math.log(rate), 700.0))
        assert points.power.lower[index] <= (profile.upper + growth).min() * (1 + 1e-12)
        # Between the evaluated points, the tangent falls by a cell of ln z.
        assert (profile.lower + growth * math.exp(x[0] - x[1])).min() * (1 - 1e-3) <= points.power.upper[index]
        assert points.type_two_error.upper[index] >= (1 - profile.upper - growth).max() - 1e-12
    both = points.power.lower + points.type_two_error.upper
    assert (np.abs(both - 1) <= 1e-3).all()
    width = np.log(points.power.upper) - np.log(points.power.lower)
    assert (width[rates > 1e-6] <= 3e-3).all()
    error = points.type_two_error
    kept = (error.lower > 1e-300) & (error.upper < 1)
    back = curve.points(error.lower[kept]).type_two_error.upper
    assert (back >= rates[kept] * (1 - 1e-9)).all()
    back = curve.points(error.upper[kept]).type_two_error.lower
    assert (back <= rates[kept] * (1 + 1e-9)).all()
    slope = points.log_slope
    steep = (curve.points(rates[3:-1] * (1 + 1e-3)).power.lower - points.power.upper[3:-1]) / (1e-3 * rates[3:-1])
    assert (np.log(np.maximum(steep, 1e-300)) <= slope.upper[3:-1] + 1e-6).all()
    assert (slope.lower <= slope.upper).all()


@pytest.mark.parametrize(("epsilon", "widest"), [(0.01, 1e-5), (1.0, 1e-3)])
def test_hundred_steps_have_narrow_profile(epsilon: float, widest: float) -> None:
    curve = curves(exponential(epsilon, 100)).both
    x = np.linspace(0.0, 100 * epsilon, 200)
    bounds = curve.profile(x)
    assert (bounds.upper - bounds.lower <= widest).all()
    reached = curve.epsilon(1e-6)
    assert reached.relative_width() <= 1e-3


def test_mixed_with_other_steps_exponential_run_comes_last() -> None:
    """A Gaussian step before an exponential run gives the mean of the run's profile over the loss of the
    Gaussian step.
    """
    spec = composed(exponential(0.5, 3), {"type": "gaussian", "noise_multiplier": 1.0})
    served = curves(spec, relative_tolerance=1e-4)
    assert served.bracket is None
    run = ExponentialRunTradeOff(((0.5, 3),), 1e-9)
    normals = np.linspace(-12.0, 12.0, 20_001)
    weights = np.exp(-0.5 * normals**2) * (normals[1] - normals[0]) / math.sqrt(2 * math.pi)
    losses = 0.5 + normals  # Under H1.
    for x in (0.0, 1.0, 2.5):
        profile = run.profile(x - losses)
        low, high = (float(weights @ end) for end in (profile.lower, profile.upper))
        found = served.both.profile_at(x)
        assert found.lower <= high * (1 + 1e-7)
        assert low * (1 - 1e-7) <= found.upper
        assert found.relative_width() < 5e-3


def test_long_runs_are_brackets() -> None:
    short, long = curves(exponential(0.3, 100)), curves(exponential(0.3, 120))
    assert long.bracket is not None
    dominating = discretised_pair(((Exponential(epsilon=0.3), 120),), EngineOptions(relative_tolerance=1e-3)).add
    for x in (0.0, 4.0):
        found = long.both.profile_at(x)
        assert short.both.profile_at(x).lower <= found.lower <= found.upper < dominating.profile_at(x).lower
        assert found.relative_width() < 0.2
    power, error = long.both.points(np.array([1e-3])).power, long.both.points(np.array([1e-3])).type_two_error
    assert power.lower[0] <= 1 - error.lower[0]
    assert power.upper[0] - power.lower[0] < 0.05 * power.upper[0]


@pytest.mark.parametrize(
    "spec",
    [
        exponential(1e6, 300),
        exponential(1e-260, 4),
        thorough(exponential(1e-5, 10**12)),
        composed(exponential(1e6, 2), exponential(1e-6, 3)),
        composed(exponential(0.1, 150), exponential(0.3, 2)),
        thorough(composed(*(exponential(0.1 + 0.0137 * k) for k in range(9)))),
    ],
)
def test_every_run_is_enclosed(spec: dict[str, Any]) -> None:
    served = curves(spec, relative_tolerance=1e-2)
    found = served.add.profile_at(0.1)
    power = served.add.points(np.array([1e-3])).power
    assert 0 <= found.lower <= found.upper <= 1
    assert 1e-3 * (1 - 1e-13) <= power.lower[0] <= power.upper[0] <= 1


def test_engines_without_recursion_note_dominating_pair() -> None:
    spec = exponential(1.0, 3)
    truth = curves(spec).both.profile_at(1.0)
    for method in ("clt", "edgeworth", "saddlepoint"):
        found = pair(built(spec), method)
        assert any("dominating pair" in note for note in found.notes)
    drawn = pair(built(spec), "monte_carlo", options=EngineOptions(samples=20_000))
    assert drawn.bracket is not None
    ends = drawn.both.profile_at(1.0)
    assert ends.lower <= truth.lower
    assert truth.upper <= ends.upper
    one = composed(exponential(1.0), {"type": "laplace", "noise_multiplier": 1.0})
    assert pair(built(one)).bracket is None


@pytest.mark.parametrize(("high", "low"), [(0.3, 0.7), (1e-9, 2e-9), (12.0, 0.5), (300.0, 40.0)])
def test_two_outcomes_pair_matches_definition(high: float, low: float) -> None:
    curve = TwoOutcomesTradeOff(high, low)
    likely = math.expm1(-low) / math.expm1(-high - low)
    masses = ((likely * math.exp(-high), high), (-math.expm1(-high) / -math.expm1(-high - low), -low))
    x = np.array([-2 * low, -0.5 * low, 0.0, 0.5 * high, 0.99 * high, 1.5 * high])
    truth = [sum(max(mass * math.exp(e) * math.expm1(loss - e), 0.0) for mass, loss in masses) for e in x.tolist()]
    bounds = curve.profile(x)
    slack = 1e-12 * np.maximum(truth, high)
    assert (bounds.lower <= truth + slack).all()
    assert (truth <= bounds.upper + slack).all()
    rates = np.array([1e-12, 0.5 * masses[0][0], masses[0][0], 0.5, 0.999])
    points = curve.points(rates)
    power = np.minimum(np.exp(high) * rates, 1 - np.exp(-low) * (1 - rates))
    assert (points.power.lower <= power * (1 + 1e-12)).all()
    assert (power * (1 - 1e-12) <= points.power.upper).all()
    assert (np.abs(points.power.upper + points.type_two_error.lower - 1) <= 1e-12).all()
    for delta in (0.1 * likely, 0.9 * likely):
        epsilon = curve.epsilon(delta)
        assert epsilon.lower <= max(high + math.log1p(-delta / likely), 0.0) <= epsilon.upper
