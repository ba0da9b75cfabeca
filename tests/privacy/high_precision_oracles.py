"""Decimal enclosures of ground truths, compared with a second computation in many more digits.

One step and Gaussian steps have closed forms. For two steps, the profile of one step is averaged over the loss of the
other by quadrature, which shares nothing with contour integrals. Longer runs use the same engine with more digits, and
therefore other contours and nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import mpmath
import numpy as np
from mpmath import mpf
from numpy.random import Generator

from service.privacy.composition.planning import choose
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import DecimalEnclosure
from service.privacy.errors import UnsupportedCombination
from service.privacy.trade_off.pair import TradeOffPair
from tests.privacy.cases import built, dpsgd, gaussian, sampled
from tests.privacy.random_cases import RandomQuestion, Spec

EXTRA: Final = 15
"""Additional digits of the second computation."""
DIGITS: Final = (15, 50)

Truth = Callable[[RandomQuestion], Any]
"""The number at the working precision, or None if this computation cannot provide it."""


@dataclass(frozen=True)
class Checked:
    """One quantity with its decimal enclosure, and the value that it must contain."""

    kind: str
    what: str
    found: DecimalEnclosure
    truth: str

    @property
    def holds(self) -> bool:
        with mpmath.workdps(200):
            return mpf(self.found.lower) <= mpf(self.truth) <= mpf(self.found.upper)

    @property
    def relative_width(self) -> float:
        with mpmath.workdps(200):
            width = mpf(self.found.upper) - mpf(self.found.lower)
            return float(width / mpf(self.found.upper)) if width else 0.0

    def __str__(self) -> str:
        return f"{self.what}: [{self.found.lower}, {self.found.upper}], {self.truth}"


def checked(kinds: dict[str, int], questions: int, seed: int) -> Iterator[Checked]:
    """Yield the results of random mechanisms of every kind, each at random digits and with `questions` questions."""
    random = np.random.default_rng(seed)
    for kind, count in kinds.items():
        for _ in range(count):
            digits = int(random.integers(DIGITS[0], DIGITS[1] + 1))
            spec, truth = KINDS[kind](random, digits)
            pair = _ground_truth(spec, digits)
            for _ in range(questions):
                question = _question(random)
                with mpmath.workdps(digits + EXTRA + 30):
                    value = truth(question)
                    if value is None:
                        continue
                    printed = mpmath.nstr(value, digits + EXTRA)
                try:
                    decimal = question.ask(pair).decimal
                except UnsupportedCombination:
                    continue  # Few steps whose contour would be too long, which only the evaluation detects.
                if decimal is None:
                    raise AssertionError(f"no digits for {spec}, {question}")
                yield Checked(kind, f"{spec}, {question}, {digits} digits", decimal, printed)


def _question(random: Generator) -> RandomQuestion:
    reading = random.choice(["power", "delta", "epsilon"])
    at = float(random.uniform(0.0, 3.0) if reading == "delta" else 10 ** random.uniform(-8.0, -0.4))
    return RandomQuestion(reading, at, random.choice(["add", "remove"]))


def _ground_truth(spec: Spec, digits: int) -> TradeOffPair:
    return choose.pair(built(spec), "ground_truth", options=EngineOptions(digits=digits))


def tail(x: Any) -> Any:
    """Return P(N(0, 1) > x), the normal tail."""
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def _normal_quantile(alpha: Any) -> Any:
    """Return the x with tail(x) = alpha, by Newton's method from a double."""
    from scipy.special import ndtri

    x = -mpf(float(ndtri(float(alpha))))
    for _ in range(8):
        x += (tail(x) - alpha) / mpmath.npdf(x)
    return x


def _gaussians(random: Generator, digits: int) -> tuple[Spec, Truth]:
    """Draw several Gaussian steps and a step of Gaussian DP. Together they are one Gaussian, and mu^2 adds up."""
    noise, steps, extra = float(random.uniform(0.7, 5.0)), int(random.integers(1, 40)), float(random.uniform(0.1, 1.0))
    repeated = {"type": "repeated", "mechanism": gaussian(noise), "steps": steps}
    spec = {"type": "composed", "mechanisms": [repeated, {"type": "gdp", "mu": extra}]}

    def truth(question: RandomQuestion) -> Any:
        mu = mpmath.sqrt(steps / mpf(noise) ** 2 + mpf(extra) ** 2)

        def delta(epsilon: Any) -> Any:
            return tail(epsilon / mu - mu / 2) - mpmath.exp(epsilon) * tail(epsilon / mu + mu / 2)

        if question.reading == "power":
            return tail(_normal_quantile(mpf(question.at)) - mu)
        return delta(mpf(question.at)) if question.reading == "delta" else _inverse(delta, mpf(question.at))

    return spec, truth


@dataclass(frozen=True)
class _Step:
    """One sampled Gaussian step: H0 = N(0, 1), H1 = (1 - p) N(0, 1) + p N(mu, 1). The loss increases with y."""

    mu: Any
    rate: Any

    def ratio(self, y: Any) -> Any:
        return 1 - self.rate + self.rate * mpmath.exp(self.mu * y - self.mu**2 / 2)

    def place(self, threshold: Any) -> Any:
        """Return the y whose loss is the threshold, above ln(1 - p)."""
        return mpmath.log1p(mpmath.expm1(threshold) / self.rate) / self.mu + self.mu / 2

    def delta(self, epsilon: Any) -> Any:
        """Return E0 (w - e^eps)_+ for every real eps.

        w is the likelihood ratio.
        """
        if epsilon <= mpmath.log1p(-self.rate):
            return -mpmath.expm1(epsilon)
        y = self.place(epsilon)
        return self.rate * tail(y - self.mu) + (1 - self.rate - mpmath.exp(epsilon)) * tail(y)

    def reversed_delta(self, epsilon: Any) -> Any:
        """Return E0 (1 - e^eps w)_+, delta for swapped hypotheses, with the likelihood ratio w."""
        if epsilon >= -mpmath.log1p(-self.rate):
            return mpf(0)
        y, factor = self.place(-epsilon), mpmath.exp(epsilon)
        return tail(-y) * (1 - factor * (1 - self.rate)) - factor * self.rate * tail(self.mu - y)


