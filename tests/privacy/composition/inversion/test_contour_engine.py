"""Parts of the contour engine against independent high-precision values: every bound must hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cache

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from mpmath import mpf

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.inversion.epsilons import epsilon_on_contour
from service.privacy.composition.inversion.loss_transform import LossTransform, TransformOnContour
from service.privacy.composition.inversion.transforms_of_runs import TransformOfRun
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps, TruncatedSampledGaussian
from tests.slow_marker import sample_of, thorough

RUNS = [
    (1.0, 0.01, 1000),
    (0.8, 0.001, 10_000),
    (40.0, 0.2, 1_000_000),
    (0.5, 0.3, 3),
    (3.0, 1e-5, 100_000),
    (2.0, 0.999, 7),
]


def _transform(run: tuple[float, float, int], *, reflected: bool = False) -> LossTransform:
    sigma, rate, steps = run
    deviation = math.sqrt(steps) * min(rate / sigma, 1)
    return LossTransform(
        0.0, (TruncatedSampledGaussian((SampledGaussianSteps(sigma, rate, steps),), deviation, 80.0),), reflected
    )


SPACING = mpf(1) / 32


@cache
def _step(run: tuple[float, float, int]) -> list[tuple[mpf, mpf]]:
    """Return normal weights and ln w of one step of the run (sigma, rate, count) at equidistant points, to 35 digits.

    w is the likelihood ratio.
    """
    with mpmath.workdps(35):
        sigma, rate = mpf(run[0]), mpf(run[1])
        points = [k * SPACING for k in range(-32 * 13, 32 * (13 + int(5 / run[0])) + 1)]
        return [
            (SPACING * mpmath.npdf(y), mpmath.log(1 - rate + rate * mpmath.exp(y / sigma - 1 / (2 * sigma**2))))
            for y in points
        ]


def _moment(run: tuple[float, float, int], z: mpmath.mpc) -> mpmath.mpc:
    """Return the moment E0 w^z of one step by the trapezoidal rule, whose error falls like e^{-2 pi a/h}.

    w is the likelihood ratio, h the distance of the nodes, and a up to pi sigma for the noise multiplier sigma.
    """
    return mpmath.fsum(weight * mpmath.exp(z * loss) for weight, loss in _step(run))


def _tilts(transform: LossTransform) -> list[float]:
    deviation = math.sqrt(float(transform.cumulants(np.array([0.5])).second[0]))
    step = min(1 / deviation, 4.0)
    return [0.5 - 2 * step, 0.3, 0.9, 0.5 + step]


@pytest.mark.parametrize("run", RUNS)
def test_cumulants_enclose_direct_integrals(run: tuple[float, float, int]) -> None:
    transform = _transform(run)
    with mpmath.workdps(30):
        for tilt in _tilts(transform):
            truth = run[2] * mpmath.log(_moment(run, mpmath.mpc(tilt)).real)
            plain = transform.cumulants(np.array([tilt]))
            assert abs(mpf(float(plain.value[0])) - truth) <= float(plain.error[0])
            value, error = TransformOnContour(transform, tilt).origin()
            assert abs(mpf(value) - truth) <= error
            assert error <= float(plain.error[0]) or error < 1e-11


@sample_of(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("reflected", [False, True])
def test_contour_values_near_poles_enclose_direct_integrals(seed: int, reflected: bool) -> None:
    """Values of the log-moment function K at tilts close to 0 and 1 enclose direct integrals.

    K is small there, so the rounding of the tilt and of second-order sums would show.
    """
    random = np.random.default_rng(seed)
    sigma, rate, steps = 10 ** random.uniform(0, 1.3), 10 ** random.uniform(-4, -0.05), int(10 ** random.uniform(6, 13))
    run = float(sigma), float(rate), steps
    transform = _transform(run, reflected=reflected)
    deviation = math.sqrt(float(transform.cumulants(np.array([0.5])).second[0]))
    for pole, side in itertools.product((0, 1), (-1, 1)):
        on_contour = TransformOfRun(transform, pole + side * float(10 ** random.uniform(-4, 0.5)) / max(deviation, 1.0))
        (value,), (error,), (tilt,) = *on_contour.origin, on_contour.theta
        with mpmath.workdps(40):
            there = 1 - mpf(float(tilt)) if reflected else mpf(float(tilt))
            truth = steps * mpmath.log(_moment(run, mpmath.mpc(there)).real)
            assert abs(mpf(float(value)) - truth) <= float(error)


@pytest.mark.parametrize("run", RUNS)
def test_contour_values_enclose_direct_integrals(run: tuple[float, float, int]) -> None:
    transform = _transform(run)
    tilt = _tilts(transform)[-1]
    deviation = math.sqrt(float(transform.cumulants(np.array([tilt])).second[0]))
    nodes = 12
    on_contour = TransformOnContour(transform, tilt).values(8.0 / deviation / nodes, nodes)
    with mpmath.workdps(30):
        base = _moment(run, mpmath.mpc(tilt))
        for k in (1, 5, nodes):
            z = mpmath.mpc(tilt, k * (8.0 / deviation / nodes))
            truth = mpmath.exp(run[2] * mpmath.log(_moment(run, z) / base))
            computed = mpmath.exp(mpmath.mpc(complex(on_contour.difference[k])))
            assert abs(computed - truth) <= abs(computed) * mpmath.expm1(float(on_contour.error[k])) + mpf(10) ** -25


@sample_of(6)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("reflected", [False, True])
def test_majorants_exceed_the_moment(run: tuple[float, float, int], reflected: bool) -> None:
    transform = _transform(run, reflected=reflected)
    tilt = _tilts(transform)[-1]
    deviation = math.sqrt(float(transform.cumulants(np.array([tilt])).second[0]))
    on_contour = TransformOnContour(transform, tilt)
    log_variation = on_contour.log_variation()
    base_tilt = 1 - tilt if reflected else tilt
    with mpmath.workdps(25):
        base = _moment(run, mpmath.mpc(base_tilt))
        for height in (2 / deviation, 7 / deviation):
            bound, strongest = (float(part[0]) for part in on_contour.log_majorants(np.array([height])))
            assert strongest <= 0
            for beyond in (1.0, 1.7, 3.1):
                ratio = abs(_moment(run, mpmath.mpc(base_tilt, height * beyond)) / base)
                log_ratio = mpmath.log(ratio + mpf(10) ** -22)  # Accuracy of the direct integral.
                assert run[2] * log_ratio <= bound + run[2] * 1e-9
                assert log_ratio <= log_variation - math.log(height * beyond) + 1e-9


def _one_step_profile(sigma: mpf, rate: mpf, x: mpf) -> mpf:
    """Return delta(x) = E0(w - e^x)_+ of one sampled step.

    w is the likelihood ratio of the step.
    """
    if mpmath.exp(x) <= 1 - rate:
        return 1 - mpmath.exp(x)
    y = sigma * mpmath.log((mpmath.exp(x) - 1 + rate) / rate) + 1 / (2 * sigma)
    tail, moved = mpmath.erfc(y / mpmath.sqrt(2)) / 2, mpmath.erfc((y - 1 / sigma) / mpmath.sqrt(2)) / 2
    return (1 - rate) * tail + rate * moved - mpmath.exp(x) * tail


def _two_step_profile(sigma: float, rate: float, eps: float) -> mpf:
    """Return delta(eps) of two sampled steps, E0[w_1 delta_1(eps - L_1)], by one integral at 30 digits.

    w_1 is the likelihood ratio of the first step, L_1 = ln w_1, and delta_1 the profile of the second step.
    """
    s, p = mpf(sigma), mpf(rate)

    def integrand(y: mpf) -> mpf:
        ratio = 1 - p + p * mpmath.exp(y / s - 1 / (2 * s * s))
        return mpmath.npdf(y) * ratio * _one_step_profile(s, p, eps - mpmath.log(ratio))

    kink = []
    if mpmath.exp(mpf(eps)) > (1 - p) ** 2:  # Below this value the second step alone always exceeds.
        ratio = mpmath.exp(mpf(eps)) / (1 - p)
        if ratio > 1 - p:
            kink = [s * mpmath.log((ratio - 1 + p) / p) + 1 / (2 * s)]
    # The quadrature stops at an absolute accuracy, and delta may be 1e-40, so the integrand is scaled to about 1.
    scale = max(integrand(mpf(y)) for y in range(-13, 27))
    return scale * mpmath.quad(lambda y: integrand(y) / scale, sorted([*map(mpf, range(-13, 27, 2)), *kink]))


@pytest.mark.parametrize(
    ("sigma", "rate"), [(1.0, 0.3), thorough(0.5, 0.05), thorough(2.7, 0.015), thorough(0.8, 0.9), thorough(4.0, 1e-4)]
)
def test_two_steps_match_nested_integral(sigma: float, rate: float) -> None:
    add, remove = contour_pair(0.0, [SampledGaussianSteps(sigma, rate, 2)])
    with mpmath.workdps(22):
        for eps in (0.0, 0.3 * rate / sigma, 3.0):
            truth = _two_step_profile(sigma, rate, eps)
            bounds = add.profile(np.array([eps]))
            assert mpf(float(bounds.lower[0])) <= truth * (1 + mpf(10) ** -14)
            assert truth * (1 - mpf(10) ** -14) <= mpf(float(bounds.upper[0]))
        for eps in (0.3 * rate / sigma,):
            truth = 1 - mpmath.exp(mpf(eps)) + mpmath.exp(mpf(eps)) * _two_step_profile(sigma, rate, -eps)
            bounds = remove.profile(np.array([eps]))
            assert mpf(float(bounds.lower[0])) <= truth * (1 + mpf(10) ** -10)
            assert truth * (1 - mpf(10) ** -10) <= mpf(float(bounds.upper[0]))


def _gaussian_profile(mu: acb, eps: acb) -> acb:
    """Return delta(eps) of a Gaussian step."""

    def normal(x: acb) -> acb:
        return (-x / acb(2).sqrt()).erfc() / 2

    return normal(mu / 2 - eps / mu) - eps.exp() * normal(-mu / 2 - eps / mu)


def _gaussian_and_sampled_profiles(mu: float, sigma: float, rate: float, eps: float) -> Iterator[arb]:
    """Return delta(eps) of both directions by one integral in ball arithmetic, to about 25 digits."""
    m, s, p = acb(mu), acb(sigma), acb(rate)

    def loss(y: acb, analytic: bool) -> acb:
        return (1 - p + p * (y / s - 1 / (2 * s * s)).exp()).log(analytic)

    def density(y: acb) -> acb:
        return (-y * y / 2).exp() / (2 * acb.pi()).sqrt()

    def weigh(y: acb, analytic: bool) -> acb:
        step = loss(y, analytic)
        return density(y) * step.exp() * _gaussian_profile(m, eps - step)

    def weigh_back(y: acb, analytic: bool) -> acb:
        return density(y) * _gaussian_profile(m, eps + loss(y, analytic))

    around = (-12.0, -8.0, -3.0, 0.0, 3.0, 8.0, 12.0)
    knee = 1 / (2 * sigma) + sigma * (math.log1p(-rate) - math.log(rate))
    cuts = sorted({*around, *(y + 1 / sigma for y in around), *(knee + sigma * k for k in (-30, -8, 0, 8, 30))})
    for integrand in (weigh, weigh_back):
        pieces = (
            acb.integral(integrand, acb(left), acb(right), rel_tol=arb(2) ** -85, abs_tol=arb(2) ** -200)
            for left, right in itertools.pairwise(cuts)
        )
        yield sum(pieces, acb(0)).real


@pytest.mark.parametrize(
    ("mu", "sigma", "rate"),
    [
        thorough(1.0, 0.02, 0.01),
        thorough(0.1, 0.02, 0.001),
        (1.0, 0.3, 1 - 1e-9),
        thorough(0.3, 0.028, 0.3),
        (0.5, 1.0, 0.05),
    ],
)
def test_gaussian_and_sampled_step_match_integral(mu: float, sigma: float, rate: float) -> None:
    """Delta of a Gaussian step and a sampled one matches an integral, for rates p near 1 and for little noise.

    The log-likelihood ratio is close to ln(1 - p) there, and far outcomes matter under H1.
    """
    pair = contour_pair(mu * mu, [SampledGaussianSteps(sigma, rate, 1)])
    with ctx.workprec(130):
        for eps in (-1.0, 0.5):
            for curve, truth in zip(pair, _gaussian_and_sampled_profiles(mu, sigma, rate, eps), strict=True):
                assert truth.rel_accuracy_bits() > 72
                bounds = curve.profile(np.array([eps]))
                assert arb(float(bounds.lower[0])) <= truth * (1 + arb(10) ** -22)
                assert truth * (1 - arb(10) ** -22) <= arb(float(bounds.upper[0]))


def _random_runs(seed: int, count: int) -> list[tuple[float, float, int]]:
    rng = np.random.default_rng(seed)
    return [
        (0.3 * (100 / 0.3) ** rng.uniform(), 10 ** rng.uniform(-6, -1e-3), int(10 ** rng.uniform(0.31, 6)))
        for _ in range(count)
    ]


@sample_of(2)
@pytest.mark.parametrize("run", _random_runs(20261121, 8))
def test_quantities_of_random_runs_are_consistent(run: tuple[float, float, int]) -> None:
    """Powers and deltas keep power(alpha) <= delta(eps) + e^eps alpha, and both directions have the same curve.

    The numbers come from different contours, truncations and directions.
    """
    rng = np.random.default_rng(run[2])
    alphas, epsilons = 10 ** rng.uniform(-12, -0.4, 3), 10 ** rng.uniform(-6, 1, 3)
    add, remove = contour_pair(0.0, [SampledGaussianSteps(*run)])
    for curve in (add, remove):
        points, profile = curve.points(alphas), curve.profile(epsilons)
        assert (points.power.lower <= points.power.upper).all()
        for alpha, power in zip(alphas, points.power.lower, strict=True):
            assert (power <= profile.upper + np.exp(epsilons) * alpha * (1 + 1e-15)).all()
    mirrored = add.profile(-epsilons)
    lower = -np.expm1(epsilons) + np.exp(epsilons) * mirrored.lower
    upper = -np.expm1(epsilons) + np.exp(epsilons) * mirrored.upper
    direct = remove.profile(epsilons)
    slack = 1e-13 * np.exp(epsilons)
    assert (lower <= direct.upper + slack).all()
    assert (direct.lower <= upper + slack).all()


@pytest.mark.parametrize("run", [*RUNS[:3], *_random_runs(20261127, 2), *map(thorough, _random_runs(20261127, 6)[2:])])
def test_bounds_from_inverse_direction_hold(run: tuple[float, float, int]) -> None:
    """Upper bounds of delta and epsilon that come from contours of the opposite direction are valid."""
    rng = np.random.default_rng(run[2])
    for epsilon in 10 ** rng.uniform(-3, 1.2, 2):
        add, _ = contour_pair(0.0, [SampledGaussianSteps(*run)])
        add.profile_at(epsilon)
        remove, fresh = add.reversed(), contour_pair(0.0, [SampledGaussianSteps(*run)])[1]
        own = fresh.profile_at(epsilon)
        assert remove.profile_cap(epsilon) >= own.lower
        delta = min(max(own.upper * 10 ** rng.uniform(-1, 1), 1e-30), 0.5)
        assert remove.epsilon_cap(delta, epsilon) >= fresh.epsilon(delta).lower


def test_cached_point_equals_that_of_new_curve() -> None:
    for run in _random_runs(20261128, 5):
        for rate in (1e-6, 1e-3, 0.3):
            used, fresh = (contour_pair(0.0, [SampledGaussianSteps(*run)])[0] for _ in range(2))
            used.power_at(rate)
            points = used.points(np.array([rate])), fresh.points(np.array([rate]))
            for name in ("power", "type_two_error", "log_slope"):
                kept, new = (getattr(each, name) for each in points)
                assert (kept.lower == new.lower).all()
                assert (kept.upper == new.upper).all()
            assert used.power_at(rate) == contour_pair(0.0, [SampledGaussianSteps(*run)])[0].power_at(rate)


def test_truncations_of_different_depth_agree() -> None:
    """Enclosures of one number meet if far jumps are truncated at 10^-40, 10^-80 and 10^-160."""
    from service.privacy.composition.inversion.readings.points import read_points
    from service.privacy.composition.inversion.readings.profile import read_profile

    add, _ = contour_pair(0.0, [SampledGaussianSteps(1.0, 0.01, 1000)])
    alpha, epsilon = np.array([1e-4]), np.array([2.0])
    readings = []
    for digits in (40.0, 80.0, 160.0):
        grid = add.contours.tilt_grid(digits)
        assert grid is not None
        points = read_points(grid.for_rates(alpha)[0].contour, alpha)
        profile = read_profile(grid.for_thresholds(epsilon)[0].contour, epsilon)
        readings.append((points.lower[0, 0], points.upper[0, 0], profile.lower[0, 0], profile.upper[0, 0]))
    low_power, high_power, low_delta, high_delta = map(np.array, zip(*readings, strict=True))
    assert low_power.max() <= high_power.min()
    assert low_delta.max() <= high_delta.min()


def test_answers_do_not_depend_on_earlier_requests() -> None:
    first, second = SampledGaussianSteps(1.0, 0.01, 500), SampledGaussianSteps(2.0, 0.05, 100)
    fresh, _ = contour_pair(0.01, [first, second])
    used, _ = contour_pair(0.01, [second, first])
    used.points(np.geomspace(1e-12, 0.5, 40))
    used.profile(np.linspace(-3, 6, 25))
    used.epsilon(1e-9)
    for curve_reading in (
        lambda curve: curve.power(np.array([1e-3])).upper,
        lambda curve: curve.profile(np.array([1.5])).lower,
        lambda curve: np.array([curve.epsilon(1e-5).lower, curve.epsilon(1e-5).upper]),
    ):
        assert (curve_reading(fresh) == curve_reading(used)).all()


@pytest.mark.parametrize("steps", [10**4, 10**6, 10**9, 10**12])
def test_width_does_not_grow_with_steps(steps: int) -> None:
    add, remove = contour_pair(0.0, [SampledGaussianSteps(2 * math.sqrt(steps / 1e4), 0.01, steps)])
    for curve in (add, remove):
        power = curve.power(np.array([1e-3, 1e-12]))
        assert (power.upper / power.lower - 1 < 1e-10).all()
        epsilon = curve.epsilon(1e-5)
        assert epsilon.upper / epsilon.lower - 1 < 1e-10


@pytest.mark.parametrize("eps", [10.0, 30.0, 40.0])
def test_far_tails_keep_their_digits(eps: float) -> None:
    """Logarithms of delta keep six digits for deltas down to 1e-137 and to 1e-400.

    The runs are the cases C1 and C5 of the benchmarks.
    """
    add, _ = contour_pair(0.0, [SampledGaussianSteps(1.0, 0.01, 1000)])
    bounds = add.profile(np.array([eps]))
    assert bounds.log_lower is not None
    assert bounds.log_upper is not None
    assert bounds.log_upper[0] < -70
    assert bounds.log_upper[0] - bounds.log_lower[0] < 1e-6
    strong, _ = contour_pair(0.0, [SampledGaussianSteps(3.0, 0.02, 100_000)])
    deep = strong.profile(np.array([2.4 * eps]))
    assert deep.log_lower is not None
    assert deep.log_upper is not None
    assert deep.log_upper[0] - deep.log_lower[0] < 1e-6


@sample_of(2)
@pytest.mark.parametrize(
    "run",
    [
        (1e-4, 0.5, 10),
        (0.01, 1e-3, 1000),
        (1e15, 0.5, 10**12),
        (1.0, 5e-324, 10),
        thorough((0.3, 1e-6, 2)),
        (5.0, 1 - 1e-16, 3),
    ],
)
def test_every_quantity_is_answered_at_range_limits(run: tuple[float, float, int]) -> None:
    dear = run[1] < 1e-5 and run[2] < 10  # Contours of few rare jumps take a second for each quantity.
    for curve in contour_pair(0.0, [SampledGaussianSteps(*run)]):
        rates, epsilons = [5e-324, 1e-300, 1e-9, 0.5, 1 - 2**-53], [-1e6, -1.0, 0.0, 1e-9, 1.0, 1e6]
        points = curve.points(np.array(rates[::4] if dear else rates))
        assert (points.power.lower <= points.power.upper).all()
        assert (points.type_two_error.lower <= points.type_two_error.upper).all()
        profile = curve.profile(np.array(epsilons[::5] if dear else epsilons))
        assert (profile.lower <= profile.upper).all()
        for delta in (1e-9, 0.999) if dear else (5e-324, 1e-9, 0.999):
            epsilon = curve.epsilon(delta)
            assert 0 <= epsilon.lower <= epsilon.upper


@pytest.mark.parametrize("noise", [0.2, 0.3, 0.5])
def test_revealing_run_finds_epsilon_on_first_contour(noise: float) -> None:
    """Epsilon of a run that reveals nearly everything is found on its first contour.

    There the alias terms (copies of the integral at distant thresholds) of one pole overflow. Sums without error bounds
    still lie within those with error bounds.
    """
    add, remove = contour_pair(0.0, (SampledGaussianSteps(noise, 0.1, 5000),))
    for curve in (add, remove):
        grid = curve.contours.tilt_grid(80.0)
        assert grid is not None
        tilt = grid.for_delta(1e-5)
        at = np.array([tilt.threshold])
        with np.errstate(over="ignore"):
            sums, known = tilt.contour.approximate(at)[0], tilt.contour.integrals(at)
        assert known.lower[2] * (1 - 1e-9) <= sums[2] <= known.upper[2] * (1 + 1e-9)
        with np.errstate(over="ignore"):
            found = epsilon_on_contour(grid, tilt, 1e-5, 1e-9)
        assert found is not None
        assert found.relative_width() <= 1e-10
