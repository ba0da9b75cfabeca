"""The best of several runs: published values, all score orders of small pairs, quadrature, and laws of both bounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from scipy import special, stats

from service.privacy.enclosure import Enclosure
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.numerics.arrays import FloatArray
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.selection.attacks import attacked
from service.privacy.trade_off.selection.trial import TrialCurve
from service.privacy.trade_off.selection.trial_counts import (
    BinomialCounts,
    NegativeBinomialCounts,
    PoissonCounts,
    TrialCounts,
)
from service.privacy.trade_off.selection.upper_bound import SelectionBound
from tests.privacy.cases import built, dpsgd, gaussian, laplace, selected
from tests.privacy.laws_reference import laws
from tests.slow_marker import sample_of, thorough

DELTA = 1e-5
PAIRS = 12


def gdp(mu: float) -> dict[str, Any]:
    return {"type": "gdp", "mu": mu}


def epsilon(spec: dict[str, Any], delta: float = DELTA, direction: str = "both") -> Enclosure:
    curve = getattr(WorstCase().curves(built(spec)), direction)
    found: Enclosure = curve.epsilon(delta)
    return found


@pytest.mark.parametrize("row", laws("selected_attack_epsilon"), ids=lambda row: row["id"])
def test_lower_bound_reaches_best_known_attack(row: dict[str, Any]) -> None:
    found = epsilon(row["inputs"]["mechanism"], row["inputs"]["delta"])
    assert found.upper >= row["value"] * (1 - row["rel_tol"])
    assert found.lower >= 0.98 * row["value"]


@pytest.mark.parametrize("row", laws("selected_theorem_epsilon"), ids=lambda row: row["id"])
def test_upper_bound_is_that_of_theorem(row: dict[str, Any]) -> None:
    found = epsilon(row["inputs"]["mechanism"], row["inputs"]["delta"])
    assert row["value"] * (1 - row["rel_tol"]) <= found.upper <= 1.002 * row["value"]


LAWS: tuple[tuple[TrialCounts, Callable[[Fraction], Fraction]], ...] = (
    (BinomialCounts(2, 1.0), lambda z: z**2),
    (BinomialCounts(5, 1.0), lambda z: z**5),
    (BinomialCounts(4, 0.25), lambda z: (Fraction(3, 4) + z / 4) ** 4),
    (NegativeBinomialCounts(4.0, 1.0), lambda z: z / 4 / (1 - Fraction(3, 4) * z)),
    (NegativeBinomialCounts(32.0, 1.0), lambda z: z / 32 / (1 - Fraction(31, 32) * z)),
)
"""Laws of K with rational generating functions phi."""


def small_pair(random: Generator, most: int = 4) -> list[tuple[Fraction, Fraction]]:
    """Draw two laws of 2 to `most` outcomes as a list of (P, Q), rational, in the order of falling ratios P/Q."""
    count = int(random.integers(2, most + 1))
    weights = [[int(each) for each in random.integers(1, 60, count)] for _ in range(2)]
    laws_ = [[Fraction(each, sum(row)) for each in row] for row in weights]
    return sorted(zip(*laws_, strict=True), key=lambda each: -each[0] / each[1])


def curve_of(pair: list[tuple[Fraction, Fraction]]) -> PolygonTradeOff:
    power = list(itertools.accumulate((p for p, _ in pair), initial=Fraction(0)))
    rate = list(itertools.accumulate((q for _, q in pair), initial=Fraction(0)))
    kept = [
        0,
        *(i for i in range(1, len(pair)) if pair[i - 1][0] * pair[i][1] != pair[i][0] * pair[i - 1][1]),
        len(pair),
    ]
    columns = (
        [float(each(i)) for i in kept]
        for each in (lambda i: rate[i], lambda i: 1 - rate[i], lambda i: power[i], lambda i: 1 - power[i])
    )
    return PolygonTradeOff(Corners(*map(np.array, columns)))


def delta_of_order(
    pair: tuple[tuple[Fraction, Fraction], ...], phi: Callable[[Fraction], Fraction], slope: Fraction
) -> Fraction:
    """Return delta at e^eps = `slope` >= 1 if the scores of the outcomes rise in the order of `pair`.

    `phi` is the generating function of the number of trials.
    """
    total, below = Fraction(0), (Fraction(0), Fraction(0))
    for p, q in pair:
        above = (below[0] + p, below[1] + q)
        gain = phi(above[0]) - phi(below[0]) - slope * (phi(above[1]) - phi(below[1]))
        total, below = total + max(gain, Fraction(0)), above
    return total


@sample_of(3)
@pytest.mark.parametrize(("counts", "phi"), LAWS)
@pytest.mark.parametrize("outcomes", [4, thorough(6)])
def test_no_score_order_of_small_pairs_exceeds_upper_bound(
    counts: TrialCounts, phi: Callable[[Fraction], Fraction], outcomes: int
) -> None:
    random = np.random.default_rng(20261127)
    slopes = [Fraction(each) for each in (1.0, 1.25, 2.0, 5.0, 20.0)]
    for _ in range(PAIRS):
        pair = small_pair(random, outcomes)
        bound = SelectionBound(TrialCurve(curve_of(pair)), counts).deltas(np.log([float(each) for each in slopes]))
        for slope, most in zip(slopes, bound.tolist(), strict=True):
            worst = max(delta_of_order(order, phi, slope) for order in itertools.permutations(pair))
            assert float(worst) <= most * (1 + 1e-12)


@pytest.mark.parametrize(("counts", "phi"), LAWS)
def test_attack_in_three_zones_is_attained(counts: TrialCounts, phi: Callable[[Fraction], Fraction]) -> None:
    """An explicit score attains the law of the attack in three zones, for which a coin splits outcomes at two rates."""
    random = np.random.default_rng(20261128)
    for _ in range(PAIRS):
        pair = small_pair(random)
        q, top = sorted(Fraction(int(each), 1000) for each in random.integers(1, 1000, 2))
        zones: list[list[tuple[Fraction, Fraction]]] = [[], [], []]
        used = Fraction(0)
        for p, mass in pair:
            ends = [used, used + mass]
            cuts = sorted({*ends, *(cut for cut in (q, top) if ends[0] < cut < ends[1])})
            for left, right in itertools.pairwise(cuts):
                zones[0 if right <= q else 1 if right <= top else 2].append((p * (right - left) / mass, right - left))
            used += mass
        middle, low, high = zones
        mass_low = [sum((each[side] for each in low), Fraction(0)) for side in (0, 1)]
        mass_middle = [sum((each[side] for each in middle), Fraction(0)) for side in (0, 1)]
        assert sum(each[1] for each in (*low, *middle, *high)) == 1
        power, rate = (phi(mass_low[side] + mass_middle[side]) - phi(mass_low[side]) for side in (0, 1))
        curve = curve_of(pair)
        t_top, t_q = (curve.points(np.array([float(each)])) for each in (top, q))
        found = counts.rise(t_top.power.lower, t_top.type_two_error.upper, t_q.power.lower)
        assert math.isclose(float(power), found[0], rel_tol=1e-6)
        at = np.array([float(top)])
        assert math.isclose(float(rate), counts.rise(at, 1 - at, np.array([float(q)]))[0], rel_tol=1e-9)


@pytest.mark.parametrize(("counts", "phi"), LAWS)
def test_attack_in_many_zones_is_attained(counts: TrialCounts, phi: Callable[[Fraction], Fraction]) -> None:
    """An explicit score attains the law of the attack in many zones, for which a coin splits outcomes at many rates."""
    random = np.random.default_rng(20261129)
    for _ in range(PAIRS):
        pair = small_pair(random)
        cuts = sorted({Fraction(int(each), 1000) for each in random.integers(1, 900, 4)})
        cells = list(itertools.pairwise([Fraction(0), *cuts]))
        tops = sorted((Fraction(int(each), 1000) for each in random.integers(900, 1001, len(cells))), reverse=True)
        # Scores rise from the least telling cell; untested outcomes up to the rate of the cell lie below it.
        power, rate, below, done = Fraction(0), Fraction(0), [Fraction(0), Fraction(0)], cuts[-1]
        for (left, right), top in reversed(list(zip(cells, tops, strict=True))):
            for side, mass in enumerate((_mass(pair, done, top), _mass(pair, left, right))):
                before = tuple(below)
                below[0] += mass
                below[1] += (top - done, right - left)[side]
                if side == 1:
                    power += phi(below[0]) - phi(before[0])
                    rate += phi(below[1]) - phi(before[1])
            done = top
        t = [_mass(pair, Fraction(0), each) for each in (*(left for left, _ in cells), cuts[-1], *tops)]
        masses, heights = t[: len(cells) + 1], t[len(cells) + 1 :]
        assert power == sum(phi(v - a) - phi(v - b) for v, a, b in zip(heights, masses, masses[1:], strict=False))
        assert rate == sum(phi(v - a) - phi(v - b) for v, (a, b) in zip(tops, cells, strict=True))


def _mass(pair: list[tuple[Fraction, Fraction]], first: Fraction, last: Fraction) -> Fraction:
    """Return the P-mass of the outcomes between the rates `first` and `last`, most telling first."""
    total, used = Fraction(0), Fraction(0)
    for p, q in pair:
        total += p * max(min(used + q, last) - max(used, first), Fraction(0)) / q
        used += q
    return total


@pytest.mark.parametrize("index", [*range(8), *(thorough(index) for index in range(8, 60))])
def test_bounds_of_random_numbers_of_trials_nearly_meet(index: int) -> None:
    """The bounds of epsilon differ by at most 2 % for random numbers of trials of mean up to 40."""
    random = np.random.default_rng([20261130, index])
    mean = float(10 ** random.uniform(0.05, 1.6))
    laws_of_trials: list[dict[str, Any]] = [
        {"type": "geometric", "mean": mean},
        {"type": "poisson", "mean": mean},
        *({"type": "truncated_negative_binomial", "mean": mean, "shape": shape} for shape in (-0.5, 0, 0.5, 3)),
    ]
    base = gdp(float(10 ** random.uniform(-1, 0.8)))
    trials = laws_of_trials[int(random.integers(len(laws_of_trials)))]
    found = epsilon({"type": "selected", "mechanism": base, "trials": trials}, float(10 ** random.uniform(-9, -3)))
    assert 0 < found.lower <= found.upper <= 1.02 * found.lower


@pytest.mark.parametrize(("counts", "phi"), LAWS)
def test_attacks_stay_below_upper_bound_and_above_plain_orders(
    counts: TrialCounts, phi: Callable[[Fraction], Fraction]
) -> None:
    random = np.random.default_rng(20261129)
    epsilons = np.array([0.0, 0.5, 1.5])
    for _ in range(4):
        curve = curve_of(small_pair(random))
        slopes = np.linspace(0.0, 6.0, 60)
        below = attacked(TrialCurve(curve).nodes, TrialCurve(curve.reversed()).nodes, counts, slopes, slopes)
        assert (below.profile(epsilons).lower <= SelectionBound(TrialCurve(curve), counts).deltas(epsilons)).all()


@pytest.mark.parametrize(
    ("law", "numbers", "phi"),
    [
        ("fixed", {"count": 5}, lambda z: z**5),
        ("geometric", {"mean": 10.0}, lambda z: z / (10 - 9 * z)),
        ("poisson", {"mean": 6.0}, lambda z: np.exp(6 * (z - 1))),
    ],
)
def test_lower_bound_reaches_the_best_zones_at_every_slope(
    law: str, numbers: dict[str, float], phi: Callable[[FloatArray], FloatArray]
) -> None:
    """A grid search over the zones of an explicit attack on N(0, 1) against N(1, 1), at slopes e^eps from 1 to 200."""
    found = WorstCase().curves(built(selected(gdp(1.0), law, **numbers))).both
    lower, upper = (each.ravel() for each in np.meshgrid(np.linspace(-4, 5, 300), np.linspace(-4, 5, 300)))
    rates, powers = (
        phi(special.ndtr(move - lower)) - phi(special.ndtr(move - lower) - special.ndtr(move - upper))
        for move in (0.0, 1.0)
    )
    for slope in (1.0, 1.5, 2.0, 4.0, 7.0, 20.0, 200.0):
        best = int(np.argmax(np.where(lower <= upper, powers - slope * rates, -np.inf)))
        rate, power = float(rates[best]), float(powers[best])
        delta = found.profile_at(math.log(slope))
        assert 0.995 * (power - slope * rate) <= delta.lower <= delta.upper
        assert 0.997 * power <= found.power_at(rate).lower


def quadrature(mu: float, counts: TrialCounts, eps: float, points: int) -> float:
    """Return delta(eps) of the bound for selected mu-GDP runs, by a trapezoid sum over the outcome.

    At each outcome the integrand is the largest value over a grid of rates. `counts` is the law of the number of
    trials.
    """
    u = np.linspace(-12.0, 12.0, points)
    rate_side = counts.slope(special.ndtr(u), special.ndtr(-u))
    power_side = counts.slope(special.ndtr(u + mu), special.ndtr(-u - mu))
    outcome = np.linspace(-10.0, 10.0 + mu, points)
    ratio = np.exp(mu * outcome - mu**2 / 2)
    most = np.array([np.max(each * power_side - math.exp(eps) * rate_side) for each in ratio])
    density: FloatArray = stats.norm.pdf(outcome) * np.maximum(most, 0.0)
    return float(np.trapezoid(density, outcome))


def random_counts(random: Generator) -> TrialCounts:
    mean = float(np.exp(random.uniform(0.1, 4.0)))
    return (
        NegativeBinomialCounts(mean, float(random.choice([-0.5, 0.0, 0.5, 1.0, 3.0]))),
        PoissonCounts(mean),
        BinomialCounts(int(random.integers(2, 30)), float(random.uniform(0.05, 0.95))),
        BinomialCounts(int(random.integers(2, 30)), 1.0),
    )[random.integers(4)]


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(8, 300))]
)
def test_upper_bound_agrees_with_quadrature(seed: int) -> None:
    random = np.random.default_rng([20261130, seed])
    mu, counts = float(np.exp(random.uniform(-2.0, 1.0))), random_counts(random)
    curve = WorstCase().curves(built(gdp(mu))).add
    bound = SelectionBound(TrialCurve(curve), counts)
    eps = float(random.uniform(0.0, 3.0 * mu + mu**2))
    found = float(bound.deltas(np.array([eps]))[0])
    expected = min(quadrature(mu, counts, eps, 1_200), 1.0)
    assert expected * (1 - 1e-3) <= found <= expected * (1 + 0.01) + 1e-12


@pytest.mark.parametrize("law", ["geometric", "poisson"])
def test_bounds_rise_with_mean(law: str) -> None:
    found = [epsilon(selected(gdp(0.7), law, mean=mean)) for mean in (1.5, 3.0, 10.0, 40.0)]
    for smaller, larger in itertools.pairwise(found):
        assert smaller.lower < larger.lower
        assert smaller.upper < larger.upper


@pytest.mark.parametrize("base", [gdp(1.0), laplace(1.0), dpsgd(1.0, 0.02, 50)])
def test_one_trial_is_the_mechanism(base: dict[str, Any]) -> None:
    known = epsilon(base)
    for law, numbers in (
        ("fixed", {"count": 1}),
        ("geometric", {"mean": 1.0}),
        ("binomial", {"count": 1, "probability": 1.0}),
    ):
        assert epsilon(selected(base, law, **numbers)) == known


@pytest.mark.parametrize("mean", [1 + 1e-12, 1 + 1e-6, 1.01])
def test_hardly_more_than_one_trial_is_hardly_more(mean: float) -> None:
    found, known = epsilon(selected(gdp(1.0), "geometric", mean=mean)), epsilon(gdp(1.0))
    assert known.lower * (1 - 2e-3) <= found.upper <= known.upper + 3 * math.log(mean) + 2e-3 * known.upper
    assert found.lower <= known.upper + 3 * math.log(mean)


SMALL_LOSSES = {"type": "skellam", "variance": 1e6, "sensitivity": 1}
"""Base whose largest losses are rare: the theorem alone says nothing of its selections."""


@pytest.mark.parametrize(
    ("base", "count"),
    [
        thorough(SMALL_LOSSES, 2),
        thorough(SMALL_LOSSES, 10),
        (SMALL_LOSSES, 3),
        (gdp(1.0), 3),
        (gdp(30.0), 2),
        ({"type": "discrete_gaussian", "sigma": 3.0, "sensitivity": 1}, 5),
        (laplace(1.0), 4),
        thorough({"type": "zcdp", "rho": 0.5}, 10),
    ],
)
def test_best_of_fixed_trials_is_no_easier_than_all(base: dict[str, Any], count: int) -> None:
    """The best of a fixed number of runs is no easier to attack than all runs together.

    The best is a function of all results, so every number is at most that of the composition.
    """
    best = selected(base, "fixed", count=count)
    every = {"type": "repeated", "mechanism": base, "steps": count}
    for delta in (1e-10, 1e-5, 1e-2):
        assert epsilon(best, delta).upper <= epsilon(every, delta).upper * (1 + 1e-12)


@pytest.mark.parametrize(
    "law", [("geometric", {"mean": 10.0}), pytest.param(("fixed", {"count": 3}), marks=pytest.mark.thorough)]
)
def test_lower_bound_of_a_class_is_that_of_one_member(law: tuple[str, dict[str, float]]) -> None:
    """The lower bound for a class of mechanisms does not exceed the upper bound of one member, a Gaussian release.

    No member attains several points of the curve of the class, so that curve gives no lower bound.
    """
    name, numbers = law
    of_class = epsilon(selected({"type": "rdp", "orders": [1, 2, 8], "epsilons": [0.5, 1.0, 4.0]}, name, **numbers))
    assert of_class.lower <= epsilon(selected(gdp(1.0), name, **numbers)).upper


def test_all_of_fixed_trials_is_composition() -> None:
    base = dpsgd(1.0, 0.02, 50)
    known = epsilon({"type": "repeated", "mechanism": base, "steps": 4})
    assert epsilon(selected(base, "fixed", count=4) | {"released": "all"}) == known
    best = epsilon(selected(base, "fixed", count=4))
    assert best.lower < best.upper <= known.upper


@pytest.mark.parametrize(
    "law", [pytest.param(("geometric", {"mean": 10.0}), marks=pytest.mark.thorough), ("fixed", {"count": 5})]
)
def test_directions_have_their_own_bounds(law: tuple[str, dict[str, float]]) -> None:
    name, numbers = law
    spec = selected(dpsgd(1.0, 0.01, 200), name, **numbers)
    add, remove, both = (epsilon(spec, direction=each) for each in ("add", "remove", "both"))
    assert add.lower > remove.upper
    assert both.lower <= add.upper
    assert add.upper <= both.upper * (1 + 1e-9)
    pair = WorstCase().curves(built(spec))
    rates = np.array([1e-3, 0.1, 0.6])
    inverse = pair.add.reversed().points(rates).power
    assert np.allclose(inverse.upper, pair.remove.points(rates).power.upper, rtol=1e-9)


def test_random_trials_are_narrow() -> None:
    for base in (gdp(0.5), gdp(2.0), dpsgd(1.0, 0.01, 1000)):
        for law, numbers in (
            ("geometric", {"mean": 40.0}),
            ("truncated_negative_binomial", {"mean": 10.0, "shape": 0.0}),
        ):
            found = epsilon(selected(base, law, **numbers))
            assert found.upper <= 1.02 * found.lower


def test_negative_binomial_laws_have_stated_means() -> None:
    one, none = np.ones(1), np.zeros(1)
    for mean in (1 + 1e-13, 1.0001, 1.5, 10.0, 1e6):
        for shape in (-0.9, -0.3, 0.0, 0.5, 1.0, 7.0, 100.0):
            counts = NegativeBinomialCounts(mean, shape)
            assert math.isclose(counts.slope(one, none)[0], mean, rel_tol=1e-9)
            assert math.isclose(counts.rise(one, none, one)[0], 1.0, rel_tol=1e-9)


def test_selection_inside_composition_is_refused() -> None:
    best = selected(gaussian(1.0), "geometric", mean=3.0)
    with pytest.raises(UnsupportedCombination, match="outermost"):
        epsilon({"type": "repeated", "mechanism": best, "steps": 2})
    mixed = {
        "type": "mixture",
        "components": [{"weight": 0.5, "mechanism": best}, {"weight": 0.5, "mechanism": gdp(0.1)}],
    }
    assert 0 < epsilon(mixed).lower < epsilon(best).upper


def test_random_trials_release_only_the_best() -> None:
    with pytest.raises(OutOfDomain, match="fixed number of trials"):
        built(selected(gaussian(1.0), "geometric", mean=3.0) | {"released": "all"})
