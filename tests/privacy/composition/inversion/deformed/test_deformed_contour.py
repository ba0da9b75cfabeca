"""Deformed contours against published values, direct integration, straight contours and lattices: bounds must hold."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.special import ndtr

from service.privacy.composition.exact_sums.laplace_curves import ComposedLaplace
from service.privacy.composition.inversion.deformed.majorant import MajorantGrid
from service.privacy.composition.inversion.deformed.paths import Paths
from service.privacy.composition.inversion.deformed.run import DeformedRun, deformed_run
from service.privacy.composition.inversion.deformed.sums import Float, PathNodes, moments, roundoff
from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.inversion.two_step_run import two_steps_pair
from service.privacy.composition.lattice.engine import discretised_pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps
from service.privacy.composition.summands.sampled_laplace import LaplaceSteps
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.numerics.arrays import taken
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.agreement import meet
from tests.privacy.cases import built, dpsgd
from tests.privacy.random_cases import BoxPoint, log_uniform
from tests.slow_marker import sample_of, thorough

# (sigma, p, N, kappa), gamma to 12 digits, largest relative width.
PUBLISHED = [
    ((1.0, 1e-4, 1000, 1e-7), 1.04309045470e-7, 1e-6),
    ((2.6, 1e-4, 10_000, 1e-8), 1.02362118271e-8, 1e-6),
    ((0.7, 1e-4, 10_000, 1e-8), 2.04267872288e-8, 1e-6),
    ((0.5, 1e-5, 1000, 1e-12), 1.51347514252e-11, 1e-6),
    ((0.4, 1e-4, 100_000, 1e-7), 4.99325272799e-5, 1e-8),
    ((1.3, 5e-5, 50, 1e-10), 1.00866226806e-10, 1e-6),
    ((2.0, 1e-5, 100_000, 1e-7), 1.00914999656e-7, 1e-6),
    ((0.3, 1e-5, 300, 1e-8), 2.11064965885e-6, 1e-7),
    ((0.5, 1e-6, 50_000, 0.1), 1.00315933744e-1, 1e-7),
    ((1.0, 1e-6, 100_000, 0.1), 1.00073071285e-1, 1e-6),
    ((3.0, 1e-6, 1_000_000, 0.1), 1.00060189626e-1, 1e-6),
    ((0.3, 0.01, 5, 1e-3), 2.17510751211e-2, 1e-8),
    ((0.4, 0.1, 10, 0.01), 2.78198202132e-1, 1e-8),
    ((0.5, 1e-4, 60, 1e-5), 1.57374665238e-5, 1e-7),
]


def _run(sigma: float, rate: float, steps: int, *, reflected: bool = False) -> DeformedRun:
    run = deformed_run((SampledStep(sigma, rate, steps),), 0.0, reflected=reflected)
    assert run is not None
    return run


def _power(run: DeformedRun, kappa: float) -> tuple[float, float]:
    readings = run.points(kappa, math.log(kappa))
    return math.exp(readings.lower[0, 0]), math.exp(readings.upper[0, 0])


@sample_of(6)
@pytest.mark.parametrize(("case", "gamma", "width"), PUBLISHED)
def test_enclosures_contain_published_values(case: tuple[float, float, int, float], gamma: float, width: float) -> None:
    sigma, rate, steps, kappa = case
    lower, upper = _power(_run(sigma, rate, steps), kappa)
    assert lower <= gamma * (1 + 1e-11)
    assert gamma * (1 - 1e-11) <= upper
    if roundoff(np.longdouble) < 2.0**-60:
        assert 1 - lower / upper <= width


def _two_steps(sigma: float, rate: float, threshold: float) -> tuple[float, float]:
    """Return P0(S > c) and P1(S > c) of the loss S of two sampled steps at the threshold c.

    The second step is a closed form, the first a fine trapezoidal sum.
    """
    spacing = 2e-4
    y = np.arange(-14.0, 14.0 + 1 / sigma, spacing)
    loss = np.log1p(rate * np.expm1(y / sigma - 0.5 / sigma**2))
    ratio = (np.expm1(threshold - loss) + rate) / rate
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(ratio > 0, sigma * np.log(ratio) + 0.5 / sigma, -np.inf)
    weight = spacing / math.sqrt(2 * math.pi) * np.exp(-0.5 * y**2)
    alternative = (1 - rate) * ndtr(-needed) + rate * ndtr(1 / sigma - needed)
    return float(weight @ ndtr(-needed)), float((weight * np.exp(loss)) @ alternative)


@pytest.mark.parametrize(("sigma", "rate", "threshold"), [(0.3, 0.01, 1.0), (0.5, 1e-4, 0.5), (1.0, 0.05, 0.3)])
def test_two_steps_match_direct_integration(sigma: float, rate: float, threshold: float) -> None:
    alpha, power = _two_steps(sigma, rate, threshold)
    lower, upper = _power(_run(sigma, rate, 2), alpha)
    assert lower <= power * (1 + 1e-8)
    assert power * (1 - 1e-8) <= upper
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize("reflected", [False, True])
def test_deformed_contours_agree_with_straight_ones(reflected: bool) -> None:
    random = np.random.default_rng(11)
    met = 0
    for _ in range(8):
        sigma, rate = float(random.uniform(0.7, 4.0)), float(10 ** random.uniform(-3, -0.5))
        steps, kappa = int(10 ** random.uniform(1, 4)), float(10 ** random.uniform(-8, -0.5))
        curve = contour_pair(0.0, (SampledGaussianSteps(sigma, rate, steps),))[int(reflected)]
        line = curve.points(np.array([kappa])).power
        lower, upper = _power(_run(sigma, rate, steps, reflected=reflected), kappa)
        assert lower <= line.upper[0] * (1 + 1e-13)
        assert line.lower[0] <= upper * (1 + 1e-13)
        met += line.upper[0] - line.lower[0] < 1e-8 * line.upper[0] and upper - lower < 1e-6 * upper
    assert met >= 3


@pytest.mark.parametrize("case", [(0.8, 3e-5, 300, 1e-3)])
@pytest.mark.parametrize("reflected", [False, True])
def test_deformed_contours_agree_with_lattices(case: tuple[float, float, int, float], reflected: bool) -> None:
    sigma, rate, steps, kappa = case
    mechanism = built(dpsgd(sigma, rate, steps))
    pair = discretised_pair(mechanism.elementary_steps(), EngineOptions(relative_tolerance=1e-4))
    lattice = (pair.remove if reflected else pair.add).points(np.array([kappa])).power
    lower, upper = _power(_run(sigma, rate, steps, reflected=reflected), kappa)
    assert lower <= lattice.upper[0]
    assert lattice.lower[0] <= upper


def test_profiles_agree_with_straight_contours() -> None:
    for case, epsilon in (((1.0, 0.01, 1000), 0.5), ((0.8, 0.001, 10_000), 0.3), ((1.0, 0.05, 50), 1.0)):
        line = contour_pair(0.0, (SampledGaussianSteps(*case),))[0].profile(np.array([epsilon]))
        found = _run(*case).profile(epsilon, math.log(line.lower[0]), math.log(line.upper[0]))
        assert math.exp(found.lower[0, 0]) <= line.upper[0] * (1 + 1e-13)
        assert line.lower[0] <= math.exp(found.upper[0, 0]) * (1 + 1e-13)
        assert found.upper[0, 0] - found.lower[0, 0] < 1e-6


def test_engine_is_narrow_for_rare_jumps() -> None:
    add, remove = contour_pair(0.0, (SampledGaussianSteps(0.5, 1e-4, 60),))
    for curve in (add, remove):
        power = curve.points(np.array([1e-5])).power
        assert power.upper[0] - power.lower[0] < 1e-6 * power.upper[0]
        assert power.lower[0] >= 1e-5
    delta = add.profile(np.array([0.31249])).lower[0]
    assert add.profile(np.array([0.31249])).upper[0] <= delta * (1 + 1e-6)


@pytest.mark.parametrize("remove", [False, True])
def test_other_kinds_of_steps_are_not_omitted(remove: bool) -> None:
    """A run with rare jumps reveals at least as much as its Laplace steps alone."""
    rare, noise, count, rates = SampledGaussianSteps(0.75, 1e-3, 127), 10.5, 229, np.array([2.5e-5, 2.5e-11])
    alone = ComposedLaplace(count, 1.0, noise)
    whole = contour_pair(0.0, (rare, LaplaceSteps(1 / noise, 1.0, count)))[remove]
    assert (whole.points(rates).power.upper >= alone.points(rates).power.lower).all()
    assert (whole.profile(np.array([3.0, 6.0])).upper >= alone.profile(np.array([3.0, 6.0])).lower).all()


@pytest.mark.parametrize(
    "step",
    [
        SampledStep(0.5, 1e-3, 10),
        SampledStep(2.0, 0.1, 10),
        SampledStep(0.5, 1e-3, 10, mirrored=True),
        SampledStep(2.0, 0.1, 10, mirrored=True),
    ],
)
def test_majorants_exceed_fine_sums_and_moments(step: SampledStep) -> None:
    grid = MajorantGrid(step, 60.0, 2.0)
    fine = MajorantGrid(step, 90.0, 2.0)
    fine.spacing /= 8
    fine.tau = np.arange(fine.tau[0], fine.tau[-1], fine.spacing)
    z = np.array([1.5, 1.5 + 3j, 2 + 20j, 2.5 + 90j, -3 + 15j])
    with np.errstate(all="ignore"):
        paths = taken(grid.family, np.arange(0, len(grid.family.eta), 7))
        points = np.broadcast_to(z, (len(paths.eta), len(z)))
        bounds, _ = grid.log_bounds(paths, points)
        exact = fine.plain(paths, points)
    assert (bounds >= exact - 1e-12).all()
    assert np.isfinite(bounds).sum() > 0.5 * bounds.size
    assert (np.log(np.abs(_moments_by_sums(step, z))) <= bounds.min(axis=0) + 1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_nearly_constant_losses_take_little_memory(seed: int) -> None:
    """Runs with a nearly constant loss, whose saddle points are far out, need little memory."""
    random = np.random.default_rng(seed)
    rate, sigma = 10.0 ** random.uniform(-13, -9), 10.0 ** random.uniform(-0.3, 0.3)
    run = deformed_run((SampledStep(sigma, rate, int(random.integers(2, 1000))),), 0.0, reflected=False)
    assert run is not None
    tracemalloc.start()
    run.profile(float(10.0 ** random.uniform(296, 299)), float(random.uniform(-100, -3)), 0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e8


def _moments_by_sums(step: SampledStep, z: Any) -> Any:
    """Return the moments E0 w^z of the likelihood ratio w of a step, by a fine trapezoidal sum over real outcomes."""
    y = np.arange(-12.0, 24.0, 1e-3)
    present, absent = (
        np.log1p(step.rate * np.expm1(s * y / step.sigma - 0.5 / step.sigma**2)) * (s > 0 or step.mirrored)
        for s in (1, -1)
    )
    log_terms = z[:, None] * (present - absent) + absent - 0.5 * y**2
    return np.exp(log_terms).sum(axis=1) * 1e-3 / math.sqrt(2 * math.pi)


@sample_of(2)
@pytest.mark.parametrize(("from_least", "mirrored"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("kind", [np.float64, np.longdouble])
def test_moments_have_stated_rounding_error(kind: Float, from_least: bool, mirrored: bool) -> None:
    step = SampledStep(1.0, 2.0**-10, 10, mirrored=mirrored)
    tau = np.arange(-160, 320).astype(kind) / 16
    path = Paths(np.full((1, 1), 0.5), np.full((1, 1), 0.5), np.full((1, 1), -4.0))
    nodes = PathNodes(step, path, kind, tau, 1 / 16, from_least=from_least)
    x, t = np.array([1.5, 2.0, -20.0]).astype(kind), np.array([0.0, 10.0, 3000.0]).astype(kind)
    found = moments(nodes, x, t)
    with mpmath.workdps(40):
        for k in range(len(x)):
            z = mpmath.mpc(float(x[k]), float(t[k]))
            truth = mpmath.fsum(_term(step, mpf(j) / 16, z, from_least) for j in range(-160, 320))
            error = abs(mpmath.mpc(_exact(found.real[k]), _exact(found.imag[k])) - truth)
            assert error <= found.error[k]
            assert found.error[k] <= 1e5 * roundoff(kind) * (1 + abs(z) * step.rate)


def _term(step: SampledStep, tau: Any, z: Any, from_least: bool) -> Any:
    """Return 1/16 of the integrand of E0 (e^{zL} - 1) at `tau` on a path in the complex plane, for the loss L of a
    step.

    The path is v = tau + i (1/2 + ln(1 + e^x)/4), where x = 2 (tau + 4 + ln(p/(1 - p)) + offset), p is the sampling
    rate, and offset the mean of v for mirrored steps. A mirrored step compares two laws that are mirror images at 0, as
    when one record replaces another.
    """
    sigma, offset = mpf(step.sigma), -mpf(step.mirrored) / (2 * mpf(step.sigma) ** 2)
    log_odds = mpmath.log(step.rate) - mpmath.log1p(-mpf(step.rate)) + offset
    x = 2 * (tau + 4 + log_odds)
    v = mpmath.mpc(tau, mpf(1) / 2 + mpmath.log1p(mpmath.exp(x)) / 4)
    speed = mpmath.mpc(1, 1 / (2 + 2 * mpmath.exp(-x)))

    def log_ratio(u: Any) -> Any:
        return u + mpmath.log1p(mpmath.exp(-u)) if u.real > 0 else mpmath.log1p(mpmath.exp(u))

    loss, density = log_ratio(v + log_odds), mpmath.npdf(sigma * v)
    if step.mirrored:
        absent = log_ratio(log_odds - v)
        loss, density = loss - absent, density * mpmath.exp(absent) * (1 - mpf(step.rate))
    else:
        density = mpmath.npdf(sigma * v + 1 / (2 * sigma))
        loss += 0 if from_least else mpmath.log1p(-mpf(step.rate))
    return sigma * density * speed * mpmath.expm1(z * loss) / 16


def _exact(value: Any) -> Any:
    """Convert a long double to a sum of two doubles."""
    high = float(value)
    return mpf(high) + mpf(float(value - np.longdouble(high)))


@pytest.mark.parametrize(
    ("name", "truth", "low", "high"),
    [
        ("exp", mpmath.exp, -11_000.0, 700.0),
        ("expm1", mpmath.expm1, -50.0, 50.0),
        ("log", mpmath.log, 1e-9, 1.0),
        ("log1p", mpmath.log1p, -0.95, 5.0),
        ("sin", mpmath.sin, -1e4, 1e4),
        ("cos", mpmath.cos, -1e4, 1e4),
    ],
)
def test_long_double_functions_are_within_four_ulps(
    name: str, truth: Callable[[Any], Any], low: float, high: float
) -> None:
    points = np.random.default_rng(5).uniform(low, high, 400).astype(np.longdouble)
    values = getattr(np, name)(points)
    with mpmath.workdps(60):
        for point, value in zip(points, values, strict=True):
            exact = truth(mpf(float(point)))
            assert abs(_exact_scaled(value, exact) - 1) <= 8 * roundoff(np.longdouble), (name, point)


def _exact_scaled(value: Any, exact: Any) -> Any:
    """Return value / exact, for values beyond the range of doubles too."""
    fraction, exponent = np.frexp(value)
    return mpmath.ldexp(_exact(fraction), int(exponent)) / exact


def test_runs_outside_region_have_no_deformed_contour() -> None:
    for case in ((1.0, 0.01, 1), (1.0, 0.95, 10), (60.0, 0.01, 10), (0.05, 0.01, 10)):
        assert deformed_run((SampledStep(*case),), 0.0, reflected=False) is None
    kinds = tuple(SampledStep(1.0 + 0.1 * k, 0.01, 2) for k in range(5))
    assert deformed_run(kinds, 0.0, reflected=False) is None


def _rare(seed: int, runs: int) -> list[BoxPoint]:
    """Draw runs in which the record is expected to be sampled rarely.

    They have few steps of much noise, or enough steps of little noise for a few samples.
    """
    random = np.random.default_rng(seed)
    found: list[BoxPoint] = []
    for _ in range(runs):
        few = log_uniform(random, 1.9, 3.3), log_uniform(random, 1e-6, 2.2e-6), int(log_uniform(random, 5.0, 250.0))
        found.append(BoxPoint(*few, log_uniform(random, 1e-9, 1e-7)))
        sigma, rate = log_uniform(random, 0.4, 0.5), log_uniform(random, 6e-6, 2e-5)
        many = int(log_uniform(random, 3.0, 8.0) / rate)
        found.append(BoxPoint(sigma, rate, many, log_uniform(random, 0.02, 0.2)))
    return found


@pytest.mark.parametrize(("seed", "cases"), [(0, 1), *(thorough(seed, 2) for seed in range(5))])
def test_rare_runs_are_narrow_and_agree_with_lattices(seed: int, cases: int) -> None:
    """Enclosures are narrow at every threshold, among the usual losses and far above them, and overlap those of
    lattices.
    """
    for point in _rare(seed, cases):
        answer = _curve(point, reflected=False).power_at(point.baseline)
        assert answer.relative_width() <= 1e-6, point
        lattice = discretised_pair(point.mechanism.elementary_steps(), EngineOptions(relative_tolerance=1e-3))
        assert meet(answer, lattice.add.power_at(point.baseline)), point


def _curve(point: BoxPoint, *, reflected: bool) -> AbstractTradeOff:
    steps = SampledGaussianSteps(point.noise_multiplier, point.sample_rate, point.steps)
    return contour_pair(0.0, (steps,))[int(reflected)]


@pytest.mark.parametrize(("seed", "cases"), [(0, 1), *(thorough(seed, 4) for seed in range(5))])
def test_few_steps_in_remove_direction_use_the_profile(seed: int, cases: int) -> None:
    """Powers of few steps in the remove direction are narrow and agree with lattices.

    They come from the profile, because truncated straight contours omit much of the tails and little of the profile.
    """
    random = np.random.default_rng(seed)
    for _ in range(cases):
        steps = int(random.integers(3, 15))
        sigma, rate = log_uniform(random, 0.3, 2.0), log_uniform(random, 1e-6, 0.1)
        point = BoxPoint(sigma, rate, steps, log_uniform(random, 1e-9, 0.1))
        answer = _curve(point, reflected=True).power_at(point.baseline)
        assert answer.relative_width() <= 1e-6, point
        lattice = discretised_pair(point.mechanism.elementary_steps(), EngineOptions(relative_tolerance=1e-4))
        assert meet(answer, lattice.remove.power_at(point.baseline)), point


def _two_steps_removed(sigma: float, rate: float, threshold: float) -> tuple[Any, Any]:
    """Return P1(S <= c) and P0(S <= c) of the loss S of two steps at the threshold c, to 25 digits.

    The second step is a closed form, the first a quadrature.
    """

    def needed(y: Any) -> Any:
        ratio = (mpmath.exp(threshold - mpmath.log1p(rate * mpmath.expm1(y / sigma - half))) - 1 + rate) / rate
        return sigma * (mpmath.log(ratio) + half) if ratio > 0 else -mpmath.inf

    half = 1 / (2 * mpf(sigma) ** 2)
    top = sigma * (mpmath.log((mpmath.exp(threshold) / (1 - rate) - 1 + rate) / rate) + half)

    def under(y: Any, *, present: bool) -> Any:
        known = needed(y)
        second = mpmath.ncdf(known)
        if not present:
            return mpmath.npdf(y) * second
        weight = (1 - rate) * mpmath.npdf(y) + rate * mpmath.npdf(y - 1 / mpf(sigma))
        return weight * ((1 - rate) * second + rate * mpmath.ncdf(known - 1 / mpf(sigma)))

    ends = [top - width for width in (28, 14, 7, 4, 2, 1, 0.3, 0.05, 0.005, 0)]
    return mpmath.quad(lambda y: under(y, present=True), ends), mpmath.quad(lambda y: under(y, present=False), ends)


@pytest.mark.parametrize(("seed", "cases"), [(0, 1), *(thorough(seed, 2) for seed in range(3))])
def test_two_steps_in_remove_direction_match_quadrature(seed: int, cases: int) -> None:
    """Powers of two steps in the remove direction match a quadrature.

    The rate is P1(S <= c) and the power is P0(S <= c) for the loss S of the run and a threshold c.
    """
    random = np.random.default_rng(seed)
    for _ in range(cases):
        sigma, rate = log_uniform(random, 0.5, 2.0), log_uniform(random, 1e-4, 0.05)
        threshold = 2 * math.log1p(-rate) + rate * float(random.uniform(0.02, 0.3))
        with mpmath.workdps(25):
            alpha, power = _two_steps_removed(sigma, mpf(rate), mpf(threshold))
        point = BoxPoint(sigma, rate, 2, float(alpha))
        answer = _curve(point, reflected=True).power_at(point.baseline)
        slack = 1e-14  # Of the rate, rounded to a double.
        assert answer.lower <= power * (1 + slack)
        assert power * (1 - slack) <= answer.upper


@pytest.mark.parametrize("seed", [0, *map(thorough, range(1, 5))])
def test_small_powers_of_two_rare_steps_match_closed_form(seed: int) -> None:
    """Powers that barely exceed their false positive rate, near 1e-11, match the closed form of two steps."""
    random = np.random.default_rng(seed)
    for _ in range(2):
        sigma, rate, alpha = random.uniform(0.8, 2.0), 10 ** random.uniform(-5, -3.3), 10 ** random.uniform(-12, -10)
        mechanism = built(dpsgd(float(sigma), float(rate), 2))
        closed = two_steps_pair(mechanism.elementary_steps())
        assert closed is not None
        lower, upper = _power(_run(float(sigma), float(rate), 2), float(alpha))
        known = closed.add.power_at(float(alpha))
        assert upper - lower < 2e-6 * upper
        assert lower <= known.upper
        assert known.lower <= upper
