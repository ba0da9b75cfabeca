"""Tangents of a power curve from lists of its profile, and the lower bounds of mu that they prove.

For every log slope c the line delta(c) + e^c alpha lies above the power. `gdp_lists.py` has the proofs of the bounds of
mu of Gaussian differential privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from service.privacy.enclosure import SMALLEST, EnclosureArray
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.gaussian_profile import gaussian_mu
from service.privacy.questions.normal_points import SMALLEST_RATE, normal_points
from service.privacy.questions.tangent_sets import ROUNDING
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.profile_points import proved_power
from service.privacy.trade_off.enclosed.logs import log_ends

SMALLEST_GAP: Final = 1e-6
"""Smallest distance of slopes, relative to mu."""
RESOLUTION: Final = 0.05
"""Square of the smallest useful distance of slopes, in units of mu^2 and of the width of ln delta."""
NEAREST: Final = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
"""Smallest distances of slopes that prove a point from the best one, in units of mu, tried one after the other."""
GROWTH: Final = 1.2
"""Factor by which the distances of slopes that prove a point grow."""
MOST_TESTS: Final = 64
"""Largest number of tests that are compared with the range."""


@final
@dataclass(slots=True, eq=False)
class ListTangents:
    """Tangents of a curve at rising log slopes c >= 0, with bounds of their offsets delta(c).

    Attributes
    ----------
    steepest : float
        Largest log slope.
    is_rough : bool
        Whether the offsets come from the fast profile with wider bounds.
    all_c, log_low, log_high : array, shape (n,)
        All log slopes, and bounds of ln delta there.
    c, delta : array, shape (k,)
        Log slopes and offsets of the lines that no other line makes redundant.
    all_m : array, shape (n,)
        mu of the Gaussian curve that touches the line at each log slope, NaN where no search needed the number.
    m, gap : array, shape (k,)
        mu of the Gaussian curve that touches each of these lines, and the smallest useful distance of its neighbours.
    """

    curve: AbstractTradeOff
    steepest: float
    is_rough: bool = False
    all_c: FloatArray = field(default_factory=lambda: np.zeros(0))
    log_low: FloatArray = field(default_factory=lambda: np.zeros(0))
    log_high: FloatArray = field(default_factory=lambda: np.zeros(0))
    c: FloatArray = field(default_factory=lambda: np.zeros(0))
    delta: FloatArray = field(default_factory=lambda: np.zeros(0))
    m: FloatArray = field(default_factory=lambda: np.zeros(0))
    all_m: FloatArray = field(default_factory=lambda: np.zeros(0))
    gap: FloatArray = field(default_factory=lambda: np.zeros(0))

    def insert(self, c: FloatArray) -> int:
        """Add tangents at new log slopes, and return how many were new."""
        new = np.setdiff1d(np.clip(c, 0.0, self.steepest), self.all_c)
        if not len(new):
            return 0
        read = self.curve.rough_profile(new, 0.5) if self.is_rough else self.curve.profile(new)
        low, high = log_ends(read)
        order = np.argsort(np.concatenate([self.all_c, new]))
        self.all_c, low, high, m = (
            np.concatenate([known, more])[order]
            for known, more in (
                (self.all_c, new),
                (self.log_low, low),
                (self.log_high, high),
                (self.all_m, np.full_like(new, np.nan)),
            )
        )
        # delta falls with c.
        self.log_high = np.minimum.accumulate(high)
        self.all_m = np.where(self.log_high < high, np.nan, m)
        self.log_low = np.minimum(np.maximum.accumulate(low[::-1])[::-1], self.log_high)
        delta = np.exp(self.log_high) * (1 + ROUNDING) + SMALLEST
        kept = _lowest_hull(np.expm1(self.all_c), delta)
        self.c, self.delta = self.all_c[kept], delta[kept]
        missing = kept[np.isnan(self.all_m[kept])]
        self.all_m[missing] = gaussian_mu(self.all_c[missing], self.log_high[missing])
        self.m = self.all_m[kept]
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
