"""Tiny deltas of rare runs, against direct integration, contours, and the laws of profiles."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import log_ndtr

from service.privacy.composition.inversion.deformed.run import deformed_run
from service.privacy.composition.inversion.rare_jumps.core_contour import CoreContour
from service.privacy.composition.inversion.rare_jumps.core_law import CoreLaw
from service.privacy.composition.inversion.rare_jumps.core_tails import CELLS, CoreTails, Growth
from service.privacy.composition.inversion.rare_jumps.jump_law import JumpLaw
from service.privacy.composition.inversion.rare_jumps.one_jump import _OneJump, log_profile
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.summands.sampled_step import SampledStep
from service.privacy.mechanisms.neighbours import ONE_REPLACED
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.balls import ball
from tests.privacy.cases import built, dpsgd
from tests.slow_marker import sample_of, thorough

_NARROW = 1e-6


@np.errstate(all="ignore")
def _log_profile_of_one(step: SampledStep, x: FloatArray) -> FloatArray:
    """Return ln of one step's profile P1(L > x) - e^x P0(L > x) at losses x, by normal tails to nine digits."""
    sigma, rate, shift = step.sigma, step.rate, 1 / step.sigma
    if step.mirrored:
        hump = math.log(rate) + step.offset
        half = (1 - rate) * np.expm1(x) / 2
        root = np.hypot(half, np.exp(hump + x / 2))
        # The zero of hump e^2v - 2 half e^v - hump e^x, without cancellation on either side.
        v = np.where(half > 0, np.log(np.abs(half) + root) - hump, hump + x - np.log(np.abs(half) + root))
        y = sigma * v
        absent = np.logaddexp(math.log1p(-rate) + log_ndtr(-y), math.log(rate) + log_ndtr(-y - shift))
    else:
        over = np.expm1(x) / rate
        y = np.where(over > -1, sigma * np.log1p(np.maximum(over, -1 + 1e-300)) + shift / 2, -np.inf)
        absent = log_ndtr(-y)
    present = np.logaddexp(math.log1p(-rate) + log_ndtr(-y), math.log(rate) + log_ndtr(shift - y))
    return present + np.log(-np.expm1(np.minimum(x + absent - present, -1e-300)))


def _nodes(step: SampledStep, left: float) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes y and weights for an integral over the outcome of one step.

    `left` is the loss that the other steps need to reach the threshold. The integrand nearly has a kink at the outcome
    with the loss `left`, so panels become short there.
    """
    kink = JumpLaw(step).score(left) if left > 0 else -math.inf
    ends = np.arange(-13.0, max(kink, 0.0) + 10.0, 0.5)
    if math.isfinite(kink):
        away = 0.5 * 2.0 ** -np.arange(26.0)
        ends = np.unique(np.concatenate([ends[np.abs(ends - kink) > 0.51], kink - away, kink + away, [kink]]))
    x, weight = np.polynomial.legendre.leggauss(10)
    half, middle = 0.5 * np.diff(ends)[:, None], 0.5 * (ends[1:] + ends[:-1])[:, None]
    return (middle + half * x).ravel(), (half * weight).ravel()


def _weights_and_losses(step: SampledStep, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln of the density of H1, and the loss, at outcomes `y` of a step in standard deviations of its noise."""
    v, rate = step.mean + y / step.sigma, step.rate

    def log_mixture(u: FloatArray) -> FloatArray:
        return np.log1p(rate * np.expm1(np.minimum(u + step.offset, 700.0)))

    present = log_mixture(v)
    absent = log_mixture(-v) if step.mirrored else np.zeros_like(v)
    return present - 0.5 * y**2 - 0.5 * math.log(2 * math.pi), present - absent


def _direct(step: SampledStep, epsilon: float, steps: int) -> float:
    """Return ln delta of a run of `steps` equal steps, by integrals over all but one of them."""
    if steps == 1:
        return float(_log_profile_of_one(step, np.array([epsilon]))[0])
    y, share = _nodes(step, epsilon)
    weight, loss = _weights_and_losses(step, y)
    if steps == 2:
        rest = _log_profile_of_one(step, epsilon - loss)
    else:
        rest = np.array([_direct(step, each, steps - 1) for each in (epsilon - loss).tolist()])
    return float(np.logaddexp.reduce(weight + np.log(share) + rest))


