"""Curves of two chi-square laws against 50 digits: Bessel ratios, weak curves, deep tails, linear likelihood ratios."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.bessel import FIRST_VARIATION, STEEPNESS, TERMS, log_0f1, polynomials
from service.privacy.numerics.chi_square.gain import log_tail_gain
from service.privacy.threat_models.glrt import Glrt
from service.privacy.trade_off.chi_square.curve import ChiSquareTradeOff
from service.privacy.trade_off.chi_square.ratio import AbstractLogRatio, BesselLogRatio, LinearLogRatio
from service.privacy.trade_off.chi_square.scaled_law import ScaledChiSquare
from service.privacy.trade_off.enclosed.ulps import around
from service.privacy.trade_off.pair import TradeOffPair
from tests.slow_marker import sample_of

DIGITS = 60


def log_0f1_truth(order: float, z: float) -> mpf:
    """Compute ln 0F1 by the definition of I_nu, or by the series if the order is large."""
    with mp.workdps(DIGITS):
        a, z_exact = mpf(order), mpf(z)
        if z == 0 or order > 1e4:
            return mpmath.log(mpmath.hyp0f1(a, z_exact))
        bessel = mpmath.besseli(a - 1, 2 * mpmath.sqrt(z_exact))
        return mpmath.loggamma(a) - (a - 1) / 2 * mpmath.log(z_exact) + mpmath.log(bessel)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 5.0, 32.0, 32.5, 33.0, 64.5, 1290.0, 5e5, 5e8])
def test_log_0f1_matches_many_digits(order: float) -> None:
    z = np.array([0.0, 1e-30, 1e-8, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, 1e9, *((1e14, 1e20) if order < 1e4 else ())])
    value, error, slope = log_0f1(order, z)
    for place, argument in enumerate(z):
        truth = log_0f1_truth(order, float(argument))
        with mp.workdps(DIGITS):
            assert abs(mpf(float(value[place])) - truth) <= float(error[place])
    assert (error <= 60 * 2.0**-53 * np.minimum(z / order, 2 * np.sqrt(z))).all()
    near = log_0f1(order, z[4:] * (1 + 1e-6))[0]
    assert np.allclose((near - value[4:]) / (1e-6 * z[4:]), slope[4:], rtol=1e-3)


def test_polynomial_bounds_of_expansion_hold() -> None:
    """Check the bounds of |U_12'| and of the variation of U_1 on [0, 1], for the Debye polynomials U_k of Bessel
    functions.

    Bernstein coefficients bound a polynomial on ever smaller intervals.
    """
    twelfth, first = (bernstein_of_derivative(polynomials()[n]) for n in (TERMS, 1))
    pieces = [twelfth]
    for _ in range(30):
        pieces = [half for piece in pieces if max(map(abs, piece)) > STEEPNESS for half in halves(piece)]
    assert not pieces
    pieces = [first]
    for _ in range(9):
        pieces = [half for piece in pieces for half in halves(piece)]
    assert sum(max(map(abs, piece)) for piece in pieces) / len(pieces) <= FIRST_VARIATION


def bernstein_of_derivative(polynomial: tuple[Fraction, ...]) -> list[Fraction]:
    coefficients = [power * c for power, c in enumerate(polynomial)][1:]
    degree = len(coefficients) - 1
    shares = [[Fraction(math.comb(i, k), math.comb(degree, k)) for k in range(i + 1)] for i in range(degree + 1)]
    return [sum((share * c for share, c in zip(row, coefficients, strict=False)), Fraction(0)) for row in shares]


def halves(bernstein: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
    """Return the coefficients on both halves by De Casteljau's algorithm. They bound the polynomial there."""
    left, right, row = [bernstein[0]], [bernstein[-1]], bernstein
    while len(row) > 1:
        row = [(before + after) / 2 for before, after in pairwise(row)]
        left.append(row[0])
        right.append(row[-1])
    return left, right[::-1]


@sample_of(5)
@pytest.mark.parametrize("degrees", [1.0, 2.0, 7.0, 100.0])
@pytest.mark.parametrize("noncentrality", [1e-4, 0.1, 5.0, 300.0])
def test_log_tail_gain_matches_many_digits(degrees: float, noncentrality: float) -> None:
    mean, deviation = degrees + noncentrality, math.sqrt(2 * degrees + 4 * noncentrality)
    x = np.array([0.3 * degrees, mean, mean + 5 * deviation, mean + 20 * deviation])
    low, high = log_tail_gain(degrees, noncentrality, x)
    for place, point in enumerate(x):
        with mp.workdps(DIGITS):
            t, half = mpf(float(point)), mpf(degrees) / 2
            gain = noncentral_tail(half, mpf(noncentrality), t, "add") - noncentral_tail(half, mpf(0), t, "add")
            assert float(low[place]) <= mpmath.log(gain) <= float(high[place])
    assert (high[:3] - low[:3] < 1e-11).all()


