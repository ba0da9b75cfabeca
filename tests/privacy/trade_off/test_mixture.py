"""Mixtures: points at one likelihood ratio against 30 digits, linear profiles, kinks, nesting, and rejected input."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.planning.choose import pair, plan
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure, OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.mixture import Mixture, WeightedMechanism
from service.privacy.questions import gaussian_dp
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.mixture.curve import MixtureTradeOff
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, laplace, mixture, sampled
from tests.slow_marker import sample_of, thorough

RATES = np.array([1e-290, 1e-100, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 2.0**-30])
EPSILONS = np.array([-9.0, -1.0, -0.01, 0.0, 0.3, 2.0, 15.0])
GAUSSIANS: list[Any] = [
    ([1 / 3, 2 / 3], [1.0, 2.0]),
    ([0.5, 0.5], [0.01, 0.02]),
    ([0.1, 0.9], [0.5, 8.0]),
    ([0.01, 0.99], [20.0, 30.0]),
    thorough([1e-9, 1 - 1e-9], [3.0, 0.1]),
    thorough([0.25, 0.25, 0.25, 0.25], [0.1, 1.0, 5.0, 60.0]),
    ([0.3, 0.3, 0.4], [0.5, 1.0, 5.0]),
]


def pure(epsilon: float) -> dict[str, Any]:
    return {"type": "pure_dp", "epsilon": epsilon}


def approximate(epsilon: float, delta: float) -> dict[str, Any]:
    return {"type": "approximate_dp", "epsilon": epsilon, "delta": delta}


def curves(*components: tuple[float, dict[str, Any]]) -> TradeOffPair:
    return WorstCase().curves(built(mixture(*components)))


def assert_encloses(bounds: EnclosureArray, index: int, truth: mpf) -> None:
    assert mpf(float(bounds.lower[index])) <= truth <= mpf(float(bounds.upper[index]))
    assert bounds.log_lower is not None
    assert bounds.log_upper is not None
    log = mpmath.log(truth)
    assert mpf(float(bounds.log_lower[index])) <= log <= mpf(float(bounds.log_upper[index]))


def width(bounds: EnclosureArray, index: int) -> float:
    assert bounds.log_lower is not None
    assert bounds.log_upper is not None
    return float(bounds.log_upper[index] - bounds.log_lower[index])


def tail(x: mpf) -> mpf:
    """Return P(N(0, 1) > x), the normal tail."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def normalised(weights: Sequence[float]) -> list[mpf]:
    """Return the weights over their sum, as the definition requires."""
    total = mpmath.fsum(map(mpf, weights))
    return [mpf(weight) / total for weight in weights]


class GaussianTruth:
    """Mixture of Gaussian curves in many digits, at common log likelihood ratios c.

    At c, the curve of mean mu has the threshold z = c/mu + mu/2, with the rate P(N > z) and the type II error P(N < z -
    mu) for a standard normal N.
    """

    def __init__(self, weights: Sequence[float], means: Sequence[float]) -> None:
        self.weights, self.means = normalised(weights), [mpf(mean) for mean in means]

    def level(self, alpha: float) -> mpf:
        low, high = mpf(-5000), mpf(5000)
        for _ in range(50):  # To 1e-11.
            middle = (low + high) / 2
            low, high = (middle, high) if self.rate(middle) > alpha else (low, middle)
        for _ in range(3):  # To 1e-22, 1e-44, 1e-88: Newton steps for ln of the rate.
            rate, slope = self.rate(low), self._sum(lambda mean, c=low: mpmath.npdf(c / mean + mean / 2) / mean)
            low += rate / slope * mpmath.log(rate / alpha)
        return low

    def rate(self, c: mpf) -> mpf:
        return self._sum(lambda mean: tail(c / mean + mean / 2))

    def power(self, c: mpf) -> mpf:
        return self._sum(lambda mean: tail(c / mean - mean / 2))

    def error(self, c: mpf) -> mpf:
        return self._sum(lambda mean: tail(mean / 2 - c / mean))

    def profile(self, eps: float) -> mpf:
        return self.power(mpf(eps)) - mpmath.exp(mpf(eps)) * self.rate(mpf(eps))

    def _sum(self, reading: Any) -> mpf:
        return mpmath.fsum(weight * reading(mean) for weight, mean in zip(self.weights, self.means, strict=True))


