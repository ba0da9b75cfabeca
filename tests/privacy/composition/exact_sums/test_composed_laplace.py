"""Runs of equal Laplace steps: exact sums against alternating sums in many digits, convolutions, and the lattice."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy import special

from service.privacy.composition.exact_sums.laplace_reach import can_sum, log_excess, uniforms_kept
from service.privacy.composition.planning.choose import pair, plan
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.mechanisms.neighbours import ONE_REPLACED
from service.privacy.numerics.bernstein import hyperbolic_moments, moving_integrals, right_parts, series_length
from service.privacy.questions import gaussian_dp
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends
from tests.privacy.cases import built, laplace
from tests.slow_marker import sample_of, thorough

DIGITS = 90
GOOD = 1e-10


def curve(noise: float, steps: int) -> AbstractTradeOff:
    found = pair(built({"type": "repeated", "mechanism": laplace(noise), "steps": steps}))
    assert found.add.method == "closed_form"
    assert found.add is found.remove
    return found.add


class Exact:
    """Tails of the loss of N Laplace steps in many digits, by truncated powers.

    The loss is e (2 V - N), where e is the largest loss of a step and V the sum of N numbers in [0, 1], one for each
    step. Under H0 the number of a step is 0 with probability 1/2, 1 with probability e^-e/2, or in between with the
    density (e/2) e^{-e x}. The probability that j given steps are in between and that the sum of their numbers exceeds
    x is 2^-j sum_i (-1)^i C(j, i) e^{-e i} Q(j, e (x - i)_+), with binomial coefficients C and the regularised gamma
    function Q. The terms alternate and are much larger than their sum.
    """

    def __init__(self, noise: float, steps: int) -> None:
        self.e, self.steps = 1 / mpf(noise), steps
        self._powers = [mpmath.exp(-self.e * k) for k in range(steps + 1)]

    def null_tail(self, v: mpf, *, closed: bool = False) -> mpf:
        """Return P0(V > v), or P0(V >= v) if `closed`, where the loss of the N steps is e (2 V - N).

        e is the largest loss of a step.
        """
        total, gammas = mpf(0), self._gammas(v)
        for k in range(self.steps + 1):
            for j in range(self.steps - k + 1):
                weight = math.comb(self.steps, j) * math.comb(self.steps - j, k)
                weight *= mpf(2) ** -(self.steps - j) * self._powers[k]
                total += weight * self._inner_tail(j, v - k, closed, [at[j] for at in gammas[k:]])
        return total

    def _inner_tail(self, j: int, x: mpf, closed: bool, gammas: list[mpf]) -> mpf:
        if j == 0:
            return mpf(x < 0 or (closed and x == 0))
        terms = ((-1) ** i * math.comb(j, i) * self._powers[i] * gammas[i] for i in range(j + 1))
        return mpmath.fsum(terms) / 2**j

    def _gammas(self, v: mpf) -> list[list[mpf]]:
        """Return the regularised gamma function Q(j, y) at y = e (v - m)_+ for every m and j up to the number of steps.

        Q(j, y) = e^-y sum_{q < j} y^q/q!, and e is the largest loss of a step.
        """
        found: list[list[mpf]] = []
        for m in range(self.steps + 1):
            y = self.e * max(v - m, mpf(0))
            term, sums = mpmath.exp(-y), [mpf(0)]
            for q in range(self.steps):
                sums.append(sums[-1] + term)
                term *= y / (q + 1)
            found.append(sums)
        return found

    def point(self, v: mpf, *, closed: bool = False) -> tuple[mpf, mpf, mpf, mpf]:
        """Return alpha, power, 1 - alpha and type II error of the test that rejects if V > v, or V >= v if `closed`."""
        alpha, error = self.null_tail(v, closed=closed), self.null_tail(self.steps - v, closed=not closed)
        return alpha, 1 - error, 1 - alpha, error

    def slope(self, v: mpf) -> mpf:
        return mpmath.exp(self.e * (2 * v - self.steps))

    def delta(self, epsilon: float) -> mpf:
        v = (mpf(epsilon) / self.e + self.steps) / 2
        alpha, power, _, _ = self.point(v)
        return power - mpmath.exp(mpf(epsilon)) * alpha


@cache
def exact(noise: float, steps: int) -> Exact:
    return Exact(noise, steps)


def assert_encloses(truth: Any, found: Enclosure, width: float = GOOD) -> None:
    assert found.evidence is Evidence.CERTIFIED
    lower = mpmath.exp(found.log_lower) if found.log_lower is not None and found.lower < 1e-290 else mpf(found.lower)
    upper = mpmath.exp(found.log_upper) if found.log_upper is not None and found.lower < 1e-290 else mpf(found.upper)
    assert lower <= truth <= upper
    assert upper - lower <= width * upper


RUNS = [(1.0, 2), (0.2, 3), (10.0, 7), (3.0, 16), (0.7, 12), (500.0, 9), (0.05, 4)]


@sample_of(14)
@pytest.mark.parametrize(("noise", "steps"), RUNS)
@pytest.mark.parametrize("share", [0.03, 0.29, 0.5, 0.618, 0.91, 0.999])
def test_points_between_atoms_match_exact_sums(noise: float, steps: int, share: float) -> None:
    found = curve(noise, steps)
    with mpmath.workdps(DIGITS):
        truth = exact(noise, steps)
        v = mpf(share) * steps
        alpha, power, rest, error = truth.point(v)
        if alpha > mpf("0.5"):
            rate = 1 - float(rest)
            excess = (1 - mpf(rate)) - rest
        else:
            rate = float(alpha)
            excess = alpha - mpf(rate)
        # The curve equals its tangent up to the square of the rounding of the rate.
        assert_encloses(power - truth.slope(v) * excess, found.power_at(rate))
        at = found.type_two_error(np.array([rate])).at(0, found.evidence)
        assert_encloses(error + truth.slope(v) * excess, at)
        slope = found.points(np.array([rate])).log_slope
        c = mpmath.log(truth.slope(v))
        assert slope.lower[0] - 1e-9 * abs(c) <= c <= slope.upper[0] + 1e-9 * abs(c)


@pytest.mark.parametrize(("noise", "steps"), RUNS)
def test_randomised_tests_at_atoms_match_exact_sums(noise: float, steps: int) -> None:
    found = curve(noise, steps)
    with mpmath.workdps(DIGITS):
        truth = exact(noise, steps)
        for k in range(steps // 2, steps + 1, max(1, steps // 5)):
            (low, power, _, error), (high, *_) = truth.point(mpf(k)), truth.point(mpf(k), closed=True)
            rate = float(low + mpf("0.37") * (high - low))
            gained = truth.slope(mpf(k)) * (mpf(rate) - low)
            assert_encloses(power + gained, found.power_at(rate))
            assert_encloses(error - gained, found.type_two_error(np.array([rate])).at(0, found.evidence))


@pytest.mark.parametrize(("noise", "steps"), RUNS)
@pytest.mark.parametrize("share", [-1.3, -0.7, 0.0, 0.13, 0.5, 0.93])
def test_profile_and_epsilon_match_exact_sums(noise: float, steps: int, share: float) -> None:
    found, epsilon = curve(noise, steps), share * steps / noise
    with mpmath.workdps(DIGITS):
        truth = exact(noise, steps).delta(epsilon)
        assert_encloses(truth, found.profile_at(epsilon))
        if epsilon > 0 and truth < 0.99:
            assert_encloses(mpf(epsilon), found.epsilon(float(truth)), width=1e-8)


def test_two_steps_match_integration() -> None:
    """P0(L1 + L2 > c) for the losses of two Laplace steps agrees with an integral over the first loss.

    The integral shares no formula with the sums over uniform numbers.
    """
    noise, c = 1.7, 0.4
    with mpmath.workdps(25):
        e = 1 / mpf(noise)

        def one(x: mpf) -> mpf:
            """Return P0(L > x) of the loss L of one step."""
            return mpf(0) if x >= e else mpf(1) if x < -e else mpmath.exp(-(x + e) / 2) / 2

        inner = mpmath.quad(lambda loss: mpmath.exp(-(loss + e) / 2) / 4 * one(c - loss), [-e, c - e, e])
        alpha = one(c + e) / 2 + mpmath.exp(-e) / 2 * one(c - e) + inner
        truth = exact(noise, 2).null_tail((c / e + 2) / 2)
        assert abs(alpha / truth - 1) < mpf(10) ** -18


@sample_of(4)
@pytest.mark.parametrize(("noise", "steps"), [(10.0, 100), (30.0, 1000), (0.5, 190), (1e3, 2000)])
@pytest.mark.parametrize("width", [0.7, 1e-3])
def test_profile_in_last_cell_matches_closed_form(noise: float, steps: int, width: float) -> None:
    """Delta far below the smallest double matches a closed form near the largest loss.

    The loss of N steps is e (2 V - N), with the largest loss e of a step and a sum V of N numbers in [0, 1]. With N - V
    = u < 1, V has the density sum_j C(N, j) e^j u^{j-1}/(j-1)! and a point mass at u = 0, both times 2^-N. The factor
    for H0 is e^{-e (N - u)}, and that for H1 is e^{-e u}.
    """
    found = curve(noise, steps)
    with mpmath.workdps(60):
        e = 1 / mpf(noise)
        epsilon = float(e * (steps - 2 * mpf(width)))
        h = (steps - mpf(epsilon) / e) / 2

        terms = [mpmath.binomial(steps, j) * e**j / mpmath.factorial(j - 1) for j in range(1, 70)]

        def density(u: mpf) -> mpf:
            value = mpf(0)
            for term in reversed(terms):
                value = value * u + term
            return value

        def gain(u: mpf) -> mpf:
            return mpmath.exp(-e * u) - mpmath.exp(e * (u - 2 * h))

        whole = gain(mpf(0)) + mpmath.quad(lambda u: density(u) * gain(u), [0, h])
        assert_encloses(whole / mpf(2) ** steps, found.profile_at(epsilon), width=1e-6)
        if e * steps < 200:
            rate = float(mpf(2) ** -steps * mpmath.exp(-e * steps) / 3)
            if rate > 0:
                assert_encloses(mpf(rate) * mpmath.exp(e * steps), found.power_at(rate))


@pytest.mark.parametrize(
    ("noise", "steps"), [(10.0, 100), thorough(4.0, 600), thorough(0.8, 150), thorough(200.0, 1999)]
)
def test_exact_sums_agree_with_lattice(noise: float, steps: int) -> None:
    found = curve(noise, steps)
    mechanism = built({"type": "repeated", "mechanism": laplace(noise), "steps": steps})
    lattice = pair(mechanism, "discretised").add
    rates = np.array([1e-12, 1e-5, 0.2, 0.5, 0.9, 1 - 1e-9])
    ours, theirs = found.points(rates), lattice.points(rates)
    epsilons = np.array([-3.0, 0.0, 1.0, 0.2 * steps / noise, 0.8 * steps / noise])
    readings = [
        (ours.power, theirs.power),
        (ours.type_two_error, theirs.type_two_error),
        (found.profile(epsilons), lattice.profile(epsilons)),
    ]
    for mine, other in readings:
        (low, high), (other_low, other_high) = log_ends(mine), log_ends(other)
        assert (low <= other_high).all()
        assert (other_low <= high).all()
        assert (high - low < GOOD).all()
    for delta in (0.01, 1e-8, 1e-60):
        mine, other = found.epsilon(delta), lattice.epsilon(delta)
        assert mine.lower <= other.upper
        assert other.lower <= mine.upper


def test_replacement_doubles_sensitivity() -> None:
    mechanism = built({"type": "repeated", "mechanism": laplace(6.0), "steps": 20})
    doubled, halved = pair(mechanism, neighbours=ONE_REPLACED).add, curve(3.0, 20)
    assert doubled.power_at(0.01) == halved.power_at(0.01)


def test_largest_loss_is_exact_if_representable() -> None:
    found = curve(10.0, 100)
    assert found.largest_log_ratio == Enclosure(10.0, 10.0, Evidence.CERTIFIED)
    assert found.profile_at(10.0).upper == 0
    assert found.epsilon(0.0).upper == 10


def test_gdp_mu_lies_above_every_point() -> None:
    found = curve(10.0, 100)
    mu = gaussian_dp.mu(found, 1e-6, 1e-6).value
    rates = np.geomspace(1e-6, 0.5, 40)
    power = found.power(rates)
    reached = special.ndtri(power.lower) - special.ndtri(rates)
    assert mu.lower <= mu.upper <= mu.lower * (1 + 1e-8)
    assert (reached <= mu.upper * (1 + 1e-12)).all()


def test_directions_are_inverse_on_both_sides_of_one_half() -> None:
    found = curve(2.0, 30)
    power = found.power(np.array([0.03]))
    # f is its own inverse.
    missed = found.type_two_error(np.array([0.03])).at(0, found.evidence)
    back = found.type_two_error(np.array([missed.lower, missed.upper]))
    assert back.lower[1] <= 0.03 <= back.upper[0]
    assert power.lower[0] <= 1 - missed.lower + 1e-15


def test_runs_beyond_limits_are_known_in_advance() -> None:
    assert can_sum(100, 0.1)
    assert not can_sum(10**4, 0.1)
    assert not can_sum(3, 200.0)
    assert not can_sum(2000, 0.19)
    for steps, loss in ((100, 0.1), (2000, 1e-3), (7, 3.0), (150, 1e-15)):
        kept, share = uniforms_kept(steps, loss), loss / (2 + loss)
        tail = special.bdtrc(kept, steps, share) if kept < steps else 0.0
        assert tail <= math.exp(log_excess(steps, kept, share)) <= math.exp(-60)


def test_cost_grows_with_work() -> None:
    def price(noise: float, steps: int) -> float:
        return plan(built({"type": "repeated", "mechanism": laplace(noise), "steps": steps})).cost.build

    assert price(10.0, 100) < price(1.0, 200)
    assert price(1.0, 10**4) == price(1.0, 10**5)  # By inversion contours.


# Polynomials in Bernstein form.


def _value(coefficients: np.ndarray[Any, Any], t: float) -> float:
    n = len(coefficients) - 1
    return math.fsum(float(b) * math.comb(n, r) * t**r * (1 - t) ** (n - r) for r, b in enumerate(coefficients))


def test_moving_integrals_of_a_constant_are_splines() -> None:
    pieces = np.zeros((5, 1))
    pieces[0] = 1.0
    for _ in range(3):
        pieces = moving_integrals(pieces)
    # The density of four uniforms at 1/2, 3/2, 2.
    assert _value(pieces[0], 0.5) == pytest.approx(1 / 48, rel=1e-15)
    assert _value(pieces[1], 0.5) == pytest.approx(23 / 48, rel=1e-15)
    assert _value(pieces[2], 0.0) == pytest.approx(2 / 3, rel=1e-15)
    assert pieces[4].max() == 0


def test_right_parts_match_shifted_polynomial() -> None:
    pieces = np.array([[0.3, 1.0, 0.2, 5.0], [2.0, 0.0, 0.0, 1e-9]])
    parts = right_parts(pieces, np.array([0.3, 0.999]))
    for piece, part, start in zip(pieces, parts, (0.3, 0.999), strict=True):
        for t in (0.0, 0.4, 1.0):
            assert _value(part, t) == pytest.approx(_value(piece, start + (1 - start) * t), rel=1e-13)


@pytest.mark.parametrize(("x", "powers"), [(0.0, 7), (1e-15, 7), (0.1, 7), (3.0, 7), (70.0, 2), thorough(70.0, 7)])
def test_hyperbolic_moments_match_quadrature(x: float, powers: int) -> None:
    even, odd = hyperbolic_moments(6, np.array([x]), series_length(x))
    for r in range(powers):
        for found, kernel in ((even, mpmath.cosh), (odd, mpmath.sinh)):
            with mpmath.workdps(30):
                truth = math.comb(6, r) * mpmath.quad(
                    lambda t, r=r, kernel=kernel: kernel(x * t) * t**r * (1 - t) ** (6 - r),
                    [0, 0.5, 0.8, 0.9, 1] if x > 3 else [0, 1],
                )
            assert found[0, r] == pytest.approx(float(truth), rel=1e-13)
