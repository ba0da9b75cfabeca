"""The checker against quadrature over the outputs of a run: every expectation is computed here, from the definition.

For an event of best outputs, delta is P(event) - e^eps Q(event). Of two steps, mpmath integrates over the output of the
first step, and the second step contributes tails of its law. Of many steps, the loss is rounded up and down to a grid,
which moves delta up and down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Final

import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import ndtr

from privacy_bounds.checker import Step, check_delta, sampled_step
from privacy_bounds.checker.steps import Direction
from tests.slow_marker import sample_of, thorough

DIRECTIONS: Final[dict[int, Direction]] = {1: "add", -1: "remove"}
DIGITS: Final = 12
"""Digits to which two steps are integrated."""
MIXTURE: Final = Step(Fraction(3, 2), (Fraction(0), Fraction(1), Fraction(2)), (Fraction(4, 5), *[Fraction(1, 10)] * 2))
STEPS: Final = {
    "sampled": sampled_step(1.0, 0.1),
    "often sampled": sampled_step(0.7, 0.6),
    "plain": sampled_step(2.0, 1.0),
    "mixture": MIXTURE,
    "replaced": sampled_step(1.2, 0.15, mirrored=True),
    "replaced plain": sampled_step(3.0, 1.0, mirrored=True),
}
PAIRS: Final = [
    ("sampled", "sampled"),
    ("sampled", "often sampled"),
    ("often sampled", "plain"),
    ("mixture", "mixture"),
    ("mixture", "sampled"),
    ("replaced", "replaced"),
    ("replaced", "replaced plain"),
]


@dataclass(frozen=True)
class Law:
    """Densities, tails and loss of one step, by which quadrature computes delta.

    P is the law with the record. Q is the law without it, or with another record for mirrored steps.
    """

    weights: tuple[float, ...]
    means: tuple[float, ...]
    mirrored: bool

    @staticmethod
    def of(step: Step) -> Law:
        """Return the law of one step."""
        return Law(tuple(map(float, step.weights)), tuple(map(float, step.means)), step.mirrored)

    def density(self, y: Any, sign: int) -> Any:
        """Return the density of P (sign 1) or Q (sign -1) at y."""
        if sign < 0 and not self.mirrored:
            return mpmath.npdf(y)
        return mpmath.fsum(w * mpmath.npdf(y - sign * m) for w, m in zip(self.weights, self.means, strict=True))

    def tail(self, y: float, sign: int, side: int) -> Any:
        """Return the probability under P (sign 1) or Q (sign -1) of outputs on a side of y (1: above)."""
        if sign < 0 and not self.mirrored:
            return mpmath.ncdf(-side * y)
        centres = zip(self.weights, self.means, strict=True)
        return mpmath.fsum(w * mpmath.ncdf(side * (sign * m - y)) for w, m in centres)

    def loss(self, y: Any) -> Any:
        """Return the loss ln(p(y)/q(y)) at y for the densities p and q of P and Q, also of an array."""

        def log_ratio(x: Any) -> Any:
            exponents = [m * x - m * m / 2 for m in self.means]
            return np.log(sum(w * np.exp(e) for w, e in zip(self.weights, exponents, strict=True)))

        return log_ratio(y) - log_ratio(-y) if self.mirrored else log_ratio(y)

    @property
    def least(self) -> float:
        """Infimum of the privacy loss of the step."""
        never = sum(w for w, m in zip(self.weights, self.means, strict=True) if not m)
        return math.log(never) if never and not self.mirrored else -math.inf

    def threshold(self, loss: float) -> float:
        """Return the output with the given loss, or -inf if all outputs have a larger loss.

        The test may use an approximate output, because delta has slope 0 in the threshold.
        """
        return -math.inf if loss <= self.least else float(brentq(lambda y: self.loss(y) - loss, -60, 60, xtol=1e-13))


def delta_of_two(one: Law, two: Law, eps: float, direction: Direction, detail: tuple[float, ...] = ()) -> Any:
    """Return delta of one step after the other, integrated over the output of the first.

    Where samples are rare, the integrand has a jump close to the output whose loss is eps. `detail` has distances from
    this output at which the integral is divided, too.
    """
    side = 1 if direction == "add" else -1

    def integrand(y: Any) -> Any:
        end = two.threshold(side * eps - float(one.loss(float(y))))
        if math.isinf(end):
            first, second = (1, 1) if side > 0 else (0, 0)
        else:
            first, second = two.tail(end, side, side), two.tail(end, -side, side)
        return one.density(y, side) * first - mpmath.exp(eps) * one.density(y, -side) * second

    places: list[float] = [-16, -8, -3, 0, 3, 8, 16]
    if not math.isinf(two.least):
        places.append(min(16.0, max(-16.0, one.threshold(side * eps - two.least))))
    places += [one.threshold(side * eps) + sign * distance for distance in detail for sign in (-1, 1)]
    with mpmath.workdps(18):
        return mpmath.quad(integrand, sorted(set(places)), maxdegree=5)


CASES: Final = [(*pair, direction, eps) for pair in PAIRS for direction in ("add", "remove") for eps in (0.05, 0.5)]
FAST: Final = (
    ("sampled", "sampled", "remove", 0.05),
    ("mixture", "mixture", "remove", 0.05),
    ("replaced", "replaced plain", "add", 0.5),
)


@pytest.mark.parametrize(
    ("first", "second", "direction", "eps"), [case if case in FAST else thorough(*case) for case in CASES]
)
def test_delta_of_two_steps_is_that_of_the_definition(
    first: str, second: str, direction: Direction, eps: float
) -> None:
    one, two = STEPS[first], STEPS[second]
    truth = Fraction(str(delta_of_two(Law.of(one), Law.of(two), eps, direction)))
    assert_encloses([one, two], eps, truth, truth, direction, Fraction(1, 10**DIGITS))


RARE: Final = [
    (sampled_step(1.07, 1.2e-3), sampled_step(0.87, 0.026), 0.23),
    (sampled_step(1.03, 1.7e-5), sampled_step(0.73, 2.7e-4), 0.35),
    (sampled_step(0.77, 0.025, mirrored=True), sampled_step(1.44, 3.3e-4, mirrored=True), 1.5),
]


@pytest.mark.parametrize(("one", "two", "eps"), [thorough(*row) for row in RARE])
def test_delta_of_two_rare_steps_is_that_of_the_definition(one: Step, two: Step, eps: float) -> None:
    """Proofs by a cut of the outcomes agree with the delta of two rare steps by its definition.

    The accuracy is relative to delta, which is small.
    """
    detail = (0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)
    truth = Fraction(str(delta_of_two(Law.of(one), Law.of(two), eps, "add", detail)))
    assert_encloses([one, two], eps, truth, truth, "add", truth / 10**8)


def test_delta_of_one_step_is_that_of_the_definition() -> None:
    for step, side in product(STEPS.values(), (1, -1)):
        law, direction = Law.of(step), DIRECTIONS[side]
        end = law.threshold(side * 0.1)
        with mpmath.workdps(18):
            truth = Fraction(str(law.tail(end, side, side) - mpmath.exp(0.1) * law.tail(end, -side, side)))
        assert_encloses([step], 0.1, truth, truth, direction, Fraction(1, 10**DIGITS))


def assert_encloses(
    steps: list[Step], eps: float, lower: Fraction, upper: Fraction, direction: Direction, slack: Fraction
) -> None:
    """Assert that the checker proves a number above the upper bound, and refutes one below the lower bound."""
    assert 0 <= lower <= upper < 1
    assert check_delta(steps, eps, upper + slack, direction).status == "proved"
    if lower > slack:
        assert check_delta(steps, eps, lower - slack, direction).status == "refuted"


def rounded_delta(step: Step, eps: float, direction: Direction, width: float, up: bool) -> float:
    """Return delta with the loss of each step rounded to multiples of `width`, up or down.

    Losses of "remove" are minus the losses of "add". The grid of outputs bounds the loss in each of its cells.
    """
    law, sign = Law.of(step), 1 if direction == "add" else -1
    outputs = np.linspace(-13.0, 13.0 + max(law.means), 400_001)
    cells = np.diff(_distribution(law, outputs, sign))
    losses = sign * law.loss(outputs)
    largest = np.maximum(losses[1:], losses[:-1]) if up else np.minimum(losses[1:], losses[:-1])
    numbers = (np.ceil if up else np.floor)(largest / width).astype(int)
    first = int(numbers.min())
    masses, offset, total, place = np.bincount(numbers - first, weights=cells), first, np.ones(1), 0
    for digit in reversed(f"{step.count:b}"):
        if digit == "1":
            total, place = _trimmed(fftconvolve(total, masses), place + offset)
        masses, offset = _trimmed(fftconvolve(masses, masses), 2 * offset)
    grid = (place + np.arange(total.size)) * width
    return float(total @ np.maximum(-np.expm1(np.minimum(eps - grid, 0.0)), 0.0))


def _trimmed(masses: Any, offset: int) -> tuple[Any, int]:
    """Return the masses without those ends that weigh less than the rounding of the convolution.

    `offset` is the index of the first mass.
    """
    weighty = np.flatnonzero(masses > 1e-16)
    return masses[weighty[0] : weighty[-1] + 1], offset + int(weighty[0])


def _distribution(law: Law, y: Any, sign: int) -> Any:
    """Return the distribution function of the output under P (sign 1) or Q (sign -1)."""
    if sign < 0 and not law.mirrored:
        return ndtr(y)
    return sum(w * ndtr(y - sign * m) for w, m in zip(law.weights, law.means, strict=True))


LONG_RUNS: Final = {
    "sampled": sampled_step(1.1, 0.1, 60),
    "rarely sampled": sampled_step(0.9, 0.02, 100),
    "hardly sampled": sampled_step(0.8, 0.001, 5),
    "mixture": Step(MIXTURE.noise, MIXTURE.shifts, MIXTURE.weights, 20),
    "replaced": sampled_step(1.5, 0.1, 40, mirrored=True),
}


@sample_of(4)
@pytest.mark.parametrize(
    ("run", "direction"),
    [row if row != ("hardly sampled", "add") else thorough(*row) for row in product(LONG_RUNS, ("add", "remove"))],
)
def test_delta_of_many_steps_lies_between_rounded_losses(run: str, direction: Direction) -> None:
    """The checker's delta of many steps lies between those with losses rounded down and up.

    Outputs of no weight are left out of the grid, and all rounding of doubles is far below the slack.
    """
    step = LONG_RUNS[run]
    lower, upper = (rounded_delta(step, 0.4, direction, 5e-5, up) for up in (False, True))
    assert upper - lower <= 0.1 * upper
    assert_encloses([step], 0.4, Fraction(lower), Fraction(upper), direction, Fraction(1, 10**11))