@sample_of(3)
@pytest.mark.parametrize(("weights", "means"), GAUSSIANS)
def test_mixtures_of_gaussians_match_common_likelihood_ratio(weights: list[float], means: list[float]) -> None:
    mixed = curves(*((weight, {"type": "gdp", "mu": mean}) for weight, mean in zip(weights, means, strict=True)))
    points, profile = mixed.add.points(RATES), mixed.add.profile(EPSILONS)
    assert mixed.add is mixed.remove
    assert profile.log_upper is not None
    # Digits for an error of 1e-950 beside a power of 1.
    with mpmath.workdps(80):
        truth = GaussianTruth(weights, means)
        for index, rate in enumerate(RATES.tolist()):
            c = truth.level(rate)
            assert_encloses(points.power, index, truth.power(c))
            assert_encloses(points.type_two_error, index, truth.error(c))
            assert points.log_slope.lower[index] <= c <= points.log_slope.upper[index]
            assert width(points.power, index) <= 1e-9
            assert width(points.type_two_error, index) <= 1e-9
            if rate >= 1e-12:
                assert width(points.power, index) <= 1e-11
    with mpmath.workdps(1500):
        for index, eps in enumerate(EPSILONS.tolist()):
            assert_encloses(profile, index, truth.profile(eps))
            assert width(profile, index) <= 1e-12 * (1 + abs(float(profile.log_upper[index])))


MIXED: list[list[tuple[float, dict[str, Any]]]] = [
    [(0.5, pure(1.0)), (0.5, pure(2.0))],
    [(0.25, pure(1.0)), (0.75, pure(0.0))],
    [(0.5, approximate(1.0, 0.25)), (0.5, approximate(3.0, 0.125))],
    [(0.5, pure(0.0)), (0.5, approximate(0.0, 1.0))],
]


def corners(components: Sequence[tuple[float, dict[str, Any]]]) -> list[tuple[Fraction, Fraction]]:
    """Return the corners (alpha, f) of a mixture of (eps, delta) curves: all straight segments, sorted by slope.

    e^eps is a fraction of 60 digits.
    """
    pieces: list[tuple[Fraction, Fraction]] = []
    start = Fraction(1)
    for share, spec in components:
        weight, delta = Fraction(share), Fraction(spec.get("delta", 0.0))
        with mpmath.workdps(60):
            ratio = Fraction(mpmath.nstr(mpmath.exp(mpf(spec["epsilon"])), 55))
        kink = (1 - delta) / (1 + ratio)
        start -= weight * delta
        pieces += [(ratio, weight * kink), (1 / ratio, weight * (1 - delta - kink))]
    found = [(Fraction(0), start)]
    for slope, length in sorted(pieces, reverse=True):
        alpha, error = found[-1]
        found.append((alpha + length, error - slope * length))
    return found


@sample_of(2)
@pytest.mark.parametrize("components", MIXED)
def test_mixtures_of_straight_segments_match_exact_corners(components: list[tuple[float, dict[str, Any]]]) -> None:
    """Mixtures of curves with straight segments match their corners, computed in rational numbers.

    The segments of all curves are sorted by slope. The type II error is 0 after the last one.
    """
    curve, known = curves(*components).add, corners(components)
    rates = [1e-300, 1e-12, 1e-3, 0.05, 0.11, 0.2, 0.3, 0.4, 0.5, 0.62, 0.8, 0.97, 1 - 1e-9]
    rates += [float(alpha) for alpha, _ in known if 0 < alpha < 1]
    points = curve.points(np.array(rates))
    for index, rate in enumerate(rates):
        exact = Fraction(rate)
        error = Fraction(0)
        for (left, above), (right, below) in itertools.pairwise(known):
            if left <= exact <= right:
                error = above + (below - above) * (exact - left) / max(right - left, Fraction(1, 10**400))
        tolerance = Fraction(1, 10**50)
        for bounds, truth in ((points.type_two_error, error), (points.power, 1 - error)):
            assert Fraction(float(bounds.lower[index])) <= truth + tolerance
            assert truth - tolerance <= Fraction(float(bounds.upper[index]))
            assert bounds.upper[index] - bounds.lower[index] <= 1e-12 * bounds.upper[index] + 1e-13
    power = points.power
    assert power.upper[1] - power.lower[1] <= 1e-11 * power.upper[1]


