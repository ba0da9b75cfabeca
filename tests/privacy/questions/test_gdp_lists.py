"""mu of Gaussian DP from lists of the profile, against polygons of exact fractions, and lists against single values."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import Final

import numpy as np
import pytest
from numpy.random import Generator
from scipy import special

from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.shuffled.pairs import blanket, clones, own_value, third_value
from service.privacy.questions import gaussian_dp
from service.privacy.questions.gaussian_profile import gaussian_mu
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from service.privacy.trade_off.shuffled.curves import MeanCurve, OnesCurve, WorstCurve
from service.privacy.trade_off.shuffled.mean_contour import MeanContour
from service.privacy.trade_off.shuffled.mean_form import MeanForm, exponential
from service.privacy.trade_off.shuffled.ones import Ones
from service.privacy.trade_off.shuffled.ones_list import ones_log_deltas, ones_tests
from tests.slow_marker import thorough

SEED: Final = 20261128
RANGES: Final = ((1e-9, 1e-9), (1e-4, 1e-6), (0.01, 0.05))

Law = list[tuple[Fraction, Fraction]]
"""Masses of all outcomes under H0 and under H1."""


def _ones_law(ones: Ones) -> Law:
    a = Fraction(float(ones.ratio)) / (1 + Fraction(float(ones.ratio)))
    masses = [Fraction(1)]
    for chance in [a] * ones.others + [1 - a] * ones.swapped().others:
        masses = [
            (masses[j] * (1 - chance) if j < len(masses) else 0) + (masses[j - 1] * chance if j else 0)
            for j in range(len(masses) + 1)
        ]
    before, after = [Fraction(0), *masses], [*masses, Fraction(0)]
    return [((1 - a) * x + a * y, a * x + (1 - a) * y) for x, y in zip(before, after, strict=True)]


def _three_categories(form: MeanForm) -> Law:
    n, found = form.reports, Law()
    for first in range(n + 1):
        for second in range(n - first + 1):
            counts = (first, second, n - first - second)
            mass = Fraction(comb(n, first) * comb(n - first, second))
            for weight, count in zip(form.weights, counts, strict=True):
                mass *= weight**count
            absent, present = (
                mass * sum(count * ratio for count, ratio in zip(counts, ratios, strict=True)) / n
                for ratios in (form.absent, form.present)
            )
            found.append((absent, present))
    return found


def _exact_mu(law: Law, rate_min: float, error_min: float) -> float:
    """Return mu over a range from all corners of the polygon and from both ends of the range."""
    law = sorted((each for each in law if sum(each) > 0), key=lambda each: each[1] / sum(each), reverse=True)
    points, rate, power = [(Fraction(0), Fraction(0))], Fraction(0), Fraction(0)
    for absent, present in law:
        rate, power = rate + absent, power + present
        points.append((rate, power))
    least, most = Fraction(rate_min), 1 - Fraction(error_min)
    corners = list[tuple[Fraction, Fraction]]()
    for (a, p), (b, q) in pairwise(points):
        if least <= b and q <= most:
            corners.append((b, q))
        if a < least < b:
            corners.append((least, p + (q - p) * (least - a) / (b - a)))
        if p < most < q:
            corners.append((a + (b - a) * (most - p) / (q - p), most))
    inside = [(a, p) for a, p in corners if least <= a < 1 and p <= most]
    return max((_quantile(p) - _quantile(a) for a, p in inside), default=0.0)


def _quantile(chance: Fraction) -> float:
    return float(special.ndtri(float(chance)) if chance < 0.5 else -special.ndtri(float(1 - chance)))


def _ratio(random: Generator) -> Fraction:
    return Fraction(math.exp(math.exp(random.uniform(math.log(0.2), math.log(6.0)))))


def _mean_form(random: Generator, reports: int) -> MeanForm:
    p, options = _ratio(random), int(random.integers(3, 12))
    forms = (
        clones(reports, p),
        blanket(reports, options, p),
        third_value(reports, options, p),
        own_value(reports, options, p),
    )
    return forms[int(random.integers(4))]


def _encloses(curve: AbstractTradeOff, law: Law, width: float) -> None:
    for rate_min, error_min in RANGES:
        found = gaussian_dp.mu(curve, rate_min, error_min).value
        exact = _exact_mu(law, rate_min, error_min)
        assert found.lower - 1e-12 <= exact <= found.upper + 1e-12
        if rate_min == error_min:
            assert found.upper - found.lower <= width * found.upper
        only = gaussian_dp.mu(curve, rate_min, error_min, upper=False).value
        assert only.lower <= exact + 1e-12
        assert gaussian_dp.mu(curve, rate_min, error_min, lower=False).value.upper >= exact - 1e-12


@pytest.mark.parametrize("seed", [*range(1), *map(thorough, range(1, 40))])
def test_mu_of_ones_is_that_of_the_polygon(seed: int) -> None:
    random = np.random.default_rng([SEED, 1, seed])
    reports = int(random.integers(5, 20))
    ones = Ones(reports, int(random.integers(0, reports)), _ratio(random))
    _encloses(OnesCurve(ones), _ones_law(ones), 1e-6)


@pytest.mark.parametrize("seed", [*range(1), *map(thorough, range(1, 20))])
def test_mu_of_a_mean_form_is_that_of_the_polygon(seed: int) -> None:
    random = np.random.default_rng([SEED, 2, seed])
    form = clones(int(random.integers(4, 10)), _ratio(random))
    _encloses(MeanCurve(form), _three_categories(form), math.inf)


@pytest.mark.parametrize("seed", [*range(3), *map(thorough, range(3, 30))])
def test_mu_of_the_worst_of_both_directions_is_that_of_one(seed: int) -> None:
    random = np.random.default_rng([SEED, 3, seed])
    ones = Ones(int(10 ** random.uniform(2, 8)), 0, _ratio(random))
    curve = OnesCurve(ones)
    worst = gaussian_dp.mu(WorstCurve((curve, curve.reversed())), 1e-9, 1e-9)
    one = gaussian_dp.mu(curve, 1e-9, 1e-9)
    for first, second in ((worst.value, one.value), (worst.global_mu, one.global_mu)):
        assert first.lower <= second.upper
        assert second.lower <= first.upper
    assert worst.value.upper - worst.value.lower <= 1e-3 * worst.value.upper


@pytest.mark.parametrize("seed", [*range(6), *map(thorough, range(6, 100))])
def test_lists_of_a_mean_form_meet_single_values(seed: int) -> None:
    random = np.random.default_rng([SEED, 4, seed])
    form = _mean_form(random, int(10 ** random.uniform(1, 9)))
    contour = MeanContour(form)
    top = math.log(form.largest_ratio)
    scale = min(2.5 * math.exp(contour.rough_log_delta(0.0)), top)
    c = np.minimum(scale * np.sort(random.uniform(0, 8, size=30)), 0.999 * top)
    low, high = contour.log_deltas(c)
    for at, least, most in zip(c.tolist(), low.tolist(), high.tolist(), strict=True):
        known_least, known_most = contour.log_deltas(np.array([at]))
        assert least <= known_most[0] + 1e-14
        assert known_least[0] <= most + 1e-14
    assert float((high - low)[c < 3 * scale].max(initial=0.0)) < 0.05


@pytest.mark.parametrize("seed", [*range(6), *map(thorough, range(6, 100))])
def test_lists_of_ones_meet_single_values_and_tests_are_attained(seed: int) -> None:
    random = np.random.default_rng([SEED, 5, seed])
    reports = int(10 ** random.uniform(1, 9))
    # Below about 1e-3, p - 1 has fewer digits than p.
    p = exponential(10 ** random.uniform(-8, -1)) if seed % 2 else _ratio(random)
    ones = Ones(reports, int(random.integers(0, reports)), p)
    curve = OnesCurve(ones)
    c = np.minimum(curve.scale * random.uniform(0, 8, size=12), 0.999 * math.log(ones.ratio))
    low, high = ones_log_deltas(ones, c)
    tests = ones_tests(ones, c)
    for at, least, most in zip(c.tolist(), low.tolist(), high.tolist(), strict=True):
        known = ones.log_delta(at)
        assert least <= known[1]
        assert known[0] <= most
        # No test is above a tangent.
        assert float((tests.power - math.exp(at) * tests.rate).max()) <= math.exp(known[1]) * (1 + 1e-12)


def test_mu_of_a_gaussian_profile_is_its_parameter() -> None:
    random = np.random.default_rng([SEED, 6])
    for mu in (10 ** random.uniform(-6, 0.7, size=40)).tolist():
        c = mu * random.uniform(0, 6, size=5)
        profile = gaussian_curve(Enclosure.point(mu)).profile(c)
        found = gaussian_mu(c, np.log(profile.upper))
        assert np.abs(found / mu - 1).max() < 1e-8
