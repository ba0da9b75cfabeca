"""Tangents of a power curve that its privacy profile delta(c) gives, and the corners where neighbouring tangents meet.

For every c the line delta(c) + e^c alpha lies above the power. `gdp_tangents.py` uses the tangents to bound mu of
Gaussian differential privacy over a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends

ROUNDING: Final = 4 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF
"""Relative error of a value on a tangent."""


@final
@dataclass(slots=True, eq=False)
class TangentSet:
    """Tangents of a power curve at rising log slopes c >= 0, with upper bounds of their offsets delta(c).

    Attributes
    ----------
    first : float
        The smallest rate of the range on the axis of this curve.
    steepest : float
        Upper bound of the slopes in the range.
    precise : array of bool
        Whether `delta` comes from the precise profile at each slope.
    width : float
        Largest relative width of the last evaluation of the profile.
    """

    curve: AbstractTradeOff
    first: float
    steepest: float
    c: FloatArray
    delta: FloatArray
    precise: BoolArray
    width: float = 1.0
    """Largest relative width of the last evaluation of the profile."""

    @staticmethod
    def without_tangents(curve: AbstractTradeOff, first: float, steepest: float) -> TangentSet:
        """Return an empty set of tangents of `curve`, down to the false positive rate `first`.

        `steepest` is the largest slope of a tangent.
        """
        return TangentSet(curve, first, steepest, np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))

    def insert(self, c: FloatArray, *, rough: bool) -> None:
        """Add tangents at new log slopes c, shape (n,), or evaluate rough tangents at these slopes precisely.

        `rough` selects the fast profile with wider bounds.
        """
        new = np.setdiff1d(c, self.c if rough else self.c[self.precise])
        if not len(new):
            return
        # With the steepest slope in every round, all rounds share their contours.
        read = self.curve.rough_profile(np.append(new, self.steepest), self.first) if rough else self.curve.profile(new)
        _, logs = log_ends(read)
        self.width = float(((read.upper - read.lower) / np.maximum(read.upper, SMALLEST)).max())
        upper = np.minimum(read.upper, np.exp(logs) * (1 + ROUNDING) + SMALLEST)[: len(new)]
        kept = ~np.isin(self.c, new)
        slopes = np.concatenate((self.c[kept], new))
        values = np.concatenate((self.delta[kept], upper))
        precise = np.concatenate((self.precise[kept], np.full(len(new), not rough)))
        order = np.argsort(slopes)
        self.c, self.precise = slopes[order], precise[order]
        self.delta = np.minimum.accumulate(values[order])  # delta falls

    def corners(self) -> tuple[IndexArray, FloatArray, FloatArray]:
        """Return the corners where neighbouring tangents meet, by falling rate, down to the first rate of the range.

        The three arrays of shape (corners,) hold the indices of the flatter one of the two tangents, the rates, and
        upper bounds of the power. The power at a corner is the larger value of both tangents at the computed rate:
        wherever the exact corner is, one of the tangents bounds the power on either side of the computed rate.
        """
        return corners_of(self.c, self.delta, self.first)

    def least_rate(self, power: float) -> float:
        """Return a lower bound of the false positive rate at which the curve reaches a power."""
        rates = (power * (1 - ROUNDING) - self.delta * (1 + ROUNDING)) * np.exp(-self.c)
        return max(float(rates.max()) * (1 - ROUNDING), 0.0)


def corners_of(c: FloatArray, delta: FloatArray, first: float) -> tuple[IndexArray, FloatArray, FloatArray]:
    """Return the corners where neighbouring tangents meet, by falling rate, down to the rate `first`.

    `c` and `delta`, shape (n,), are rising log slopes of tangents, and falling upper bounds of their offsets. The
    point of the last tangent at `first` is the last corner. The three arrays of shape (corners,) hold the indices
    of the flatter one of the two tangents, the rates, and upper bounds of the power.
    """
    slopes = np.exp(c)
    with np.errstate(all="ignore"):
        meet = (delta[:-1] - delta[1:]) / np.diff(np.expm1(c))
    outside = np.flatnonzero(~(meet > first))
    last = int(outside[0]) if len(outside) else len(meet)
    rates = np.append(np.minimum(meet[:last], 1.0), first)
    flatter = np.arange(last + 1)

    def at(tangents: IndexArray, rates: FloatArray) -> FloatArray:
        found = (delta[tangents] + slopes[tangents] * rates) * (1 + ROUNDING) + SMALLEST
        return np.minimum(found, 1.0)

    powers = at(flatter, rates)
    powers[:-1] = np.maximum(powers[:-1], at(flatter[:-1] + 1, rates[:-1]))
    return flatter, rates, powers


def limited_corners(
    rates: FloatArray, powers: FloatArray, most: float, reached: float
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return rates and powers of corners, limited to the power `most`, and the mask of the corners to keep.

    `rates` and `powers`, shape (corners,), are corners of tangents by falling rate, and no tangent reaches the
    power `most` at a rate below `reached`. The curve may be in the range at rates where its tangents are beyond it.
    There its power is at most `most`, and the rate is at least `reached`. So the point (`reached`, `most`) takes
    the place of all corners with powers of at least `most`: the last of them is kept, with this point.
    """
    beyond = powers >= most
    if not beyond.any():
        return rates, powers, ~beyond
    counts = ~beyond
    counts[int(np.flatnonzero(beyond)[-1])] = True
    return np.where(beyond, np.minimum(rates, max(reached, SMALLEST)), rates), np.where(beyond, most, powers), counts


@dataclass(frozen=True, slots=True)
class TangentCorner:
    """Corner where two tangents of a power curve meet.

    `mu` is an upper bound of Phi^-1(power) - Phi^-1(rate) at the corner, and `slope` the log slope of the Gaussian
    curve with this mu. `rate` is the rate of the corner, `side` the set of tangents, and `flatter` the index of the
    first of both. `at_end` is whether the corner lies at an end of the range of rates.
    """

    mu: float
    rate: float
    side: TangentSet
    flatter: int
    slope: float
    at_end: bool

    def tangents(self) -> list[int]:
        """Return the indices of the tangents that meet in this corner."""
        first = self.flatter - 1 if self._is_flat and self.flatter > 0 else self.flatter
        return [at for at in (first, first + 1) if at < len(self.side.c)]

    def between(self) -> tuple[float, float]:
        """Return the interval of log slopes in which new tangents would lower the bound of mu at this corner."""
        c = self.side.c
        left = float(c[self.flatter])
        if self._is_flat and self.flatter > 0:
            return float(c[self.flatter - 1]), left
        return left, float(c[self.flatter + 1]) if self.flatter + 1 < len(c) else self.side.steepest

    @property
    def _is_flat(self) -> bool:
        return self.at_end and self.slope < self.side.c[self.flatter]
