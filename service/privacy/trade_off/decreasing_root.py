"""Where a decreasing curve reading meets a level, with certified ends."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from service.privacy.enclosure import Bounds, Enclosure, Evidence, FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.logs import log_ends

Reading = Callable[[FloatArray], Bounds]
MOST_EVALUATIONS = 80


def decreasing_root(
    reading: Reading, level: float, low: float, high: float, evidence: Evidence = Evidence.EXACT
) -> Enclosure:
    """Encloses the smallest x in [low, high] with reading(x) <= level, for a decreasing reading and 0 < level < 1.

    `reading(low) > level >= reading(high)` must hold of the truth; it need not be evident from the enclosures. The
    search (secant in logarithms, kept inside a bracket) is uncertified; its result is then widened until the enclosures
    of the reading at both ends prove that the root lies between them, or the given ends are reached. `evidence` is that
    of the reading.
    """
    target = math.log(level)
    slack = 4 * UNIT_ROUNDOFF * (1 - target)

    def logs(points: list[float]) -> list[tuple[float, float]]:
        lower, upper = log_ends(reading(np.array(points)))
        return [(lo - target, up - target) for lo, up in zip(lower.tolist(), upper.tolist(), strict=True)]

    guess, noise = _secant(logs, low, high)
    radius = max(noise, 2 * math.ulp(guess))
    left, right = low, high
    left_done = right_done = False
    while not (left_done and right_done):
        at_left, at_right = max(guess - radius, low), min(guess + radius, high)
        (lower, _), (_, upper) = logs([at_left, at_right])
        if not left_done and (at_left == low or lower >= slack):
            left, left_done = at_left, True
        if not right_done and (at_right == high or upper <= -slack):
            right, right_done = at_right, True
        radius *= 3
    return Enclosure(left, right, evidence)


def increasing_root(
    reading: Reading, level: float, low: float, high: float, evidence: Evidence = Evidence.EXACT
) -> Enclosure:
    """The same for an increasing reading: encloses the largest x in [low, high] with reading(x) <= level."""
    mirrored = decreasing_root(lambda points: reading(-points), level, -high, -low, evidence)
    return Enclosure(-mirrored.upper, -mirrored.lower, mirrored.evidence)


def _secant(logs: Callable[[list[float]], list[tuple[float, float]]], low: float, high: float) -> tuple[float, float]:
    """An approximate root and about how far rounding noise can have moved it (Illinois: secant inside a bracket)."""
    (at_low, at_high) = map(_middle, logs([low, high]))
    if at_low <= 0:
        return low, 0.0
    if at_high >= 0:
        return high, 0.0
    x, side = low, 0
    for _ in range(MOST_EVALUATIONS):
        step = (high - low) * at_low / (at_low - at_high) if math.isfinite(at_high) else (high - low) / 2
        x = min(max(low + step, low), high)
        if x in (low, high):
            x = low + (high - low) / 2
        ends = logs([x])[0]
        value = _middle(ends)
        spread = ends[1] - ends[0]
        slope = abs((at_high - at_low) / (high - low)) if math.isfinite(at_high) else math.inf
        if abs(value) <= spread or high - low <= 4 * math.ulp(high):
            return x, 1.5 * spread / slope if slope > 0 else high - low
        if value > 0:
            at_high = at_high / 2 if side > 0 else at_high
            low, at_low, side = x, value, 1
        else:
            at_low = at_low / 2 if side < 0 else at_low
            high, at_high, side = x, value, -1
    return x, high - low


def _middle(ends: tuple[float, float]) -> float:
    return ends[1] if math.isinf(ends[0]) else 0.5 * (ends[0] + ends[1])
