"""Where many falling readings cross zero, all searched for at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.intp]
Reading = Callable[[FloatArray, IndexArray], tuple[FloatArray, FloatArray, FloatArray]]
"""(points (K, n), which n elements) -> lower and upper ends of the readings (K, n), and what to remember (R, K, n)."""

INNER: Final = np.array([1 / 16, 0.25, 0.5, 0.75, 15 / 16])
"""Where a round looks, in widths of the bracket ..."""
FAR: Final = np.array([-0.1, -1e-2, -1e-4, -1e-6, 0.0, 1e-6, 1e-4, 1e-2, 0.1])
"""... in widths of the bracket around the interpolated root, which sits tightly in one of these gaps when it is good ..."""
NEAR: Final = np.array([-512.0, -8.0, 8.0, 512.0])
"""... and in units in the last place around it."""
MOST_ROUNDS: Final = 60
MOST_STALLS: Final = 2
CLOSE: Final = 1e-8
"""Ends as close as this in place and in value need no further round where errors are of second order in both ..."""
FINEST: Final = 32.0
"""... and no ends are brought closer than so many units in the last place."""


class FallingSearch:
    """For each element, the last point proved to be left of the root of its reading and the first proved right of it.

    A point is left when the lower end of the reading is positive, right when the upper end is not, else undecided.
    `left` is minus infinity, `right` infinity, while no point is proved; `left_rows` and `right_rows` (R, n) hold what
    the readings at these points told to remember, `undecided_rows` the same of an undecided point, not-a-number if
    there was none. Where to look is guessed from the middles of the readings, which need not be
    monotone for the proofs.
    """

    def __init__(self, low: FloatArray, high: FloatArray, rows: int) -> None:
        """`low`, `high`: shape (n,), where each element is searched."""
        count = len(low)
        self.left, self.right = np.full(count, -np.inf), np.full(count, np.inf)
        self.left_rows, self.right_rows = np.full((rows, count), np.nan), np.full((rows, count), np.nan)
        self.undecided_rows, self._undecided_value = np.full((rows, count), np.nan), np.full(count, np.inf)
        self._left_value, self._right_value = np.full(count, np.inf), np.full(count, -np.inf)
        self._low, self._high = low.copy(), high.copy()
        self._low_value, self._high_value = np.full(count, np.inf), np.full(count, -np.inf)
        self._start, self._end = low, high
        self._stalls = np.zeros(count, dtype=np.intp)

    def run(self, reading: Reading) -> None:
        """Rounds of looks, until the ends are close or do not come closer."""
        active = np.arange(len(self.left))
        for _ in range(MOST_ROUNDS):
            active = active[self._is_open(active)]
            if not active.size:
                return
            points = self._looks(active)
            before = self._gap(active)
            self.add(active, points, *reading(points, active))
            # A search that has proved neither end goes on, as does one whose gap is halved.
            stalled = self._gap(active) > 0.5 * before
            self._stalls[active] = np.where(stalled, self._stalls[active] + 1, 0)

    def add(
        self, which: IndexArray, points: FloatArray, lower: FloatArray, upper: FloatArray, rows: FloatArray
    ) -> None:
        """What readings at points (K, n), rising along the first axis, tell about the elements `which`."""
        columns = np.arange(len(which))
        is_left, is_right = lower > 0, upper <= 0
        last = len(points) - 1 - np.argmax(is_left[::-1], axis=0)
        first = np.argmax(is_right, axis=0)
        better = is_left.any(axis=0) & (points[last, columns] > self.left[which])
        chosen = which[better]
        self.left[chosen] = points[last, columns][better]
        self._left_value[chosen] = lower[last, columns][better]
        self.left_rows[:, chosen] = rows[:, last, columns][:, better]
        better = is_right.any(axis=0) & (points[first, columns] < self.right[which])
        chosen = which[better]
        self.right[chosen] = points[first, columns][better]
        self._right_value[chosen] = upper[first, columns][better]
        self.right_rows[:, chosen] = rows[:, first, columns][:, better]
        nearest = np.where(is_left | is_right, np.inf, upper)
        least = np.argmin(nearest, axis=0)
        better = nearest[least, columns] < self._undecided_value[which]
        chosen = which[better]
        self._undecided_value[chosen] = upper[least, columns][better]
        self.undecided_rows[:, chosen] = rows[:, least, columns][:, better]
        self._narrow(which, points, lower, upper)

    def _narrow(self, which: IndexArray, points: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
        """The neighbours between which the middles of the readings change their sign."""
        columns = np.arange(len(which))
        with np.errstate(invalid="ignore"):
            middle = 0.5 * (lower + upper)
        # Of an end that is not known only its sign can tell.
        middle = np.where(
            np.isfinite(middle), middle, np.where(lower > 0, np.inf, np.where(upper <= 0, -np.inf, np.nan))
        )
        crossed = middle <= 0
        after = np.argmax(crossed, axis=0)
        better = crossed.any(axis=0) & (points[after, columns] <= self._high[which])
        chosen = which[better]
        self._high[chosen], self._high_value[chosen] = (part[after, columns][better] for part in (points, middle))
        ahead = (middle > 0) & ((np.arange(len(points))[:, None] < after) | ~crossed.any(axis=0))
        before = len(points) - 1 - np.argmax(ahead[::-1], axis=0)
        better = ahead.any(axis=0) & (points[before, columns] >= self._low[which])
        chosen = which[better]
        self._low[chosen], self._low_value[chosen] = (part[before, columns][better] for part in (points, middle))

    def _looks(self, which: IndexArray) -> FloatArray:
        low, high = self._low[which], np.maximum(self._high[which], self._low[which])
        above, below = self._low_value[which], self._high_value[which]
        span = high - low
        with np.errstate(all="ignore"):
            share = above / (above - below)
        share = np.where(np.isfinite(above) & np.isfinite(below) & (share >= 0) & (share <= 1), share, 0.5)
        guess = low + share * span
        unit = _unit(guess)
        points = np.concatenate(
            (guess + FAR[:, None] * span, low + INNER[:, None] * span, guess + NEAR[:, None] * unit)
        )
        least = np.where(np.isfinite(self.left[which]), self.left[which], self._start[which])
        most = np.where(np.isfinite(self.right[which]), self.right[which], self._end[which])
        return np.sort(np.clip(points, least, np.maximum(least, most)), axis=0)

    def _gap(self, which: IndexArray) -> FloatArray:
        least, most = np.maximum(self.left[which], self._start[which]), np.minimum(self.right[which], self._end[which])
        return most - least

    def _is_open(self, which: IndexArray) -> NDArray[np.bool_]:
        gap = self._gap(which)
        close = (gap <= CLOSE) & (self._left_value[which] - self._right_value[which] <= CLOSE)
        return ~close & (gap > FINEST * _unit(self._low[which])) & (self._stalls[which] < MOST_STALLS)


def _unit(points: FloatArray) -> FloatArray:
    """A unit in the last place, that of 1 for smaller numbers."""
    return 2.0**-52 * np.maximum(np.abs(points), 1.0)