def test_log_tail_gain_is_positive_for_indistinguishable_laws() -> None:
    low, high = log_tail_gain(3.0, 1e-30, np.array([3.0]))
    # The first term of the series.
    with mp.workdps(DIGITS):
        half = mpf(3) / 2
        truth = mpmath.log(mpmath.exp(half * mpmath.log(half) - half) / mpmath.gamma(half + 1) * mpf(1e-30) / 2)
    assert float(low[0]) <= truth <= float(high[0])
    assert high[0] - low[0] < 1e-12


def glrt(dimension: int, noise: float) -> TradeOffPair:
    return Glrt(dimension=dimension).curves(Gaussian(noise_multiplier=noise))


def delta_truth(dimension: int, noise: float, eps: float, direction: str) -> mpf:
    """Compute delta by the tails at the root of the likelihood ratio, with 60 digits."""
    with mp.workdps(DIGITS):
        noncentrality = 1 / mpf(noise) ** 2
        a, level = mpf(dimension) / 2, (eps if direction == "add" else -eps) + noncentrality / 2

        def excess(root: mpf) -> mpf:
            return mpmath.log(mpmath.hyp0f1(a, noncentrality * root**2 / 4)) - level

        low, high = mpf(0), mpf(1)
        while excess(high) < 0:
            high *= 2
        root = mpmath.findroot(excess, (low, high), solver="anderson", tol=mpf(10) ** -50)
        t = root**2
        present, absent = noncentral_tail(a, noncentrality, t, direction), noncentral_tail(a, mpf(0), t, direction)
        if direction == "add":
            return present - mpmath.exp(eps) * absent
        return absent - mpmath.exp(eps) * present


def noncentral_tail(a: mpf, noncentrality: mpf, t: mpf, direction: str) -> mpf:
    total, weight, j = mpf(0), mpmath.exp(-noncentrality / 2), 0
    while True:
        ends = (t / 2, mpmath.inf) if direction == "add" else (0, t / 2)
        term = weight * mpmath.gammainc(a + j, *ends, regularized=True)
        total += term
        j += 1
        weight *= noncentrality / 2 / j
        if weight == 0 or (j > noncentrality and term < total * mpf(10) ** -55):
            return total


@pytest.mark.parametrize(
    ("dimension", "noise", "eps", "direction"),
    [
        (1, 1.0, 0.0, "add"),
        (1, 1.0, 12.0, "add"),
        (1, 1.0, 0.45, "remove"),
        (3, 100.0, 0.0, "add"),
        (3, 100.0, 1e-4, "add"),
        (3, 100.0, 2e-5, "remove"),
        (30, 100.0, 3e-5, "add"),
        (30, 1e6, 1e-13, "add"),
        (30, 1e6, 0.0, "remove"),
        (2, 0.5, 30.0, "add"),
        (50, 0.5, 1.5, "remove"),
        (1, 100.0, 0.0635, "add"),
    ],
)
def test_delta_matches_many_digits(dimension: int, noise: float, eps: float, direction: str) -> None:
    truth = delta_truth(dimension, noise, eps, direction)
    found = getattr(glrt(dimension, noise), direction).profile(np.array([eps]))
    assert found.log_lower is not None
    assert found.log_upper is not None
    with mp.workdps(DIGITS):
        assert float(found.log_lower[0]) <= mpmath.log(truth) <= float(found.log_upper[0])
    deep = float(mpmath.log(truth)) < -600
    assert found.log_upper[0] - found.log_lower[0] <= (1e-7 if deep else 1e-9)


def test_deep_tails_match_logarithms() -> None:
    with mp.workdps(DIGITS):
        truth = mpmath.log(delta_truth(1, 1.0, 40.0, "add"))
    found = glrt(1, 1.0).add.profile(np.array([40.0]))
    assert found.log_lower is not None
    assert found.log_upper is not None
    assert truth < -750
    assert found.log_lower[0] <= float(truth) <= found.log_upper[0]
    assert found.log_upper[0] - found.log_lower[0] < 1e-9


@pytest.mark.parametrize("shift", [0.3, 1.0, 4.0])
def test_one_dimension_matches_integration(shift: float) -> None:
    """In one dimension the curve is that of the test that rejects for |y| > c.

    y has the law N(0, 1) under H0 and N(shift, 1) under H1.
    """
    curve = glrt(1, 1 / shift).add
    for cut in (0.2, 1.5, 5.0):
        with mp.workdps(30):
            alpha = 2 * mpmath.quad(mpmath.npdf, [cut, mpmath.inf])
            power = mpmath.quad(lambda y: mpmath.npdf(y, shift, 1), [cut, cut + 8, mpmath.inf])
            power += mpmath.quad(lambda y: mpmath.npdf(y, shift, 1), [-mpmath.inf, -cut - 8, -cut])
        read = curve.power_at(float(alpha))
        assert read.lower * (1 - 1e-14) <= float(power) <= read.upper * (1 + 1e-14)