def _runs(seed: int, count: int, steps: Callable[[random.Random], int]) -> list[tuple[SampledStep, float]]:
    """Draw runs in which few steps sample the record, each with an epsilon at which delta is tiny."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        step = SampledStep(
            math.exp(draw.uniform(-0.4, 1.1)), 10 ** draw.uniform(-6, -2.5), steps(draw), mirrored=draw.random() < 0.6
        )
        epsilon = 10 ** draw.uniform(-2.5, 0.5)
        about = math.log(step.count) + float(JumpLaw(step).log_profile(np.array([epsilon]))[0])
        if -550 < about < -30:
            found.append((step, epsilon))
    return found


@pytest.mark.parametrize(("seed", "count"), [(0, 4), thorough(0, 12), thorough(1, 60), thorough(2, 60)])
@pytest.mark.parametrize("steps", [2, 3])
def test_profiles_match_direct_integration(seed: int, count: int, steps: int) -> None:
    """Check that the truth is between the bounds, and that these are narrow, but for the bound of several jumps.

    That bound is part of the width. It is small where one jump explains delta, and a few thousandths of delta at worst.
    """
    widths: list[float] = []
    for step, epsilon in _runs(seed, count if steps == 2 else max(count // 6, 2), lambda _: steps):
        lower, upper = log_profile(step, epsilon, _NARROW)
        exact = _direct(step, epsilon, step.count)
        assert lower - 1e-8 <= exact <= upper + 1e-8, (step, epsilon)
        widths.append(upper - lower)
    assert max(widths) < 1e-2
    assert np.quantile(widths, 0.95) < 1e-3


@pytest.mark.parametrize(("seed", "count"), [(0, 4), thorough(0, 10), thorough(1, 200)])
def test_profiles_fall_and_grow_with_steps(seed: int, count: int) -> None:
    for step, epsilon in _runs(seed, count, lambda draw: round(10 ** draw.uniform(0.4, 4.5))):
        lower, upper = log_profile(step, epsilon, _NARROW)
        assert lower <= upper
        farther = log_profile(step, epsilon * 1.001, _NARROW)
        assert farther[0] <= upper, (step, epsilon)
        longer = SampledStep(step.sigma, step.rate, step.count + 1, mirrored=step.mirrored)
        assert lower <= log_profile(longer, epsilon, _NARROW)[1], (step, epsilon)
        # Some step alone is a post-processing of the run.
        assert float(_log_profile_of_one(step, np.array([epsilon]))[0]) <= upper + 1e-8, (step, epsilon)


@pytest.mark.parametrize(("seed", "count"), [(0, 1), thorough(0, 3), thorough(1, 30)])
def test_profiles_agree_with_contours(seed: int, count: int) -> None:
    """Profiles by one rare loss agree with contours, and both are narrow, for deltas between 1e-17 and 1e-13."""
    draw, tried = random.Random(seed), 0
    while tried < count:
        step = SampledStep(
            math.exp(draw.uniform(-0.35, 0.6)),
            10 ** draw.uniform(-5, -3.3),
            round(10 ** draw.uniform(0.4, 3.0)),
            mirrored=draw.random() < 0.5,
        )
        about = math.log(step.count) + float(JumpLaw(step).log_profile(np.array([0.1]))[0])
        if not -39 < about < -30:
            continue
        tried += 1
        contours = deformed_run((step,), 0.0, reflected=False)
        assert contours is not None
        lower, upper = log_profile(step, 0.1, _NARROW)
        known = contours.profile(0.1, -math.inf, 0.0)
        assert max(lower, float(known.lower[0, 0])) <= min(upper, float(known.upper[0, 0])), step


@pytest.mark.parametrize("mirrored", [True, False])
def test_continued_profile_is_bounded_on_circles(mirrored: bool) -> None:
    """The bound of the profile on a circle holds at both real points, and bounds the coefficients of the power series.

    On a small circle the bound is close to the value at the centre.
    """
    step = SampledStep(1.3, 2e-5, 40, mirrored=mirrored)
    law = JumpLaw(step)
    series = law.tilted_series(ball(0.1), 0.1, 200.0)
    exact = float(_log_profile_of_one(step, np.array([0.1]))[0])
    assert float(series[0].log().mid()) == pytest.approx(exact, abs=1e-8)
    for radius in (1e-4, 0.02, 0.08):
        bound = law.log_largest(ball(0.1), radius, 200.0)
        ends = _log_profile_of_one(step, np.array([0.1 - radius, 0.1 + radius])) - 200.0 * np.array([radius, -radius])
        assert bound >= ends.max()
        # Cauchy's bound of every coefficient of the series in u/0.1.
        for order in range(1, 9):
            assert float(abs(series[order]).log().mid()) <= bound - order * math.log(radius / 0.1)
    assert law.log_largest(ball(0.1), 1e-4, 200.0) < exact + 0.2
    assert law.log_largest(ball(0.1), 0.2, 200.0) == math.inf


def test_tail_bounds_of_two_core_steps_hold() -> None:
    """Upper bounds of P1(S > a) for the sum S of two usual losses hold, and exceed the tail by a small factor only.

    Usual losses are those of the core, without rare large ones.
    """
    step = SampledStep(1.2, 1e-4, 2, mirrored=True)
    law, epsilon = JumpLaw(step), 0.1
    jump, moderate = 0.035, 0.015
    whole, small = CoreLaw(step, 8.0, law.score(jump)), CoreLaw(step, 8.0, law.score(moderate))
    tilts = np.geomspace(10, 8000, 40)
    growths = [Growth(tilts, np.log1p(core.growth(tilts))) for core in (whole, small)]
    sums = CoreTails.of(law.log_above, (moderate, jump, epsilon), growths[0], growths[1])
    bounds = sums.tails(2)
    weight, loss = _weights_and_losses(step, whole.y)
    mass = np.exp(weight) * np.gradient(whole.y)
    assert (np.diff(bounds) <= 0).all()
    for at in (CELLS // 5, CELLS // 2):
        a = float(sums.grid[at])
        exact = float(np.where(loss[:, None] + loss > a, mass[:, None] * mass, 0.0).sum())
        assert exact * 0.5 <= bounds[at] <= 3 * exact + 1e-300, a


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.5, 1e-3, 3000), (2.0, 5e-4, 20_000)])
def test_contour_of_a_core_without_an_end(noise: float, rate: float, steps: int) -> None:
    """Contours are valid for runs of which nearly all losses count as usual, so that the core has no largest loss.

    The profile of the core (the part without rare large losses) is that of ordinary contours.
    """
    step = SampledStep(noise, rate, steps, mirrored=True)
    lower, upper = CoreContour(CoreLaw(step, 8.5, 10.0), steps, 0.2, 60.0).log_profile()
    delta = pair(built(dpsgd(noise, rate, steps)), neighbours=ONE_REPLACED).add.profile_at(0.2)
    assert upper - lower < 1e-8
    assert lower <= math.log(delta.upper) + 1e-10
    assert upper >= math.log(delta.lower) - 1e-10


@sample_of(2)
@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [
        (1.8049947834495992, 3.979467616302289e-05, 23_548),
        (1.933681193957474, 4.385224698075819e-05, 24_193),
        (1.829, 5.37e-05, 27_344),
        (1.4528, 1.42e-4, 2566),
        (1.575, 1.3678e-4, 3501),
        (1.852, 6.155e-5, 10_027),
    ],
)
def test_wide_cores_have_the_same_delta_for_all_jumps(noise: float, rate: float, steps: int) -> None:
    """Delta does not depend on the limit above which a loss counts as a jump, although each part of delta does."""
    for mirrored in (True, False):
        step = SampledStep(noise, rate, steps, mirrored=mirrored)
        found = [_OneJump(step, 0.1, share).bounds() for share in (0.2, 0.25, 0.3, 0.35)]
        lower, upper = max(low for low, _ in found), min(high for _, high in found)
        assert lower <= upper
        assert upper - lower < 1e-5
        assert sum(high - low < 1e-4 for low, high in found) >= 2


@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.4, 8e-5, 2500), (1.2, 3e-5, 12_000), (1.7, 6e-5, 6000)])
def test_series_and_contour_of_one_jump_agree(noise: float, rate: float, steps: int) -> None:
    step = SampledStep(noise, rate, steps, mirrored=True)
    run = _OneJump(step, 0.1, 0.35)
    whole = run.bounds()
    low, high = run._one_jump_on_contour()
    # Runs without jumps, and with several, have hardly any part of delta: the series determines the sum.
    assert whole[1] - whole[0] < 1e-7
    assert high - low < 1e-6
    assert low <= whole[1]
    assert high >= whole[0] - 1e-7


@pytest.mark.parametrize(("seed", "count"), [(0, 3), thorough(0, 8), thorough(1, 60)])
def test_answers_at_tiny_deltas_are_narrow(seed: int, count: int) -> None:
    """Delta at epsilon = 0.1, and the epsilon of that delta, are narrow for few and for many steps."""
    for step, _ in _runs(seed, count, lambda draw: round(10 ** draw.uniform(0.4, 3.0))):
        curve = pair(built(dpsgd(step.sigma, step.rate, step.count)), neighbours=ONE_REPLACED).add
        delta = curve.profile_at(0.1)
        assert delta.relative_width() <= 1e-2, step
        if not 1e-250 < delta.upper < 1e-13:
            continue
        epsilon = curve.epsilon(0.5 * (delta.lower + delta.upper))
        assert epsilon.relative_width() <= 1e-3
        assert epsilon.lower <= 0.1 * (1 + 1e-3)
        assert epsilon.upper >= 0.1 * (1 - 1e-3)
