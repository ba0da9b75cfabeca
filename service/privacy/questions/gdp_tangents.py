"""Gaussian differential privacy over a range of a curve, by tangents that its profile gives.

For every c the line delta(c) + e^c alpha lies above the power. Along a line Phi^-1(power) - Phi^-1(alpha) has no inner
maximum: where it is at most m, the line is below the power of Gaussian DP at m, which is concave, so that those rates
are an interval. mu of a range is therefore at most its largest value where tangents meet, or at the ends of the range,
and exceeds that of the curve in second order of their distance. Slopes c >= 0 are taken of the curve and of its inverse
alike, so that both share the tangent of slope 1, and no power is read where it is next to 1.

What proves the lower end is a point of the curve: first at both ends of the range, where mu is mostly largest, then
where tangents meet highest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.enclosure import SMALLEST
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.questions.normal_points import CLOSE, normal_points
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.enclosed.ulps import NORMAL_QUANTILE_ERROR

STRONGEST, STRONGEST_ROUGHLY = 0.9, 0.999
"""delta(0) above which a curve is read by its points: tangents lose the digits of small type II errors."""
FIRST_SLOPES, FEW_SLOPES = 48, 7
"""At first, where they are read roughly, and where each is dear."""
ROUNDS: Final = 24
ROUGH_ROUNDS: Final = 10
"""Rounds in which the profile is read roughly, which is enough wherever mu falls away from the end of its range."""
PIECES, MOST_ROUGH = 8, 2000
"""A rough round cuts what lies between two slopes into so many; slopes of such a round."""
NARROW_ROUGHLY: Final = 1e-2
"""Relative width of rough readings above which there are none: lines of rare jumps lose more than they save."""
AT_ONCE, MOST_AT_ONCE, NARROW = 8, 128, 1e-9
"""Slopes of a round: engines read so many as precisely as one, and twice as many again where they were this narrow."""
ROUNDS_FOR_A_POINT: Final = 4
"""A point may cost as much as many slopes."""
INSET: Final = 0.1
"""Share of the distance to its neighbours that a new slope keeps."""
SMALLEST_GAP: Final = 1e-7
"""Distance of slopes, over 1 + c, at which none is put between."""
GAIN: Final = 0.03
"""Share of what both ends are apart that a few rounds have to settle for more of them."""
STEEPEST: Final = 690.0
ROUNDING: Final = 4 * FUNCTION_ERROR + 8 * UNIT_ROUNDOFF

Ends = tuple[float, float]
"""The lower and the upper one, of mu."""


@final
@dataclass(slots=True, eq=False)
class _Side:
    """Tangents of a curve at slopes c >= 0, rising, with upper ends of delta(c).

    `first`: the smallest rate of the range on its axis; `steepest`: what the slopes in the range do not exceed.
    """

    curve: AbstractTradeOff
    first: float
    steepest: float
    c: FloatArray
    delta: FloatArray
    precise: BoolArray
    width: float = 1.0
    """Largest relative width of what was read last."""

    @staticmethod
    def without_tangents(curve: AbstractTradeOff, first: float, steepest: float) -> _Side:
        """A side of which no tangent is known yet."""
        return _Side(curve, first, steepest, np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool))

    def insert(self, c: FloatArray, *, rough: bool) -> None:
        """Further slopes, or those that were read roughly once more."""
        new = np.setdiff1d(c, self.c if rough else self.c[self.precise])
        if not len(new):
            return
        # Beside the steepest slope all rounds are read on the same lines.
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
        """Where neighbouring tangents meet, from the right up to the first rate, at which the last one begins: numbers
        of the flatter ones, rates, and upper ends of the power.

        Both lines are read where they are taken to meet: on either side of it one of them bounds the power, wherever
        it is.
        """
        with np.errstate(all="ignore"):
            meet = (self.delta[:-1] - self.delta[1:]) / (np.exp(self.c[1:]) - np.exp(self.c[:-1]))
        outside = np.flatnonzero(~(meet > self.first))
        last = int(outside[0]) if len(outside) else len(meet)
        rates = np.append(np.minimum(meet[:last], 1.0), self.first)
        flatter = np.arange(last + 1)
        powers = self._at(rates, flatter)
        powers[:-1] = np.maximum(powers[:-1], self._at(rates[:-1], flatter[:-1] + 1))
        return flatter, rates, powers

    def _at(self, rates: FloatArray, tangents: IndexArray) -> FloatArray:
        found = (self.delta[tangents] + np.exp(self.c[tangents]) * rates) * (1 + ROUNDING) + SMALLEST
        return np.minimum(found, 1.0)

    def least_rate(self, power: float) -> float:
        """Lower end of the rate at which the curve reaches a power."""
        rates = (power * (1 - ROUNDING) - self.delta * (1 + ROUNDING)) * np.exp(-self.c)
        return max(float(rates.max()) * (1 - ROUNDING), 0.0)


@dataclass(frozen=True, slots=True)
class _Corner:
    """Where two lines meet: upper end of mu, and the slope that Gaussian DP has there between those of both."""

    mu: float
    rate: float
    side: _Side
    flatter: int
    slope: float
    at_end: bool

    def lines(self) -> list[int]:
        """Numbers of the tangents that meet here."""
        first = self.flatter - 1 if self._is_flat and self.flatter > 0 else self.flatter
        return [at for at in (first, first + 1) if at < len(self.side.c)]

    def between(self) -> tuple[float, float]:
        """Between which slopes new ones belong."""
        c = self.side.c
        left = float(c[self.flatter])
        if self._is_flat and self.flatter > 0:
            return float(c[self.flatter - 1]), left
        return left, float(c[self.flatter + 1]) if self.flatter + 1 < len(c) else self.side.steepest

    @property
    def _is_flat(self) -> bool:
        return self.at_end and self.slope < self.side.c[self.flatter]


def tangent_bounds(curve: AbstractTradeOff, rate_min: float, error_min: float, limit: float) -> Ends | None:
    """Both ends of mu where alpha >= rate_min and f(alpha) >= error_min, both above the smallest doubles; None where
    the curve is read better by its points: of a run that reveals nearly everything, where the range may be empty, or
    where it lies on one side of the slope 1.
    """
    if max(rate_min, error_min) >= 0.5:
        return None
    inverse = curve.reversed()
    ends = [each.points(np.array([first])) for each, first in ((curve, rate_min), (inverse, error_min))]
    if float(ends[0].type_two_error.lower[0]) <= error_min or float(ends[1].type_two_error.lower[0]) <= rate_min:
        return None
    if min(float(end.log_slope.upper[0]) for end in ends) < 0:
        return None
    sides: list[_Side] = []
    best = least = 0.0
    for each, first, end in zip((curve, inverse), (rate_min, error_min), ends, strict=True):
        known = normal_points(np.array([first]), end.power, end.type_two_error).mu
        best, least = max(best, float(known.lower[0])), max(least, float(known.upper[0]))
        steepest = min(float(end.log_slope.upper[0]), -math.log(first), STEEPEST)
        sides.append(_Side.without_tangents(each, first, max(steepest, 0.0)))
    search = _Search(sides, min(best, limit), min(least, limit))
    return search.run(limit) if search.begin() else None


@final
class _Search:
    """`best`: the largest mu that a point proves; `least`: the largest upper end of a point, below which no search can
    bring the bound.
    """

    def __init__(self, sides: list[_Side], best: float, least: float) -> None:
        self.sides, self.best, self.least = sides, best, least
        self.rough = not sides[0].curve.searches_points
        self._read: set[tuple[int, float]] = set()
        self._at_once = AT_ONCE

    def begin(self) -> bool:
        """The first tangents, read roughly unless that is too wide; False where the curve is read better by its
        points.
        """
        if self.rough:
            self._start()
            self.rough = max(side.width for side in self.sides) <= NARROW_ROUGHLY
            if not self.rough:
                self.sides = [_Side.without_tangents(side.curve, side.first, side.steepest) for side in self.sides]
        if not self.rough:
            self._start()
        half = float(self.sides[0].delta[0])
        strongest = STRONGEST_ROUGHLY if self.rough else STRONGEST
        return half > 0 and (half < strongest or self.sides[0].curve.searches_points)

    def _start(self) -> None:
        """Tangents of the slope 1, which both sides share, and of some others."""
        first, second = self.sides
        if self.rough:
            first.insert(np.append(0.0, self._first_slopes(first)), rough=True)
        else:  # few at once are read more precisely
            first.insert(np.zeros(1), rough=False)
            first.insert(self._first_slopes(first), rough=False)
        second.c, second.delta, second.precise = first.c[:1], first.delta[:1], first.precise[:1]
        second.insert(self._first_slopes(second), rough=self.rough)

    def _first_slopes(self, side: _Side) -> FloatArray:
        """Those of Gaussian DP over the range, at the mu of its ends, up to the steepest: the closer, the nearer to the
        end, where mu is mostly largest.
        """
        away = np.linspace(1.0, 0.0, FIRST_SLOPES if self.rough else FEW_SLOPES)[1:]
        u = -float(special.ndtri(side.first)) * (1 - away * (away if self.rough else 1.0))
        gaussian = np.maximum(self.least * (u - 0.5 * self.least), 0.0)
        return np.append(np.minimum(gaussian, side.steepest), side.steepest)

    def run(self, limit: float) -> Ends:
        """Tangents where they are needed most, and now and then a point."""
        bound, rough_rounds = limit, ROUGH_ROUNDS if self.rough else 0
        for number in range(ROUNDS + rough_rounds):
            above, most = self._corners()
            before, bound = bound, min(bound, max(most, self.least))
            if not above or is_spent():
                break
            slow = before - bound < GAIN * (bound - self.best)
            if number < rough_rounds and not slow and self._cut_roughly(above):
                continue
            rough_rounds = min(rough_rounds, number)
            settled = not self._cut(above)
            turn = (number - rough_rounds) % ROUNDS_FOR_A_POINT == ROUNDS_FOR_A_POINT - 1
            if (settled or (turn and slow)) and not self._point(above[0]) and settled:
                break
        return self.best, max(bound, self.best)

    def _corners(self) -> tuple[list[_Corner], float]:
        """Where bounds exceed what is known to be reached, the largest first, and the largest bound."""
        found: list[_Corner] = []
        largest, target = 0.0, max(self.best * (1 + CLOSE), self.least)
        for side, other in zip(self.sides, self.sides[::-1], strict=True):
            flatter, rates, powers = side.corners()
            end = min(float(powers[-1]), 1 - other.least_rate(1 - side.first))
            # Beyond the range, whose end is the first rate of the other side.
            powers = np.append(powers, end)
            kept = powers < 1 - other.first
            kept[-1] = True
            rates, flatter = np.append(rates, side.first), np.append(flatter, flatter[-1])
            mu, slopes = _gaussian(powers, rates)
            largest = max(largest, float(mu[kept].max()))
            for index in np.flatnonzero(kept & (mu > target)).tolist():
                at_end = index >= len(rates) - 2
                corner = _Corner(
                    float(mu[index]), float(rates[index]), side, int(flatter[index]), float(slopes[index]), at_end
                )
                found.append(corner)
        return sorted(found, key=lambda each: -each.mu), largest

    def _cut_roughly(self, above: list[_Corner]) -> bool:
        """Several new tangents between those of each corner; False where they are too close for any."""
        new: dict[int, list[tuple[float, float]]] = {}
        for corner in above[: MOST_ROUGH // PIECES]:
            left, right = corner.between()
            if right - left > PIECES * SMALLEST_GAP * (1 + left):
                new.setdefault(self.sides.index(corner.side), []).append((left, right))
        for index, gaps in new.items():
            left, right = np.array(gaps).T
            shares = np.arange(1, PIECES)[:, None] / PIECES
            self.sides[index].insert((left + shares * (right - left)).ravel(), rough=True)
        return bool(new)

    def _cut(self, above: list[_Corner]) -> bool:
        """New tangents at the corners with the largest mu, or those read roughly once more; False where their lines are
        too close for any.
        """
        new: dict[int, list[float]] = {}
        narrow = all(side.width <= NARROW for side in self.sides)
        self._at_once = min(2 * self._at_once, MOST_AT_ONCE) if narrow else AT_ONCE
        for corner in above[: self._at_once]:
            side = corner.side
            rough = [float(side.c[at]) for at in corner.lines() if not side.precise[at]]
            left, right = corner.between()
            gap = right - left
            slopes = new.setdefault(self.sides.index(side), [])
            slopes += rough
            if not rough and gap > SMALLEST_GAP * (1 + left):
                slopes.append(min(max(corner.slope, left + INSET * gap), right - INSET * gap))
        for index, slopes in new.items():
            self.sides[index].insert(np.array(slopes), rough=False)
        return any(new.values())

    def _point(self, corner: _Corner) -> bool:
        """The curve's own mu at a corner; False where it has been read."""
        key = self.sides.index(corner.side), corner.rate
        if key in self._read or corner.at_end:
            return False
        self._read.add(key)
        rates = np.array([corner.rate])
        points = corner.side.curve.points(rates)
        known = normal_points(rates, points.power, points.type_two_error).mu
        other = self.sides[1 - key[0]]
        if float(points.type_two_error.lower[0]) >= other.first:
            self.best = max(self.best, float(known.lower[0]))
            self.least = max(self.least, self.best)
        return True


def _gaussian(powers: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """mu of points from above, and about the slope that Gaussian DP has there."""
    with np.errstate(all="ignore"):
        above = -special.ndtri(np.maximum(1 - powers - UNIT_ROUNDOFF, 0.0))
        q, u = np.where(powers < 0.5, special.ndtri(powers), above), -special.ndtri(rates)
        error = (NORMAL_QUANTILE_ERROR + 4 * UNIT_ROUNDOFF) * (np.abs(np.where(np.isfinite(q), q, 0.0)) + np.abs(u))
        return q + u + error, np.nan_to_num(0.5 * (u - q) * (u + q))