def test_general_ratio_matches_closed_form_in_one_dimension() -> None:
    """The log-likelihood ratio of the general formula (0F1 with a = 1/2) matches ln cosh of the closed form.

    Its inverse function agrees with the ratio for other degrees of freedom too.
    """
    t = np.geomspace(1e-12, 1e4, 60)
    for noncentrality in (1e-6, 1.0, 900.0):
        ratio = BesselLogRatio(1.0, Enclosure.point(noncentrality))
        low, high = ratio.at(t)
        value, error, _ = log_0f1(0.5, 0.25 * noncentrality * t)
        assert (low <= value - 0.5 * noncentrality + error + 1e-15 * noncentrality).all()
        assert (high >= value - 0.5 * noncentrality - error - 1e-15 * noncentrality).all()
        for degrees in (1.0, 6.0, 3000.0):
            check_inverse(BesselLogRatio(degrees, Enclosure.point(noncentrality)), t)


def check_inverse(ratio: AbstractLogRatio, t: FloatArray) -> None:
    low, high = ratio.at(t)
    again_low, again_high = ratio.at(ratio.inverse(0.5 * (low + high)))
    slack = 1e-12 * np.abs(low) + 1e-12 * abs(ratio.at_zero.upper)
    assert (again_low - slack <= high).all()
    assert (low - slack <= again_high).all()


def membership_step(degrees: float, effective: int, susceptibility: float) -> ChiSquareTradeOff:
    """Return the curve of one step against the membership adversary, a chi-square test that rejects small values.

    The laws are chi2'_d(N K), and (N - 1)/N times chi2'_d((N - 1) K), for d dimensions, the effective batch size N and
    the susceptibility K.
    """
    intercept = around((susceptibility - degrees * math.log1p(-1 / effective)) / 2, 8)
    return ChiSquareTradeOff(
        ScaledChiSquare(degrees, Enclosure.point(effective * susceptibility)),
        ScaledChiSquare(
            degrees, Enclosure.point((effective - 1) * susceptibility), around((effective - 1) / effective)
        ),
        LinearLogRatio(intercept, around(0.5 / (effective - 1))),
        Enclosure.point(math.inf),
    )


@pytest.mark.parametrize(
    ("degrees", "effective", "susceptibility"), [(2.0, 5, 2.0), (50.0, 5, 0.0), (650.0, 400, 650.0)]
)
def test_linear_log_ratios_are_slopes_of_their_curves(degrees: float, effective: int, susceptibility: float) -> None:
    curve = membership_step(degrees, effective, susceptibility)
    rates = np.array([1e-6, 1e-3, 0.1, 0.5, 0.9])
    for each in (curve, curve.reversed()):
        points = each.points(rates)
        assert_slope(each.power(rates * (1 - 1e-4)), each.power(rates * (1 + 1e-4)), points.log_slope, rates)
        chords = each.profile(points.log_slope.upper)
        reached = points.power.upper - np.exp(points.log_slope.upper) * rates
        assert np.allclose(chords.upper, reached, rtol=1e-8, atol=1e-12)
        assert each.evidence == Evidence.CERTIFIED


def assert_slope(left: EnclosureArray, right: EnclosureArray, log_slope: EnclosureArray, rates: FloatArray) -> None:
    chord = np.log((right.upper - left.upper) / (2e-4 * rates))
    assert np.allclose(chord, log_slope.upper, atol=1e-4)


def test_linear_log_ratios_match_densities() -> None:
    """Log-likelihood ratios match ln of the quotient of both densities of the statistic.

    For two dimensions the densities have Bessel functions.
    """
    degrees, effective, susceptibility = 2.0, 5, 2.0
    with mp.workdps(40):

        def density(t: mpf, noncentrality: mpf) -> mpf:
            return mpmath.exp(-(t + noncentrality) / 2) / 2 * mpmath.besseli(0, mpmath.sqrt(noncentrality * t))

        scale = mpf(effective - 1) / effective
        for t in (0.5, 6.0, 30.0):
            present = density(t / scale, mpf(effective - 1) * susceptibility) / scale
            truth = mpmath.log(present / density(mpf(t), mpf(effective) * susceptibility))
            intercept = around((susceptibility - degrees * math.log1p(-1 / effective)) / 2, 8)
            low, high = LinearLogRatio(intercept, around(0.5 / (effective - 1))).at(np.array([t]))
            assert float(low[0]) <= truth <= float(high[0])
