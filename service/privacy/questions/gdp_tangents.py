"""Gaussian differential privacy over a range of a curve, by tangents that its profile gives.

For every c the line delta(c) + e^c alpha lies above the power. Along such a line Phi^-1(power) - Phi^-1(alpha) has no
inner maximum. Proof: the difference is at most m where the line is below the power of Gaussian DP at m. This power is
concave, so that those rates are an interval. Therefore mu of a range is at most its largest value at the corners, where
two tangents meet, and at the ends of the range. This bound exceeds mu of the curve only in second order of the distance
between tangents.

Both the curve and its inverse have tangents with slopes c >= 0. So both share the tangent of slope 1, and no power next
to 1 is evaluated.

Points of the curve prove the lower bound: first the points at both ends of the range, where mu is mostly largest, and
then points at the highest corners.
"""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.questions.normal_points import CLOSE, normal_points
from service.privacy.questions.tangent_sets import TangentCorner, TangentSet, limited_corners
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.ulps import NORMAL_QUANTILE_ERROR

STRONGEST, STRONGEST_ROUGHLY = 0.9, 0.999
"""delta(0) above which points serve better: tangents lose the digits of small type II errors."""
FIRST_SLOPES, FEW_SLOPES = 48, 7
"""Slopes of the first round: with a rough profile, and with an expensive precise profile."""
ROUNDS: Final = 24
ROUGH_ROUNDS: Final = 10
"""Rounds with the rough profile. They suffice where mu decreases away from the end of its range."""
PIECES, MOST_ROUGH = 8, 2000
"""Pieces into which a rough round divides the interval between two slopes, and slopes of such a round."""
NARROW_ROUGHLY: Final = 1e-2
"""Largest relative width of a useful rough profile: contours of rare jumps cost more than they save."""
AT_ONCE, MOST_AT_ONCE, NARROW = 8, 128, 1e-9
"""Slopes of a round. Engines evaluate so many as precisely as one. The count doubles while results are this narrow."""
ROUNDS_FOR_A_POINT: Final = 4
"""Rounds per evaluated point, because a point may cost as much as many slopes."""
INSET: Final = 0.1
"""Share of the distance to its neighbours that a new slope keeps."""
SMALLEST_GAP: Final = 1e-7
"""Distance of slopes, over 1 + c, below which no slope is inserted between them."""
GAIN: Final = 0.03
"""Share of the distance of both bounds that a round has to gain. Otherwise the search changes its method."""
STEEPEST: Final = 690.0
ROUNDED_SLOPE: Final = 1e-12
"""Bound of the rounding of the logarithm of a slope."""

Bounds = tuple[float, float]
"""Lower and upper bound of mu."""


def tangent_bounds(curve: AbstractTradeOff, rate_min: float, error_min: float, limit: float) -> Bounds | None:
    """Return (lower, upper) bounds of mu over alpha >= rate_min and f(alpha) >= error_min by tangents, or None.

    Both limits of the range of the curve f are above the smallest doubles, and `limit` is a proved upper bound of
    mu. None means that points of the curve serve better: the run reveals nearly everything, the range may be empty,
    or it lies on one side of the slope 1.
    """
    if max(rate_min, error_min) >= 0.5:
        return None
    inverse = curve.reversed()
    ends = [each.points(np.array([first])) for each, first in ((curve, rate_min), (inverse, error_min))]
    if float(ends[0].type_two_error.lower[0]) <= error_min or float(ends[1].type_two_error.lower[0]) <= rate_min:
        return None
    if min(float(end.log_slope.upper[0]) for end in ends) < 0:
        return None
    sides: list[TangentSet] = []
    best = least = 0.0
    for each, first, end in zip((curve, inverse), (rate_min, error_min), ends, strict=True):
        known = normal_points(np.array([first]), end.power, end.type_two_error).mu
        best, least = max(best, float(known.lower[0])), max(least, float(known.upper[0]))
        # The power is concave and at least 0, so that no slope from `first` on exceeds power/first.
        rise = math.log(max(float(end.power.upper[0]), first) / first) + ROUNDED_SLOPE
        steepest = min(float(end.log_slope.upper[0]), rise, each.largest_log_ratio.upper, STEEPEST)
        sides.append(TangentSet.without_tangents(each, first, max(steepest, 0.0)))
    search = _Search(sides, min(best, limit), min(least, limit))
    return search.run(limit) if search.begin() else None


