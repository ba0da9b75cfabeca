"""Mixtures of shifted Gaussians by contours: against integrals, closed forms, one shift, and convolutions."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy.special import ndtr

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.inversion.loss_transform import LossTransform, TransformOnContour
from service.privacy.composition.summands.gaussian_mixture import GaussianMixtureSteps, TruncatedGaussianMixture
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps
from service.privacy.composition.summands.sampled_laplace import LaplaceSteps
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import GaussianMixturePart
from tests.slow_marker import sample_of, thorough


def _binomial(noise: float, records: int, rate: float, *, mirrored: bool = False) -> GaussianMixturePart:
    weights = tuple(math.comb(records, i) * rate**i * (1 - rate) ** (records - i) for i in range(records + 1))
    return GaussianMixturePart(noise, tuple(map(float, range(records + 1))), weights, mirrored, 2.0**-52)


def _run(part: GaussianMixturePart, count: int):
    return contour_pair(0.0, (GaussianMixtureSteps(part, count),))


def _random_part(source: random.Random) -> tuple[GaussianMixturePart, int]:
    noise = math.exp(source.uniform(math.log(0.4), math.log(80)))
    rate = math.exp(source.uniform(math.log(1e-5), math.log(0.5)))
    shifts = (0.0, *sorted({round(source.uniform(0.1, 3), 3) for _ in range(source.randint(1, 3))}))
    parts = [source.random() ** 3 + 1e-3 for _ in shifts[1:]]
    weights = (1 - rate, *(rate * part / math.fsum(parts) for part in parts))
    count = int(math.exp(source.uniform(math.log(20), math.log(1e8))))
    return GaussianMixturePart(noise, shifts, weights, source.random() < 0.5), count


def _moments(part: GaussianMixturePart) -> Callable[[mpmath.mpc], mpmath.mpc]:
    """Return the moments E0 e^{zL} of one step's loss L at 35 digits, by sums with as many nodes as needed."""
    mu = 1 / mpf(part.noise_multiplier)
    h = mpf(1) / (32 if part.noise_multiplier > 1 else 64)
    lowest = -12 - part.mirrored * 3 / part.noise_multiplier
    nodes = [k * h for k in range(int(lowest / h), int((14 + 6 / part.noise_multiplier) / h))]
    rest = 1 - mpmath.fsum(part.weights[1:])
    weights = [rest, *map(mpf, part.weights[1:])]
    moved = [mpf(shift) * mu for shift in part.shifts]

    def log_ratio(x: mpf) -> mpf:
        terms = (w * mpmath.exp(s * x - s * s / 2) for w, s in zip(weights, moved, strict=True))
        return mpmath.log(mpmath.fsum(terms))

    logs = [(log_ratio(x), log_ratio(-x) if part.mirrored else mpf(0)) for x in nodes]
    density = [(a - b, mpmath.npdf(x) * mpmath.exp(b) * h) for x, (a, b) in zip(nodes, logs, strict=True)]
    return lambda z: mpmath.fsum(weight * mpmath.exp(z * loss) for loss, weight in density)


@sample_of(3)
@pytest.mark.parametrize("seed", range(6))
@np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
def test_sums_enclose_direct_integrals(seed: int) -> None:
    """Sums over nodes enclose direct integrals: the log-moment function at a real tilt by two routines and on the
    contour.

    Majorants of the integrand and the bound of its variation hold as well.
    """
    part, count = _random_part(random.Random(seed))
    transform = LossTransform(0.0, (TruncatedGaussianMixture((GaussianMixtureSteps(part, count),), 0.1, 80.0),))
    deviation = math.sqrt(float(transform.cumulants(np.array([0.5])).second[0]))
    tilt = 0.5 + (-2.0 if seed % 2 else 2.0) / max(deviation, 0.5)
    on_contour, plain = TransformOnContour(transform, tilt), transform.cumulants(np.array([tilt]))
    value, error = on_contour.origin()
    step = 1.0 / deviation
    values = on_contour.values(step, 8)
    with mpmath.workdps(35):
        moment = _moments(part)
        at_tilt = moment(mpf(tilt))
        truth = count * mpmath.log(at_tilt)
        assert abs(mpf(value) - truth) <= error <= 1e-9 * (1 + abs(value))
        assert abs(mpf(float(plain.value[0])) - truth) <= float(plain.error[0])
        heights = np.array([1, 3, 8]) * step
        majorants = on_contour.log_majorants(heights)[0]
        for bound, k in zip(majorants, (1, 3, 8), strict=True):
            ratio = moment(mpmath.mpc(tilt, k * step)) / at_tilt
            found = mpmath.exp(mpmath.mpc(complex(values.difference[k])))
            assert abs(ratio**count - found) <= abs(found) * mpmath.expm1(float(values.error[k])) + mpf(10) ** -30
            assert count * mpmath.log(abs(ratio)) <= bound + 1e-12
            assert mpmath.log(abs(ratio)) <= on_contour.log_variation() - math.log(k * step)
        assert values.error[3] < 1e-6


