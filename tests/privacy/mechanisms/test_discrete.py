"""Discrete and local mechanisms: all outcomes in exact or precise arithmetic, and direct convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.random import Generator
from scipy.special import ive

from service.privacy.errors import OutOfDomain, UnsupportedCombination
from service.privacy.mechanisms.discrete.skellam import BESSEL_ERROR, DEEPEST
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.numerics.bessel import log_0f1
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.cases import built
from tests.slow_marker import sample_of, thorough

Spec = dict[str, Any]
Pair = list[tuple[Any, Any]]
"""Masses of every outcome under H0 and under H1."""
mp: Any = mpmath

LOCAL = ("randomized_response", "unary_encoding")


def relation_of(spec: Spec) -> NeighboringRelation:
    inner = spec.get("mechanism", spec)
    return "replace_one" if inner["type"] in LOCAL else "add_or_remove_one"


def curve_of(spec: Spec, direction: str = "both") -> AbstractTradeOff:
    curve: AbstractTradeOff = getattr(WorstCase(relation_of(spec)).curves(built(spec)), direction)
    return curve


def log_uniform(random: Generator, low: float, high: float) -> float:
    return float(math.exp(random.uniform(math.log(low), math.log(high))))


def randomized_response(random: Generator) -> tuple[Spec, Pair]:
    epsilon, options = log_uniform(random, 1e-3, 12), int(random.integers(2, 30))
    growth = mp.exp(mp.mpf(epsilon))
    rows = [[growth if value == reported else 1 for reported in range(options)] for value in (0, 1)]
    pair = [(a / (growth + options - 1), b / (growth + options - 1)) for a, b in zip(*rows, strict=True)]
    return {"type": "randomized_response", "epsilon": epsilon, "options": options}, pair


def unary_encoding(random: Generator) -> tuple[Spec, Pair]:
    q, p = sorted(random.uniform(size=2))
    bits = int(random.integers(1, 3))
    ones = [[mp.mpf(p)] * bits + [mp.mpf(q)] * bits, [mp.mpf(q)] * bits + [mp.mpf(p)] * bits]
    pair = [
        tuple(mp.fprod(one if bit else 1 - one for bit, one in zip(report, law, strict=True)) for law in ones)
        for report in product((0, 1), repeat=2 * bits)
    ]
    return {"type": "unary_encoding", "true_bit": p, "false_bit": q, "bits_per_value": bits}, pair


def staircase(random: Generator) -> tuple[Spec, Pair]:
    """Draw a staircase mechanism, and return its description and the masses of all pieces between breaks.

    There are up to 60 steps.
    """
    epsilon, gamma = log_uniform(random, 0.7, 8), random.uniform()
    e, g = mp.exp(-mp.mpf(epsilon)), mp.mpf(gamma)
    height = (1 - e) / (2 * (g + e * (1 - g)))

    def density(x: Any) -> Any:
        return height * e ** max(int(mp.floor(abs(x) - g)) + 1, 0)

    breaks = sorted({side * (j + g) + shift for side in (-1, 1) for j in range(60) for shift in (0, 1)})
    pair = [(density((a + b) / 2) * (b - a), density((a + b) / 2 - 1) * (b - a)) for a, b in pairwise(breaks)]
    return {"type": "staircase", "epsilon": epsilon, "gamma": gamma}, pair


def shifted(masses: Callable[[int], Any], shift: int, reach: int) -> Pair:
    return [(masses(x), masses(x - shift)) for x in range(-reach, reach + shift + 1)]


def discrete_laplace(random: Generator) -> tuple[Spec, Pair]:
    scale, shift = log_uniform(random, 0.1, 8), int(random.integers(1, 12))
    fall = mp.exp(-1 / mp.mpf(scale))
    pair = shifted(lambda x: (1 - fall) / (1 + fall) * fall ** abs(x), shift, math.ceil(70 * scale))
    return {"type": "discrete_laplace", "scale": scale, "sensitivity": shift}, pair


def discrete_gaussian(random: Generator) -> tuple[Spec, Pair]:
    sigma, shift = log_uniform(random, 0.2, 8), int(random.integers(1, 8))
    reach = math.ceil(12 * sigma)
    total = mp.fsum(mp.exp(-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2)) for x in range(-reach, reach + 1))
    pair = shifted(lambda x: mp.exp(-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2)) / total, shift, reach)
    return {"type": "discrete_gaussian", "sigma": sigma, "sensitivity": shift}, pair


def skellam(random: Generator) -> tuple[Spec, Pair]:
    variance, shift = log_uniform(random, 0.05, 30), int(random.integers(1, 8))
    reach = math.ceil(10 * math.sqrt(variance) + 25)
    bessel = [mp.besseli(x, mp.mpf(variance)) * mp.exp(-mp.mpf(variance)) for x in range(reach + shift + 1)]
    return {"type": "skellam", "variance": variance, "sensitivity": shift}, shifted(
        lambda x: bessel[abs(x)], shift, reach
    )


LAWS = (randomized_response, unary_encoding, staircase, discrete_laplace, discrete_gaussian, skellam)


def delta_of(pair: Pair, epsilon: float) -> Any:
    growth = mp.exp(mp.mpf(epsilon))
    return mp.fsum(max(present - growth * absent, 0) for absent, present in pair)


def power_of(pair: Pair, rate: float) -> Any:
    """Return the power of the likelihood ratio test at the false positive rate `rate`, randomised at the threshold."""
    left, power = mp.mpf(rate), mp.mpf(0)
    for absent, present in sorted(pair, key=lambda one: -one[1] / max(one[0], mp.mpf(10) ** -300)):
        share = min(left / absent, 1) if absent > 0 else 1
        power, left = power + share * present, left - share * absent
        if left <= 0:
            break
    return power


def assert_inside(low: float, truth: Any, high: float, missing: float = 1e-28) -> None:
    assert mp.mpf(low) <= truth + missing, (low, truth)
    assert truth <= mp.mpf(high) + missing, (truth, high)
    assert high - low <= 1e-9 * float(truth) + 1e-25, (low, high)


@sample_of(9)
@pytest.mark.parametrize("draw", LAWS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("seed", [0, 1, 2, *map(thorough, range(3, 10))])
def test_law_agrees_with_enumeration_of_all_outcomes(draw: Callable[[Generator], tuple[Spec, Pair]], seed: int) -> None:
    """A delta and a power of drawn mechanisms match the sum over all outcomes, in 40 digits.

    Each of 10 seeds draws 17 mechanisms of a kind.
    """
    random = np.random.default_rng([35, seed])
    with mp.workdps(40):
        for _ in range(17):
            spec, pair = draw(random)
            curve = curve_of(spec, str(random.choice(["add", "remove", "both"])))
            epsilon, rate = float(random.uniform(-0.5, 2)), log_uniform(random, 1e-6, 0.9)
            found = curve.profile_at(epsilon)
            assert_inside(found.lower, delta_of(pair, epsilon), found.upper)
            power = curve.power_at(rate)
            assert_inside(power.lower, power_of(pair, rate), power.upper)


def convolved(pair: Pair, steps: int) -> Pair:
    """Return the laws (H0, H1) of several independent steps; outcomes with equal likelihood ratios are merged."""
    total: Pair = [(mp.mpf(1), mp.mpf(1))]
    for _ in range(steps):
        merged: dict[str, tuple[Any, Any]] = {}
        for (a, b), (c, d) in product(total, pair):
            if a * c > 0 and b * d > 0:
                key = mp.nstr(mp.log(b * d / (a * c)), 15) if abs(b * d / (a * c) - 1) > 1e-18 else "0"
                before = merged.get(key, (mp.mpf(0), mp.mpf(0)))
                merged[key] = before[0] + a * c, before[1] + b * d
        total = list(merged.values())
    return total


@pytest.mark.parametrize(
    "draw", [randomized_response, unary_encoding, discrete_laplace], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("cases", [4, thorough(100)])
def test_composition_agrees_with_direct_convolution(draw: Callable[[Generator], tuple[Spec, Pair]], cases: int) -> None:
    random = np.random.default_rng(3500)
    with mp.workdps(40):
        for _ in range(cases):
            spec, pair = draw(random)
            steps = int(random.integers(2, 4))
            small = convolved(pair, 1)
            run = curve_of({"type": "repeated", "mechanism": spec, "steps": steps})
            epsilon = float(random.uniform(0, 3))
            found = run.profile_at(epsilon)
            assert_inside(found.lower, delta_of(convolved(small, steps), epsilon), found.upper)


def test_different_steps_agree_with_direct_convolution() -> None:
    random = np.random.default_rng(3501)
    with mp.workdps(40):
        for _ in range(4):
            drawn = [draw(random) for draw in (discrete_laplace, staircase)]
            pair = [(a * c, b * d) for (a, b), (c, d) in product(*(convolved(each, 1) for _, each in drawn))]
            run = curve_of({"type": "composed", "mechanisms": [spec for spec, _ in drawn]})
            for epsilon in (0.0, 0.7):
                found = run.profile_at(epsilon)
                assert_inside(found.lower, delta_of(pair, epsilon), found.upper)


def test_shift_of_discrete_laplace_is_iterate_of_unit_shift() -> None:
    one = curve_of({"type": "discrete_laplace", "scale": 3.0, "sensitivity": 1})
    for shift in (2, 5):
        several = curve_of({"type": "discrete_laplace", "scale": 3.0, "sensitivity": shift})
        for rate in (1e-4, 0.05, 0.4):
            power = rate
            for _ in range(shift):
                power = one.power_at(power).upper
            assert several.power_at(rate).upper == pytest.approx(power, rel=1e-12)


def test_scaled_bessel_functions_keep_assumed_error() -> None:
    """The scaled Bessel functions I_n keep the error that the bounds assume.

    The reference is ln 0F1 with a proved bound: I_n(m) = (m/2)^n/n! 0F1(; n + 1; m^2/4).
    """
    random = np.random.default_rng(3503)
    with mp.workdps(30):
        for _ in range(400):
            variance = log_uniform(random, 1e-3, 1e7)
            order = int(
                random.uniform(0, 8 + 50 * math.sqrt(variance)) if random.uniform() < 0.7 else random.integers(30)
            )
            found = float(ive(order, variance))
            if found < math.exp(-DEEPEST):
                continue
            value, error, _ = log_0f1(order + 1.0, np.array([variance**2 / 4]))
            truth = order * mp.log(mp.mpf(variance) / 2) - mp.loggamma(order + 1) + mp.mpf(float(value[0])) - variance
            rounding = float(error[0]) + 2e-16 * float(value[0])  # of 0F1, and of its argument
            assert abs(float(mp.log(found) - truth)) <= BESSEL_ERROR + rounding


def test_binary_response_is_unit_shift_of_discrete_laplace() -> None:
    response = curve_of({"type": "randomized_response", "epsilon": 0.5, "options": 2})
    laplace = curve_of({"type": "discrete_laplace", "scale": 2.0, "sensitivity": 1})
    for epsilon in (0.0, 0.3):
        assert response.profile_at(epsilon).upper == pytest.approx(laplace.profile_at(epsilon).upper, rel=1e-13)


def test_sampled_report_is_visible_mixture() -> None:
    """A report that is made with probability q has q times the delta of the report."""
    report = {"type": "randomized_response", "epsilon": 1.3, "options": 5}
    sampled = {"type": "poisson_sampled", "sample_rate": 0.2, "mechanism": report}
    for epsilon in (0.0, 0.4, 1.2):
        whole, part = curve_of(report).profile_at(epsilon), curve_of(sampled).profile_at(epsilon)
        assert part.lower <= 0.2 * whole.upper * (1 + 1e-15)
        assert part.upper >= 0.2 * whole.lower * (1 - 1e-15)


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian, skellam], ids=lambda each: each.__name__)
def test_sampled_noise_agrees_with_enumeration(draw: Callable[[Generator], tuple[Spec, Pair]]) -> None:
    random = np.random.default_rng(3502)
    with mp.workdps(40):
        for _ in range(6):
            spec, pair = draw(random)
            rate = float(random.uniform(0.01, 0.9))
            mixed = [(a, (1 - mp.mpf(rate)) * a + mp.mpf(rate) * b) for a, b in pair]
            epsilon = float(random.uniform(0, 0.8))
            run = {"type": "poisson_sampled", "sample_rate": rate, "mechanism": spec}
            for direction, outcomes in (("add", mixed), ("remove", [(b, a) for a, b in mixed])):
                found = curve_of(run, direction).profile_at(epsilon)
                assert_inside(found.lower, delta_of(outcomes, epsilon), found.upper)


def test_several_coordinates_are_enclosed_by_one_coordinate_and_concentrated_guarantee() -> None:
    noise = {"type": "discrete_gaussian", "sigma": 4.0, "sensitivity": 2}
    pair = WorstCase().curves(built(noise | {"dimension": 3}))
    assert pair.bracket is not None
    stated = curve_of({"type": "zcdp", "rho": 4.0 / 32.0})
    for delta in (1e-2, 1e-6):
        found = pair.both.epsilon(delta)
        assert found.lower == pytest.approx(curve_of(noise).epsilon(delta).lower, rel=1e-12)
        assert found.upper == pytest.approx(stated.epsilon(delta).upper, rel=1e-12)
        assert found.lower < found.upper


def refusals() -> Iterator[tuple[Spec, NeighboringRelation, str]]:
    report = {"type": "randomized_response", "epsilon": 1.0, "options": 4}
    yield report, "add_or_remove_one", "a missing record is visible"
    yield report, "zero_out", "a missing record is visible"
    yield {"type": "repeated", "steps": 3, "mechanism": report}, "add_or_remove_one", "a missing record is visible"
    noise = {"type": "discrete_laplace", "scale": 1.0, "sensitivity": 1}
    yield {"type": "poisson_sampled", "sample_rate": 0.5, "mechanism": noise}, "replace_one", "no dominating pair"


@pytest.mark.parametrize(("spec", "relation", "words"), list(refusals()))
def test_missing_pair_is_refused_by_name(spec: Spec, relation: NeighboringRelation, words: str) -> None:
    with pytest.raises(UnsupportedCombination, match=words) as refusal:
        WorstCase(relation).curves(built(spec))
    assert refusal.value.field == "threat_model"
    assert relation in str(refusal.value)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"type": "unary_encoding", "true_bit": 0.2, "false_bit": 0.5}, "true_bit"),
        ({"type": "unary_encoding", "true_bit": 0.5, "false_bit": 0.5}, "true_bit"),
        ({"type": "randomized_response", "epsilon": 1.0, "options": 1}, "options"),
        ({"type": "discrete_gaussian", "sigma": 1.0, "sensitivity": 1.5}, "sensitivity"),
    ],
)
def test_value_outside_domain_raises(spec: Spec, field: str) -> None:
    with pytest.raises(OutOfDomain) as refusal:
        built(spec)
    assert refusal.value.name == field


@pytest.mark.parametrize("steps", [thorough(3), 400])
def test_losses_without_lattice_are_narrow_beside_noise_and_agree_with_lattices(steps: int) -> None:
    noise = {"type": "skellam", "variance": 60.0, "sensitivity": 2}
    run = built({"type": "repeated", "mechanism": noise, "steps": steps})
    smoothed, lattices = (WorstCase().curves(run, method).both for method in ("contour", "discretised"))
    found, other = smoothed.epsilon(1e-5), lattices.epsilon(1e-5)
    assert found.upper - found.lower <= 1e-6 * found.upper
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)
    for epsilon in (0.3, 2.0):
        delta, second = smoothed.profile_at(epsilon), lattices.profile_at(epsilon)
        assert delta.upper - delta.lower <= 1e-4 * delta.upper
        assert max(delta.lower, second.lower) <= min(delta.upper, second.upper)


@pytest.mark.parametrize("seed", [0, 1, *map(thorough, range(2, 12))])
def test_run_of_discrete_gaussian_noise_is_one_release_with_more_noise(seed: int) -> None:
    """N releases with discrete Gaussian noise have the curve of one release with noise sigma sqrt(N) and N times the
    shift.

    The sum of N noise values has that law up to a relative error of about exp(-2 pi^2 sigma^2), and the loss of the run
    is a function of the sum.
    """
    random = np.random.default_rng([3504, seed])
    sigma, steps = log_uniform(random, 3, 60), int(log_uniform(random, 2, 1000))
    shift = int(random.integers(1, 4))
    noise = {"type": "discrete_gaussian", "sigma": sigma, "sensitivity": shift}
    run = curve_of({"type": "repeated", "mechanism": noise, "steps": steps})
    whole = {"type": "discrete_gaussian", "sigma": sigma * math.sqrt(steps), "sensitivity": steps * shift}
    one = curve_of(whole)
    for delta in (1e-3, 1e-5, 1e-10):
        found, truth = run.epsilon(delta), one.epsilon(delta)
        assert found.lower <= truth.upper * (1 + 1e-12)
        assert truth.lower * (1 - 1e-12) <= found.upper
        assert found.upper - found.lower <= 3e-6 * max(found.upper, 1e-3)


@pytest.mark.parametrize("variance", [100.0, thorough(1e4)])
def test_run_of_skellam_noise_agrees_with_convolution_of_its_losses(variance: float) -> None:
    """The epsilon of a run of Skellam noise lies between those of its losses rounded down and up.

    The rounded losses lie on a fine lattice, and are convolved by Fourier transforms.
    """
    noise = {"type": "skellam", "variance": variance, "sensitivity": 3}
    found = curve_of({"type": "repeated", "mechanism": noise, "steps": 200}).epsilon(1e-5)
    law: Any = WorstCase().curves(built(noise)).add
    losses, masses = law.law.losses, np.exp(law.law.log_present)
    spacing, size = 2e-5 * losses.std(), 1 << 22
    total = np.zeros(size)
    np.add.at(total, np.rint(losses / spacing).astype(np.int64) % size, masses)
    sums = np.maximum(np.fft.irfft(np.fft.rfft(total) ** 200, size), 0.0)
    nodes = spacing * ((np.arange(size) + size // 2) % size - size // 2)

    def delta(epsilon: float) -> float:
        above = nodes > epsilon
        return float(sums[above] @ -np.expm1(epsilon - nodes[above]))

    off = 5 * spacing * math.sqrt(200 / 12)
    assert delta(found.lower - off) >= 1e-5 >= delta(found.upper + off)
    assert found.upper - found.lower <= 1e-6 * found.upper


def test_few_losses_without_lattice_agree_with_direct_convolution() -> None:
    """Smoothed curves enclose exact sums for repeated sampled reports.

    Such a report has three losses without a common divisor, so no lattice contains all of them.
    """
    noise = {"type": "staircase", "epsilon": 1.1, "gamma": 0.3}
    sampled = {"type": "poisson_sampled", "sample_rate": 0.3, "mechanism": noise}
    law: Any = WorstCase().curves(built(sampled)).add
    pair = list(zip(np.exp(law.law.log_absent).tolist(), np.exp(law.law.log_present).tolist(), strict=True))
    run = WorstCase().curves(built({"type": "repeated", "mechanism": sampled, "steps": 5}))
    with mp.workdps(30):
        total = convolved([(mp.mpf(a), mp.mpf(b)) for a, b in pair], 5)
        for epsilon in (0.05, 0.4, 1.0):
            found, truth = run.add.profile_at(epsilon), float(delta_of(total, epsilon))
            assert found.lower <= truth * (1 + 1e-12)
            assert truth * (1 - 1e-12) <= found.upper
            assert found.upper - found.lower <= 1e-3 * truth


@pytest.mark.parametrize("epsilon", [1e-300, 0.3, 30.0, 700.0, 720.0, 740.0, 746.0, 1e6])
def test_staircase_with_extreme_heights(epsilon: float) -> None:
    """The advantage contains its value in 400 digits, also where e^-epsilon or gamma is below the normal doubles."""
    for gamma in (0.0, 5e-324, 1e-308, 1e-9, 0.5, 0.9, 1 - 2.0**-53, 1.0):
        found = curve_of({"type": "staircase", "epsilon": epsilon, "gamma": gamma}).profile(np.array([0.0]))
        with mp.workdps(400):
            fall, share = mp.exp(-mp.mpf(epsilon)), mp.mpf(gamma)
            height = (1 - fall) / (2 * (share + fall * (1 - share)))
            equal = abs(1 - 2 * share) * height * (fall if gamma <= 0.5 else 1)
            assert found.lower[0] <= (1 - equal) * mp.tanh(mp.mpf(epsilon) / 2) <= found.upper[0], gamma


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 30.0])
@pytest.mark.parametrize("steps", [1, 7])
def test_profile_of_unbounded_losses_is_nowhere_zero(sigma: float, steps: int) -> None:
    """Check upper bounds of delta where the exact number is positive, but below the smallest double."""
    noise = {"type": "discrete_gaussian", "sigma": sigma, "sensitivity": 1}
    curve = curve_of({"type": "repeated", "mechanism": noise, "steps": steps} if steps > 1 else noise)
    assert (curve.profile(np.array([1e5, 1e9])).upper > 0).all()
