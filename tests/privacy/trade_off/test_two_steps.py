"""Two shifted steps against integrals in many digits: every number of a curve, in both directions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.composition.inversion.two_step_run import two_steps_curve
from service.privacy.composition.planning.choose import pair
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import AbstractStep, Steps
from service.privacy.mechanisms.dpsgd import DpSgd
from service.privacy.mechanisms.gaussian import Gaussian
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.mechanisms.poisson_sampled import PoissonSampled
from service.privacy.trade_off.sampling.loss_cells import SampledShift, divided
from service.privacy.trade_off.sampling.two_steps import TwoSteps
from service.privacy.trade_off.shifted.location_law import LAPLACE, NORMAL
from tests.slow_marker import sample_of

mp: Any = mpmath.mp.clone()
mp.dps = 25
WIDTH = 1e-6
INTEGRALS = 1e-11
"""Relative error of the integrals."""


class Step:
    """A step in many digits: its laws, its loss and its profile."""

    def __init__(self, step: AbstractStep) -> None:
        rate, base = (step.sample_rate, step.mechanism) if isinstance(step, PoissonSampled) else (1.0, step)
        assert isinstance(base, Gaussian | Laplace)
        self.normal, self.rate, self.shift = isinstance(base, Gaussian), mp.mpf(rate), 1 / mp.mpf(base.noise_multiplier)

    def density(self, y: Any) -> Any:
        return mp.npdf(y) if self.normal else mp.exp(-abs(y)) / 2

    def above(self, t: Any) -> Any:
        """Return the probability without the record that the outcome exceeds the point t."""
        if self.normal:
            return mp.erfc(t / mp.sqrt(2)) / 2
        return mp.exp(-t) / 2 if t > 0 else 1 - mp.exp(t) / 2

    def ratio(self, y: Any) -> Any:
        base = (
            self.shift * (y - self.shift / 2) if self.normal else min(max(2 * y - self.shift, -self.shift), self.shift)
        )
        return 1 - self.rate + self.rate * mp.exp(base)

    def threshold(self, ratio: Any) -> Any:
        """Return the outcome with this likelihood ratio, or minus or plus infinity if no outcome has it."""
        base = (ratio - 1 + self.rate) / self.rate
        if base <= 0 or (not self.normal and mp.log(base) <= -self.shift):
            return -mp.inf
        if self.normal:
            return mp.log(base) / self.shift + self.shift / 2
        return mp.inf if mp.log(base) >= self.shift else (mp.log(base) + self.shift) / 2

    def tails(self, ratio: Any) -> tuple[Any, Any]:
        """Return the probabilities under both hypotheses that the likelihood ratio exceeds `ratio`."""
        t = self.threshold(ratio)
        if mp.isinf(t):
            return (mp.mpf(0), mp.mpf(0)) if t > 0 else (mp.mpf(1), mp.mpf(1))
        absent = self.above(t)
        return absent, (1 - self.rate) * absent + self.rate * self.above(t - self.shift)


def mean(first: Step, second: Step, level: Any, value: Callable[[Any, Any, Any], Any]) -> Any:
    """Return the mean of `value` over the outcome of the first step without the record.

    `value` receives the ratio of the first step and the masses of the second step above the rest of the level. Panels
    are refined near the losses at which these masses begin and end.
    """
    bends = [first.threshold(mp.exp(level) / second.ratio(y)) for y in (mp.mpf(-1), second.shift + 1)]
    places = {mp.mpf(0), first.shift, -40, first.shift + 40, mp.mpf(0) - 10, first.shift + 10, first.shift / 2}
    nearby = [side * 10.0**-k for k in range(-1, 12) for side in (-1, 1)]
    places |= {place + near for place in bends if mp.isfinite(place) for near in (0, *nearby)}
    if not first.normal:
        places = {place for place in places if 0 <= place <= first.shift}

    def inner(y: Any) -> Any:
        ratio = first.ratio(y)
        return value(ratio, *second.tails(mp.exp(level) / ratio))

    def weighed(y: Any) -> Any:
        return first.density(y) * inner(y)

    whole = mp.quad(weighed, sorted(places), method="gauss-legendre", maxdegree=5)
    if not first.normal:  # The atoms, beyond which the ratio is constant.
        whole += inner(mp.mpf(0)) / 2 + inner(first.shift) * mp.exp(-first.shift) / 2
    return whole


def delta(first: Step, second: Step, epsilon: float, *, swapped: bool) -> Any:
    level = mp.mpf(-epsilon if swapped else epsilon)
    if swapped:
        return mean(first, second, level, lambda ratio, a, b: (1 - a) - mp.exp(-level) * ratio * (1 - b))
    return mean(first, second, level, lambda ratio, a, b: ratio * b - mp.exp(level) * a)


def assert_encloses(found: Enclosure, truth: Any, slack: float = INTEGRALS) -> bool:
    return found.lower <= truth * (1 + mp.mpf(slack)) and truth * (1 - mp.mpf(slack)) <= found.upper


def drawn(rng: random.Random, kinds: tuple[type[Gaussian | Laplace], ...], least: float = -1.2) -> Steps:
    def step() -> AbstractStep:
        kind = rng.choice(kinds)
        base = kind(noise_multiplier=10 ** rng.uniform(least, 0.5))
        sampled = PoissonSampled(sample_rate=10 ** rng.uniform(-4, -0.1), mechanism=base)
        return sampled if rng.random() < 0.8 else base

    one, other = step(), step()
    return ((one, 2),) if rng.random() < 0.4 or one == other else ((one, 1), (other, 1))


def known(steps: Steps) -> tuple[TwoSteps, Step, Step]:
    curve = two_steps_curve(steps)
    assert curve is not None
    first, second = (Step(step) for step, count in steps for _ in range(count))
    return curve, first, second


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_profile_and_epsilon_enclose_integral(seed: int) -> None:
    rng = random.Random(seed)
    curve, first, second = known(drawn(rng, (Gaussian, Gaussian, Laplace)))
    swapped = seed % 2 == 1
    read = curve.reversed() if swapped else curve
    epsilon = read.epsilon(10 ** rng.uniform(-10, -1)).upper * rng.uniform(0.2, 0.95)
    found = read.profile_at(epsilon)
    truth = delta(first, second, epsilon, swapped=swapped)
    assert assert_encloses(found, truth)
    assert found.relative_width() <= WIDTH
    back = read.epsilon(float(truth))
    assert back.lower <= epsilon * (1 + 1e-12) + 1e-12
    assert epsilon <= back.upper * (1 + 1e-12) + 1e-12
    assert back.relative_width() <= WIDTH


@sample_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_points_enclose_masses_above_level(seed: int) -> None:
    rng = random.Random(100 + seed)
    curve, first, second = known(drawn(rng, (Gaussian,), -0.2))
    level = rng.uniform(-1, 2) * math.sqrt(float(first.rate * first.shift))
    absent = mean(first, second, mp.mpf(level), lambda _, a, __: a)
    present = mean(first, second, mp.mpf(level), lambda ratio, _, b: ratio * b)
    for read, rate, error in ((curve, absent, 1 - present), (curve.reversed(), 1 - present, absent)):
        # The rate is rounded to a double, which moves a small power by more than its own digits where slopes are large.
        slack = 4e-16 * float(rate) * max(math.exp(level), math.exp(-level)) / float(min(error, 1 - error))
        points = read.points(np.array([float(rate)]))
        for ends, truth in ((points.power, 1 - error), (points.type_two_error, error)):
            number = ends.at(0, read.evidence)
            assert assert_encloses(number, truth, INTEGRALS + slack)
            assert number.relative_width() <= WIDTH


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
@pytest.mark.parametrize("rate", [1e-6, 0.3, 1.0])
@pytest.mark.parametrize("shift", [1e-3, 7.0, 90.0])
def test_cells_partition_the_mass_in_order(law: Any, rate: float, shift: float) -> None:
    step = SampledShift(law, shift, rate)
    borders = step.first_borders()
    borders = divided(borders, np.random.default_rng(3).integers(1, 9, len(borders) - 1).astype(float))
    for cells in (step.cells(borders), step.cells(borders).swapped()):
        low, high = (math.fsum(np.exp(end).tolist()) for end in cells.log_mass)
        assert low <= 1 <= high
        assert high - low <= 1e-9
        assert (cells.border[0, :-1] <= cells.mean[0]).all()
        assert (cells.mean[1] <= cells.border[1, 1:]).all()
        shares = cells.upper_shares()
        assert ((shares >= 0) & (shares <= 1)).all()


@sample_of(2)
@pytest.mark.parametrize(("noise", "rate"), [(0.02, 0.1), (0.1, 1e-3), (0.3, 0.01)])
def test_two_steps_are_narrow_by_default(noise: float, rate: float) -> None:
    run = pair(DpSgd(noise_multiplier=noise, sample_rate=rate, steps=2))
    for curve in (run.add, run.remove):
        assert curve.epsilon(1e-5).relative_width() <= WIDTH
        assert curve.power_at(0.01).relative_width() <= WIDTH


def test_other_runs_have_no_two_steps_curve() -> None:
    step = PoissonSampled(sample_rate=0.1, mechanism=Gaussian(noise_multiplier=1.0))
    assert two_steps_curve(((step, 3),)) is None
    assert two_steps_curve(((step, 1),)) is None
