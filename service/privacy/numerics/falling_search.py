"""Bracketing search for the roots of many decreasing functions at once.

The functions are evaluated as enclosures. Each round evaluates every open function at 18 points: within the bracket,
around the interpolated root, and a few units in the last place from the root. A point with a positive lower bound is
proved to lie left of the root. A point with a non-positive upper bound is proved to lie right of the root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.work import count_work, is_spent

INNER: Final = np.array([1 / 16, 0.25, 0.5, 0.75, 15 / 16])
"""Points of a round within the bracket, as shares of its width."""
FAR: Final = np.array([-0.1, -1e-2, -1e-4, -1e-6, 0.0, 1e-6, 1e-4, 1e-2, 0.1])
"""Offsets from the interpolated root, as shares of the width of the bracket. A good interpolation lies between two."""
NEAR: Final = np.array([-512.0, -8.0, 8.0, 512.0])
"""Offsets from the interpolated root in units in the last place."""
A_ROUND: Final = 300.0
"""Work of a round without the evaluations, in microseconds, roughly."""
STEP: Final = 4.0
STRIDE: Final = 1 / 8
MOST_ROUNDS: Final = 30
MOST_STALLS: Final = 2
CLOSE: Final = 1e-8
"""Width in position and in value below which the search stops: the remaining error is of second order in both."""
FINEST: Final = 32.0
"""Smallest width of a proved bracket in units in the last place."""


@dataclass(frozen=True, slots=True)
class FallingValues:
    """Enclosures of n decreasing functions at K points each.

    Attributes
    ----------
    lower, upper : array, shape (K, n)
        Bounds of the values.
    middle : array, shape (K, n)
        Estimates of the values; not-a-number where the value is unknown.
    rows : array, shape (R, K, n)
        R further numbers that the search stores for each point.
    """

    lower: FloatArray
    upper: FloatArray
    middle: FloatArray
    rows: FloatArray


Evaluate = Callable[[FloatArray, IndexArray], FallingValues]
"""Evaluates points of shape (K, n) for the elements with n given indices."""


class FallingSearch:
    """Search for the roots of n decreasing functions, with proved and estimated brackets of each root.

    Attributes
    ----------
    left, right : array, shape (n,)
        Last point proved to be left of the root (positive lower bound) and first point proved to be right of the root
        (upper bound not positive). They are minus infinity and infinity without such a point.
    left_rows, right_rows, low_rows, high_rows : array, shape (R, n)
        The R stored numbers of four points: `left`, `right`, the last point with a positive estimate and the first
        point with an estimate that is not positive. They are not-a-number without such a point.
    """

    def __init__(self, start: FloatArray, end: FloatArray, rows: int) -> None:
        """Set up a search for n roots between `start` and `end`, arrays of shape (n,).

        `rows` is the count of further numbers that are stored for each evaluated point.
        """
        count = len(start)
        self.left, self.right = np.full(count, -np.inf), np.full(count, np.inf)
        self.left_rows, self.right_rows, self.low_rows, self.high_rows = np.full((4, rows, count), np.nan)
        self._start, self._end = start, end
        self._low, self._high = start.copy(), end.copy()
        self._low_value, self._high_value = np.full(count, np.inf), np.full(count, -np.inf)
        self._stalls = np.zeros(count, dtype=np.intp)

    def run(self, evaluate: Evaluate) -> None:
        """Evaluate functions in rounds until the intervals around all roots are at rounding width or stop shrinking.

        A round calls `evaluate` with new points of shape (K, m) and the indices, shape (m,), of the functions that are
        still searched. `evaluate` returns the values of these functions at the points. The search also ends after
        MOST_ROUNDS rounds, and when the allowed work is spent.
        """
        active = np.arange(len(self.left))
        for _ in range(MOST_ROUNDS):
            active = active[self._is_open(active)]
            if not active.size or is_spent():
                return
            count_work(A_ROUND)
            points = self._next_points(active)
            gaps = self._gaps(active)
            self.add(active, points, evaluate(points, active))
            stalled = (self._gaps(active) > 0.5 * gaps).all(axis=0)
            self._stalls[active] = np.where(stalled, self._stalls[active] + 1, 0)

    def add(self, which: IndexArray, points: FloatArray, values: FallingValues) -> None:
        """Narrow the intervals of the functions with indices `which` by `values` at `points` of shape (K, n).

        n is the number of these functions. Each has one root, inside its interval, and K points, which increase along
        the first axis.
        """
        is_left, is_right = values.lower > 0, values.upper <= 0
        last, any_left = _last(is_left)
        first, any_right = _first(is_right)
        _update(self.left, self.left_rows, which, points, values.rows, last, any_left, 1)
        _update(self.right, self.right_rows, which, points, values.rows, first, any_right, -1)
        after, any_after = _first(values.middle <= 0)
        before, any_before = _last((values.middle > 0) & ((np.arange(len(points))[:, None] < after) | ~any_after))
        chosen = _update(self._high, self.high_rows, which, points, values.rows, after, any_after, -1)
        self._high_value[which[chosen]] = values.middle[after, np.arange(len(which))][chosen]
        chosen = _update(self._low, self.low_rows, which, points, values.rows, before, any_before, 1)
        self._low_value[which[chosen]] = values.middle[before, np.arange(len(which))][chosen]

    def _next_points(self, which: IndexArray) -> FloatArray:
        low, high = self._low[which], np.maximum(self._high[which], self._low[which])
        above, below = self._low_value[which], self._high_value[which]
        # An endpoint without a value may be very far, where evaluations are expensive: approach it step by step.
        step = np.maximum(STEP, STRIDE * (high - low))
        low = np.where(np.isfinite(above), low, np.maximum(low, high - step))
        high = np.where(np.isfinite(below), high, np.minimum(high, low + step))
        span = high - low
        with np.errstate(all="ignore"):
            share = above / (above - below)
        guess = low + np.where((share >= 0) & (share <= 1) & np.isfinite(above), share, 0.5) * span
        near = NEAR[:, None] * _unit(guess)
        points = np.concatenate((guess + FAR[:, None] * span, low + INNER[:, None] * span, guess + near))
        least = np.maximum(self.left[which], self._start[which])
        most = np.maximum(np.minimum(self.right[which], self._end[which]), least)
        return np.sort(np.minimum(np.maximum(points, least), most), axis=0)

    def _gaps(self, which: IndexArray) -> FloatArray:
        """Return the widths of two intervals around each root of the functions with indices `which`, shape (2, n).

        The first interval is proved. The second lies between the last point with a positive estimate of the function
        and the first point with an estimate that is not positive.
        """
        least, most = np.maximum(self.left[which], self._start[which]), np.minimum(self.right[which], self._end[which])
        return np.stack((most - least, self._high[which] - self._low[which]))

    def _is_open(self, which: IndexArray) -> NDArray[np.bool_]:
        proved, searched = self._gaps(which)
        close = (np.maximum(proved, searched) <= CLOSE) & (self._low_value[which] - self._high_value[which] <= CLOSE)
        return ~close & (proved > FINEST * _unit(self._low[which])) & (self._stalls[which] < MOST_STALLS)


def _first(where: NDArray[np.bool_]) -> tuple[IndexArray, NDArray[np.bool_]]:
    return np.argmax(where, axis=0), np.asarray(where.any(axis=0))


def _last(where: NDArray[np.bool_]) -> tuple[IndexArray, NDArray[np.bool_]]:
    return len(where) - 1 - np.argmax(where[::-1], axis=0), np.asarray(where.any(axis=0))


def _update(
    places: FloatArray,
    kept: FloatArray,
    which: IndexArray,
    points: FloatArray,
    rows: FloatArray,
    index: IndexArray,
    known: NDArray[np.bool_],
    side: int,
) -> NDArray[np.bool_]:
    """Move `places` in place to points[index] where these are nearer to the root, and return a mask of the moved.

    `which`, shape (n,), has the indices of the places. `points` has the shape (K, n), and `index`, `known` and the
    result have the shape (n,). The numbers in `kept`, shape (R, all places), are replaced as well, by those of `rows`,
    shape (R, K, n). A place moves only where `known` is true, with `side` 1 to the right and with side -1 to the left.
    """
    columns = np.arange(len(which))
    found = points[index, columns]
    better = known & (side * found >= side * places[which])
    chosen = which[better]
    places[chosen] = found[better]
    kept[:, chosen] = rows[:, index, columns][:, better]
    return better


def _unit(points: FloatArray) -> FloatArray:
    """Return the spacing of doubles at each point, or the spacing at 1 for points below 1 in size."""
    return 2.0**-52 * np.maximum(np.abs(points), 1.0)
