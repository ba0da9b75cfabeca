"""Cells between neighbouring tangents of a curve, and the log slopes of the tangents that divide them.

Where tangents touch at rates whose quantiles differ by h, the corner between them exceeds the curve by about h^2/8 of
mu of Gaussian differential privacy. So cells with a small mu have few tangents, and cells near the largest mu have
many. No bound depends on the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.questions.list_tangents import ListTangents
from service.privacy.questions.normal_points import CLOSE

EVENLY: Final = np.array([0.2, 0.4, 0.6, 0.8])
FEW, PIECES_OF_FEW = 4, 12
"""Number of cells that are few, and pieces of each of them."""
PIECES: Final = 24
"""Largest number of pieces into which a round divides an interval of slopes."""
AROUND: Final = np.array([-0.3, -0.03, 0.0, 0.03, 0.3])
"""Slopes around that at the end of the range, as shares of the distance of its neighbours."""
SMALLEST_STEP: Final = 1e-14
"""Smallest distance of slopes, relative to their size."""
INSET: Final = 0.1
"""Share of an interval of slopes that a new slope keeps from both ends."""
HALVINGS: Final = 24
"""Halvings of the search for the number of pieces."""
FAR: Final = 1e-3
"""Relative distance of mu of a side below the largest mu at which a lower bound does not need the side."""


@final
@dataclass(frozen=True, slots=True)
class ListCells:
    """Corners of neighbouring tangents of a side, by falling rate, and the end of the range twice.

    `mu` and `corner_slopes` have mu at each corner and the log slope of the Gaussian curve there. `kept` marks corners
    in the range. `first` is the rate at the end of the range, and `most` about an upper bound of mu of this side.
    """

    side: ListTangents
    first: float
    mu: FloatArray
    corner_slopes: FloatArray
    kept: BoolArray
    most: float

    @property
    def largest(self) -> float:
        """The largest mu of a corner in the range."""
        return float(self.mu[self.kept].max())

    def slopes(self, target: float, least: float, most: int, *, whole: bool) -> FloatArray:
        """Return new log slopes where mu at a corner exceeds `target`, or next to the largest mu unless `whole`.

        About `most` new slopes are allowed, and `least` is an approximate mu.
        """
        if most == 0:
            return np.zeros(0)
        if not whole and self.most < least * (1 - FAR):
            return np.zeros(0)
        side, found = self.side, list[FloatArray]()
        c, inner = side.c, len(self.mu) - 2
        local = np.maximum(side.m[:inner], side.m[1 : inner + 1])
        above = self.kept[:inner] & (self.mu[:inner] > target)
        if not whole:
            best = int(side.m[: max(inner, 1)].argmax())
            above &= np.abs(np.arange(inner) - best + 0.5) < 1
        gaps = np.diff(c[: inner + 1])
        resolved = np.maximum(side.gap[:inner], side.gap[1 : inner + 1]) + SMALLEST_STEP * c[1 : inner + 1]
        above &= gaps > 2 * resolved
        cells = np.flatnonzero(above)
        pieces = _pieces(
            (self.mu[:inner] - local)[cells], (target - local)[cells], target, most if whole else 2 * len(cells)
        )
        pieces = np.minimum(pieces, np.floor(gaps / resolved)[cells].astype(np.intp))
        for index, count in zip(cells.tolist(), pieces.tolist(), strict=True):
            left, gap = float(c[index]), float(gaps[index])
            if count <= 2:
                slope = min(max(float(self.corner_slopes[index]), left + INSET * gap), left + (1 - INSET) * gap)
                found.append(np.array([slope]))
            else:
                inside: FloatArray = left + gap * np.arange(1, int(count), dtype=np.float64) / int(count)
                found.append(inside)
        if self.mu[-1] > target or not whole:
            found.append(self._around_end())
        return np.concatenate(found) if found else np.zeros(0)

    def _around_end(self) -> FloatArray:
        """Return new log slopes around about that of the curve at the end of the range."""
        c, at = self.side.c, self.side.lowest(self.first)
        first, last = max(at - 2, 0), min(at + 3, len(c))
        near, delta = c[first:last], self.side.delta[first:last]
        left, right = float(c[max(at - 1, 0)]), float(c[min(at + 1, len(c) - 1)])
        smallest = float(self.side.gap[at]) + SMALLEST_STEP * right
        if len(near) < 3 or right - left <= 4 * smallest:
            return np.zeros(0)
        places = [_place_of_rate(near, delta, self.first), _kink(near, delta + np.expm1(near) * self.first, at - first)]
        found = list[FloatArray]()
        for place in places:
            if left <= place <= right:
                gap = max(min(max(place - left, right - place), right - left), smallest / float(AROUND[-2]))
                found.append(place + gap * AROUND)
        new = np.concatenate(found) if found else left + (right - left) * EVENLY
        return new[(new > left) & (new < right)]


def _place_of_rate(c: FloatArray, delta: FloatArray, rate: float) -> float:
    """Return about the log slope at a rate of a smooth curve, from a few of its tangents.

    Normal quantiles of the rates at corners are about linear in the slopes between the tangents.
    """
    with np.errstate(all="ignore"):
        u = -special.ndtri(-np.diff(delta) / np.diff(np.expm1(c)))
        rising = np.maximum.accumulate(np.nan_to_num(u, nan=-np.inf))
        return float(np.interp(-special.ndtri(rate), rising, 0.5 * (c[1:] + c[:-1])))


def _kink(c: FloatArray, value: FloatArray, lowest: int) -> float:
    """Return about the c at which a convex function with a kink is smallest, from few values next to the `lowest`."""
    if not 2 <= lowest + 1 < len(c) - 1 and not 2 <= lowest < len(c) - 1:
        return math.nan
    k = np.expm1(c)
    slopes = np.diff(value) / np.diff(k)
    for left in (lowest, lowest - 1):
        # Lines through the two points before the kink, and through the two points after it.
        if left >= 1 and left + 2 < len(c) and slopes[left + 1] > slopes[left - 1]:
            before, after = float(slopes[left - 1]), float(slopes[left + 1])
            place = (value[left + 1] - value[left] + before * k[left] - after * k[left + 1]) / (before - after)
            if k[left] <= place <= k[left + 1]:
                return math.log1p(place)
    return math.nan


def _pieces(excess: FloatArray, deficit: FloatArray, target: float, most: int) -> IndexArray:
    """Return into how many pieces each cell is divided, about `most` in total.

    Pieces reduce the `excess` of mu at the corner of a cell by the square of their number. It may be as large as the
    `deficit` of mu in the cell below the `target`, plus a number that is equal for all cells.
    """
    low, high = CLOSE * target + SMALLEST, target + SMALLEST
    excess = np.where(np.isfinite(excess), np.maximum(excess, 0.0), target)

    def divided(slack: float) -> FloatArray:
        return np.minimum(np.ceil(np.sqrt(excess / np.maximum(np.nan_to_num(deficit) + slack, 1e-300))), PIECES)

    with np.errstate(over="ignore"):
        for _ in range(HALVINGS):
            slack = math.sqrt(low * high)
            low, high = (slack, high) if float(np.maximum(divided(slack) - 1, 1).sum()) > most else (low, slack)
        pieces = divided(high)
    # At kinks of the profile pieces reduce the excess by their number only.
    least = 2 if len(excess) > FEW else min(most // max(len(excess), 1) + 1, PIECES_OF_FEW)
    return np.clip(pieces, max(least, 2), PIECES).astype(np.intp)
