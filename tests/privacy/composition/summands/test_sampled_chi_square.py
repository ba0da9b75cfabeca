"""Sampled steps with a chi-square statistic by contours: against integrals, closed forms, and lattices."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.composition.inversion.engine import contour_pair
from service.privacy.composition.summands.sampled_chi_square import TruncatedSampledChiSquare
from service.privacy.composition.summands.sampled_chi_square_contour import SampledChiSquareOnContour
from service.privacy.composition.summands.sampled_chi_square_grid import ChiSquareStep, ChiSquareSteps
from service.privacy.composition.summands.sampled_chi_square_strips import strip_at
from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.threat_models.membership_step import full_batches
from tests.slow_marker import sample_of


def _random_steps(source: random.Random, largest: float = 1e6) -> ChiSquareSteps:
    """Draw any dimension, susceptibility and rate, with batches so large that a step reveals from little to nearly
    everything.
    """
    dimension = int(math.exp(source.uniform(0, math.log(largest))))
    susceptibility = dimension * math.exp(source.uniform(-2, 2))
    mu = math.exp(source.uniform(math.log(0.02), math.log(2)))
    size = Fraction(max(2.25, 0.5 * dimension / mu**2 + susceptibility / mu**2))
    rate, number = (
        math.exp(source.uniform(math.log(1e-3), 0)),
        int(math.exp(source.uniform(math.log(2), math.log(1e5)))),
    )
    return ChiSquareSteps(dimension, susceptibility, size, rate, number)


def _moment(steps: ChiSquareSteps, z: mpmath.mpc) -> mpmath.mpc:
    """Return the moment M(z) = E0 e^{zL} of one step's loss L at 30 digits, by a trapezoidal sum over ln T.

    T is the statistic of the step.
    """
    d, k, p = mpf(steps.dimension), mpf(steps.susceptibility), mpf(steps.sample_rate)
    n = mpf(steps.effective_batch_size.numerator) / steps.effective_batch_size.denominator
    m, a, b = n * k, k / 2 - d / 2 * mpmath.log(1 - 1 / n), 1 / (2 * (n - 1))
    mean, deviation = d + m, mpmath.sqrt(2 * d + 4 * m)
    spread = float(deviation / mean)
    h = mpf(min(0.12, spread / 3))
    low = max(-14 * spread - 2, -130.0 / steps.dimension - 6) if spread < 0.2 else -130.0 / steps.dimension - 6
    high = min(18 * spread, 1 + math.log(200.0 + 30 * float(deviation)))

    def term(s: mpf) -> mpmath.mpc:
        t = mean * mpmath.exp(s)
        bessel = mpmath.log(mpmath.hyp0f1(d / 2, m * t / 4))
        log_density = (d / 2 - 1) * mpmath.log(t / 2) - t / 2 - m / 2 - mpmath.log(2) - mpmath.loggamma(d / 2) + bessel
        return mpmath.exp(log_density + z * mpmath.log(1 - p + p * mpmath.exp(a - b * t))) * t

    return h * mpmath.fsum(term(j * h) for j in range(int(low / h), int(high / h) + 1))


@sample_of(3)
@pytest.mark.parametrize(
    "steps",
    [
        ChiSquareSteps(130, 130.0, Fraction(80), 1 / 120, 1200),
        ChiSquareSteps(1, 0.7, Fraction(9, 2), 0.3, 40),
        ChiSquareSteps(2, 3.0, Fraction(30), 0.02, 10**5),
        ChiSquareSteps(7, 0.0, Fraction(5), 0.4, 12),
        ChiSquareSteps(60, 9.0, Fraction(25), 0.9, 30),
    ],
)
def test_moments_match_integrals(steps: ChiSquareSteps) -> None:
    parts = TruncatedSampledChiSquare(steps, 1.0, 40.0)
    with mpmath.workdps(30):
        for theta in (0.4,):
            on_contour = SampledChiSquareOnContour(parts, theta)
            deviation = math.sqrt(float(parts.cumulants(np.array([theta])).second[0]))
            step = 1.5 / deviation
            values = on_contour.values(step, 2)
            real = _moment(steps, mpf(theta))
            value, error = on_contour.origin
            assert abs(steps.count * mpmath.log(real) - value) <= error
            turned = _moment(steps, mpmath.mpc(theta, 2 * step)) / real
            ratio = complex(turned**steps.count / mpmath.exp(mpmath.mpc(complex(values.difference[2]))))
            assert abs(ratio - 1) <= math.expm1(float(values.error[2])) + 1e-15
            majorant = on_contour.log_majorants(np.array([2 * step]))[0][0]
            assert float(steps.count * mpmath.log(abs(turned))) <= majorant + 1e-12


def _integrand(law: ChiSquareStep, place: mpmath.mpc) -> tuple[mpmath.mpc, mpmath.mpc]:
    """Return the density of the statistic T times dT/ds, up to a constant, and the likelihood ratio, at s = `place`.

    T is l ln(1 + e^s), where l is the standard deviation of T.
    """
    d, m, p = mpf(law.degrees), mpf(law.noncentrality), mpf(law.rate)
    linear = mpmath.re(place) > 0
    whole = place + mpmath.log1p(mpmath.exp(-place)) if linear else mpmath.log1p(mpmath.exp(place))
    t = mpf(law.deviation) * whole
    density = t ** (d / 2 - 1) * mpmath.exp(-t / 2) * mpmath.hyp0f1(d / 2, m * t / 4)
    w = 1 - p + p * mpmath.exp(mpf(law.middle) - mpf(law.steepness) * (t - d - m))
    return density / (1 + mpmath.exp(-place)), w


def test_strips_bound_the_integrand() -> None:
    """At s - iq the integrand is at most its stated multiple of the value at s, on nodes and between them.

    The statistic is T = l ln(1 + e^s). The density times dT/ds grows by at most e^{Q q^2} with the stated Q, and the
    likelihood ratio by at most the stated factor.
    """
    source = random.Random(5)
    with mpmath.workdps(30):
        for _ in range(40):
            steps = _random_steps(source, 2_000)
            parts = TruncatedSampledChiSquare(steps, 1.0, 22.0)
            grid, law = parts.grid, parts.law
            a = source.uniform(0.2, 0.95) * min(grid.widest, math.pi / law.spread)
            strip = strip_at(grid, a)
            if not strip.valid:
                continue
            node = source.randrange(grid.kept)
            s = mpf(float(grid.points[node])) + source.uniform(-0.5, 0.5) * grid.spacing
            q = a * source.random()
            (density, w), (turned, w_turned) = _integrand(law, s), _integrand(law, mpmath.mpc(s, -q))
            assert mpmath.log(abs(turned) / abs(density)) <= strip.density_growth[node] * q * q + 1e-9
            change = mpmath.log(abs(w_turned) / w)
            assert strip.log_least[node] - 1e-9 <= change <= strip.log_raise[node] + 1e-9
            assert -1e-12 <= mpmath.arg(w_turned) <= strip.near[node] * q + 1e-9
            exactly = _integrand(law, mpmath.mpc(float(grid.points[node]), -a))[1]
            assert mpmath.arg(exactly) == pytest.approx(strip.argument[node], rel=1e-6, abs=1e-9)
            real = _integrand(law, mpf(float(grid.points[node])))[1]
            assert mpmath.log(abs(exactly) / real) == pytest.approx(strip.log_modulus[node], rel=1e-6, abs=1e-9)


def test_majorants_hold_at_every_height() -> None:
    source = random.Random(8)
    for _ in range(12):
        steps = _random_steps(source)
        parts = TruncatedSampledChiSquare(steps, 1.0, 22.0)
        on_contour = SampledChiSquareOnContour(parts, source.uniform(-0.5, 2.0))
        deviation = math.sqrt(float(parts.cumulants(on_contour.theta).second[0]))
        heights = np.geomspace(0.1, 12, 30) / deviation
        whole, single = on_contour.log_majorants(heights)
        assert (np.diff(whole) <= 1e-12).all()
        assert whole == pytest.approx(steps.count * single)
        values = on_contour.values(0.3 / deviation, 40)
        places = np.searchsorted(heights, np.arange(41) * 0.3 / deviation, side="right") - 1
        known = (places >= 0) & (values.error < 0.5)
        least = values.difference.real + np.log1p(-np.expm1(np.minimum(values.error, 0.5)))
        assert known.sum() >= 10
        assert (least[known] <= whole[places[known]] + 1e-12).all()


def _is_too_large(steps: ChiSquareSteps) -> bool:
    """Return whether the case is too large for the closed form."""
    return steps.effective_batch_size * steps.susceptibility * steps.count > 1e12 or steps.dimension * steps.count > 1e9


def test_rate_near_one_matches_closed_form() -> None:
    """Steps at a rate of 1 - 2^-40 match the closed form of steps on the whole data set, which add up.

    That rate changes no probability by more than 2^-40 per step.
    """
    source, rest = random.Random(4), 2.0**-40
    compared = 0
    for _ in range(9):
        steps = replace(_random_steps(source), sample_rate=1 - rest, count=int(math.exp(source.uniform(0.7, 5.5))))
        if ChiSquareStep.of(steps).spread * math.sqrt(steps.count) > 6 or _is_too_large(steps):
            continue
        add, remove = contour_pair(0.0, (steps,))
        whole = full_batches(steps.dimension, steps.susceptibility, steps.effective_batch_size, steps.count)
        slack, rates, epsilons = steps.count * rest, np.array([1e-4, 0.2]), np.array([0.0, 0.7])
        assert _meet(add.points(rates).power, whole.points(rates).power, slack)
        assert _meet(add.points(rates).type_two_error, whole.points(rates).type_two_error, slack)
        assert _meet(add.profile(epsilons), whole.profile(epsilons), slack)
        assert _meet(remove.profile(epsilons), whole.reversed().profile(epsilons), slack)
        read = add.profile(epsilons)
        assert (read.upper - read.lower <= 1e-6 * read.upper).all()
        compared += 1
    assert compared >= 4


def test_directions_share_advantage_and_limits_hold() -> None:
    source, short = random.Random(11), 0
    for _ in range(6):
        steps = _random_steps(source, 1e4)
        add, remove = contour_pair(0.0, (steps,))
        one, other = add.profile_at(0.0), remove.profile_at(0.0)
        assert one.lower <= other.upper
        assert other.lower <= one.upper
        sampled = -math.expm1(steps.count * math.log1p(-steps.sample_rate))
        assert one.lower <= sampled
        assert remove.largest_log_ratio.upper == pytest.approx(-steps.count * math.log1p(-steps.sample_rate))
        power, epsilon = remove.power_at(0.01), add.epsilon(1e-6)
        assert 0.01 <= power.upper <= 1
        assert add.profile_at(epsilon.upper).lower <= 1e-6 * (1 + 1e-9)
        assert add.profile_at(epsilon.lower).upper >= 1e-6 * (1 - 1e-9)
        short += max(one.relative_width(), power.relative_width()) <= 1e-6
    assert short >= 4


def _meet(first: EnclosureArray, second: EnclosureArray, slack: float) -> bool:
    apart = (first.lower > second.upper + slack) | (second.lower > first.upper + slack)
    return not apart.any()


def test_published_run_is_enclosed_to_ten_digits() -> None:
    """Contours enclose a published run to ten digits, for which lattices need two seconds."""
    add, _ = contour_pair(0.0, (ChiSquareSteps(650, 650.0, Fraction(400), 1 / 120, 1200),))
    for read in (add.profile_at(0.0), add.epsilon(1e-5), add.power_at(1e-3)):
        assert isinstance(read, Enclosure)
        assert read.relative_width() <= 1e-9