def _single(random: Generator, digits: int) -> tuple[Spec, Truth]:
    noise, rate = float(random.uniform(0.3, 5.0)), float(10 ** random.uniform(-4.0, -0.05))

    def truth(question: RandomQuestion) -> Any:
        step, at = _Step(1 / mpf(noise), mpf(rate)), mpf(question.at)
        if question.reading == "power" and question.direction == "add":
            return (1 - step.rate) * at + step.rate * tail(_normal_quantile(at) - step.mu)
        if question.reading == "power":
            return _power_of_remove(step, at)
        delta = step.delta if question.direction == "add" else step.reversed_delta
        return delta(at) if question.reading == "delta" else _inverse(delta, at)

    return sampled(rate, gaussian(noise)), truth


def _power_of_remove(step: _Step, alpha: Any) -> Any:
    """Return P0(y < t) for the t with P1(y < t) = alpha."""

    def missing(t: Any) -> Any:
        return (1 - step.rate) * tail(-t) + step.rate * tail(step.mu - t) - alpha

    low, high = mpf(-12), mpf(12)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if missing(middle) < 0 else (low, middle)
    t = (low + high) / 2
    for _ in range(8):
        t -= missing(t) / ((1 - step.rate) * mpmath.npdf(t) + step.rate * mpmath.npdf(t - step.mu))
    return tail(-t)


def _two_steps(random: Generator, digits: int) -> tuple[Spec, Truth]:
    """Draw two steps. delta(eps) = E0 w(y) delta_1(eps - ln w(y)) over y of the first step, by quadrature unless it
    is tiny.
    """
    noise, rate = float(random.uniform(2.0, 8.0)), float(random.uniform(0.1, 0.9))

    def truth(question: RandomQuestion) -> Any:
        if question.reading != "delta":
            return None
        step, epsilon = _Step(1 / mpf(noise), mpf(rate)), mpf(question.at)
        reach = mpmath.sqrt(2 * (digits + EXTRA + 15) * mpmath.log(10)) + 2 * step.mu
        if question.direction == "add":
            # From here on the second step alone exceeds the rest: 1 - e^(eps - ln w).
            kink = step.place(epsilon - mpmath.log1p(-step.rate))

            def gain(y: Any) -> Any:
                ratio = step.ratio(y)
                return mpmath.npdf(y) * ratio * step.delta(epsilon - mpmath.log(ratio))

            return _unless_tiny(mpmath.quad(gain, _panels(-reach, kink, reach)))
        end = -2 * mpmath.log1p(-step.rate)
        if epsilon >= end:
            return mpf(0)
        kink = step.place(-epsilon - mpmath.log1p(-step.rate))

        def loss(y: Any) -> Any:
            return mpmath.npdf(y) * step.reversed_delta(epsilon + mpmath.log(step.ratio(y)))

        return _unless_tiny(mpmath.quad(loss, _panels(-reach, min(kink, reach), min(kink, reach))))

    return dpsgd(noise, rate, 2), truth


def _unless_tiny(value: Any) -> Any:
    """Return the value, or None if it is small.

    The truncated part of a small value is only known to be below 10^-(digits + EXTRA + 10).
    """
    return value if value > mpf(10) ** -8 else None


def _panels(low: Any, middle: Any, high: Any) -> list[Any]:
    """Return the endpoints of integration panels from `low` to `high` of a width of at most 2; `middle` is one."""
    found = [low]
    for end in (middle, high):
        if end <= found[-1]:
            continue
        start, count = found[-1], max(1, math.ceil((end - found[-1]) / 2))
        found += [start + (end - start) * k / count for k in range(1, count + 1)]
    return found


def _run(random: Generator, digits: int) -> tuple[Spec, Truth]:
    """Draw a run of steps, of one kind or mixed, whose truth is the number of `ground_truth` with more digits."""
    runs = [
        dpsgd(float(random.uniform(0.8, 4.0)), float(10 ** random.uniform(-2.5, -0.5)), int(random.integers(60, 5000)))
        for _ in range(random.integers(1, 3))
    ]
    spec = {"type": "composed", "mechanisms": [*runs, gaussian(4.0)]} if len(runs) > 1 else runs[0]
    more = min(digits + EXTRA, DIGITS[1])

    def truth(question: RandomQuestion) -> Any:
        if more - digits < 5:
            return None
        decimal = question.ask(_ground_truth(spec, more)).decimal
        return None if decimal is None else mpf(decimal.value)

    return spec, truth


def _inverse(falling: Callable[[Any], Any], level: Any) -> Any:
    """Return the smallest x >= 0 with falling(x) <= level, by bisection and secants."""
    if falling(mpf(0)) <= level:
        return mpf(0)
    low, high = mpf(0), mpf(1)
    while falling(high) > level:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > level else (low, middle)
    return mpmath.findroot(
        lambda x: falling(x) - level, (low, high), solver="anderson", tol=mpf(10) ** (-2 * mpmath.mp.dps), verify=False
    )


KINDS: Final[dict[str, Callable[[Generator, int], tuple[Spec, Truth]]]] = {
    "one sampled step": _single,
    "Gaussian steps": _gaussians,
    "two sampled steps": _two_steps,
    "runs": _run,
}
