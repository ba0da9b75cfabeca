"""Ground truth against values of 18 and more digits, against other engines, and with coarse error bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from scipy.special import ndtri

from service.privacy.composition.ground_truth.contour import BallContour, GroundTruthRun
from service.privacy.composition.ground_truth.engine import _guides, _pair
from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.moments import MixtureMoments
from service.privacy.composition.ground_truth.nodes import ShiftedNodes
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.cost import ground_truth
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import DecimalEnclosure, Enclosure, Evidence
from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.batches.shift_laws import StatedWeights
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, laplace, sampled
from tests.privacy.high_precision_oracles import KINDS, checked
from tests.privacy.references import rows
from tests.slow_marker import crossed, sample_of, thorough

C1 = dpsgd(1.0, 0.01, 1000)
IMAGENET = dpsgd(2.5, 16384 / 1281167, 71590)
MIXED: dict[str, Any] = {
    "type": "composed",
    "mechanisms": [dpsgd(1.0, 0.02, 200), gaussian(3.0), dpsgd(2.0, 0.1, 50), {"type": "gdp", "mu": 0.3}],
}


def truth(spec: dict[str, Any], digits: int = 25) -> TradeOffPair:
    return pair(built(spec), "ground_truth", options=EngineOptions(digits=digits))


def exact_bounds(decimal: DecimalEnclosure | None) -> tuple[Fraction, Fraction]:
    assert decimal is not None
    lower, value, upper = (Fraction(text) for text in (decimal.lower, decimal.value, decimal.upper))
    assert lower <= value <= upper
    return lower, upper


def has_digits(decimal: DecimalEnclosure | None, digits: int) -> bool:
    """Return whether both bounds, rounded outwards to `digits` digits, differ by at most two units of the last."""
    lower, upper = exact_bounds(decimal)
    return upper - lower <= 2 * upper * Fraction(10) ** (1 - digits)


def sampled_mixture(noise: Fraction, rate: Fraction) -> ExactMixture:
    return ExactMixture(noise, StatedWeights((1 - rate, rate)), (0.0, 1.0))


def exact_pair(row: dict[str, Any], digits: int) -> TradeOffPair:
    """Return the curves of a reference row, whose printed parameters are taken as exact decimal fractions."""
    given = row["inputs"]
    noise, rate, steps = Fraction(given["sigma"]), Fraction(given["p"]), int(given["N"])
    if rate == 1:
        run = GroundTruthRun(steps / noise**2, ())
    else:
        run = GroundTruthRun(Fraction(0), ((sampled_mixture(noise, rate), steps),))
    lone = steps == 1
    elementary = built(sampled(float(rate), gaussian(float(noise)))).elementary_steps()
    return _pair(run, lone, _guides(elementary, run, lone), digits)


def half_a_unit(printed: str) -> Fraction:
    """Return half a unit of the last digit of a printed number."""
    mantissa, _, exponent = printed.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return Fraction(10) ** (int(exponent or 0) - decimals) / 2


SGM_ROWS = [
    row
    for row in rows("rero")
    if row["notion"] in ("sgm-add", "sgm-remove") and row["quantity"] == "gamma" and "sigma" in row["inputs"]
]


@sample_of(12)
@pytest.mark.parametrize("row", SGM_ROWS, ids=lambda row: row["id"])
def test_reference_rows_with_18_digits_are_enclosed(row: dict[str, Any]) -> None:
    curves = exact_pair(row, 25)
    curve = curves.remove if row["notion"].endswith("remove") else curves.add
    decimal = curve.decimal_power(Fraction(row["inputs"]["kappa"]))  # type: ignore[attr-defined]
    assert has_digits(decimal, 25)
    lower, upper = exact_bounds(decimal)
    value, tolerance = Fraction(row["value"]), max(Fraction(row["abs_tol"]), half_a_unit(row["value"]))
    assert lower <= value + tolerance
    assert value - tolerance <= upper


def test_reference_has_more_than_30_rows() -> None:
    assert len(SGM_ROWS) > 30


@sample_of(3)
@pytest.mark.parametrize(("spec", "direction"), crossed([C1, IMAGENET, MIXED, dpsgd(1.5, 0.4, 12)], ["add", "remove"]))
def test_more_digits_lie_inside_enclosure_of_fewer(spec: dict[str, Any], direction: str) -> None:
    previous: list[tuple[Fraction, Fraction]] = []
    for digits in (15, 25, 40):
        curve = getattr(truth(spec, digits), direction)
        found = [curve.power_at(1e-3), curve.profile_at(0.5), curve.epsilon(1e-5)]
        assert all(has_digits(enclosure.decimal, digits) for enclosure in found)
        assert all(enclosure.decimal.digits == digits for enclosure in found)
        now = [exact_bounds(enclosure.decimal) for enclosure in found]
        for (lower, upper), (inner_lower, inner_upper) in zip(previous, now, strict=False):
            assert lower <= inner_lower <= inner_upper <= upper
        previous = now


def meet(first: Enclosure, second: Enclosure) -> bool:
    return first.lower <= second.upper and second.lower <= first.upper


@sample_of(1)
@pytest.mark.parametrize("seed", [*range(1, 4), *map(thorough, (0, 4, 5))])
def test_ground_truth_agrees_with_contour_engine_on_random_runs(seed: int) -> None:
    random = np.random.default_rng(seed)
    spec = dpsgd(10 ** random.uniform(0, 1.5), 10 ** random.uniform(-3, -0.1), int(10 ** random.uniform(1.3, 6)))
    exact, contour = truth(spec, 20), pair(built(spec), "contour")
    rate, epsilon = 10 ** random.uniform(-9, -0.3), contour.add.epsilon(1e-4).upper * random.uniform(-1, 1)
    for direction in ("add", "remove", "both"):
        ours, theirs = getattr(exact, direction), getattr(contour, direction)
        assert meet(ours.power_at(rate), theirs.power_at(rate))
        assert meet(ours.profile_at(epsilon), theirs.profile_at(epsilon))
        assert meet(ours.epsilon(rate), theirs.epsilon(rate))


@pytest.mark.parametrize("spec", [sampled(0.5, gaussian(1.0)), gaussian(0.7), {"type": "gdp", "mu": 2.0}])
@pytest.mark.parametrize("direction", ["add", "remove"])
def test_ground_truth_agrees_with_closed_forms_in_doubles(spec: dict[str, Any], direction: str) -> None:
    ours, theirs = getattr(truth(spec, 30), direction), getattr(pair(built(spec)), direction)
    for rate in (1e-300, 1e-9, 0.2, 1 - 1e-9):
        assert meet(ours.power_at(rate), theirs.power_at(rate))
        assert has_digits(ours.power_at(rate).decimal, 30)
    for epsilon in (-3.0, -0.1, 0.0, 0.4, 5.0):
        assert meet(ours.profile_at(epsilon), theirs.profile_at(epsilon))
    for delta in (1e-12, 1e-3, 0.3, 0.9):
        assert meet(ours.epsilon(delta), theirs.epsilon(delta))


def test_decimal_enclosure_lies_inside_double_enclosure() -> None:
    curves = truth(C1)
    enclosure = curves.add.power_at(1e-3)
    lower, upper = exact_bounds(enclosure.decimal)
    assert Fraction(enclosure.lower) <= lower
    assert upper <= Fraction(enclosure.upper)
    assert enclosure.upper - enclosure.lower <= 4 * math.ulp(enclosure.upper)
    assert enclosure.evidence is Evidence.PROVED
    points = curves.add.points(np.array([1e-3, 0.2]))
    assert points.power.lower[0] == enclosure.lower
    assert points.power.upper[0] == enclosure.upper
    total = points.power.upper + points.type_two_error.upper
    np.testing.assert_allclose(total, 1, rtol=1e-15)
    assert (points.log_slope.lower <= points.log_slope.upper).all()
    assert curves.add.reversed().power_at(1e-3) == curves.remove.power_at(1e-3)


def test_worse_direction_keeps_decimals() -> None:
    curves = truth(C1)
    both = curves.both.epsilon(1e-5)
    assert both.decimal == curves.add.epsilon(1e-5).decimal
    advantage = curves.both.profile_at(0.0)
    assert advantage.decimal is not None
    assert exact_bounds(advantage.decimal) == exact_bounds(curves.remove.profile_at(0.0).decimal)


def test_profile_beyond_largest_loss_is_exact() -> None:
    curves = truth(dpsgd(1.0, 0.1, 20))
    largest = curves.remove.largest_log_ratio
    assert largest.lower < -20 * math.log1p(-0.1) < largest.upper
    assert curves.remove.profile_at(largest.upper).upper == 0
    below = curves.add.profile_at(-3.0)
    assert below.lower <= -math.expm1(-3.0) <= below.upper
    assert has_digits(below.decimal, 25)
    assert curves.remove.epsilon(0.9).upper == 0


@pytest.mark.parametrize(
    ("run", "nats", "reflected"),
    crossed([(1.0, 0.1, 30), (1.2, 0.4, 8), (3.0, 0.01, 5000), (2.0, 0.9, 40)], [3.0, 9.0, 20.0], [False, True]),
)
def test_coarse_quadrature_is_wide_and_valid(run: tuple[float, float, int], nats: float, reflected: bool) -> None:
    """Coarse quadratures, whose error bounds are large, enclose the values of a fine quadrature.

    The errors are those of truncation, aliasing and quadrature, for contours on both sides of the poles.
    """
    exact = GroundTruthRun(Fraction(0), ((sampled_mixture(Fraction(run[0]), Fraction(run[1])), run[2]),))
    guide = exact.guide()
    deviation = guide.deviation
    for center in (-0.5 * deviation, 1.5 * deviation):
        threshold = -center if reflected else center
        finest, *coarse = (
            BallContour(exact, guide.plan(tilt, threshold, 0.0, need, second=second), reflected=reflected)
            for tilt, need, second in (
                (0.5 + 1.1 / deviation, 60.0, False),
                (0.5 + 2.0 / deviation, nats - 14, True),
                (0.5 - 0.7 / deviation, nats - 14, False),
                (1.01, nats - 14, True),
            )
        )
        sharp = finest.at(arb(center))
        with ctx.workprec(200):
            assert sharp.power.rad() < 1e-18
        for contour in coarse:
            wide = contour.at(arb(center))
            with ctx.workprec(200):
                assert wide.power.overlaps(sharp.power)
                assert wide.false_positive_rate.overlaps(sharp.false_positive_rate)


@pytest.mark.parametrize(("step", "tilt"), crossed([(1.0, 0.1), (0.4, 0.7), (5.0, 0.001)], [-6.5, -0.5, 0.5, 3.0]))
def test_moments_and_majorants_enclose_direct_integrals(step: tuple[float, float], tilt: float) -> None:
    sigma, rate = step
    part = MixtureMoments(sampled_mixture(Fraction(sigma), Fraction(rate)))
    with mpmath.workdps(30):  # Trapezoidal rule: its error falls like e^{-2 pi a/h}, with a up to pi sigma.
        spacing = mpmath.mpf(1) / 32
        points = [k * spacing for k in range(-32 * 13, 32 * 24)]
        weights = [spacing * mpmath.npdf(y) for y in points]
        shifted = [mpmath.expm1(y / sigma - 1 / (2 * mpmath.mpf(sigma) ** 2)) for y in points]
        losses = [mpmath.log1p(mpmath.mpf(rate) * rise) for rise in shifted]
        direct_moments = [
            mpmath.fsum(
                weight * mpmath.exp(mpmath.mpc(tilt, 0.75 * k) * loss)
                for weight, loss in zip(weights, losses, strict=True)
            )
            for k in (0, 1, 4)
        ]

    top = 0.7 * min(math.pi * sigma, 8.0)
    for h in (0.4 * sigma, 0.05):
        nodes = ShiftedNodes(h, 0.25, -round(11 / h), round(11 / h), 0.5 * top, top)
        real = ShiftedNodes(h, 0.0, -round(11 / h), round(11 / h), 0.0, 0.6 * top)
        with ctx.workprec(120), mpmath.workdps(30):
            values = part.on_contour(tilt, 0.75, 5, nodes)
            at_tilt = part.moment(tilt, real)
            for k, direct in zip((0, 1, 4), direct_moments, strict=True):
                assert values[k].overlaps(acb(arb(str(direct.real), 1e-20), arb(str(direct.imag), 1e-20)))
                for eta in (0.1 * sigma, 0.7 * sigma):
                    bound = part.majorant(tilt, 0.75 * k, eta, real, at_tilt)
                    assert not bound < arb(str(abs(direct)), 1e-20)
            assert at_tilt.overlaps(arb(str(direct_moments[0].real), 1e-20))


def test_unsupported_run_names_supporting_engines() -> None:
    with pytest.raises(UnsupportedCombination) as refusal:
        truth({"type": "repeated", "mechanism": laplace(1.0), "steps": 10})
    assert refusal.value.field == "method"
    assert "discretised" in refusal.value.supported
    with pytest.raises(UnsupportedCombination) as refusal:
        truth(dpsgd(1e-3, 0.5, 10))
    assert refusal.value.field == "method"
    with pytest.raises(UnsupportedCombination) as refusal:
        truth(dpsgd(0.3, 1e-6, 100)).add.power_at(1e-3)
    assert refusal.value.field == "method"
    with pytest.raises(UnsupportedCombination) as refusal:
        truth(dpsgd(0.01, 1e-9, 2), 15).add.power_at(1e-3)  # Its variance at its tilt underflows in doubles.
    assert refusal.value.field == "method"
    with pytest.raises(UnsupportedCombination) as refusal:
        pair(built(C1), "ground_truth", Neighbours("replace_one", records=2))
    assert refusal.value.field == "threat_model"
    with pytest.raises(OutOfDomain):
        truth(C1, 51)


def test_equal_laws_are_exact() -> None:
    curve = truth({"type": "gdp", "mu": 0.0}).add
    assert (curve.power_at(0.25).lower, curve.power_at(0.25).upper) == (0.25, 0.25)


def test_cost_grows_with_digits_and_difficulty() -> None:
    easy, hard = (built(spec).elementary_steps() for spec in (C1, dpsgd(0.4, 1e-3, 10)))
    short, long = (EngineOptions(digits=digits) for digits in (25, 50))
    assert ground_truth(easy, long).evaluate > ground_truth(easy, short).evaluate
    assert ground_truth(hard, short).evaluate > ground_truth(easy, short).evaluate
    assert ground_truth(built(gaussian(1.0)).elementary_steps(), short).evaluate < ground_truth(easy, short).evaluate
    longer = built(dpsgd(1.0, 0.01, 2000)).elementary_steps()
    assert ground_truth(longer, short) == ground_truth(easy, short)


def test_working_precision_is_bounded_for_extreme_exponents() -> None:
    # ln delta reaches -1e30 over the ranges of the API: a precision in proportion would not fit into memory.
    random = np.random.default_rng(5)
    for _ in range(40):
        noise = 10.0 ** random.uniform(-4, 15)
        steps = int(10.0 ** random.uniform(0, 6))
        epsilon = 10.0 ** random.uniform(-3, 6)
        curve = truth({"type": "repeated", "mechanism": gaussian(noise), "steps": steps}).add
        found = curve.profile_at(epsilon)
        with mpmath.workdps(150):
            mu = mpmath.sqrt(steps) / mpmath.mpf(noise)
            score = mpmath.mpf(epsilon) / mu + mu / 2

            def tail(x: mpmath.mpf) -> mpmath.mpf:
                return mpmath.erfc(x / mpmath.sqrt(2)) / 2

            log_delta = mpmath.log(tail(score - mu) - mpmath.exp(epsilon) * tail(score))
            assert found.log_lower is not None
            assert found.log_upper is not None
            assert found.log_lower <= log_delta <= found.log_upper
            assert found.log_upper - found.log_lower <= 1e-15 * (1 + abs(log_delta))
            if found.decimal is not None:
                logs = [mpmath.log(mpmath.mpf(text)) for text in (found.decimal.lower, found.decimal.upper)]
                assert logs[0] <= log_delta <= logs[1] <= logs[0] + 2e-24
        assert (found.decimal is None) == (log_delta < -2.3e9)
        back = curve.epsilon(10.0 ** random.uniform(-300, -1))
        assert back.upper - back.lower <= 1e-14 * back.upper


def test_small_type_two_errors_keep_their_digits() -> None:
    for mu, rate in ((30.0, 0.3), (1000.0, 1e-3), (1e6, 1 - 1e-15), (5e5, 1e-300)):
        error = truth({"type": "gdp", "mu": mu}).add.type_two_error(np.array([rate]))
        assert error.log_lower is not None
        assert error.log_upper is not None
        with mpmath.workdps(60):
            root = mpmath.findroot(
                lambda z, rate=rate: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)) / 2) - mpmath.log(rate),
                mpmath.mpf(float(-ndtri(rate))),
            )
            truly = mpmath.log(mpmath.erfc((mu - root) / mpmath.sqrt(2)) / 2)
        assert error.log_lower[0] <= truly <= error.log_upper[0]
        assert error.log_upper[0] - error.log_lower[0] <= 1e-15 * abs(truly)


def test_decimal_enclosures_contain_second_computation() -> None:
    """Decimal enclosures contain a second computation in more digits: a small part of the comparison of
    `make bench`.
    """
    kinds = {"one sampled step": 4, "Gaussian steps": 2, "runs": 1}
    found = list(checked(kinds, 4, seed=2026))
    assert {one.kind for one in found} == set(kinds) < set(KINDS)
    for one in found:
        assert one.holds, one
        assert one.relative_width <= 1e-14