@sample_of(2)
@pytest.mark.parametrize(
    "components",
    [
        [(0.5, pure(1.0)), (0.5, gaussian(1.0))],
        [(0.25, approximate(0.5, 0.1)), (0.25, laplace(0.3)), (0.5, gaussian(2.0))],
        [(0.5, sampled(0.1, gaussian(0.7))), (0.5, sampled(0.9, laplace(1.0)))],
        [(0.5, {"type": "exponential", "epsilon": 1e6}), (0.5, {"type": "exponential", "epsilon": 1e-12})],
    ],
)
def test_power_lies_between_any_rates_and_any_tangent(components: list[tuple[float, dict[str, Any]]]) -> None:
    """A mixture has sum w_i power_i(alpha_i) <= power(alpha) <= delta(c) + e^c alpha for all alpha_i and c.

    w_i are its weights, power_i the powers of its parts, and sum w_i alpha_i = alpha.
    """
    generator = np.random.default_rng(3)
    mixed = curves(*components)
    for direction in ("add", "remove"):
        curve = getattr(mixed, direction)
        parts = [getattr(curves((1.0, spec)), direction) for _, spec in components]
        shares = generator.dirichlet(np.full(len(parts), 0.7), 200)
        weights = np.array([weight for weight, _ in components])
        for rate in (1e-9, 1e-3, 0.2, 0.6, 0.95):
            chosen = np.minimum(shares * rate / weights, 1.0)
            each = zip(weights, parts, chosen.T, strict=True)
            attacks = sum((weight * part.power(column).lower for weight, part, column in each), start=np.zeros(200))
            power = curve.power(np.array([rate]))
            assert attacks.max() <= power.upper[0] * (1 + 1e-14)
            levels = np.linspace(-40, 40, 401)
            tangents = curve.profile(levels).upper + np.exp(levels) * rate
            assert power.lower[0] <= tangents.min() * (1 + 1e-13)


def test_singular_mass_is_weighted_sum() -> None:
    curve = curves((0.75, approximate(1.0, 0.25)), (0.25, gaussian(2.0))).add
    assert (curve.singular_power.lower, curve.singular_power.upper) == (0.1875, 0.1875)
    assert math.isinf(curve.epsilon(0.1875).upper)
    assert curve.epsilon(0.1).lower == math.inf
    answer = curve.epsilon(0.19)
    ends = curve.profile(np.array([answer.lower, answer.upper]))
    assert ends.lower[1] <= 0.19 <= ends.upper[0]
    assert answer.relative_width() < 1e-12
    assert gaussian_dp.mu(curve, 0.0, 0.0).value.lower == math.inf
    # All parts have reached their largest possible power.
    flat = curves((0.5, approximate(1.0, 0.25)), (0.5, approximate(0.5, 0.125))).add.points(np.array([0.82, 0.9]))
    assert (flat.type_two_error.upper == 0).all()
    assert (flat.power.lower >= 1 - 1e-14).all()


def test_epsilon_exists_although_one_part_has_singular_mass() -> None:
    curve = curves((0.5, approximate(1.0, 0.01)), (0.5, gaussian(1.0))).add
    answer = curve.epsilon(0.006)
    assert 0 < answer.lower <= answer.upper < 20
    ends = curve.profile(np.array([answer.lower, answer.upper]))
    assert ends.lower[1] <= 0.006 <= ends.upper[0]


