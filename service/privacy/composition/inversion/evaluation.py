"""Points of a run's trade-off curve and its privacy profile, evaluated on contours.

A contour is a path of an inversion integral, and a truncation level says how little of the loss's law is omitted. Rates
and thresholds follow one plan. A list is first evaluated on few contours. Every number that is still wide is evaluated
on its best contour and the neighbours, at one truncation level after the other. Numbers without a useful contour get
the bounds that need no contour, and deformed contours, before further levels are tried. Finally these bounds and
contours serve all numbers that are still wide.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri
from typing_extensions import override

from service.privacy.composition.inversion.direction_contours import HOPELESS, DirectionContours
from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.readings.points import read_few_points
from service.privacy.composition.inversion.readings.profile import read_profile
from service.privacy.composition.inversion.run_law import TRUNCATION_DIGITS
from service.privacy.composition.inversion.straight import StraightContour
from service.privacy.composition.inversion.tilts import Tilt, TiltGrid
from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.enclosed.logs import logs_of_guess

if TYPE_CHECKING:
    from service.privacy.composition.inversion.deformed.run import DeformedRun

_SLACK_OF_LISTS = 4.0
"""Nats (less than two digits) that a number of a list may lose so that fewer contours serve the list."""

_SLACK_OF_ROUGH_LISTS, _ROUGH_DIGITS = 11.0, 6.0
"""Nats (five digits) that a number may lose where few digits are needed, and digits between it and the truncated mass.

Wide results are not evaluated again.
"""

_LEVELS_SHARED = 2
"""Number of truncation levels by which a number's first level may be shallower than the deepest of its list.