def _meet(first: Enclosure, second: Enclosure) -> bool:
    return first.lower <= second.upper and second.lower <= first.upper


def _narrow(found: Enclosure, width: float = 1e-9) -> bool:
    return found.upper - found.lower <= width * found.upper


KNOWN = [
    # The part, its count, and epsilon at delta of its add and remove directions, by an independent sum to 10 digits.
    (_binomial(4.0, 1, 0.01, mirrored=True), 1000, 1e-5, (0.5613614071, None)),
    (_binomial(1.0, 1, 0.01, mirrored=True), 1000, 1e-5, (2.8434402592, None)),
    (_binomial(2.0, 1, 0.05, mirrored=True), 500, 1e-6, (5.5510035303, None)),
    (_binomial(1.0, 4, 0.01), 1000, 1e-5, (8.8991878706, None)),
    (_binomial(1.0, 8, 0.01), 1000, 1e-5, (20.8952989738, 14.8626056741)),
    (_binomial(2.0, 2, 0.01), 2000, 1e-6, (2.2002140785, 2.066369573)),
    (_binomial(2.0, 8, 0.01), 2000, 1e-6, (10.7159368736, 9.8717406931)),
]


@pytest.mark.parametrize("case", KNOWN)
def test_reference_values_are_enclosed(
    case: tuple[GaussianMixturePart, int, float, tuple[float, float | None]],
) -> None:
    """Epsilons of groups of records under Poisson sampling, and of replaced records, match reference values."""
    part, count, delta, known = case
    for curve, value in zip(_run(part, count), known, strict=True):
        found = curve.epsilon(delta)
        assert _narrow(found)
        assert value is None or found.lower * (1 - 2e-9) <= value <= found.upper * (1 + 2e-9)


