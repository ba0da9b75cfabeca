"""Runs of equal pure DP steps: every quantity against sums over all losses in many digits, and against scipy far
out.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from mpmath import mpf

from service.privacy.composition.exact_sums.equal_responses import EqualResponses
from service.privacy.enclosure import Enclosure
from service.privacy.numerics.binomial_tails import BinomialTails
from service.privacy.trade_off.enclosed.logs import log_ends
from tests.privacy.response_oracles import Atoms
from tests.slow_marker import sample_of

RUNS = [
    (1, 1.0),
    (2, 1.0),
    (2, 1e-12),
    (3, 0.7),
    (4, 40.0),
    (5, 1000.0),
    (7, 1e6),
    (10, 0.1),
    (17, 3.0),
    (40, 1e-300),
    (64, 0.25),
    (101, 1.3),
    (400, 0.05),
]
RATES = [1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.03, 0.2, 0.4999, 0.5, 0.5001, 0.8, 0.97, 1 - 1e-6, 1 - 1e-12]


def digits(epsilon: float) -> int:
    """Return enough decimal digits for complements of rates of 1e-300 and for exponentials near 1."""
    return 1000 if epsilon < 1e-200 else 360


@cache
def exact(steps: int, epsilon: float) -> Atoms:
    with mpmath.workdps(digits(epsilon)):
        return Atoms.of([(epsilon, steps)])


def assert_encloses(truth: Any, found: Enclosure, width: float) -> None:
    """Check that the enclosure `found` contains `truth`, and has a relative width of at most `width`.

    If it has logarithms, both are checked for these.
    """
    assert found.lower <= truth <= found.upper
    if found.log_lower is not None and found.log_upper is not None:
        log = mpmath.log(truth) if truth > 0 else -mpmath.inf
        assert found.log_lower <= log <= found.log_upper
        assert found.log_upper - found.log_lower <= width * max(1.0, abs(float(log))) or truth == 0
    else:
        assert found.upper - found.lower <= width * max(abs(found.upper), 1e-300)


@pytest.mark.parametrize(("steps", "epsilon"), RUNS)
def test_points_match_sums_over_all_losses(steps: int, epsilon: float) -> None:
    curve, truth = EqualResponses(steps, epsilon), exact(steps, epsilon)
    rates = np.array(RATES)
    points = curve.points(rates)
    with mpmath.workdps(digits(epsilon)):
        for i, rate in enumerate(RATES):
            assert_encloses(truth.power(rate), points.power.at(i, curve.evidence), 1e-11)
            assert_encloses(truth.error(rate), points.type_two_error.at(i, curve.evidence), 1e-11)
            assert curve.power_at(rate).lower <= truth.power(rate) <= curve.power_at(rate).upper


@pytest.mark.parametrize(("steps", "epsilon"), RUNS)
def test_points_on_and_beside_vertices_match_exact_sums(steps: int, epsilon: float) -> None:
    """Powers, errors and slopes match exact sums at the vertices of the curve and at the neighbouring doubles.

    There rounding decides on which side of a vertex a rate lies.
    """
    curve, truth = EqualResponses(steps, epsilon), exact(steps, epsilon)
    with mpmath.workdps(digits(epsilon)):
        vertices = [float(alpha) for alpha, _ in truth.vertices[:: max(1, steps // 8)]]
        near = [math.nextafter(v, side) for v in vertices for side in (0.0, v, 1.0)]
        rates = [rate for rate in near if 1e-307 < rate < 1]
        points = curve.points(np.array(rates))
        slopes = points.log_slope
        for i, rate in enumerate(rates):
            power, error = points.power.at(i, curve.evidence), points.type_two_error.at(i, curve.evidence)
            assert power.lower <= truth.power(rate) <= power.upper
            assert error.lower <= truth.error(rate) <= error.upper
            step = mpf(rate) * mpf(10) ** -30
            slope = (truth.error(mpf(rate) - step) - truth.error(mpf(rate) + step)) / (2 * step)
            if epsilon < 100:  # Otherwise the quotient has no digits left.
                assert slopes.lower[i] - 1e-12 <= mpmath.log(slope) <= slopes.upper[i] + 1e-12


@pytest.mark.parametrize(("steps", "epsilon"), RUNS)
def test_profile_and_epsilon_match_exact_sums(steps: int, epsilon: float) -> None:
    curve, truth = EqualResponses(steps, epsilon), exact(steps, epsilon)
    shares = [-1.2, -0.5, -1e-3, 0.0, 1e-9, 0.1, 0.33, 0.5, 0.9, 0.999, 1.0, 1.5]
    at = np.array([share * steps * epsilon for share in shares])
    profile = curve.profile(at)
    with mpmath.workdps(digits(epsilon)):
        for i, e in enumerate(at):
            assert_encloses(truth.delta(float(e)), profile.at(i, curve.evidence), 1e-11)
        for delta in (1e-300, 1e-100, 1e-12, 1e-5, 0.01, 0.3, 0.9, 1 - 1e-6):
            found, known = curve.epsilon(delta), truth.epsilon(delta)
            assert found.lower <= known <= found.upper
            assert found.upper - found.lower <= 1e-9 * max(found.upper, 1e-300) or delta > 0.5


def test_optimal_composition_matches_published_theorem() -> None:
    """delta of k steps of pure eps-DP at the epsilons (k - 2 i) eps is a sum over binomial coefficients.

    This is Theorem 3.3 of Kairouz, Oh and Viswanath 2015.
    """
    k, eps = 30, 0.1
    curve = EqualResponses(k, eps)
    for i in range(k // 2 + 1):
        with mpmath.workdps(40):
            e = mpf(eps)
            terms = (
                mpmath.binomial(k, m) * (mpmath.exp((k - m) * e) - mpmath.exp((k - 2 * i + m) * e)) for m in range(i)
            )
            delta = mpmath.fsum(terms) / (1 + mpmath.exp(e)) ** k
            bounds = curve.profile(np.array([float((k - 2 * i) * e)]))
            slack = mpf(10) ** -13  # The loss itself is rounded.
            assert bounds.lower[0] <= delta + slack
            assert delta - slack <= bounds.upper[0]
            if i:
                assert abs(curve.epsilon(float(delta)).upper - (k - 2 * i) * e) < 1e-9


@pytest.mark.parametrize(("steps", "epsilon"), [(10**5, 0.004), (10**6, 1e-3)])
def test_long_runs_match_regularised_incomplete_betas(steps: int, epsilon: float) -> None:
    """Tails and delta of long runs match the incomplete beta function, computed in ball arithmetic.

    delta is a combination of two tails.
    """
    curve, law = EqualResponses(steps, epsilon), BinomialTails(steps, -epsilon)
    with ctx.workprec(300):
        eps = arb(epsilon)
        false, true = 1 / (1 + eps.exp()), 1 / (1 + (-eps).exp())

        def beyond(k: int, success: arb) -> arb:
            """Return P(K > k) of the binomial number K of larger losses, as a ball."""
            return success.beta_lower(k + 1, steps - k, regularized=True)

        for scores in (0.0, 5.0):
            k = law.mode + math.floor(scores * law.deviation) + 1
            tail = beyond(k, false)
            rate = float(tail)
            truth = beyond(k, true) + ((2 * k - steps) * eps).exp() * (arb(rate) - tail)
            assert_ball_inside(truth, curve.power_at(rate), 2e-10)
            loss = float((2 * k - steps) * epsilon) * (1 + 1e-9)
            if loss > 0:
                above = math.floor((loss / epsilon + steps) / 2)
                assert_ball_inside(
                    beyond(above, true) - arb(loss).exp() * beyond(above, false), curve.profile_at(loss), 1e-9
                )


def assert_ball_inside(truth: arb, found: Enclosure, width: float) -> None:
    """Check that `found` contains the truth and has at most the relative width `width`.

    The truth is a ball, which must be accurate to more than 60 bits.
    """
    assert truth.rel_accuracy_bits() > 60
    assert found.lower <= truth <= found.upper
    assert found.relative_width() <= width


def test_largest_loss_limits_power_and_delta() -> None:
    """The power of N steps of pure eps-DP is at most e^(N eps) alpha, and delta is zero from N eps on."""
    curve = EqualResponses(2, 1.0)
    assert curve.power_at(1e-30).upper <= math.exp(2) * 1e-30 * (1 + 1e-12)
    assert curve.largest_log_ratio == Enclosure.point(2.0)
    assert curve.profile_at(2.0).upper == 0
    assert curve.epsilon(0.0).upper == 2


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_random_runs_match_sums_over_all_losses(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(12):
        steps, epsilon = int(random.integers(1, 40)), float(10 ** random.uniform(-8, 1.5))
        curve = EqualResponses(steps, epsilon)
        rates = np.concatenate((10 ** random.uniform(-40, 0, 4), random.uniform(0, 1, 4)))
        points = curve.points(rates)
        epsilons = random.uniform(-1.1, 1.1, 6) * steps * epsilon
        profile = curve.profile(epsilons)
        with mpmath.workdps(360):
            truth = Atoms.of([(epsilon, steps)])
            for i, rate in enumerate(rates):
                assert_encloses(truth.power(float(rate)), points.power.at(i, curve.evidence), 1e-11)
                assert_encloses(truth.error(float(rate)), points.type_two_error.at(i, curve.evidence), 1e-11)
            for i, e in enumerate(epsilons):
                assert_encloses(truth.delta(float(e)), profile.at(i, curve.evidence), 1e-11)
            delta = float(10 ** random.uniform(-20, -0.1))
            assert curve.epsilon(delta).lower <= truth.epsilon(delta) <= curve.epsilon(delta).upper


def test_logarithms_are_enclosed_when_values_underflow() -> None:
    curve = EqualResponses(10**6, 1.0)
    error = curve.type_two_error(np.array([1e-5]))
    low, high = log_ends(error)
    assert -1e6 < low[0] <= high[0] < -4e5
    assert high[0] - low[0] < 1e-7