Such numbers begin with the deepest one, because every level has its own contours.
"""


_MOST_FAR = 16
"""Maximal number of thresholds of a list that are evaluated as those of one rare jump: each takes 10 to 50 ms."""

_MOST_AT_ONCE = 1 << 14
"""Maximal number of thresholds in an array. Each is compared with about a hundred tilts."""

_COARSE = 1e-2
"""Width above which contours are tried in any case."""

_CONTOUR_DIGITS = 1e-19
"""Error of contours in long doubles beside rare jumps, approximately. They do not improve narrower bounds."""


class _Query(ABC):
    """n numbers of one kind, their enclosures `known`, and the methods that evaluate them on contours.

    A *contour* is the path of an inversion integral, a vertical line (*straight*) or a curve (*deformed*) in the
    complex plane. The *tilt* is the real number at which a contour crosses the axis. Errors are small for thresholds
    whose *saddle point*, that of the integrand, is near the tilt. A *truncation level* 10^-d omits jumps (rare large
    losses of a step) of total probability at most 10^-d. A *transform* is the moment-generating function of the loss
    along a contour. This class chooses the contours to try. A subclass supplies the best tilts, the evaluation on a
    contour, and the bounds without contours for its kind of number.

    Attributes
    ----------
    contours : DirectionContours
        Contours of one direction of a run.
    at : (n,)
        False positive rates, or thresholds (epsilons, nats).
    known : Readings
        Enclosures of the n numbers, intersected with each result.
    open : array
        Indices of the numbers that are not known from the start.
    levels : (n, L)
        Indices of the L truncation levels in the order of each number's attempts, filled with -1.
    rows : int
        Number of rows of `known` that should be narrow.
    """

    def __init__(
        self, contours: DirectionContours, at: FloatArray, known: Readings, levels: IndexArray, rows: int
    ) -> None:
        self.contours, self.at, self.known, self.levels, self.rows = contours, at, known, levels, rows
        self.open = np.arange(len(at))

    @abstractmethod
    def tilts(self, tilt_grid: TiltGrid, where: IndexArray, slack: float) -> list[Tilt]:
        """Return the tilt of the best contour for each number with an index in `where`.

        `tilt_grid` has the contours of one truncation level. `slack` is the number of nats that a number may lose by
        cancellation so that fewer contours serve the list (`TiltGrid.for_thresholds`). A truncation level says how
        little of the loss's law is omitted.
        """

    @abstractmethod
    def are_ready(
        self, tilt_grid: TiltGrid, tilts: list[Tilt], where: IndexArray, level: int, last: BoolArray
    ) -> BoolArray:
        """Return a mask of the numbers `where` that a truncation level serves; other numbers wait for a deeper level.

        `level` is the index of the level, `tilt_grid` has its contours, and `tilts` are the tilts of the numbers.
        `last` is a mask of the numbers without another level to try. A truncation level 10^-d omits rare large losses
        of total probability at most 10^-d.
        """

    @abstractmethod
    def evaluate(self, contour: StraightContour, where: IndexArray) -> Readings:
        """Return enclosures of the m numbers with indices `where` on one straight contour, as m columns."""

    @abstractmethod
    def evaluate_deformed(self, contours: DeformedRun, index: int) -> Readings:
        """Return the enclosure of the number with this index on deformed contours, as one column."""

    @abstractmethod
    def bound(self, where: IndexArray) -> None:
        """Narrow the enclosures of the numbers with indices `where` by bounds that need no contour.

        The enclosures are the columns of `known`.
        """

    def answer(self, *, deformed: bool = True) -> Readings:
        """Return `known`, the enclosures of all numbers, as narrow as contours can make them.

        `deformed` is whether deformed contours may serve.
        """
        if len(self.open) > 1:
            first = self.levels[:, 0]
            deepest = first.max()
            self._evaluate_at(np.where(first >= deepest - _LEVELS_SHARED, deepest, first), self._wide(-1.0), 0)
        attempts, tried, wide = self.levels.shape[1], self.open[:0], self._wide()
        if deformed and len(wide) and self.contours.deforms_first:
            tried = self._deform(tried, self.contours.accuracy.deformed)
            wide = self._wide(self.contours.accuracy.deformed) if len(tried) else wide
        for attempt in range(attempts if len(wide) else 0):
            may_help = self._evaluate_at(self.levels[:, attempt], wide, attempt + 1)
            if deformed and attempt == min(1, attempts - 1):
                hopeless = self.contours.to_deform(self.known, self.rows, HOPELESS)
                if len(hopeless):
                    self.bound(hopeless)
                tried = self._deform(tried, HOPELESS)
            wide = self._wide()
            if len(wide) == 0 or not may_help:
                break
        if len(wide):
            self.bound(wide)
            if deformed:
                self._deform(tried, self.contours.accuracy.deformed)
        return self.known

    def _wide(self, width: float | None = None) -> IndexArray:
        return self._wide_among(self.open, width)

    def _wide_among(self, at: IndexArray, width: float | None = None) -> IndexArray:
        least = self.contours.good_width if width is None else width
        return at[self.known.width(self.rows)[at] > least]

    def _deform(self, tried: IndexArray, width: float) -> IndexArray:
        """Narrow the numbers wider than the relative `width` by deformed contours, and return their indices.

        Numbers with indices in `tried` are left out.
        """
        where = self.contours.to_deform(self.known, self.rows, width)
        where = np.setdiff1d(np.intersect1d(where, self.open), tried) if len(where) else where
        for index in where.tolist():
            if self.contours.deformed is not None:
                self.known.tighten(np.array([index]), self.evaluate_deformed(self.contours.deformed, index))
        return where

    def _evaluate_at(self, levels: IndexArray, where: IndexArray, following: int) -> bool:
        """Evaluate each number with an index in `where` on contours of its truncation level, and narrow its enclosure.

        A truncation level 10^-d omits rare large losses of total probability at most 10^-d. `levels` has the index of
        the level of each of the n numbers. `following` is the index of the next attempt (each attempt has another
        level). 0 means that few contours serve the whole list, without contours at neighbouring tilts. Return whether
        further levels may help. They cannot where the moment-generating function does not decay on a contour, or the
        work of the request is spent.
        """
        if is_spent():  # the tilts of the contours cost work, too
            return False
        may_help = True
        chosen_levels: list[int] = levels[where].tolist()
        for level in sorted(set(chosen_levels)):
            tilt_grid = self.contours.tilt_grid(TRUNCATION_DIGITS[level]) if level >= 0 else None
            if tilt_grid is None:
                continue
            at = where[levels[where] == level]
            tilts = self.tilts(tilt_grid, at, 0.0 if following else _SLACK_OF_LISTS)
            last = np.asarray((self.levels[at, following:] < 0).all(axis=1) if following else np.ones_like(at, bool))
            ready = self.are_ready(tilt_grid, tilts, at, level, last)
            chosen = [tilt for tilt, is_ready in zip(tilts, ready, strict=True) if is_ready]
            may_help &= self.evaluate_on(chosen, at[ready], tilt_grid if following else None)
        return may_help

    def evaluate_on(self, tilts: list[Tilt], where: IndexArray, tilt_grid: TiltGrid | None = None) -> bool:
        """Evaluate each number on the contour of its tilt, and narrow its enclosure.

        `tilts` has one tilt for each index in `where`. Numbers that stay wide are evaluated on neighbouring contours in
        the `tilt_grid`, unless it is None. Return False if the work of the request is spent, or where the
        moment-generating function of a run that is not Gaussian does not decay on a contour. It does not decay on the
        neighbours either.
        """
        may_help = True
        for tilt in dict.fromkeys(tilts):
            if is_spent():  # bounds that need no contour remain
                return False
            at = where[[chosen is tilt for chosen in tilts]]
            self.known.tighten(at, self.evaluate(tilt.contour, at))
            if not self.contours.neighbours_may_help(tilt):
                may_help = False
                continue
            at = self._wide_among(at)
            for other in tilt_grid.neighbours(tilt) if tilt_grid is not None and len(at) else ():
                self.known.tighten(at, self.evaluate(other.contour, at))
                at = self._wide_among(at)
                if len(at) == 0:
                    break
        return may_help


class _Rates(_Query):
    """Points of the trade-off curve at false positive rates strictly between 0 and 1.

    `rows` is 1 where only the power should be narrow, and 2 for power and type II error.
    """

    def __init__(self, contours: DirectionContours, alpha: FloatArray, rows: int) -> None:
        n = len(alpha)
        least, most = logs_of_guess(alpha)
        known = Readings(np.stack([least, np.full(n, -np.inf), np.full(n, -np.inf)]), np.zeros((3, n)))
        known.upper[1], known.upper[2] = most, np.inf
        super().__init__(
            contours, alpha, known, contours.run.level_orders(np.minimum(alpha, 1 - alpha), abs(ndtri(alpha))), rows
        )

    @override
    def tilts(self, tilt_grid: TiltGrid, where: IndexArray, slack: float) -> list[Tilt]:
        return tilt_grid.for_rates(self.at[where], slack)

    @override
    def are_ready(
        self, tilt_grid: TiltGrid, tilts: list[Tilt], where: IndexArray, level: int, last: BoolArray
    ) -> BoolArray:
        # Beyond the last tilt of a grid, contours of a deeper level are nearer, but those of mixtures are long there.
        return tilt_grid.covers_rates(self.at[where]) | last | self.contours.run.is_straight

    @override
    def evaluate(self, contour: StraightContour, where: IndexArray) -> Readings:
        return read_few_points(contour, self.at[where], self.contours.accuracy.straight)

    @override
    def evaluate_deformed(self, contours: DeformedRun, index: int) -> Readings:
        return contours.points(float(self.at[index]), float(self.known.lower[0, index]))

    @override
    def bound(self, where: IndexArray) -> None:
        self.known.tighten(where, self.contours.fallback.points(self.at[where]))


class _Thresholds(_Query):
    """Privacy profile delta(epsilon) at finite epsilons, as enclosures of ln delta."""

    def __init__(self, contours: DirectionContours, epsilon: FloatArray, levels: IndexArray | None = None) -> None:
        beyond = epsilon >= contours.largest_log_ratio.upper
        known = Readings(np.full((1, len(epsilon)), -np.inf), np.where(beyond, -np.inf, 0.0)[None])
        levels = contours.run.level_orders_for_thresholds(epsilon) if levels is None else levels
        super().__init__(contours, epsilon, known, levels, 1)
        self.open = np.flatnonzero(~beyond)

    @override
    def answer(self, *, deformed: bool = True) -> Readings:
        if len(self.open) <= _MOST_FAR:
            self._evaluate_far()
        return super().answer(deformed=deformed)

    def _evaluate_far(self) -> None:
        """Enclose ln delta at thresholds with a tiny delta, which one rare large loss of a step determines.

        Thresholds whose enclosures other contours would not narrow are removed from `open`.
        """
        for index in self.open.tolist():
            found = self.contours.far_profile(float(self.at[index]))
            if found is not None:
                self.known.tighten(np.array([index]), Readings(*(np.array([[bound]]) for bound in found)))
        enough = np.maximum(self.contours.accuracy.deformed, _CONTOUR_DIGITS / np.exp(self.known.upper[0]))
        width = np.where(np.isfinite(self.known.lower[0]), self.known.width(1), 1.0)
        closed = width <= np.minimum(enough, _COARSE)
        self.contours.settled.update(self.at[self.open[closed[self.open]]].tolist())
        self.open = self.open[~closed[self.open]]

    @override
    def tilts(self, tilt_grid: TiltGrid, where: IndexArray, slack: float) -> list[Tilt]:
        return tilt_grid.for_thresholds(self.at[where], slack)

    @override
    def are_ready(
        self, tilt_grid: TiltGrid, tilts: list[Tilt], where: IndexArray, level: int, last: BoolArray
    ) -> BoolArray:
        # The truncated mass lies 11 digits below delta, approximately. The enclosure includes it in any case.
        deep = np.array([tilt.log_profile for tilt in tilts]) > (11 - TRUNCATION_DIGITS[level]) * math.log(10)
        return (deep & tilt_grid.covers(self.at[where])) | (level == len(TRUNCATION_DIGITS) - 1)

    @override
    def evaluate(self, contour: StraightContour, where: IndexArray) -> Readings:
        return read_profile(contour, self.at[where])

    @override
    def evaluate_deformed(self, contours: DeformedRun, index: int) -> Readings:
        known = float(self.known.lower[0, index]), float(self.known.upper[0, index])
        return contours.profile(float(self.at[index]), *known)

    @override
    def bound(self, where: IndexArray) -> None:
        # The transform does not decay on contours through saddle points between distant modes. It does on a contour
        # near the core, which has fewer digits. It evaluates far thresholds that unlikely jumps determine.
        far = where[self.known.width(1)[where] > self.contours.accuracy.deformed]
        tilt_grid = (
            self.contours.tilt_grid(TRUNCATION_DIGITS[0]) if self.contours.run.is_straight and len(far) else None
        )
        tilt = None if tilt_grid is None else tilt_grid.near_core()
        if tilt is not None:
            self.known.tighten(far, self.evaluate(tilt.contour, far))
        self.known.tighten(where, self.contours.fallback.profile(self.at[where]))


# Underflow, overflow and empty logarithms are part of the bounds: NaN never passes `Readings.tighten`.
@np.errstate(all="ignore")
def evaluate_points(contours: DirectionContours, alpha: FloatArray, rows: int) -> CurvePoints:
    """Return enclosures of points of a run's trade-off curve at the false positive rates `alpha`, shape (n,).

    `rows` is 1 where only the power should be narrow, and 2 for power and type II error. Enclosures are as narrow as
    contours can make them. The point at a single rate is cached, because several numbers need it.
    """
    key = (float(alpha[0]), rows) if len(alpha) == 1 else None
    if key in contours.points:
        return contours.points[key]
    known = _Rates(contours, alpha, rows).answer()
    power, type_two_error = (EnclosureArray.from_logs(known.lower[row], known.upper[row]) for row in (0, 1))
    points = CurvePoints(type_two_error, power, EnclosureArray(known.lower[2], known.upper[2]))
    if key is not None:
        contours.points[key] = points
        if rows == 1 and known.width()[0] <= contours.good_width:  # narrow enough for `rows` 2 as well
            contours.points[key[0], 2] = points
    return points


@np.errstate(all="ignore")
def evaluate_profile(contours: DirectionContours, epsilon: FloatArray) -> EnclosureArray:
    """Return enclosures of the privacy profile delta(epsilon), as narrow as contours can make them.

    `epsilon` has finite thresholds in nats, shape (n,).
    """
    starts = range(0, max(len(epsilon), 1), _MOST_AT_ONCE)
    found = [_Thresholds(contours, epsilon[start : start + _MOST_AT_ONCE]).answer() for start in starts]
    lower, upper = (np.concatenate([getattr(part, end)[0] for part in found]) for end in ("lower", "upper"))
    return EnclosureArray.from_logs(lower, upper)


def straight_profile(contours: DirectionContours, epsilon: float) -> tuple[float, float]:
    """Return `(lower, upper)`, bounds of ln delta at one `epsilon` in nats.

    Straight contours and bounds that need no contour give them.
    """
    known = _Thresholds(contours, np.array([epsilon])).answer(deformed=False)
    return float(known.lower[0, 0]), float(known.upper[0, 0])


@np.errstate(all="ignore")
def evaluate_roughly(contours: DirectionContours, epsilon: FloatArray, rate: float) -> EnclosureArray:
    """Return enclosures of the profile delta at n epsilons (nats) by the fewest contours that reach all of them.

    `epsilon` and the result have the shape (n,). The enclosures may have about five correct digits fewer than those of
    `evaluate_profile`. The truncation level (the omitted probability of far jumps of the loss) is the level of the
    point at the false positive rate `rate`, or a deeper one. The enclosures may be trivial if the run has no contours,
    or the work of the request is spent.
    """
    levels = contours.run.levels(min(rate, 1 - rate), abs(float(ndtri(rate))))
    query = _Thresholds(contours, epsilon, np.array([levels]))
    thresholds = epsilon[query.open]
    for level in levels if len(thresholds) else ():
        tilt_grid = contours.tilt_grid(TRUNCATION_DIGITS[level])
        if tilt_grid is not None:
            tilts = tilt_grid.beyond_the_poles(thresholds, _SLACK_OF_ROUGH_LISTS)
            deep = min(tilt.log_profile for tilt in set(tilts)) > (_ROUGH_DIGITS - TRUNCATION_DIGITS[level]) * math.log(
                10
            )
            if (deep and tilt_grid.covers(thresholds).all()) or level == levels[-1]:
                query.evaluate_on(tilts, query.open)
                break
    return EnclosureArray.from_logs(query.known.lower[0], query.known.upper[0])
