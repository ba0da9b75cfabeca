"""Points of the largest convex curve below the curves of several laws with listed losses.

Tests of each law reject where the loss is at least one of its values. The curve is the polygon through the outer tests
of all laws. The bounds are those of `drawn_tests.py`: an edge bounds the power from below, because an attacker may draw
one of both laws. The line of its slope that no test exceeds bounds it from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.atomic_law import AtomicLaw

SLACK = 8 * FUNCTION_ERROR
MOST_CELLS = 1 << 20
"""Largest number of entries of an array of edges and tests."""


@final
class ListedEnvelope:
    """Curve of an attacker who may face any of several laws of a loss: the polygon through their best tests.

    No test rejects H0 for outcomes that a law leaves out.

    Parameters
    ----------
    laws : sequence of AtomicLaw
        The laws.
    """

    def __init__(self, laws: Sequence[AtomicLaw]) -> None:
        ends = [np.array([each]) for each in (0.0, 1.0)]
        columns = [[*(np.exp(law.log_above[side]) for law in laws), *ends] for side in (0, 1)] + [
            [*(np.exp(law.log_below[side]) for law in laws), *ends[::-1]] for side in (0, 1)
        ]
        self._dropped = max(law.dropped for law in laws)
        self._relative = max(law.log_above[2] for law in laws) + SLACK
        rate, power, rest, error = (np.concatenate(column) for column in columns)
        order = np.lexsort((-power, rate))
        self._tests = rate[order], rest[order], power[order], error[order]
        kept = _hull(self._tests[0], self._tests[2])
        self.rate, self.rest, self.power, self.error = (column[kept] for column in self._tests)
        with np.errstate(all="ignore"):
            self._runs = _steps(self.rate, self.rest)
            self._slopes = np.log(_steps(self.power, self.error)) - np.log(self._runs)
            self._slopes = np.clip(np.nan_to_num(self._slopes, nan=0.0), -700.0, 700.0)
        self._tops = self._heights()

    def _heights(self) -> FloatArray:
        """Return upper bounds of M(c) for the log slopes c >= 0 of the polygon's edges, and of M'(-c) for c < 0.

        M is the largest profile of the laws, and M' that of the swapped hypotheses.
        """
        more, less = 1 + self._relative, 1 - self._relative
        rate, rest, power, error = self._tests
        found = np.empty_like(self._slopes)
        size = max(MOST_CELLS // len(rate), 1)
        for start in range(0, len(found), size):
            c = self._slopes[start : start + size, None]
            own = power * more - np.exp(c) * rate * less * (1 - SLACK)
            swapped = rest * more - np.exp(-c) * error * less * (1 - SLACK)
            found[start : start + size] = np.where(c[:, 0] >= 0, own.max(axis=1), swapped.max(axis=1))
        return found + SLACK * np.abs(found) + self._dropped

    def points(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return lower and upper bounds of the power, then of the type II error; arrays of the shape of `alpha`."""
        more, less, last = 1 + self._relative, 1 - self._relative, len(self._slopes) - 1
        left = np.where(
            alpha <= 0.5,
            np.searchsorted(self.rate * more, alpha, side="right"),
            np.searchsorted(-self.rest * less, alpha - 1, side="right"),
        )
        edge = np.clip(left - 1, 0, last)
        c, top = self._slopes[edge], self._tops[edge]
        # Distances of the rate from both ends of the edge, rounded to the right: this weakens the drawn test.
        low_half, high_half = self.rate[edge] <= 0.5, self.rate[edge + 1] <= 0.5
        first, second = self.rate[edge] * more, self.rate[edge + 1] * more
        first_rest, second_rest = self.rest[edge] * less, self.rest[edge + 1] * less
        beyond = np.where(low_half, alpha - first, first_rest - (1 - alpha))
        until = np.where(high_half, second - alpha, (1 - alpha) - second_rest)
        beyond -= 4 * UNIT_ROUNDOFF * np.where(low_half, alpha + first, first_rest + 1 - alpha)
        until += 4 * UNIT_ROUNDOFF * np.where(high_half, alpha + second, second_rest + 1 - alpha)
        beyond, until = np.maximum(beyond, 0.0), np.maximum(until, SMALLEST)
        share, rest = beyond / (beyond + until), until / (beyond + until)
        low = self.power[edge] + share * (self.power[edge + 1] - self.power[edge])
        missed = self.error[edge + 1] + rest * (self.error[edge] - self.error[edge + 1])
        most = (top + np.exp(c) * alpha) * (1 + SLACK)
        room = (1 - alpha) * (1 - UNIT_ROUNDOFF) - top
        least = np.exp(c) * (room - SLACK * np.abs(room))
        high = np.where(c >= 0, most, 1 - least + UNIT_ROUNDOFF)
        error = np.where(c >= 0, 1 - most - 2 * UNIT_ROUNDOFF, least)
        low, missed = low * less * (1 - SLACK), missed * more * (1 + SLACK) + self._dropped
        return low, np.maximum(high, low), np.minimum(np.maximum(error, 0.0), missed), missed


def _steps(number: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the differences of successive rising numbers, of which `rest` are the complements."""
    return np.where(number[:-1] > 0.5, rest[:-1] - rest[1:], number[1:] - number[:-1])


def _hull(rate: FloatArray, power: FloatArray) -> IndexArray:
    """Return the indices of about the vertices of the concave hull of points in the order of rising rates."""
    best = np.maximum.accumulate(np.concatenate([[-1.0], power[:-1]]))
    kept, slopes = list[int](), [float("inf")]
    points = list(zip(rate.tolist(), power.tolist(), strict=True))
    for index in np.flatnonzero((power > best) | (np.arange(len(rate)) == 0)).tolist():
        x, y = points[index]
        slope = float("inf")
        while kept:
            a, b = points[kept[-1]]
            slope = (y - b) / (x - a) if x > a else float("inf")
            if len(kept) == 1 or slope < slopes[-1]:
                break
            kept.pop()
            slopes.pop()
        kept.append(index)
        if len(kept) > 1:
            slopes.append(slope)
    return np.array(kept)
