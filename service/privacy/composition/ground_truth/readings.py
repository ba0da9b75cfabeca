"""Points, profiles and epsilons from balls of tests, proved from both sides.

alpha(c) is the false positive rate of the test S > c of the loss S, and m a margin. If alpha(c - m) >= alpha >= alpha(c
+ m) is proved, the slope of the power between alpha and alpha(c) lies in [e^{c-m}, e^{c+m}]. So power(alpha) = power(c)
+ e^{[c-m, c+m]} (alpha - alpha(c)). An error of c has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from service.privacy.composition.ground_truth.contour import Threshold
from service.privacy.composition.ground_truth.sources import ThresholdSource
from service.privacy.numerics.balls import ball

_NEWTON_STEPS = 80
_LARGEST_STEP = 4
"""Largest step of Newton's method, over tail/density: about this number of e-folds of the tail."""
_MARGINS = (3, 100, 10**5, 10**9)
"""Distances of the thresholds that prove a root on both sides, over its uncertainty, tried in this order."""

Balls = tuple[arb, ...]
"""Numbers of a result, the requested number first. A point has power, threshold and type II error."""

Reading = tuple[Balls | None, float]
"""The proved numbers or None, and the threshold at which the search ended."""

_Residual = Callable[[arb, Threshold], tuple[arb, arb, arb]]
"""Function of a threshold and its test: a falling value, its goal, and its absolute slope."""


def read_point(source: ThresholdSource, false_positive_rate: Fraction, guess: float) -> Reading:
    """Return power and threshold of the best test at a false positive rate.

    Parameters
    ----------
    source : ThresholdSource
        Tests for exact thresholds.
    false_positive_rate : Fraction
        In (0, 1).
    guess : float
        Threshold (nats) at which the search starts.

    Returns
    -------
    Reading
        Balls of power, threshold (nats) and type II error, and the last threshold of the search. The balls are None if
        no two thresholds are proved to enclose the rate.
    """
    with ctx.workprec(source.bits):
        rate, upper = ball(false_positive_rate), false_positive_rate < 0.5

        def residual(_: arb, test: Threshold) -> tuple[arb, arb, arb]:
            tail = test.false_positive_rate
            return (tail, rate, test.density) if upper else (1 - tail, 1 - rate, -test.density)

        c = _newton(source, arb(guess), residual)
        found = source.at(c)
        for margin in _margins(found.false_positive_rate, found.density, c, source.bits):
            left, right = (c - margin).mid(), (c + margin).mid()
            if source.at(left).false_positive_rate >= rate and source.at(right).false_positive_rate <= rate:
                between = left.union(right)
                moved = between.exp() * (rate - found.false_positive_rate)
                return (found.power + moved, between, found.missed - moved), float(c)
        return None, float(c)


def read_profile(source: ThresholdSource, epsilon: arb) -> arb:
    """Return a ball of the privacy profile at `epsilon` (nats), from the test that the loss exceeds epsilon.

    The profile is power - e^epsilon alpha, where alpha is the false positive rate of the test. `source` gives the test.
    The ball may be wide, or NaN, if the source has too few bits.
    """
    with ctx.workprec(source.bits):
        test = source.at(epsilon)
        return test.power - epsilon.exp() * test.false_positive_rate


def read_epsilon(source: ThresholdSource, delta: Fraction, guess: float) -> Reading:
    """Return the root eps (nats) of delta(eps) = delta as a ball (interval), which may extend below 0.

    Parameters
    ----------
    source : ThresholdSource
        Tests for exact thresholds.
    delta : Fraction
        delta, in (0, 1).
    guess : float
        Threshold at which the search starts.

    Returns
    -------
    Reading
        The ball of epsilon, and the last threshold of the search. The ball is None if no two epsilons are proved to
        enclose the root.
    """
    with ctx.workprec(source.bits):
        target = ball(delta)

        def residual(threshold: arb, test: Threshold) -> tuple[arb, arb, arb]:
            slope = threshold.exp() * test.false_positive_rate  # d delta/d eps = -e^eps alpha(eps)
            return test.power - slope, target, slope

        root = _newton(source, arb(guess), residual)
        value, _, slope = residual(root, source.at(root))
        for margin in _margins(value, slope, root, source.bits):
            left, right = (root - margin).mid(), (root + margin).mid()
            if read_profile(source, left) >= target >= read_profile(source, right):
                return (left.union(right),), float(root)
        return None, float(root)


def _margins(value: arb, slope: arb, root: arb, bits: int) -> list[arb]:
    """Return increasing distances from an approximate root at which the root may be proved.

    The distances are multiples of the radius of `value` over `slope`. The list is empty if this quotient is not finite.
    `bits` is the working precision.
    """
    spread = value.rad() / abs(slope).mid() + (abs(root) + 1) * arb(2) ** (8 - bits)
    return [spread.mid() * factor for factor in _MARGINS] if spread.is_finite() else []


def _newton(source: ThresholdSource, start: arb, residual: _Residual) -> arb:
    """Return about the threshold (nats) at which ln value = ln goal, by Newton's method from `start`.

    `residual` gives value, goal and slope of the value at a threshold. The search ends where the value is near the
    goal, after a fixed number of steps, or where a step is not finite. No proof relies on the result. `source` gives
    the tests.
    """
    c, settled = start, False
    for _ in range(_NEWTON_STEPS):
        value, goal, slope = residual(c, source.at(c))
        scale = (value / slope).mid()
        step = ((value / goal).log() * scale).mid()
        if not step.is_finite():
            break
        largest = _LARGEST_STEP * abs(scale)
        c = (c + (step if abs(step) < largest else largest if step > 0 else -largest)).mid()
        # Within the radius of the value the search is complete. It takes the step into the radius, and one more.
        if (value - goal).contains(0):
            if settled:
                break
            settled = True
    return c
