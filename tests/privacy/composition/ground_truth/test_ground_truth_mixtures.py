"""Ground truth of mixtures of shifted Gaussians: exact weights, proved strips, and the engines for one shift."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx

from service.privacy.composition.ground_truth.contour import BallContour, GroundTruthRun
from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.mixture_strip import strip_of
from service.privacy.composition.ground_truth.mixture_threshold import MixtureThresholds
from service.privacy.composition.ground_truth.moments import MixtureMoments
from service.privacy.composition.ground_truth.nodes import ShiftedNodes
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.cost import ground_truth
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.batches.fixed_batches import FixedBatches
from service.privacy.mechanisms.batches.shift_laws import (
    BinomialHits,
    HypergeometricHits,
    StatedWeights,
)
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.neighbours import ONE_REPLACED, Neighbours
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.agreement import meet
from tests.privacy.cases import built, dpsgd, gaussian, sampled
from tests.slow_marker import crossed, sample_of, thorough

NOISE = Fraction(3, 2)
STATED = StatedWeights((Fraction(7, 10), Fraction(1, 5), Fraction(1, 10)))
MIXTURES = {
    "groups": ExactMixture(NOISE, BinomialHits(4, Fraction(1, 10)), (0.0, 1.0, 2.0, 3.0, 4.0), mirrored=False),
    "far": ExactMixture(NOISE, STATED, (0.0, 0.5, 4.0), mirrored=False),
    "never silent": ExactMixture(NOISE, STATED, (0.5, 1.0, 2.5), mirrored=False),
    "replaced": ExactMixture(NOISE, BinomialHits(1, Fraction(1, 10)), (0.0, 1.0), mirrored=True),
    "mirrored": ExactMixture(NOISE, STATED, (0.0, 1.0, 3.0), mirrored=True),
}


def humps(mixture: ExactMixture) -> tuple[list[Any], list[Any]]:
    with ctx.workprec(200):
        weights = [mpmath.mpf(weight.str(40, radius=False)) for weight in mixture.weights()]
        return weights, [mpmath.mpf(d.str(40, radius=False)) for d in mixture.distances()]


def ratio(mixture: ExactMixture, x: Any) -> Any:
    """Return the likelihood ratio a(x) of the mixture."""
    return mpmath.fsum(w * mpmath.exp(d * x - d * d / 2) for w, d in zip(*humps(mixture), strict=True))


@sample_of(3)
@pytest.mark.parametrize(("mixture", "tilt"), crossed(MIXTURES.values(), [-3.5, 0.5, 2.5]))
def test_moments_and_majorants_enclose_direct_integrals(mixture: ExactMixture, tilt: float) -> None:
    part, heights = MixtureMoments(mixture), (0, 1, 4)
    with mpmath.workdps(30):  # Trapezoidal rule: its error falls like e^{-2 pi q/h}, with q the height of the strip.
        spacing, (weights, d) = mpmath.mpf(1) / 16, humps(mixture)
        points = [k * spacing for k in range(-16 * 24, 16 * 24)]
        grown = [[w * mpmath.exp(x * y - x * x / 2) for w, x in zip(weights, d, strict=True)] for y in points]
        logs = [mpmath.log(mpmath.fsum(terms)) for terms in grown]
        others = logs[:0:-1] if mixture.mirrored else [mpmath.mpf(0)] * (len(logs) - 1)
        direct = [
            mpmath.fsum(
                spacing * mpmath.npdf(y) * mpmath.exp(mpmath.mpc(tilt, 0.75 * k) * (here - there) + there)
                for y, here, there in zip(points[1:], logs[1:], others, strict=True)
            )
            for k in heights
        ]
    top = 0.7 * min(float(strip_of(mixture).height), 2.2)
    h = 0.15 * top
    nodes = ShiftedNodes(h, 0.25, -round(20 / h), round(20 / h), 0.5 * top, top)
    real = ShiftedNodes(h, 0.0, -round(20 / h), round(20 / h), 0.0, 0.6 * top)
    with ctx.workprec(120), mpmath.workdps(30):
        values, at_tilt = part.on_contour(tilt, 0.75, 5, nodes), part.moment(tilt, real)
        assert at_tilt.overlaps(arb(str(direct[0].real), 1e-18))
        assert at_tilt.rad() < 1e-8 * at_tilt.mid()
        for k, value in zip(heights, direct, strict=True):
            assert values[k].overlaps(acb(arb(str(value.real), 1e-18), arb(str(value.imag), 1e-18)))
            for eta in (0.1 * top, 0.5 * top):
                bound = part.majorant(tilt, 0.75 * k, eta, real, at_tilt)
                assert bound > arb(str(abs(value))) - arb(1e-18)
                assert bound < 1.5 * at_tilt


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
def test_strips_are_valid_between_cells(mixture: ExactMixture) -> None:
    strip, random = strip_of(mixture), np.random.default_rng(0)
    weights, d = (np.array(column, dtype=np.float64) for column in humps(mixture))
    x = random.uniform(-40.0, 40.0, 4_000)
    exponent = np.log(weights) + x[:, None] * d - 0.5 * d**2
    share = np.exp(exponent - np.logaddexp.reduce(exponent, axis=1)[:, None])
    mean = share @ d
    height = random.uniform(0.0, float(strip.height), len(x))
    turned = (share * np.exp(1j * height[:, None] * d)).sum(axis=1)
    with ctx.workprec(200):
        modulus = [float(strip.least_modulus(arb(q))) for q in height]
        turn = [float(strip.least_turn(arb(q))) for q in height]
    assert (share @ d**2 - mean**2 <= float(strip.variance) * (1 + 1e-12)).all()
    assert (np.abs(turned) >= np.array(modulus) - 1e-12).all()
    argument = height * mean + np.angle(turned * np.exp(-1j * height * mean))
    assert (argument >= mean * np.array(turn) - 1e-12).all()
    np.testing.assert_allclose(strip.least_in_doubles(height), modulus, atol=1e-3)


@sample_of(3)
@pytest.mark.parametrize("name", ["groups", "never silent", "mirrored"])
@pytest.mark.parametrize("reflected", [False, True])
def test_coarse_quadrature_is_wide_and_valid(name: str, reflected: bool) -> None:
    """Coarse quadratures, whose error bounds are large, enclose the values of a fine quadrature.

    The errors are those of truncation, aliasing and quadrature, for contours on both sides of the poles.
    """
    exact = GroundTruthRun(Fraction(0), ((MIXTURES[name], 25),))
    guide = exact.guide()
    deviation = guide.deviation
    for center in (-0.5 * deviation, 1.5 * deviation):
        threshold = -center if reflected else center
        contours = [
            BallContour(exact, guide.plan(tilt, threshold, 0.0, need, second=second), reflected=reflected)
            for tilt, need, second in (
                (0.5 + 1.1 / deviation, 50.0, False),
                (0.5 + 2.0 / deviation, -11.0, True),
                (0.5 - 0.7 / deviation, -5.0, False),
                (1.01, 3.0, True),
            )
        ]
        sharp, *coarse = (contour.at(arb(center)) for contour in contours)
        with ctx.workprec(200):
            assert sharp.power.rad() < 1e-15
            for wide in coarse:
                assert wide.power.overlaps(sharp.power)
                assert wide.false_positive_rate.overlaps(sharp.false_positive_rate)


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("reflected", [False, True])
def test_threshold_of_one_step_matches_its_loss(mixture: ExactMixture, reflected: bool) -> None:
    for y in (-2.0, 0.3, 1.7):
        with mpmath.workdps(40):
            weights, d = humps(mixture)
            loss = mpmath.log(ratio(mixture, y)) - (mpmath.log(ratio(mixture, -y)) if mixture.mirrored else 0)
            present = mpmath.fsum(w * mpmath.ncdf(x - mpmath.mpf(y)) for w, x in zip(weights, d, strict=True))
            absent = (
                mpmath.fsum(w * mpmath.ncdf(-x - mpmath.mpf(y)) for w, x in zip(weights, d, strict=True))
                if mixture.mirrored
                else mpmath.ncdf(-mpmath.mpf(y))
            )
            null, other = (1 - present, 1 - absent) if reflected else (absent, present)
            threshold, null, other = (mpmath.nstr(x, 38) for x in (-loss if reflected else loss, null, other))
        with ctx.workprec(200):
            found = MixtureThresholds(mixture, reflected, 200).at(arb(threshold))
            assert abs(found.false_positive_rate - arb(null)) < 1e-30
            assert abs(found.power - arb(other)) < 1e-30
            assert abs(found.power + found.missed - 1) < 1e-50
            assert found.power.rad() < 1e-50


def test_weights_match_exact_hit_laws() -> None:
    laws = [
        BinomialHits(40, Fraction(0.013), 2.0),
        HypergeometricHits(300, 12, 5_000, 2.0),
        HypergeometricHits(12, 300, 5_000),
    ]
    for law in laws:
        counts, whole = law.counts()
        assert sum(counts) == whole
        exact = [Fraction(count, whole) for count in counts]
        shifts = tuple(law.apart * hits for hits in range(len(exact)))
        with ctx.workprec(150):
            for weight, value in zip(ExactMixture(NOISE, law, shifts, mirrored=False).weights(), exact, strict=True):
                assert abs(weight * value.denominator - value.numerator) <= value.numerator * arb(2) ** -140
                assert weight.contains(arb(value.numerator) / value.denominator) or weight.overlaps(
                    arb(value.numerator) / value.denominator
                )


@pytest.mark.parametrize("batch", [300, 40_000])
def test_truncated_hits_have_known_remainder(batch: int) -> None:
    step = FixedBatches(
        sample_rate=Fraction(batch, 60_000),
        noise_multiplier=Fraction(4),
        dataset_size=60_000,
        batch_size=batch,
        replacement=True,
    )
    part = step.under(Neighbours(records=2)).part()
    exact = part.exact_shifts  # type: ignore[union-attr]
    assert exact is not None
    mixture = ExactMixture(exact.noise_multiplier, exact.law, exact.shifts)
    with ctx.workprec(150):
        assert 0 < mixture.moved_mass < 1e-280
        assert abs(sum(mixture.weights(), arb(0)) - 1) < 1e-40
        for weight, rounded in zip(mixture.weights(), part.weights, strict=False):  # type: ignore[union-attr]
            assert abs(weight - rounded) <= 2e-16 * weight


@sample_of(3)
@pytest.mark.parametrize(
    ("spec", "neighbours"),
    [
        (dpsgd(1.0, 0.01, 1000), ONE_REPLACED),
        (dpsgd(4.0, 0.01, 500), Neighbours(records=16)),
        (sampled(0.1, gaussian(1.0)), ONE_REPLACED),
        (
            {
                "type": "composed",
                "mechanisms": [
                    dpsgd(3.0, 0.05, 60),
                    gaussian(5.0),
                    dpsgd(4.0, 0.01, 100)
                    | {"sampling": "fixed_without_replacement", "batch_size": 500, "dataset_size": 50_000},
                ],
            },
            Neighbours(records=3),
        ),
    ],
    ids=["replaced", "group", "one step", "composed"],
)
def test_more_digits_lie_inside_fewer_and_inside_certified_enclosure(
    spec: dict[str, Any], neighbours: Neighbours
) -> None:
    pairs = [pair(built(spec), "ground_truth", neighbours, EngineOptions(digits=digits)) for digits in (15, 30)]
    certified = pair(built(spec), "auto", neighbours)

    def read(curves: TradeOffPair) -> list[Enclosure]:
        return [curves.add.power_at(1e-3), curves.remove.epsilon(1e-5)]

    few, many, doubles = (read(curves) for curves in (*pairs, certified))
    for one, other, wide in zip(few, many, doubles, strict=True):
        assert one.decimal is not None
        assert other.decimal is not None
        assert Fraction(one.decimal.lower) <= Fraction(other.decimal.lower)
        assert Fraction(other.decimal.upper) <= Fraction(one.decimal.upper)
        width = Fraction(other.decimal.upper) - Fraction(other.decimal.lower)
        assert width < 3 * Fraction(other.decimal.upper) / 10**29
        assert meet(wide, one)
    if neighbours == ONE_REPLACED:
        assert pairs[0].add is pairs[0].remove
    assert ground_truth(built(spec).elementary_steps(), EngineOptions(digits=25)).evaluate > 0


@sample_of(2)
@pytest.mark.parametrize("kind", ["replaced", "group", "without", thorough("with")])
def test_random_runs_agree_with_certified_enclosure(kind: str) -> None:
    """Ground truth of random mixtures meets the certified enclosure: a small part of the comparison of `make bench`."""
    random = np.random.default_rng(len(kind))
    noise, rate = 10 ** random.uniform(0.0, 1.0), 10 ** random.uniform(-2.5, -0.7)
    records = 1 if kind == "replaced" else int(random.integers(2, 9))
    steps = 30 + int((random.uniform(0.3, 2.0) * noise / rate / records) ** 2)
    spec = dpsgd(noise, rate, steps)
    if kind.startswith("with"):
        batches = {"batch_size": 1000, "dataset_size": int(1000 / rate)}
        spec |= {"sampling": f"fixed_{kind}_replacement", "sample_rate": 1000 / int(1000 / rate), **batches}
    neighbours = ONE_REPLACED if kind == "replaced" else Neighbours(records=records)
    mechanism, cheap = built(spec), EngineOptions(digits=15)
    exact, certified = (pair(mechanism, name, neighbours, cheap) for name in ("ground_truth", "contour"))
    for direction in ("add", "remove"):
        ours, theirs = getattr(exact, direction), getattr(certified, direction)
        at, epsilon = 10 ** random.uniform(-6.0, -0.5), random.uniform(0.0, 2.0)
        assert meet(ours.power_at(at), theirs.power_at(at))
        assert meet(ours.profile_at(epsilon), theirs.profile_at(epsilon))
        assert meet(ours.epsilon(at), theirs.epsilon(at))


def test_cost_of_large_group_grows_with_its_size() -> None:
    run = built(dpsgd(4.0, 0.01, 1000))
    few, many = (
        tuple((step.under(Neighbours(records=records)), count) for step, count in run.elementary_steps())
        for records in (2, 64)
    )
    assert (
        0
        < ground_truth(few, EngineOptions(digits=25)).evaluate
        < ground_truth(many, EngineOptions(digits=25)).evaluate
        < math.inf
    )


def _with_replacement(noise: float, steps: int) -> DpSgd:
    return DpSgd(
        noise_multiplier=noise,
        sample_rate=0.001,
        batch_size=1_000,
        dataset_size=1_000_000,
        steps=steps,
        sampling="fixed_with_replacement",
    )


def test_double_hits_are_evaluated_by_contour() -> None:
    """A run that draws ten records with replacement at little noise has epsilon = 14.686211798790896 (ball
    arithmetic).
    """
    curve = pair(_with_replacement(0.8, 10_000), "contour").add
    epsilon = curve.epsilon(1e-5)
    assert epsilon.lower <= 14.686211798790898
    assert epsilon.upper >= 14.686211798790895
    assert epsilon.relative_width() < 1e-6
    # The contour for a profile that far out passes near the core.
    profile = curve.profile_at(14.686211798790896)
    assert profile.lower <= 1e-5 * (1 + 1e-9)
    assert profile.upper >= 1e-5 * (1 - 1e-9)
    assert profile.relative_width() < 1e-6


@pytest.mark.parametrize("seed", [*map(thorough, range(4))])
def test_contour_agrees_with_ground_truth_for_rare_double_hits(seed: int) -> None:
    random = np.random.default_rng(seed)
    run = _with_replacement(float(random.uniform(0.79, 0.84)), int(random.integers(9_000, 11_000)))
    lines, truth = (pair(run, method).add for method in ("contour", "ground_truth"))
    delta = float(10 ** random.uniform(-5.5, -4))
    epsilon = lines.epsilon(delta)
    assert meet(epsilon, truth.epsilon(delta))
    assert epsilon.relative_width() < 1e-6
