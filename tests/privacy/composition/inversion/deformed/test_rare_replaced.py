"""Rare runs under `replace_one`: narrow enclosures that agree with lattices and direct integration."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from scipy.special import ndtr

from service.privacy.composition.lattice.engine import discretised_pair
from service.privacy.composition.planning.choose import pair, plan
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.neighbours import ONE_REPLACED
from service.privacy.numerics.arrays import FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff
from tests.privacy.agreement import meet
from tests.privacy.cases import built, dpsgd
from tests.slow_marker import thorough

Kind = Literal["epsilon", "delta", "power"]


@dataclass(frozen=True)
class _Question:
    """A question about a rare run: the quantity `kind` at the rate or delta `at`.

    The question for delta is asked at an epsilon whose delta is about `at`.
    """

    noise: float
    rate: float
    steps: int
    kind: Kind
    at: float

    @property
    def mechanism(self) -> AbstractMechanism:
        return built(dpsgd(self.noise, self.rate, self.steps))

    @property
    def curve(self) -> AbstractTradeOff:
        return pair(self.mechanism, neighbours=ONE_REPLACED).add

    def answer(self, curve: AbstractTradeOff, epsilon: float) -> Enclosure:
        """Return the answer of a curve to this question; a question for delta is asked at `epsilon`."""
        if self.kind == "power":
            return curve.power_at(self.at)
        return curve.epsilon(self.at) if self.kind == "epsilon" else curve.profile_at(epsilon)


def _questions(seed: int, count: int) -> list[_Question]:
    draw = random.Random(seed)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    found: list[_Question] = []
    for _ in range(count):
        run = log_uniform(0.7, 2.0), log_uniform(1e-5, 1e-3), round(log_uniform(1, 1e5))
        kind: Kind = draw.choice(("epsilon", "delta", "power"))
        found.append(_Question(*run, kind, log_uniform(1e-6, 0.5) if kind == "power" else log_uniform(1e-10, 1e-3)))
    return found


@pytest.mark.parametrize(("seed", "count"), [(0, 6), thorough(1, 100), thorough(2, 100), thorough(3, 100)])
def test_enclosures_of_rare_replaced_runs_are_narrow(seed: int, count: int) -> None:
    wide: list[tuple[_Question, float]] = []
    for question in _questions(seed, count):
        curve = question.curve
        epsilon = curve.epsilon(question.at).upper if question.kind == "delta" else 0.0
        width = question.answer(curve, epsilon).relative_width()
        assert width <= 1e-2, question
        if width > 1e-6:
            wide.append((question, width))
    assert len(wide) <= 0.05 * count, wide


@pytest.mark.parametrize(("seed", "count"), [(4, 1), thorough(5, 10), thorough(6, 30)])
def test_contours_agree_with_lattices(seed: int, count: int) -> None:
    for question in _questions(seed, count):
        curve = question.curve
        epsilon = curve.epsilon(question.at).upper if question.kind == "delta" else 0.0
        steps = tuple((step.under(ONE_REPLACED), n) for step, n in question.mechanism.elementary_steps())
        lattice = discretised_pair(steps, EngineOptions(relative_tolerance=0.1)).add
        assert meet(question.answer(curve, epsilon), question.answer(lattice, epsilon)), question


def _likelihood(x: FloatArray, mu: float, rate: float) -> FloatArray:
    """Return the density of the outcome x of one step under H0, in units of the noise.

    `mu` is 1 over the noise multiplier. The density under H1 is the mirror image: its value at x is this one at -x.
    """
    hump = np.exp(-0.5 * x**2), np.exp(-0.5 * (x + mu) ** 2)
    return ((1 - rate) * hump[0] + rate * hump[1]) / math.sqrt(2 * math.pi)


def _three_steps(noise: float, rate: float, epsilon: float) -> float:
    """Return delta(epsilon) of three steps: two by trapezoidal sums, the third in closed form."""
    mu, x = 1 / noise, np.linspace(-9.0 - 1 / noise, 9.0 + 1 / noise, 1201)
    null, present = _likelihood(x, mu, rate), _likelihood(-x, mu, rate)
    loss = np.log(present) - np.log(null)
    rest = np.exp(epsilon - loss[:, None] - loss)  # Of the ratio.
    hump = rate * math.exp(-0.5 * mu**2)
    # The root of (1 - p) + hump e = rest ((1 - p) + hump/e), e = exp(mu x).
    linear = (1 - rate) * (1 - rest)
    root = np.sqrt(linear**2 + 4 * hump**2 * rest)
    power_of_e = np.where(linear > 0, 2 * hump * rest / (linear + root), (root - linear) / (2 * hump))
    at = np.log(power_of_e) / mu
    above = [(1 - rate) * ndtr(-at) + rate * ndtr(s * mu - at) for s in (1, -1)]
    spacing = float(x[1] - x[0])
    terms = np.outer(present, present) * above[0] - math.exp(epsilon) * np.outer(null, null) * above[1]
    return float(terms.sum()) * spacing**2


@pytest.mark.parametrize(("seed", "cases"), [(0, 1), *(thorough(seed, 4) for seed in range(3))])
def test_three_steps_match_direct_integration(seed: int, cases: int) -> None:
    draw = random.Random(seed)
    for _ in range(cases):
        noise, rate = math.exp(draw.uniform(-0.35, 0.7)), 10 ** draw.uniform(-4, -2)
        delta = rate * 10 ** draw.uniform(-3, -1)
        curve = _Question(noise, rate, 3, "epsilon", delta).curve
        epsilon = curve.epsilon(delta)
        assert epsilon.relative_width() <= 1e-6
        # The sums have 12 digits of 1.
        assert _three_steps(noise, rate, epsilon.lower) >= delta * (1 - 1e-9) - 1e-12
        assert _three_steps(noise, rate, epsilon.upper) <= delta * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("steps", [thorough(3), 16, thorough(200)])
def test_epsilon_is_zero_for_delta_above_advantage(steps: int) -> None:
    curve = _Question(0.9, 3e-5, steps, "delta", 0.5).curve
    advantage = curve.profile_at(0.0)
    assert curve.epsilon(advantage.upper * (1 + 1e-6)).upper == 0
    assert curve.epsilon(advantage.lower * (1 - 1e-2)).lower > 0


def test_contour_engine_is_planned() -> None:
    assert plan(built(dpsgd(1.0, 1e-4, 200)), neighbours=ONE_REPLACED).engine == "contour"