@pytest.mark.parametrize("spec", [gaussian(1.0), laplace(0.5), pure(1.0), sampled(0.3, gaussian(1.0))])
def test_mixture_of_equal_parts_is_the_part(spec: dict[str, Any]) -> None:
    """A mixture of equal parts has the numbers of the part.

    Equal parts are merged as mechanisms, and mixed as curves.
    """
    alone = WorstCase().curves(built(spec))
    for same in (curves((1.0, spec)), curves((0.25, spec), (0.75, mixture((0.5, spec), (0.5, spec))))):
        assert type(same.add) is type(alone.add)
        assert (same.add.power(RATES).upper == alone.add.power(RATES).upper).all()
    mixed = MixtureTradeOff([(Fraction(1, 3), alone.remove), (Fraction(2, 3), alone.remove)])
    one, other = mixed.points(RATES), alone.remove.points(RATES)
    for left, right in ((one.power, other.power), (one.type_two_error, other.type_two_error)):
        assert (left.lower <= right.upper).all()
        assert (right.lower <= left.upper).all()
        assert (left.upper - left.lower <= 1e-9 * left.upper).all()


def test_nesting_multiplies_weights() -> None:
    inner = mixture((0.25, gaussian(1.0)), (0.75, laplace(1.0)))
    nested = built(mixture((0.5, inner), (0.5, gaussian(1.0))))
    assert isinstance(nested, Mixture)
    assert [share for share, _ in nested.drawn()] == [Fraction(5, 8), Fraction(3, 8)]
    flat = curves((0.625, gaussian(1.0)), (0.375, laplace(1.0))).add.power(RATES)
    assert (WorstCase().curves(nested).add.power(RATES).upper == flat.upper).all()


def test_weights_are_normalised() -> None:
    spec = mixture((0.1, gaussian(1.0)), (0.2, gaussian(2.0)), (0.7 + 3e-13, gaussian(3.0)))
    mechanism = built(spec)
    assert isinstance(mechanism, Mixture)
    assert sum(share for share, _ in mechanism.drawn()) == 1
    for wrong in (0.7 + 2e-12, 0.6):
        with pytest.raises(OutOfDomain) as refusal:
            built(mixture((0.1, gaussian(1.0)), (0.2, gaussian(2.0)), (wrong, gaussian(3.0))))
        assert refusal.value.name == "components"
    with pytest.raises(NumericalFailure):
        MixtureTradeOff([(Fraction(1, 3), curves((1.0, gaussian(1.0))).add)])


@pytest.mark.parametrize("weight", [0.0, -0.5, 1.5, math.nan, True])
def test_weights_must_be_positive(weight: float) -> None:
    with pytest.raises(OutOfDomain) as refusal:
        WeightedMechanism(weight=weight, mechanism=Gaussian(noise_multiplier=1.0))
    assert refusal.value.name == "weight"


def test_number_of_components_is_limited() -> None:
    for count in (0, 257):
        with pytest.raises(OutOfDomain):
            built(mixture(*((1 / max(count, 1), gaussian(1.0)) for _ in range(count))))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda spec: {"type": "repeated", "mechanism": spec, "steps": 2},
        lambda spec: {"type": "composed", "mechanisms": [gaussian(1.0), spec]},
        lambda spec: sampled(0.1, spec),
        lambda spec: mixture((1.0, {"type": "repeated", "mechanism": spec, "steps": 2})),
    ],
)
def test_mixture_inside_composition_is_rejected(wrap: Any) -> None:
    with pytest.raises(UnsupportedCombination) as refusal:
        built(wrap(mixture((0.5, gaussian(1.0)), (0.5, gaussian(2.0)))))
    assert refusal.value.field == "mechanism"
    assert "outermost" in refusal.value.reason


def test_components_are_composed_before_they_are_mixed() -> None:
    mixed = curves((0.9, dpsgd(1.0, 0.01, 1000)), (0.1, {"type": "repeated", "mechanism": gaussian(10.0), "steps": 50}))
    assert mixed.add.evidence is Evidence.CERTIFIED
    assert mixed.add.method == "contour"
    assert {note.split(":")[0] for note in mixed.notes} >= {"contour", "closed_form", "mixture"}
    run, repeated = (
        WorstCase().curves(built(spec)).add.profile(EPSILONS)
        for spec in (dpsgd(1.0, 0.01, 1000), {"type": "repeated", "mechanism": gaussian(10.0), "steps": 50})
    )
    profile = mixed.add.profile(EPSILONS)
    assert (profile.lower <= 0.9 * run.upper + 0.1 * repeated.upper).all()
    assert (0.9 * run.lower + 0.1 * repeated.lower <= profile.upper).all()
    power = mixed.add.points(np.array([1e-9, 1e-3, 0.5]))
    for index in range(3):
        assert width(power.power, index) <= 1e-9
        assert width(power.type_two_error, index) <= 1e-9


