"""Gaussian differential privacy over a range of a curve whose profile is evaluated in lists.

mu is the supremum of G = Phi^-1(power) - Phi^-1(alpha) over the points of a curve with alpha >= a_min and beta >=
b_min. `gdp_tangents.py` has the upper bound by tangents: G is at most its largest value at the corners where
neighbouring tangents meet. This module evaluates no points. Both bounds come from enclosures of the profile at lists of
log slopes c.

**Lower bound at an inner point.** Let alpha* be a rate at which the line delta(c) + e^c alpha touches the power. If
delta(c) is at least the profile of the Gaussian curve with the parameter m, the line is nowhere below the power of that
curve, so that G(alpha*) >= m. Two conditions prove that alpha* belongs to the range. First, delta(c') + (e^c' - e^c)
a_min < delta(c) for some c' > c: the left side bounds power(alpha) - e^c alpha for all alpha <= a_min. Second, let r =
(delta(c') - delta(c))/(e^c - e^c') for some c' < c. Every rate above r has a smaller power(alpha) - e^c alpha than
alpha*, so that the power at alpha* is at most delta(c) + e^c r. This must be less than 1 - b_min.

**Lower bound at an end of the range.** The power at a_min is the minimum of a convex function of e^c, which
`convex_minimum` bounds from below by its enclosures at a list of c.

**Lower bound by tests.** Some curves have tests next to a log slope. The curve is at least as high as a test.

**Steering.** Where tangents touch at rates whose quantiles differ by h, the corner between them exceeds the curve by
about h^2/8 of mu. So cells with a small mu have few tangents, and cells near the largest mu have many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.enclosure import SMALLEST, EnclosureArray
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.questions.gaussian_profile import gaussian_mu, proved_mu
from service.privacy.questions.gdp_tangents import STEEPEST, Bounds, gaussian_corners
from service.privacy.questions.normal_points import CLOSE, SMALLEST_RATE, normal_points
from service.privacy.questions.tangent_sets import ROUNDING, corners_of, limited_corners
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.profile_points import proved_power
from service.privacy.trade_off.enclosed.logs import log_ends

STRONGEST: Final = 1 - 1e-7
"""delta(0) above which points serve better: tangents lose the digits of small type II errors."""
FIRST: Final = 20
"""Log slopes of the first list, from 0 to the slope at the end of the range."""
BEYOND: Final = np.array([1.02, 1.1, 1.3, 1.7])
"""Further slopes of the first list, as multiples of the slope of the Gaussian curve at the end of the range."""
EVENLY: Final = np.array([0.2, 0.4, 0.6, 0.8])
ROUNDS: Final = 14
MOST: Final = 240
"""Largest number of new slopes of a curve in a search."""
FEW, PIECES_OF_FEW = 4, 12
"""Number of cells that are few, and pieces of each of them."""
MOST_EDGES: Final = 600
"""Largest number of edges of a polygon all of which have tangents."""
PIECES: Final = 24
"""Largest number of pieces into which a round divides an interval of slopes."""
AROUND: Final = np.array([-0.3, -0.03, 0.0, 0.03, 0.3])
"""Slopes around that at the end of the range, as shares of the distance of its neighbours."""
PATIENCE: Final = 1
"""Number of rounds without a gain after which a search goes on."""
SETTLED: Final = 1e-9
"""Relative rise of mu that a round has to gain."""
GAIN: Final = 0.05
"""Share of the distance of both bounds that a round has to gain."""
SMALLEST_GAP, SMALLEST_STEP = 1e-6, 1e-14
"""Smallest distance of slopes, relative to mu, and relative to their size."""
RESOLUTION: Final = 0.05
"""Square of the smallest useful distance of slopes, in units of mu^2 and of the width of ln delta."""
NEAREST: Final = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
"""Smallest distances of slopes that prove a point from the best one, in units of mu, tried one after the other."""
GROWTH: Final = 1.2
"""Factor by which the distances of slopes that prove a point grow."""
INSET: Final = 0.1
"""Share of an interval of slopes that a new slope keeps from both ends."""
TRIED: Final = (0.0, 1.5, 3.0, 4.5, 6.0)
"""Log slopes at which parts of a curve are compared, in units of mu."""
ALIKE, MOST_PARTS = 1e-3, 8
"""Relative distance of mu at which two parts are both searched, and largest number of parts."""
HALVINGS: Final = 24
"""Halvings of the search for the number of pieces."""
FAR: Final = 1e-3
"""Relative distance of mu of a side below the largest mu at which a lower bound does not need the side."""
MOST_TESTS: Final = 64
"""Largest number of tests that are compared with the range."""
TESTED: Final = 3
"""Number of slopes with the largest mu whose tests are evaluated."""


@final
@dataclass(slots=True, eq=False)
class _Side:
    """Tangents of a curve at rising log slopes c >= 0, with bounds of their offsets delta(c).

    Attributes
    ----------
    steepest : float
        Largest log slope.
    all_c, log_low, log_high : array, shape (n,)
        All log slopes, and bounds of ln delta there.
    c, delta : array, shape (k,)
        Log slopes and offsets of the lines that no other line makes redundant.
    m, gap : array, shape (k,)
        mu of the Gaussian curve that touches each of these lines, and the smallest useful distance of its neighbours.
    """

    curve: AbstractTradeOff
    steepest: float
    all_c: FloatArray = field(default_factory=lambda: np.zeros(0))
    log_low: FloatArray = field(default_factory=lambda: np.zeros(0))
    log_high: FloatArray = field(default_factory=lambda: np.zeros(0))
    c: FloatArray = field(default_factory=lambda: np.zeros(0))
    delta: FloatArray = field(default_factory=lambda: np.zeros(0))
    m: FloatArray = field(default_factory=lambda: np.zeros(0))
    gap: FloatArray = field(default_factory=lambda: np.zeros(0))

    def insert(self, c: FloatArray) -> int:
        """Add tangents at new log slopes, and return how many were new."""
        new = np.setdiff1d(np.clip(c, 0.0, self.steepest), self.all_c)
        if not len(new):
            return 0
        low, high = log_ends(self.curve.profile(new))
        order = np.argsort(np.concatenate([self.all_c, new]))
        self.all_c = np.concatenate([self.all_c, new])[order]
        low, high = (
            np.concatenate([known, more])[order] for known, more in ((self.log_low, low), (self.log_high, high))
        )
        # delta falls with c.
        self.log_high = np.minimum.accumulate(high)
        self.log_low = np.minimum(np.maximum.accumulate(low[::-1])[::-1], self.log_high)
        delta = np.exp(self.log_high) * (1 + ROUNDING) + SMALLEST
        kept = _lowest_hull(np.expm1(self.all_c), delta)
        self.c, self.delta = self.all_c[kept], delta[kept]
        self.m = gaussian_mu(self.c, self.log_high[kept])
        with np.errstate(invalid="ignore"):
            width = np.nan_to_num(self.log_high - self.log_low)[kept]
        self.gap = self.m * np.sqrt(np.clip(RESOLUTION * width, SMALLEST_GAP**2, 1.0))
        return len(new)

    def lowest(self, rate: float) -> int:
        """Return the index of the tangent that is lowest at a rate."""
        return int(np.argmin(self.delta + np.exp(self.c) * rate))

    def least_rate(self, power: float) -> float:
        """Return a lower bound of the rate at which the curve reaches a power."""
        rates = (power * (1 - ROUNDING) - self.delta * (1 + ROUNDING)) * np.exp(-self.c)
        return max(float(rates.max()) * (1 - ROUNDING), 0.0)

    def end(self, rate: float) -> float:
        """Return a lower bound of mu at a rate."""
        value = np.exp(self.log_high) + np.exp(self.all_c) * rate
        at = int(np.argmin(value))
        distance = np.abs(self.all_c - self.all_c[at])
        least, most = rate, min(float(value[at]) * (1 + ROUNDING) + SMALLEST, 1.0)
        for nearest in NEAREST:
            near = _thinned(distance, at, nearest * float(self.m.max(initial=0.0)))
            if len(near) > 2:
                found = proved_power(rate, self.all_c[near], self.log_low[near], self.log_high[near])
                least = max(least, found[0])
        if not rate < least < most < 1:
            return 0.0
        power = EnclosureArray(np.array([least]), np.array([most]))
        rest = EnclosureArray(1 - power.upper - UNIT_ROUNDOFF, 1 - power.lower + UNIT_ROUNDOFF)
        return float(normal_points(np.array([rate]), power, rest).mu.lower[0])

    def touching_inside(self, first: float, beyond: float) -> IndexArray:
        """Return the indices of the slopes whose tangents are proved to touch inside the range, by falling mu.

        The range has rates of at least `first` and powers of at most 1 - `beyond`.
        """
        slopes, low = np.exp(self.all_c), np.exp(self.log_low) * (1 - ROUNDING)
        high = np.exp(self.log_high) * (1 + ROUNDING) + SMALLEST
        least, most = slopes * (1 - ROUNDING), slopes * (1 + ROUNDING)
        rises = most[None, :] - least[:, None]
        steeper = (np.triu(high[None, :] + rises * first * (1 + ROUNDING) < low[:, None], 1)).any(axis=1)
        falls = np.tril(least[:, None] - most[None, :], -1)
        with np.errstate(over="ignore"):
            rates = np.where(falls > 0, (high[None, :] - low[:, None]) / np.maximum(falls, SMALLEST), np.inf)
        rate = rates.min(axis=1) * (1 + 4 * ROUNDING)
        inside = steeper & (high + slopes * rate * (1 + ROUNDING) < (1 - beyond) * (1 - ROUNDING))
        found = np.flatnonzero(inside)
        return found[np.argsort(-gaussian_mu(self.all_c[found], self.log_low[found]))]

    def attained(self, slopes: FloatArray, first: float, beyond: float) -> float:
        """Return the largest mu that tests near the log `slopes` prove.

        The curve is at least as high as a test at its rate. The range has rates of at least `first` and type II errors
        of at least `beyond`.
        """
        tests = self.curve.tests_near(slopes)
        if tests is None:
            return 0.0
        nothing = np.zeros_like(tests.rate)
        power, error = EnclosureArray(tests.power, nothing + 1), EnclosureArray(nothing, tests.error)
        mu = normal_points(np.clip(tests.rate, SMALLEST_RATE, 1 - UNIT_ROUNDOFF), power, error).mu.lower
        usable = (tests.rate >= first) & (tests.rate < 0.5) & (tests.power > tests.rate)
        mu = np.where(usable, mu, 0.0)
        best = np.argsort(-mu)[:MOST_TESTS]
        lines = self.delta[:, None] + np.exp(self.c)[:, None] * tests.rate[None, best]
        most = lines.min(axis=0) * (1 + ROUNDING) + SMALLEST
        return float(np.where(most < (1 - beyond) * (1 - ROUNDING), mu[best], 0.0).max(initial=0.0))


def _lowest_hull(x: FloatArray, y: FloatArray) -> IndexArray:
    """Return the indices of the corners of the largest convex function below points (x, y), x rising."""
    kept = list[int]()
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    for index, (right, height) in enumerate(points):
        while len(kept) > 1:
            (left, before), (middle, between) = points[kept[-2]], points[kept[-1]]
            if (between - before) * (right - middle) < (height - between) * (middle - left):
                break
            kept.pop()
        kept.append(index)
    return np.array(kept)


def _thinned(distance: FloatArray, at: int, nearest: float) -> IndexArray:
    """Return the index `at` and indices on both sides of it at distances of at least `nearest` that grow."""
    kept = [at]
    for side in (range(at - 1, -1, -1), range(at + 1, len(distance))):
        next_one = nearest
        for index in side:
            if distance[index] >= next_one and distance[index] > 0:
                kept.append(index)
                next_one = GROWTH * float(distance[index])
    return np.array(sorted(kept))


def strongest_parts(curve: AbstractTradeOff, *, is_even: bool) -> list[AbstractTradeOff]:
    """Return the parts of a curve with about the largest mu of Gaussian DP, as attacks for lower bounds.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve, the largest convex function below all its parts.
    is_even : bool
        Whether the range of both error rates begins at one number, so that a curve and its inverse have one mu.

    Returns
    -------
    list of AbstractTradeOff
        One or more parts.
    """
    parts, others = list[AbstractTradeOff](), set[int]()
    for part in curve.hull_of:
        if not (is_even and id(part) in others):
            parts.append(part)
            others.add(id(part.reversed()))
    if len(parts) == 1:
        return parts
    scale = -2 * special.ndtri(0.5 * (1 - max(part.profile_at(0.0).upper for part in parts)))
    c = scale * np.array(TRIED)
    found = [
        float(max(gaussian_mu(c, log_ends(each.profile(c))[1]).max() for each in (part, part.reversed())))
        for part in parts
    ]
    most = max(found)
    close = [part for part, mu in zip(parts, found, strict=True) if mu >= most * (1 - ALIKE)]
    return sorted(close, key=lambda part: -found[parts.index(part)])[:MOST_PARTS]


@final
class ListSearch:
    """Bounds of mu of Gaussian DP over ranges of a curve whose profile is evaluated in lists.

    mu is that of the largest Gaussian curve below the curve over a range of error rates.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve.
    """

    def __init__(self, curve: AbstractTradeOff) -> None:
        inverse = curve.reversed()
        steepest = [min(each.largest_log_ratio.upper, STEEPEST) for each in (curve, inverse)]
        self._sides = [_Side(curve, steepest[0])]
        self._sides.append(self._sides[0] if inverse is curve else _Side(inverse, steepest[1]))

    def bounds(
        self, rate_min: float, error_min: float, limit: float, enough: float, *, lower: bool, upper: bool
    ) -> Bounds | None:
        """Return bounds of mu over the range alpha >= rate_min and f(alpha) >= error_min, or None.

        Parameters
        ----------
        rate_min, error_min : float
            Limits of the range, above the smallest doubles.
        limit : float
            A proved upper bound of mu.
        enough : float
            An upper bound below which no smaller one is needed.
        lower, upper : bool
            Which bounds are needed. The other bound is 0 or `limit`.

        Returns
        -------
        (float, float) or None
            Lower and upper bound. None if points of the curve serve better: the run reveals nearly everything, or the
            range may be empty, or the range lies on one side of the slope 1.
        """
        firsts = (rate_min, error_min)
        if max(firsts) >= 0.5 or not self._begin(firsts):
            return None
        pairs = list(zip(self._sides, firsts, firsts[::-1], strict=True))
        if self._sides[0] is self._sides[1] and rate_min == error_min:
            pairs = pairs[:1]
        search = _RangeSearch(pairs, self._sides[::-1][: len(pairs)])
        return search.run(limit, enough, lower=lower, upper=upper)

    def _begin(self, firsts: tuple[float, float]) -> bool:
        """Insert the first tangents, and return whether tangents serve this curve and its range is not empty."""
        for side, first in zip(self._sides, firsts, strict=True):
            if not len(side.all_c):
                edges = side.curve.edge_slopes
                side.insert(np.append(0.0, edges if len(edges) <= MOST_EDGES else edges[:0]))
            half = float(side.delta[0])
            if not SMALLEST < half < STRONGEST:
                return False
            mu = -2 * float(special.ndtri(0.5 * (1 - half)))
            # Log slope of the Gaussian curve at the end of the range.
            last = mu * (-float(special.ndtri(first)) - 0.5 * mu)
            if last > 0 and len(side.all_c) < FIRST // 2:
                side.insert(np.concatenate([np.linspace(0.0, last, FIRST + 1)[1:], last * BEYOND]))
            for _ in range(ROUNDS):  # until the steepest tangent touches beyond the range
                if side.lowest(first) < len(side.c) - 1 or side.c[-1] >= side.steepest:
                    break
                side.insert(side.c[-1] + max(float(side.c[-1]), mu) * np.array([0.25, 0.5, 1.0]))
        for side, first, other in zip(self._sides, firsts, firsts[::-1], strict=True):
            lowest = side.lowest(first)
            # At the end of a range on one side of the slope 1, the line of slope 1 is the lowest.
            if not lowest or float(side.delta[lowest] + math.exp(side.c[lowest]) * first) >= 1 - other:
                return False
        return True


@final
class _RangeSearch:
    """Search for mu of Gaussian DP over one range of error rates.

    Attributes
    ----------
    pairs : list of (_Side, float, float)
        The sides to search, each with the first rate of the range on its axis and on the axis of the other side.
    least : float
        An approximate mu that no refinement lowers.
    proved : float
        The largest lower bound of mu at an end of the range.
    """

    def __init__(self, pairs: list[tuple[_Side, float, float]], others: list[_Side]) -> None:
        self.pairs, self.others, self.least, self.proved = pairs, others, 0.0, 0.0

    def run(self, limit: float, enough: float, *, lower: bool, upper: bool) -> Bounds:
        """Insert tangents until the wanted bounds are close, and return the bounds.

        `limit` is an upper bound of mu from before. No upper bound below `enough` is needed.
        """
        bound, tried, most = math.inf, 0, [MOST + len(side.all_c) for side, _, _ in self.pairs]
        for _ in range(ROUNDS):
            before, least = bound, self.least
            cells = [self._cells(*pair, other) for pair, other in zip(self.pairs, self.others, strict=True)]
            bound = min(bound, max(each.largest for each in cells))
            whole = upper and bound > enough
            target = self.least * (1 + CLOSE) if lower else max(self.least * (1 + CLOSE), enough)
            gained = self.least > least * (1 + SETTLED) or (whole and before - bound > GAIN * (bound - target))
            tried = 0 if gained else tried + 1
            if is_spent() or tried > PATIENCE or bound <= target:
                break
            new = [
                each.slopes(target, self.least, max(end - len(each.side.all_c), 0), whole=whole)
                for each, end in zip(cells, most, strict=True)
            ]
            if not sum([pair[0].insert(slopes) for pair, slopes in zip(self.pairs, new, strict=True)]):
                break
        best = min(self._proved(), limit) if lower else 0.0
        return best, max(min(bound, limit), best) if upper else limit

    def _cells(self, side: _Side, first: float, beyond: float, other: _Side) -> _Cells:
        """Return the corners between neighbouring tangents of a side, and update `least`."""
        _, rates, powers = corners_of(side.c, side.delta, first)
        end = min(float(powers[-1]), 1 - other.least_rate(1 - first))
        rates, powers, kept = limited_corners(rates, powers, 1 - beyond, side.least_rate(1 - beyond))
        kept = np.append(kept, True)
        mu, slopes = gaussian_corners(np.append(powers, end), np.append(rates, first))
        touching = side.m[1 : len(rates) - 1]  # of the tangents that touch between two corners
        at_end = side.end(first)
        touched = float(touching.max(initial=0.0))
        self.proved, self.least = max(self.proved, at_end), max(self.least, touched, at_end)
        most = max(touched, float(mu[-2]))
        return _Cells(side, first, mu, slopes, kept, most)

    def _proved(self) -> float:
        """Return the largest lower bound of mu that the tangents prove."""
        best = self.proved
        for side, first, beyond in self.pairs:
            inside = side.touching_inside(first, beyond)
            if len(inside):
                index = int(inside[0])
                c, log_low = side.all_c[[index]], side.log_low[[index]]
                best = max(best, proved_mu(float(c[0]), float(log_low[0]), float(gaussian_mu(c, log_low)[0])))
            at_end = float(side.c[side.lowest(first)])
            last = max(int(np.searchsorted(side.all_c, at_end)) - 1, 0)
            slopes = np.append(side.all_c[inside[:TESTED]], [float(side.all_c[last]), at_end])
            best = max(best, side.attained(np.unique(slopes), first, beyond))
        return best


@final
@dataclass(frozen=True, slots=True)
class _Cells:
    """Corners of neighbouring tangents of a side, by falling rate, and the end of the range twice.

    `mu` and `corner_slopes` have mu at each corner and the log slope of the Gaussian curve there. `kept` marks corners
    in the range. `first` is the rate at the end of the range, and `most` about an upper bound of mu of this side.
    """

    side: _Side
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
