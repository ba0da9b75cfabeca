"""Readings of a curve from balls of its thresholds, proved from both sides.

With alpha(c - m) >= alpha >= alpha(c + m) proved, the slope of the power between alpha and alpha(c) lies in
[e^{c-m}, e^{c+m}], so that power(alpha) = power(c) + e^{[c-m, c+m]} (alpha - alpha(c)). No error of c enters.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from flint import arb, ctx

from service.privacy.composition.ground_truth_line import Threshold
from service.privacy.composition.ground_truth_sources import ThresholdSource
from service.privacy.numerics.balls import ball

_NEWTON_STEPS = 80
_LARGEST_STEP = 4.0
_MARGINS = (3.0, 100.0, 1e5, 1e9)


Balls = tuple[arb, ...]
"""What a reading consists of, the number asked for first."""

Reading = tuple[Balls | None, float]
"""What was proved, if anything was, and the threshold at which the search ended."""


def read_point(source: ThresholdSource, false_positive_rate: Fraction, guess: float) -> Reading:
    """Power and threshold of the best test at a rate in (0, 1), searched from a threshold on."""
    with ctx.workprec(source.bits):
        rate, upper = ball(false_positive_rate), false_positive_rate < 0.5

        def difference(test: Threshold) -> tuple[arb, arb]:
            tail, goal = test.false_positive_rate, rate
            if upper:
                return _log_step(tail, goal, tail / test.density), (tail - goal) / test.density
            tail, goal = 1 - tail, 1 - rate
            return -_log_step(tail, goal, tail / test.density), (goal - tail) / test.density

        c = _newton(source, arb(guess), difference)
        found = source.at(c)
        for margin in _margins(found.false_positive_rate, found.density, c, source.bits):
            left, right = (c - margin).mid(), (c + margin).mid()
            if source.at(left).false_positive_rate >= rate and source.at(right).false_positive_rate <= rate:
                between = left.union(right)
                return (found.power + between.exp() * (rate - found.false_positive_rate), between), float(c)
        return None, float(c)


def read_profile(source: ThresholdSource, epsilon: arb) -> arb:
    """delta(eps) = power(eps) - e^eps alpha(eps)."""
    with ctx.workprec(source.bits):
        test = source.at(epsilon)
        return test.power - epsilon.exp() * test.false_positive_rate


def read_epsilon(source: ThresholdSource, level: Fraction, guess: float) -> Reading:
    """The root of delta(eps) = delta, searched from `guess` on; its ball may reach below 0."""
    with ctx.workprec(source.bits):
        delta = ball(level)

        def difference(test: Threshold) -> tuple[arb, arb]:
            # d delta/d eps = -e^eps alpha(eps), and power - delta = e^eps alpha.
            value = test.power - current[0].exp() * test.false_positive_rate
            slope = test.power - value
            return _log_step(value, delta, value / slope), (value - delta) / slope

        current = [arb(guess)]
        root = _newton(source, current[0], difference, current)
        value, test = read_profile(source, root), source.at(root)
        for margin in _margins(value, test.power - value, root, source.bits):
            left, right = (root - margin).mid(), (root + margin).mid()
            if read_profile(source, left) >= delta and read_profile(source, right) <= delta:
                return (left.union(right),), float(root)
        return None, float(root)


def _log_step(value: arb, goal: arb, scale: arb) -> arb:
    """Newton's step for ln value = ln goal, `scale` = -value/(d value/dc)."""
    return (value / goal).log() * scale


def _margins(value: arb, slope: arb, root: arb, bits: int) -> list[arb]:
    """Distances at which the root should be proved, from the radius of the value, smallest first."""
    spread = value.rad() / abs(slope).mid() + (abs(root) + 1) * arb(2) ** (8 - bits)
    return [spread.mid() * factor for factor in _MARGINS] if spread.is_finite() else []


def _newton(
    source: ThresholdSource,
    start: arb,
    difference: Callable[[Threshold], tuple[arb, arb]],
    current: list[arb] | None = None,
) -> arb:
    """A threshold at which the difference, as a step of c, is within its own radius, or where the source's reach ends."""
    c, settled = start, 0
    for _ in range(_NEWTON_STEPS):
        if current is not None:
            current[0] = c
        test = source.at(c)
        step, plain = difference(test)
        if not step.is_finite():
            break
        # Once the residual is inside its radius, one more step changes nothing.
        if plain.contains(0):
            settled += 1
            if settled > 1:
                break
        largest = arb(_LARGEST_STEP) * (test.false_positive_rate / test.density).mid()
        move = step.mid()
        c = (c + (move if abs(move) < abs(largest) else _sign(move) * abs(largest))).mid()
    return c


def _sign(value: arb) -> int:
    return 1 if value > 0 else -1