def _gaussian_delta(mu: float, epsilon: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("mirrored", [False, True])
def test_certain_shift_matches_gaussian_step(mirrored: bool) -> None:
    """A mixture whose only shift is certain is a Gaussian step, also if the shift is split into two nearly
    equal ones.
    """
    count, noise = 400, 30.0
    mu = (1 + mirrored) * math.sqrt(count) / noise
    part = GaussianMixturePart(noise, (1.0,), (1.0,), mirrored)
    split = GaussianMixturePart(noise, (1.0 - 2**-40, 1.0 + 2**-40), (0.5, 0.5), mirrored)
    for curve in (*_run(part, count), *_run(split, count)):
        profile = curve.profile(np.array([0.3, 1.5]))
        expected = np.array([_gaussian_delta(mu, 0.3), _gaussian_delta(mu, 1.5)])
        assert (profile.lower <= expected * (1 + 1e-9)).all()
        assert (expected * (1 - 1e-9) <= profile.upper).all()
        assert (profile.upper - profile.lower <= 1e-9 * profile.upper).all()


@pytest.mark.parametrize("seed", range(5))
def test_single_shift_matches_sampled_gaussian_step(seed: int) -> None:
    """A mixture with one shift and a sampled Gaussian step have enclosures that meet, alone and beside other steps."""
    source = random.Random(seed)
    noise, rate = math.exp(source.uniform(0, 3.5)), math.exp(source.uniform(-5, -0.7))
    count = 200 + int((math.exp(source.uniform(-3, 2)) * noise / rate) ** 2)
    beside = (LaplaceSteps(0.3, 0.5, 20),) if seed == 4 else ()
    squares = 0.04 if seed > 2 else 0.0
    one = GaussianMixtureSteps(GaussianMixturePart(noise, (0.0, 1.0), (1 - rate, rate)), count)
    alpha = np.array([1e-6, 0.02, 0.4])
    pairs = zip(
        contour_pair(squares, (one, *beside)),
        contour_pair(squares, (SampledGaussianSteps(noise, rate, count), *beside)),
        strict=True,
    )
    for mixture, sampled in pairs:
        assert _meet(mixture.epsilon(1e-6), sampled.epsilon(1e-6))
        first, second = mixture.points(alpha).power, sampled.points(alpha).power
        assert (first.lower <= second.upper).all()
        assert (second.lower <= first.upper).all()
        assert (first.upper - first.lower <= 1e-8 * first.upper).all()


def test_replacement_is_symmetric() -> None:
    """A run under `replace_one` has one curve for both directions."""
    add, remove = _run(_binomial(1.5, 1, 0.02, mirrored=True), 300)
    assert add is remove
    alpha = float(add.points(np.array([0.01])).type_two_error.upper[0])
    assert add.points(np.array([alpha])).type_two_error.lower[0] <= 0.01 * (1 + 1e-9)


def test_enclosure_covers_errors_of_weights() -> None:
    """The enclosure for weights with an error contains the results for weights at both ends of the error.

    It is not much wider than their range.
    """
    error = 1e-7
    part = GaussianMixturePart(1.2, (0.0, 1.0, 2.0), (0.97, 0.02, 0.01), weight_error=error)
    whole = _run(part, 500)[0].epsilon(1e-5)
    for signs in itertools.product((-1, 1), repeat=2):
        heavy = [w * (1 + sign * error) for w, sign in zip((0.02, 0.01), signs, strict=True)]
        end = GaussianMixturePart(1.2, part.shifts, (1 - math.fsum(heavy), *heavy))
        found = _run(end, 500)[0].epsilon(1e-5)
        assert whole.lower <= found.lower <= found.upper <= whole.upper
    assert _narrow(whole, 1e-4)


def test_contours_agree_with_convolutions() -> None:
    """Contours agree with delta of a few steps by convolution of the law of one loss on a fine lattice."""
    part, count, h = GaussianMixturePart(2.0, (0.0, 1.0, 2.5), (0.8, 0.15, 0.05)), 24, 2.0**-11
    x = np.linspace(-14.0, 18.0, 400_001)
    moved = np.array(part.shifts) / part.noise_multiplier
    ratio = sum(w * np.exp(s * x - s * s / 2) for w, s in zip(part.weights, moved, strict=True))
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0]) * ratio
    size = 2**17
    place = np.log(ratio) / h
    low = np.floor(place).astype(np.int64)
    share = place - low
    law = np.bincount(low % size, density * (1 - share), size) + np.bincount((low + 1) % size, density * share, size)
    total = np.fft.irfft(np.fft.rfft(law) ** count, size)
    losses = np.where(np.arange(size) < size // 2, np.arange(size), np.arange(size) - size) * h
    epsilon = np.array([0.5, 2.0])
    deltas = [float(total @ np.maximum(-np.expm1(e - losses), 0.0)) for e in epsilon]
    profile = _run(part, count)[0].profile(epsilon)
    assert np.allclose(profile.upper, deltas, rtol=2e-6)
    assert (profile.upper - profile.lower <= 1e-8 * profile.upper).all()


@pytest.mark.parametrize("remove", [False, True])
def test_order_and_split_of_mixtures_do_not_matter(remove: bool) -> None:
    """Split and in any order, the same steps have the same enclosure. More noise in one of them reveals less."""
    parts = [_binomial(1.0 + 0.01 * i, 1 + i % 3, 0.01, mirrored=i % 2 == 0) for i in range(9)]
    steps = [GaussianMixtureSteps(part, 40) for part in parts]
    halves = [GaussianMixtureSteps(part, 20) for part in (*parts, *parts[::-1])]
    whole, split = (contour_pair(0.0, run)[remove].epsilon(1e-5) for run in (steps, halves))
    assert _meet(whole, split)
    assert _narrow(whole)
    assert _narrow(split)
    quieter = [*steps[:-1], GaussianMixtureSteps(_binomial(1.2, 3, 0.01, mirrored=True), 40)]
    assert contour_pair(0.0, quieter)[remove].epsilon(1e-5).upper < whole.lower


@sample_of(1)
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("seed", [0, thorough(1)])
def test_many_shifts_need_little_memory(seed: int, mirrored: bool) -> None:
    """Mixtures of many shifts need little memory, because nodes are evaluated in blocks; all at once would need a
    gigabyte.
    """
    source = random.Random(seed)
    part = _binomial(source.uniform(0.18, 0.22), source.randint(110, 130), source.uniform(0.4, 0.6), mirrored=mirrored)
    tracemalloc.start()
    try:
        _run(part, source.randint(1000, 5000))[0].points(np.array([1e-3]))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 200 * 2**20