@final
class _Search:
    """Search for mu of Gaussian DP by tangents of a curve and of its inverse.

    mu is that of the largest Gaussian curve below a curve, over a range of error rates.

    Attributes
    ----------
    best : float
        The largest mu that a point proves.
    least : float
        The largest upper bound of mu at a point. No search can lower the bound of mu below this number.
    """

    def __init__(self, sides: list[TangentSet], best: float, least: float) -> None:
        self.sides, self.best, self.least = sides, best, least
        self.rough = not sides[0].curve.searches_points
        self._read: set[tuple[int, float]] = set()
        self._at_once = AT_ONCE

    def begin(self) -> bool:
        """Insert the first tangents, and return whether tangents bound mu of this curve better than points.

        mu is that of the largest Gaussian curve below the curve. The first tangents use a fast, rough privacy profile,
        unless its enclosures are too wide.
        """
        if self.rough:
            first = self.sides[0]
            first.insert(np.zeros(1), rough=True)
            if float(first.delta[0]) >= STRONGEST_ROUGHLY and first.width <= NARROW_ROUGHLY:
                return False
            self._start()
            self.rough = max(side.width for side in self.sides) <= NARROW_ROUGHLY
            if not self.rough:
                self.sides = [TangentSet.without_tangents(side.curve, side.first, side.steepest) for side in self.sides]
        if not self.rough:
            self._start()
        half = float(self.sides[0].delta[0])
        strongest = STRONGEST_ROUGHLY if self.rough else STRONGEST
        return half > 0 and (half < strongest or self.sides[0].curve.searches_points)

    def _start(self) -> None:
        """Insert the first tangents: that of slope 1, which the curve and its inverse share, and a few others."""
        first, second = self.sides
        if self.rough:
            first.insert(np.append(0.0, self._first_slopes(first)), rough=True)
        else:  # engines evaluate a few slopes together more precisely than many
            first.insert(np.zeros(1), rough=False)
            first.insert(self._first_slopes(first), rough=False)
        second.c, second.delta, second.precise = first.c[:1], first.delta[:1], first.precise[:1]
        second.insert(self._first_slopes(second), rough=self.rough)

    def _first_slopes(self, side: TangentSet) -> FloatArray:
        """Return log slopes (nats) of the first tangents on one side: those of the Gaussian curve over the range.

        The Gaussian curve has mu = `least`. The slopes are denser near the end of the range, where mu of the curve is
        mostly largest.
        """
        away = np.linspace(1.0, 0.0, FIRST_SLOPES if self.rough else FEW_SLOPES)[1:]
        u = -float(special.ndtri(side.first)) * (1 - away * (away if self.rough else 1.0))
        gaussian = np.maximum(self.least * (u - 0.5 * self.least), 0.0)
        return np.append(np.minimum(gaussian, side.steepest), side.steepest)

    def run(self, limit: float) -> Bounds:
        """Insert tangents until both bounds of mu are close, and return the bounds.

        `limit` is an upper bound of mu from before. New tangents are at the highest corners, where two tangents meet.
        Sometimes a point of the curve is evaluated instead.
        """
        bound, rough_rounds = limit, ROUGH_ROUNDS if self.rough else 0
        for number in range(ROUNDS + rough_rounds):
            above, most = self._corners()
            before, bound = bound, min(bound, max(most, self.least))
            if not above or is_spent():
                break
            slow = before - bound < GAIN * (bound - self.best)
            if number < rough_rounds and not slow and self._refine_roughly(above):
                continue
            rough_rounds = min(rough_rounds, number)
            settled = not self._refine(above)
            turn = (number - rough_rounds) % ROUNDS_FOR_A_POINT == ROUNDS_FOR_A_POINT - 1
            if (settled or (turn and slow)) and not self._try_point(above[0]) and settled:
                break
        return self.best, max(bound, self.best)

    def _corners(self) -> tuple[list[TangentCorner], float]:
        """Return the corners of tangents whose mu exceeds the proved mu, largest first, and the largest mu of a corner.

        A corner is a point where two neighbouring tangents of the power meet, with mu = Phi^-1(power) - Phi^-1(rate).
        """
        found: list[TangentCorner] = []
        largest, target = 0.0, max(self.best * (1 + CLOSE), self.least)
        for side, other in zip(self.sides, self.sides[::-1], strict=True):
            flatter, rates, powers = side.corners()
            end = min(float(powers[-1]), 1 - other.least_rate(1 - side.first))
            most = 1 - other.first
            rates, powers, kept = limited_corners(rates, powers, most, side.least_rate(most))
            powers, kept = np.append(powers, end), np.append(kept, True)
            rates, flatter = np.append(rates, side.first), np.append(flatter, flatter[-1])
            mu, slopes = gaussian_corners(powers, rates)
            largest = max(largest, float(mu[kept].max()))
            for index in np.flatnonzero(kept & (mu > target)).tolist():
                at_end = index >= len(rates) - 2
                corner = TangentCorner(
                    float(mu[index]), float(rates[index]), side, int(flatter[index]), float(slopes[index]), at_end
                )
                found.append(corner)
        return sorted(found, key=lambda each: -each.mu), largest

    def _refine_roughly(self, above: list[TangentCorner]) -> bool:
        """Insert several tangents of the rough profile at each corner in `above`; return False if none was inserted.

        A corner is a point where two neighbouring tangents meet. The rough profile is fast and has wide bounds. No
        tangent is inserted where the slopes of both neighbours differ by less than a smallest gap.
        """
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

    def _refine(self, above: list[TangentCorner]) -> bool:
        """Insert precise tangents at the corners in `above` with the largest mu; return False if none was inserted.

        A corner is a point where two neighbouring tangents meet, and mu there is Phi^-1(power) - Phi^-1(rate). Rough
        tangents of a corner are evaluated precisely instead. No tangent is inserted where the slopes of both neighbours
        differ by less than a smallest gap.
        """
        new: dict[int, list[float]] = {}
        narrow = all(side.width <= NARROW for side in self.sides)
        self._at_once = min(2 * self._at_once, MOST_AT_ONCE) if narrow else AT_ONCE
        for corner in above[: self._at_once]:
            side = corner.side
            rough = [float(side.c[at]) for at in corner.tangents() if not side.precise[at]]
            left, right = corner.between()
            gap = right - left
            slopes = new.setdefault(self.sides.index(side), [])
            slopes += rough
            if not rough and gap > SMALLEST_GAP * (1 + left):
                slopes.append(min(max(corner.slope, left + INSET * gap), right - INSET * gap))
        for index, slopes in new.items():
            self.sides[index].insert(np.array(slopes), rough=False)
        return any(new.values())

    def _try_point(self, corner: TangentCorner) -> bool:
        """Evaluate mu of the curve at the rate of a corner; return False if this point was evaluated before.

        A corner is a point where two tangents of the power meet, and mu at a rate is Phi^-1(power) - Phi^-1(rate).
        """
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


def gaussian_corners(powers: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds of mu = Phi^-1(power) - Phi^-1(rate) at points, and approximate log slopes there.

    The slope at a point is that of the Gaussian trade-off curve with this mu.
    """
    with np.errstate(all="ignore"):
        above = -special.ndtri(np.maximum(1 - powers - UNIT_ROUNDOFF, 0.0))
        q, u = np.where(powers < 0.5, special.ndtri(powers), above), -special.ndtri(rates)
        error = (NORMAL_QUANTILE_ERROR + 4 * UNIT_ROUNDOFF) * (np.abs(np.where(np.isfinite(q), q, 0.0)) + np.abs(u))
        return q + u + error, np.nan_to_num(0.5 * (u - q) * (u + q))
