"""Contours of runs with (sampled) Laplace steps: every bound against many digits, and engines against each other."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.exact_sums.laplace_reach import log_atoms
from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.inversion.loss_transform import LossTransform, TransformOnContour
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.summands.abstract import ValuesOnContour
from service.privacy.composition.summands.sampled_laplace import NODES, LaplaceSteps, SampledLaplaceParts
from service.privacy.composition.summands.sampled_laplace_contour import SampledLaplaceOnContour
from service.privacy.errors import UnsupportedCombination
from service.privacy.numerics.gauss_legendre import PLACE_ERROR, WEIGHT_ERROR, gauss_legendre
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends
from tests.privacy.cases import built, gaussian, laplace, sampled
from tests.slow_marker import sample_of, thorough

STEPS: tuple[tuple[LaplaceSteps, ...], ...] = (
    (LaplaceSteps(1.0, 0.01, 1000),),
    (LaplaceSteps(0.1, 1.0, 4000),),
    (LaplaceSteps(1.5, 0.3, 300),),
    (LaplaceSteps(0.02, 0.2, 50_000),),
    (LaplaceSteps(0.5, 0.05, 800), LaplaceSteps(1.2, 0.002, 5000)),
    (LaplaceSteps(5.0, 0.03, 4), LaplaceSteps(3.3, 1.0, 2)),
)
TILTS = (-12.0, -0.7, 0.0, 0.5, 1.0, 2.3, 15.0)


def moment(scale: float, rate: float, z: Any) -> Any:
    """Return E0 w^z of one Laplace step in many digits, with the integral split where it oscillates.

    w is the likelihood ratio of the step.
    """
    e, p = mpf(scale), mpf(rate)
    pieces = 2 + int(abs(mpmath.im(z)) * scale * min(rate * math.exp(scale), 1.0) / 8)

    def w(v: Any) -> Any:
        return 1 + p * mpmath.expm1(v)

    inner = mpmath.quad(lambda v: w(v) ** z * mpmath.exp(-(v + e) / 2) / 4, mpmath.linspace(-e, e, pieces + 1))
    return w(-e) ** z / 2 + w(e) ** z * mpmath.exp(-e) / 2 + inner


@pytest.mark.parametrize("nodes", NODES)
def test_gauss_legendre_rules_have_stated_accuracy(nodes: int) -> None:
    places, weights = gauss_legendre(nodes)
    with mpmath.workdps(40):
        for at in range(nodes // 2):
            x, slope = mpf(places[at]), mpf("nan")
            for _ in range(3):
                before, value = mpf(1), x
                for k in range(2, nodes + 1):
                    before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
                slope = nodes * (x * value - before) / (x**2 - 1)
                x -= value / slope
            weight = 2 / ((1 - x**2) * slope**2)
            assert abs(x - mpf(places[at])) <= PLACE_ERROR
            assert abs(weight / mpf(weights[at]) - 1) <= nodes * WEIGHT_ERROR
            assert places[-1 - at] == -places[at]
            assert weights[-1 - at] == weights[at]


@pytest.mark.parametrize("steps", STEPS)
def test_cumulants_enclose_many_digits(steps: tuple[LaplaceSteps, ...]) -> None:
    found = SampledLaplaceParts(steps).cumulants(np.array(TILTS))
    with mpmath.workdps(30):
        for i, tilt in enumerate(TILTS):
            truth = mpmath.fsum(n * mpmath.log(moment(e, p, mpf(tilt))) for e, p, n in map(astuple, steps))
            assert abs(truth - mpf(found.value[i])) <= found.error[i]
            assert found.error[i] < 1e-9 * (1 + abs(tilt))


@sample_of(6)
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("theta", [-3.0, 0.5, 4.0])
def test_contour_values_enclose_many_digits(steps: tuple[LaplaceSteps, ...], theta: float) -> None:
    parts = SampledLaplaceParts(steps)
    on_contour = SampledLaplaceOnContour(parts, theta)
    deviation = math.sqrt(float(parts.cumulants(np.array([theta])).second[0]))
    step = 2.0 / deviation
    found = on_contour.values(step, 4)
    with mpmath.workdps(30):
        for k in range(5):
            z = mpmath.mpc(theta, k * step)
            ratios = ((n, moment(e, p, z) / moment(e, p, mpf(theta))) for e, p, n in map(astuple, steps))
            truth = mpmath.fprod(ratio**n for n, ratio in ratios)
            computed = mpmath.exp(mpmath.mpc(complex(found.difference[k])))
            assert abs(truth / computed - 1) <= math.expm1(found.error[k])
            assert found.error[k] < 1e-8


@sample_of(5)
@pytest.mark.parametrize("steps", STEPS[:-1])
@pytest.mark.parametrize("theta", [-2.0, 3.0])
def test_majorants_and_frozen_parts_exceed_values(steps: tuple[LaplaceSteps, ...], theta: float) -> None:
    parts = SampledLaplaceParts(steps)
    on_contour = TransformOnContour(LossTransform(0.0, (parts,)), theta)
    own = SampledLaplaceOnContour(parts, theta)
    heights = np.array([2.0, 9.0, 30.0]) / math.sqrt(float(parts.cumulants(np.array([theta])).second[0]))
    heights = np.append(heights, 1.1 * max(own.last_height, float(heights[-1])))
    majorants, _ = on_contour.log_majorants(heights)
    assert (np.diff(majorants) <= 0).all()
    with mpmath.workdps(18):
        for height, majorant in zip(heights, majorants, strict=True):
            t = mpf(height) * mpf("1.07")
            whole = frozen = mpf(1)
            for e, p, n in map(astuple, steps):
                at, scale = mpmath.mpc(theta, t), moment(e, p, mpf(theta))
                ends = [1 + mpf(p) * mpmath.expm1(side * mpf(e)) for side in (-1, 1)]
                atoms = (ends[0] ** at + ends[1] ** at * mpmath.exp(-mpf(e))) / 2
                whole *= (moment(e, p, at) / scale) ** n
                frozen *= (atoms / scale) ** n
                size = (ends[0] ** theta + ends[1] ** theta * mpmath.exp(-mpf(e))) / 2 / scale
                assert abs(atoms / scale) <= size * (1 + mpf(10) ** -14)
            assert abs(whole - frozen) <= mpmath.exp(mpf(majorant)) * (1 + mpf(10) ** -9)
            assert abs(frozen) <= mpmath.exp(mpf(own.log_atoms)) * (1 + mpf(10) ** -9)


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_majorants_hold_for_losses_too_small_to_decay(seed: int) -> None:
    """Majorants hold for steps whose transform decays at no height that a double holds, beside steps that decay.

    The first kind of steps counts as atoms.
    """
    random = np.random.default_rng(seed)
    theta = float(random.choice([-2.0, 0.5, 3.0]))
    usual = LaplaceSteps(random.uniform(0.5, 2.0), random.uniform(0.05, 1.0), int(random.integers(20, 300)))
    short = LaplaceSteps(10.0 ** -random.uniform(14, 15), 10.0 ** -random.uniform(294, 300), int(random.integers(1, 9)))
    parts = SampledLaplaceParts((usual, short))
    on_contour = TransformOnContour(LossTransform(0.0, (parts,)), theta)
    own = SampledLaplaceOnContour(parts, theta)
    heights = np.array([0.1, 2.0, 9.0, 30.0]) / math.sqrt(float(parts.cumulants(np.array([theta])).second[0]))
    heights = np.append(heights, 1.1 * max(own.last_height, float(heights[-1])))
    assert own.last_height <= 2 * SampledLaplaceOnContour(SampledLaplaceParts((usual,)), theta).last_height
    alone, _ = own.log_majorants(heights)
    majorants, _ = on_contour.log_majorants(heights)
    assert (np.diff(majorants) <= 0).all()
    with mpmath.workdps(18):
        for height, majorant, single in zip(heights, majorants, alone, strict=True):
            at = mpmath.mpc(theta, mpf(height) * mpf("1.07"))
            ratios = [moment(e, p, at) / moment(e, p, mpf(theta)) for e, p, _ in map(astuple, (usual, short))]
            e, p = mpf(usual.largest_loss), mpf(usual.sample_rate)
            atoms = ((1 + p * mpmath.expm1(-e)) ** at + (1 + p * mpmath.expm1(e)) ** at * mpmath.exp(-e)) / 2
            atoms /= moment(usual.largest_loss, usual.sample_rate, mpf(theta))
            whole, rest = ratios[0] ** usual.count, ratios[1] ** short.count
            frozen = atoms**usual.count
            assert abs(whole * rest) <= mpmath.exp(mpf(single)) * (1 + mpf(10) ** -9)
            assert abs((whole - frozen) * rest) <= mpmath.exp(mpf(majorant)) * (1 + mpf(10) ** -9)
            assert abs(frozen * rest) <= mpmath.exp(mpf(own.log_atoms)) * (1 + mpf(10) ** -9)


@pytest.mark.parametrize("seed", [0, 1, *(thorough(seed) for seed in range(2, 6))])
def test_nearly_uninformative_steps_change_nothing(seed: int) -> None:
    """Sampled Laplace steps with tiny rates and large noise do not change the curve of a Gaussian step beside them."""
    random = np.random.default_rng(seed)
    noise = 10.0 ** random.uniform(6, 15)
    # The first case has the smallest rate and the largest noise.
    rate, noise = (1e-300, 1e15) if seed == 0 else (10.0 ** -random.uniform(280, 300), noise)
    few = [
        repeated(sampled(rate, laplace(noise)), int(10.0 ** random.uniform(0, 12))),
        gaussian(random.uniform(0.5, 9)),
    ]
    with_them = pair(built({"type": "composed", "mechanisms": few}), "contour")
    without = pair(built(few[1]))
    for one, other in ((with_them.add, without.add), (with_them.remove, without.remove)):
        meet(one, other, 1e-9, 1 / few[1]["noise_multiplier"])


def test_atoms_have_mass_under_either_hypothesis() -> None:
    for e, p, _ in map(astuple, (STEPS[0][0], STEPS[1][0], STEPS[2][0])):
        parts = SampledLaplaceParts((LaplaceSteps(e, p, 1),))
        on_contour = [SampledLaplaceOnContour(parts, theta).log_atoms for theta in (0.0, 1.0)]
        assert log_atoms(e, p) == pytest.approx(max(on_contour), rel=1e-9)


def repeated(spec: dict[str, Any], steps: int) -> dict[str, Any]:
    return {"type": "repeated", "mechanism": spec, "steps": steps}


def meet(first: AbstractTradeOff, second: AbstractTradeOff, width: float, reach: float) -> None:
    """Check that the enclosures of two curves overlap, and that those of `first` have at most the relative width
    `width`.

    The profiles are evaluated at epsilons from -`reach` to 6 `reach`.
    """
    rates = np.array([1e-10, 1e-4, 0.2, 0.5, 0.9, 1 - 1e-8])
    epsilons = reach * np.array([-1.0, 0.0, 0.4, 2.0, 6.0])
    one, other = first.points(rates), second.points(rates)
    readings = [
        (one.power, other.power),
        (one.type_two_error, other.type_two_error),
        (first.profile(epsilons), second.profile(epsilons)),
    ]
    for mine, theirs in readings:
        (low, high), (other_low, other_high) = log_ends(mine), log_ends(theirs)
        assert (low <= other_high + 1e-15).all()
        assert (other_low <= high + 1e-15).all()
        assert (high - low < width).all()
    assert (one.log_slope.lower <= other.log_slope.upper).all()
    assert (other.log_slope.lower <= one.log_slope.upper).all()
    for delta in (1e-4, 1e-12):
        mine, theirs = first.epsilon(delta), second.epsilon(delta)
        assert mine.lower <= theirs.upper
        assert theirs.lower <= mine.upper
        assert mine.relative_width() < width


@pytest.mark.parametrize(("noise", "steps"), [(3.0, 560), (2.0, 380), (1.0, 250)])
def test_contours_agree_with_exact_sums(noise: float, steps: int) -> None:
    """Contours agree with exact sums, which share no formula with them, to nine digits."""
    mechanism = built(repeated(laplace(noise), steps))
    meet(pair(mechanism, "contour").add, pair(mechanism, "closed_form").add, 1e-9, math.sqrt(steps) / noise)


@pytest.mark.parametrize(
    ("spec", "reach"),
    [
        (repeated(sampled(0.01, laplace(1.0)), 1000), 0.3),
        (repeated(sampled(0.3, laplace(0.8)), 400), 4.0),
        ({"type": "composed", "mechanisms": [repeated(sampled(0.2, laplace(4.0)), 30), gaussian(2.0)]}, 0.6),
    ],
)
def test_contours_agree_with_lattice(spec: dict[str, Any], reach: float) -> None:
    mechanism = built(spec)
    contour, lattice = (
        pair(mechanism, "contour"),
        pair(mechanism, "discretised", options=EngineOptions(relative_tolerance=1e-4)),
    )
    for direction in ("add", "remove"):
        meet(getattr(contour, direction), getattr(lattice, direction), 1e-8, reach)


def test_directions_are_inverse() -> None:
    add, remove = contour_pair(0.0, (LaplaceSteps(1.0, 0.01, 1000),))
    missed = add.type_two_error(np.array([0.03])).at(0, add.evidence)
    back = remove.type_two_error(np.array([missed.lower, missed.upper]))
    assert back.lower[1] <= 0.03 <= back.upper[0]
    assert add.largest_log_ratio.upper == -remove.smallest_log_ratio.lower


def test_bounded_losses_have_largest_log_ratio() -> None:
    add, remove = contour_pair(0.0, (LaplaceSteps(1.0, 0.01, 1000),))
    for curve, sign in ((add, 1.0), (remove, -1.0)):
        largest = 1000 * abs(math.log1p(0.01 * math.expm1(sign)))
        assert curve.largest_log_ratio.lower <= largest <= curve.largest_log_ratio.upper
        assert curve.profile_at(largest * 1.001).upper == 0
        assert curve.global_gdp_mu is None


def test_far_tails_keep_their_digits() -> None:
    add, _ = contour_pair(0.0, (LaplaceSteps(1.0, 0.01, 1000),))
    for epsilon in (4.0, 7.0, 9.0):
        assert add.profile_at(epsilon).relative_width() < 1e-8
    assert add.profile_at(9.0).upper < 1e-150


def test_few_steps_are_planned_for_lattice() -> None:
    spec = repeated(sampled(0.2, laplace(2.0)), 50)
    with pytest.raises(UnsupportedCombination):
        pair(built(spec), "contour")
    assert pair(built(spec)).add.method == "discretised"


def test_steep_laws_strong_runs_and_many_kinds_use_contours() -> None:
    many = [repeated(sampled(0.1, laplace(1.0 + 0.1 * k)), 100) for k in range(40)]
    for spec in (
        repeated(sampled(0.1, laplace(0.3)), 1000),
        repeated(sampled(0.9, laplace(1.0)), 10**5),
        {"type": "composed", "mechanisms": many},
        {"type": "composed", "mechanisms": [laplace(0.06), gaussian(3.0)]},
    ):
        add = pair(built(spec), "contour").add
        assert add.power_at(1e-6).relative_width() < 1e-9
        assert add.profile_at(0.5).relative_width() < 1e-9


def test_contour_of_few_steps_is_wide_and_valid() -> None:
    """The enclosure by contours is wide for few steps, because their atoms do not vanish, and contains the lattice
    value.
    """
    lines, _ = contour_pair(0.0, (LaplaceSteps(0.5, 0.2, 20),))
    truth = pair(built(repeated(sampled(0.2, laplace(2.0)), 20)), "discretised").add
    for rate in (0.01, 0.4):
        wide, narrow = lines.power_at(rate), truth.power_at(rate)
        assert wide.lower <= narrow.upper
        assert narrow.lower <= wide.upper


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_contours_of_rare_steps_take_bounded_work(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contours of rare Laplace steps have a bounded number of nodes.

    Without a limit, their height and number of nodes would grow as losses or rates fall.
    """
    worked: list[int] = []
    values = SampledLaplaceOnContour.values

    def counted(on_contour: SampledLaplaceOnContour, step: float, nodes: int) -> ValuesOnContour:
        worked.append(nodes * on_contour.parts.refined(on_contour.theta, step * nodes).loss.size)
        assert worked[-1] <= 1.01e9
        return values(on_contour, step, nodes)

    monkeypatch.setattr(SampledLaplaceOnContour, "values", counted)
    random = np.random.default_rng(seed)
    steps = [(1 / 24.4, 0.3781, 40), (1 / 0.7642, 1.271e-5, 201), (1 / 8.884, 1.439e-6, 2038)]
    if seed:
        steps = [
            (10 ** random.uniform(-2, 0.5), 10 ** random.uniform(-6, 0), int(10 ** random.uniform(1, 5)))
            for _ in range(3)
        ]
    for curve in contour_pair(0.0, [LaplaceSteps(*step) for step in steps]):
        found = curve.epsilon(1e-5)
        assert 0 <= found.lower <= found.upper
    assert worked