@pytest.mark.thorough
def test_components_on_lattices_agree_with_closed_form() -> None:
    """A mixture of parts on lattices, whose slopes are wide, agrees with the closed form of the same compositions."""
    run = {"type": "repeated", "mechanism": gaussian(2.0), "steps": 4}
    spec = built(mixture((0.5, run), (0.5, gaussian(3.0))))
    coarse = EngineOptions(relative_tolerance=1e-4)
    lattices, closed = pair(spec, "discretised", options=coarse).add, pair(spec, "closed_form").add
    rates = np.array([0.01])
    ours, exact = lattices.points(rates), closed.points(rates)
    for left, right in ((ours.power, exact.power), (ours.type_two_error, exact.type_two_error)):
        assert (left.lower <= right.lower).all()
        assert (right.upper <= left.upper).all()
        assert (left.upper - left.lower <= 1e-4 * left.upper).all()


def test_parts_known_by_profiles_are_mixed_before_search() -> None:
    """A mixture of a curve with itself is the curve, also if the curve is known by its privacy profile only.

    For two different curves the power is the minimum of profile(c) + e^c rate over the levels c.
    """
    shifted = {"type": "composed", "mechanisms": [laplace(1.0), pure(0.3)]}
    alone, twice = curves((1.0, shifted)).add, curves((0.25, shifted), (0.75, shifted)).add
    rates = np.array([1e-12, 1e-3, 0.5, 0.999])
    read, known = twice.points(rates), alone.points(rates)
    for left, right in ((read.power, known.power), (read.type_two_error, known.type_two_error)):
        assert ((left.lower <= right.upper) & (right.lower <= left.upper)).all()
        assert (left.upper - left.lower <= 1e-8 * left.upper).all()
    outside = curves((0.5, gaussian(1.0)), (0.5, {**shifted, "mechanisms": [laplace(1.0), approximate(0.3, 1e-7)]}))
    for curve in (outside.add, outside.remove):
        read = curve.points(rates)
        levels = np.linspace(-20.0, 20.0, 8001)
        bounds = curve.profile(levels).upper[:, None] + np.exp(levels)[:, None] * rates
        best = bounds.min(axis=0)
        assert (read.power.lower <= best).all()
        assert (read.power.upper >= best * (1 - 1e-4)).all()
        assert np.allclose(1 - read.power.lower, read.type_two_error.upper, rtol=0, atol=1e-8)
        assert curve.points(np.array([1 - 1e-9])).type_two_error.upper[0] == 0


def test_engines_and_relations_apply_to_components() -> None:
    spec = built(mixture((0.5, gaussian(2.0)), (0.5, laplace(2.0))))
    replaced = WorstCase(neighboring_relation="replace_one").curves(spec).add.power(RATES)
    assert (replaced.upper == curves((0.5, gaussian(1.0)), (0.5, laplace(1.0))).add.power(RATES).upper).all()
    for method, field in (("contour", "method"), ("astrology", "method")):
        with pytest.raises(UnsupportedCombination) as refusal:
            pair(spec, method)
        assert refusal.value.field == field
    assert pair(built(mixture((0.5, gaussian(2.0)), (0.5, gaussian(3.0)))), "contour").add.method == "contour"


def test_cost_of_mixture_includes_parts_and_search() -> None:
    parts = [gaussian(1.0 + 0.1 * part) for part in range(4)]
    two, four = (plan(built(mixture(*((1 / n, part) for part in parts[:n])))).cost for n in (2, 4))
    assert two.evaluate > 10 * plan(built(parts[0])).cost.evaluate
    assert four.evaluate == 2 * two.evaluate
    assert two.one_curve
    run = plan(built(mixture((0.5, dpsgd(1.0, 0.01, 1000)), (0.5, gaussian(1.0))))).cost
    alone = plan(built(dpsgd(1.0, 0.01, 1000))).cost
    assert run.readings(both=True).point > run.evaluate > alone.evaluate
    assert plan(built(mixture((1.0, gaussian(1.0))))).cost == plan(built(gaussian(1.0))).cost
