"""Points of the largest convex curve below several curves, from their best tests at thresholds.

An attacker may draw one of several pairs of laws, and knows which one was drawn (decision 0008). A test has a false
positive rate and a power, and a drawn test has averages of both. So every chord between two tests bounds the power from
below. Every threshold c bounds it from above: power(alpha) <= M(c) + e^c alpha with the largest profile M. A search
moves c to the slope of the best chord, where both bounds meet in the end: the chord is an edge of the curve.

The type II error has the same bounds as 1 - power. For c < 0 both use the profile M' of the swapped hypotheses at -c,
as 1 - power >= e^c (1 - alpha - M'(-c)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.bounded_tests import SLACK, BoundedTests

CLOSE: Final = 2e-12
"""Relative distance of both bounds at which a search stops."""
MOST_STEPS: Final = 40


@final
@dataclass(slots=True)
class PointSearch:
    """Search of the power and of the type II error at one false positive rate alpha in (0, 1).

    Attributes
    ----------
    rate : float
        alpha.
    power, error : (float, float)
        Lower and upper bounds.
    """

    rate: float
    power: tuple[float, float] = (0.0, 1.0)
    error: tuple[float, float] = (0.0, 1.0)
    _left: list[tuple[float, float, float, float]] = field(default_factory=lambda: [(0.0, 1.0, 0.0, 1.0)])
    _right: list[tuple[float, float, float, float]] = field(default_factory=lambda: [(1.0, 0.0, 1.0, 0.0)])

    def add(self, tests: BoundedTests) -> None:
        """Add tests as possible ends of chords. A chord joins a test with a smaller and one with a larger rate."""
        for index in range(len(tests.rate)):
            each = tests[index]
            (self._left if each[0] <= self.rate else self._right).append(each)

    def bound(self, c: float, log_delta: float) -> None:
        """Bound the power from above, and the type II error from below, by the profile at a threshold c, in nats.

        `log_delta` is an upper bound of ln M(c) for c >= 0, and of ln M'(-c) for c < 0. M is the largest profile of the
        pairs of laws, and M' that of the swapped hypotheses.
        """
        if c >= 0:
            most = (math.exp(log_delta) + math.exp(c) * self.rate) * (1 + SLACK)
            least = (1 - most) * (1 - UNIT_ROUNDOFF) - UNIT_ROUNDOFF
        else:
            room = (1 - self.rate) * (1 - UNIT_ROUNDOFF) - math.exp(log_delta) * (1 + SLACK)
            least = math.exp(c) * (room - SLACK * abs(room))
            most = 1 - least + UNIT_ROUNDOFF
        self.power = self.power[0], min(self.power[1], most, 1.0)
        self.error = max(self.error[0], least), self.error[1]

    def chord(self) -> float:
        """Bound the power from below by the chord of two tests that is highest at the rate; return its log slope.

        The chord bounds the type II error from above, too. Only its two tests are kept. The result is NaN if the chord
        has no positive slope.
        """
        left, right = (np.array(each) for each in (self._left, self._right))
        run = right[None, :, 0] - left[:, None, 0]
        with np.errstate(all="ignore"):
            share = np.where(run > 0, (self.rate - left[:, None, 0]) / run, 0.0)
            heights = left[:, None, 2] + share * (right[None, :, 2] - left[:, None, 2])
        first, second = np.unravel_index(int(np.argmax(heights)), heights.shape)
        one, other = self._left[int(first)], self._right[int(second)]
        self._left, self._right = [one], [other]  # chords of later rounds start from this one
        width = other[0] - one[0] if other[0] <= 0.5 else one[1] - other[1]
        if width <= 0:
            return math.nan
        # Distances of the rate from both tests, rounded to the right: this weakens the drawn test.
        beyond, size = _distance(one, self.rate)
        until, far = _distance(other, self.rate)
        beyond, until = max(beyond - 4 * UNIT_ROUNDOFF * size, 0.0), max(4 * UNIT_ROUNDOFF * far - until, SMALLEST)
        power = one[2] + beyond / (beyond + until) * (other[2] - one[2])
        error = other[3] + until / (beyond + until) * (one[3] - other[3])
        self.power = max(self.power[0], power * (1 - SLACK)), self.power[1]
        self.error = self.error[0], min(self.error[1], error * (1 + SLACK))
        rise = other[2] - one[2] if other[2] <= 0.5 else one[3] - other[3]
        return math.log(rise / width) if rise > 0 else math.nan

    @property
    def is_close(self) -> bool:
        """Whether both pairs of bounds are within the relative distance `CLOSE`."""
        (low, high), (least, most) = self.power, self.error
        return high - low <= CLOSE * high and most - least <= CLOSE * max(most, 1e-9)

    def ends(self) -> tuple[float, float, float, float]:
        """Return lower and upper bounds of the power, then of the type II error."""
        power, error = max(self.power[0], self.rate), min(self.error[1], 1 - self.rate)
        return power, max(self.power[1], power), min(self.error[0], error), error


def _distance(test: tuple[float, float, float, float], rate: float) -> tuple[float, float]:
    """Return `rate` minus the rate of a test (rate, rest, power, error), and the sum of the two subtracted numbers."""
    if test[0] <= 0.5:
        return rate - test[0], rate + test[0]
    return test[1] - (1 - rate), test[1] + (1 - rate)


def searched_point(
    rate: float, starts: Sequence[float], top: float, evaluate: Callable[[float], tuple[float, Sequence[BoundedTests]]]
) -> tuple[float, float, float, float]:
    """Return (lower, upper) bounds of the power, then of the type II error, at a false positive `rate` in (0, 1).

    The search starts with the thresholds `starts`, and evaluates none above `top` in size (nats). `evaluate`
    returns, at a threshold c, an upper bound of ln M(c) for c >= 0 and of ln M'(-c) for c < 0, and tests near c. M
    is the largest profile of the pairs of laws, and M' that of the swapped hypotheses.
    """
    search = PointSearch(rate)
    queue, known = list(starts), set[float]()
    for _ in range(MOST_STEPS):
        slope = queue.pop(0) if queue else search.chord()
        c = min(max(slope, -top), top)
        if search.is_close or is_spent() or not math.isfinite(c) or c in known:
            break
        known.add(c)
        log_delta, tests = evaluate(c)
        search.bound(c, log_delta)
        for each in tests:
            search.add(each)
    search.chord()
    return search.ends()
