"""Tilts of inversion contours and of lattices: a grid of tilts for each run, and the best tilt for a number.

K(s) = ln E0 e^{sS} is the log-moment function of the privacy loss S of a run. A contour that crosses the real axis at
theta (its *tilt*) evaluates a threshold c with the factor e^{K(theta) - theta c}. The factor is smallest at the saddle
point K'(theta) = c. The logarithm by which another tilt exceeds the smallest factor is the number of nats that the
evaluation loses to cancellation. The loss with its law weighted by e^{theta S} is the *tilted* loss. No enclosure rests
on the choice of a tilt; only its width depends on it.

The grid depends on the run alone, never on earlier requests, so that equal requests have equal answers to the byte.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.loss_transform import LossTransform
from service.privacy.composition.inversion.straight import StraightContour
from service.privacy.composition.inversion.transforms_of_runs import TransformOfRun
from service.privacy.composition.summands.abstract import RealCumulants
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray, taken
from service.privacy.numerics.work import is_spent

LARGEST_DISCRETISATION = 1e-12
"""Largest truncation error of K at a usable tilt. For larger errors the truncated far jumps dominate the tilted law."""

_SPACING = 2.0
"""Distance of neighbouring tilts in standard deviations of the tilted loss."""

_FARTHEST = _SPACING * (1 + 1e-9)
"""Maximal distance of candidates that become neighbours, with room for rounding."""

_HALF_WIDTH = 1.75
"""Distance from the saddle point for which a contour is laid out, in standard deviations of the tilted loss.

It is more than half of the distance to the next tilt, and as far as a threshold on the shared contour may be.
"""

_SHARED_SCORE, _SHARED_DISTANCE, _SHARED_SLACK = 4.2, 2.5, 1.25
"""Score of the shared tilt, largest distance of a best tilt's score from that score, and nats that numbers may lose.

Rates and deltas from about 1e-3 to 1e-8 share the contour at the tilt with the score nearest to the first number.
Thresholds whose best tilt is farther away than the second number do not use the shared tilt. Making a contour costs
several times as much as evaluating it.
"""

_SHORT, _LARGEST_CANCELLATION = 2.0, 8.0
"""Ratio of deviations of a short contour, and nats that a threshold may lose on it.

A contour is long where its tilted loss deviates by more than the first number times the core's: rare large jumps
dominate there, and the law is bimodal. A short contour nearer to the core serves where it loses at most the second
number of nats (about 3.5 digits).
"""

_LARGEST_GROWTH = 1.4
"""Largest ratio of the deviations at neighbouring tilts. Where rare jumps take over, tilts move closer."""

_SMALLEST_SPACING = 0.04
"""Distance of neighbours, in standard deviations of the tilted loss, below which the grid ends."""

_NEARER = 3
"""Number of contours near the core that are tried where the transform does not decay at saddle points."""

_POLES = np.array([0.0, 1.0])
"""Poles 0 and 1. Contours between the poles, and on either side, evaluate different members of complements directly."""

_HALVINGS = 12
"""Maximal number of times that the first tilt of a weak loss moves closer to the middle where jumps dominate it."""

_SCAN = np.concatenate([[1 / 32, 1 / 16], np.arange(1, 17) / 8])
"""Distances of the candidates for the next tilts, over the spacing at a tilt. The candidates are evaluated together."""

_ROOT_OF_TWO_PI = 2.5
"""About sqrt(2 pi): the saddle-point approximation of delta is e^{K - (theta - 1) c}/(theta (theta - 1) sd sqrt(2 pi)).

The approximation estimates ln delta at each tilt, which decides where the search of a contour for a delta begins.
"""

_OUTWARD, _INWARD = 60, 20
"""Maximal number of tilts on one side of the middle, and between a pole and the middle."""


class Cumulants(Protocol):
    """Protocol of a privacy loss S whose log-moment function K(s) = ln E0 e^{sS} is known at real s (*tilts*)."""

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """Return K, K', K'' at real `tilts`, an array of one axis, with a bound of the absolute error of K.

        K is the log-moment function of the loss (`Cumulants`).
        """
        ...


def tail_scores(theta: FloatArray, value: FloatArray, threshold: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return about -Phi^{-1}(P0(S > threshold)), by Barndorff-Nielsen's r* at the saddle point theta.

    S is the privacy loss, K(s) = ln E0 e^{sS} its log-moment function, and Phi is the normal distribution function.
    `value` is K(theta), `threshold` is K'(theta), and `deviation` is sqrt K''(theta); arrays of one shape. No bound
    depends on the result.
    """
    root = np.copysign(np.sqrt(np.maximum(2 * (theta * threshold - value), 1e-300)), theta)
    with np.errstate(all="ignore"):
        return np.where(np.abs(root) > 1e-3, root + np.log(theta * deviation / root) / root, root)


def log_profiles(theta: FloatArray, value: FloatArray, threshold: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return about ln delta(threshold), the privacy profile, by the saddle-point approximation at theta.

    K(s) = ln E0 e^{sS} is the log-moment function of the loss S. `value` is K(theta), `threshold` is K'(theta), and
    `deviation` is sqrt K''(theta); arrays of one shape. No bound depends on the result.
    """
    prefactor = np.maximum(theta - 1, 0.0) * np.maximum(theta, 1.0) * deviation
    exponent = np.where(theta > 1, np.minimum(value - (theta - 1) * threshold, 0.0), 0.0)
    return exponent - np.log1p(_ROOT_OF_TWO_PI * prefactor)


def cancellation(
    theta: FloatArray,
    value: FloatArray,
    deviation: FloatArray,
    core: FloatArray | float,
    thresholds: FloatArray,
    largest: float = _LARGEST_CANCELLATION,
) -> FloatArray:
    """Return the nats that each threshold loses to cancellation at each tilt, shape (tilts, thresholds).

    K(s) = ln E0 e^{sS} is the log-moment function of the loss S. A threshold c loses K(theta) - theta c at the tilt
    theta, less the smallest such value over all given tilts. A contour crosses the real axis at theta. The contour is
    *short* if the standard deviation of the loss at theta is at most twice that of the core. If some short contour
    loses at most `largest` nats for a threshold, the result is infinite at all tilts with long contours.

    Parameters
    ----------
    theta, value, deviation : (tilts, 1) or (tilts, thresholds)
        Tilts, K there (infinite where the tilt is not usable), and sqrt K''.
    core : float or (thresholds,)
        Standard deviation of the core: the loss without rare large values (jumps).
    thresholds : (thresholds,)
        Thresholds to evaluate, in nats.
    largest : float
        Largest loss on a short contour, in nats, for which long contours are excluded.
    """
    lost = value - theta * thresholds
    lost -= lost.min(axis=0)
    short = np.where(deviation <= _SHORT * core, lost, np.inf)
    return np.where(short.min(axis=0) <= largest, short, lost)


def _deviations(cumulants: RealCumulants) -> FloatArray:
    """Return the standard deviations sqrt K'' of the tilted loss at the tilts of the cumulants, NaN where not usable.

    K(s) = ln E0 e^{sS} is the log-moment function of the loss S, and a tilt is a real s. A tilt is usable if the
    discretisation error of K (`RealCumulants`) is small there, K' is finite and K'' is positive. The result has the
    shape of the tilts.
    """
    usable = (cumulants.discretisation < LARGEST_DISCRETISATION) & (cumulants.second > 0) & np.isfinite(cumulants.first)
    return np.sqrt(np.where(usable, cumulants.second, np.nan))


def _spaced(deviations: FloatArray, offsets: FloatArray, deviation: float) -> list[int]:
    """Return the indices of the candidates that become tilts of a grid.

    Each tilt is the farthest candidate within the spacing of the previous tilt, up to the first candidate that is not
    usable, or whose standard deviation is too large. `deviations` are the standard deviations sqrt K'' at the
    candidates (NaN: not usable). `offsets` are the increasing distances of the candidates from a tilt at which the
    standard deviation is `deviation`.
    """
    candidates = list(zip(deviations.tolist(), offsets.tolist(), strict=True))
    chosen: list[int] = []
    position, farthest = 0.0, -1
    while True:
        first = farthest + 1
        for index in range(first, len(candidates)):
            grown, distance = candidates[index]
            if not (grown <= _LARGEST_GROWTH * deviation and (distance - position) * deviation <= _FARTHEST):
                break
            farthest = index
        if farthest < first:
            return chosen
        chosen.append(farthest)
        deviation, position = candidates[farthest]


class Tilt:
    """Tilt theta of a grid, at which a contour may cross the real axis, with cumulants of the privacy loss S.

    K(s) = ln E0 e^{sS}. The contour is built on first use.
    """

    def __init__(self, transform: Cumulants, columns: tuple[float, ...]) -> None:
        """Store the `columns` theta, K(theta), K'(theta), sqrt K''(theta), tail score and ln delta.

        K = `transform` is the log-moment function of the loss of the run, and K'(theta) is the threshold with this
        saddle point. The last two columns are the approximations `tail_scores` and `log_profiles` there.
        """
        self._transform = transform
        self.theta, self.value, self.threshold, self.deviation, self.score, self.log_profile = columns

    @cached_property
    def contour(self) -> StraightContour:
        """Contour that crosses the axis at this tilt, laid out for thresholds near its saddle point.

        Raises NumericalFailure for a loss whose log-moment function is known only at real tilts.
        """
        if not isinstance(self._transform, LossTransform):
            raise NumericalFailure("only a loss with a complex transform has inversion contours")
        deviation = np.array([self.deviation])
        return StraightContour(
            TransformOfRun(self._transform, self.theta), np.array([self.threshold]), deviation, _HALF_WIDTH * deviation
        )

    @property
    def has_contour(self) -> bool:
        """Whether the contour that crosses the real axis at this tilt has been built."""
        return "contour" in self.__dict__

    def excess_cancellation(self, threshold: float, other: Tilt) -> float:
        """Return how many more nats a threshold loses by cancellation at this tilt than at another tilt.

        Parameters
        ----------
        threshold : float
            Threshold of the loss, nats.
        other : Tilt
            The other tilt.

        Returns
        -------
        float
            Additional loss in nats, the logarithm of the factor; negative where the other tilt loses more.
        """
        return self.value - other.value - (self.theta - other.theta) * threshold


class TiltGrid:
    """Tilts of one run in one direction, built outwards from the poles 0 and 1 as far as thresholds need.

    K(s) = ln E0 e^{sS} is the log-moment function of the privacy loss S of the run. The *saddle point* of a threshold c
    is the theta with K'(theta) = c. The standard deviation at a tilt is sqrt K''(theta), that of the loss weighted by
    e^{theta S}. The *core* is the loss without its rare large values (jumps), with about the standard deviation at the
    tilt 1/2.
    """

    def __init__(self, transform: Cumulants, variances: FloatArray) -> None:
        """Build the first tilts of a loss with the log-moment function K = `transform`.

        `variances` is K'' at 0, 1/2 and 1, positive.
        """
        self._transform = transform
        at_zero, middle, at_one = self._known = tuple(math.sqrt(float(variance)) for variance in variances)
        self.core_deviation = middle
        self._sides: dict[int, list[Tilt]] = {1: [], -1: []}
        self._ended: set[int] = set()
        if middle < 1:
            offset = max(1 / middle, 0.75)
            tilts = {1: np.array([0.5 + offset]), -1: np.array([0.5 - offset])}
            previous = middle
        else:
            right = [*self._inward(1 - 0.5 / at_one, -1.0)[::-1], 1 + 0.5 / at_one]
            left = [*self._inward(0.5 / at_zero, 1.0)[::-1], -0.5 / at_zero]
            tilts = {1: np.array(right), -1: np.array(left)}
            previous = math.inf
        known, count = transform.cumulants(np.concatenate([tilts[1], tilts[-1]])), len(tilts[1])
        for side, its in ((1, taken(known, slice(0, count))), (-1, taken(known, slice(count, None)))):
            deviations = _deviations(its)
            serves = deviations <= _LARGEST_GROWTH * np.array([previous, *deviations[:-1]])
            chosen = np.flatnonzero(np.logical_and.accumulate(serves)).tolist()
            self._add(side, tilts[side], its, deviations, chosen)
            if not chosen and middle < 1:
                self._start_nearer(side)

    @property
    def usable(self) -> bool:
        """Whether the grid has a usable tilt above 1/2 and one below it."""
        return all(self._sides.values())

    def _start_nearer(self, side: int) -> None:
        """Add the first tilt above 1/2 (`side` 1) or below (-1), nearer to 1/2 than that of a stronger loss.

        The offset from 1/2 is at most 1/2 over the standard deviation of the loss, or .75. Farther on, rare large
        losses (jumps) dominate a weak loss.
        """
        offsets = np.unique(np.maximum(0.5 ** np.arange(1, _HALVINGS) / self.core_deviation, 0.75))[::-1]
        tilts = 0.5 + side * offsets
        known = self._transform.cumulants(tilts)
        deviations = _deviations(known)
        serves = np.flatnonzero(deviations <= _LARGEST_GROWTH * self.core_deviation)
        nearest = [len(tilts) - 1] if np.isfinite(deviations[-1]) else []
        self._add(side, tilts, known, deviations, serves[:1].tolist() or nearest)

    def _inward(self, theta: float, sign: float) -> list[float]:
        """Return tilts from `theta`, near the pole 0 or 1 of the integrand, towards 1/2.

        A strong loss leaves room for contours between the poles. `sign` is 1 for rising tilts (from 0) and -1 for
        falling ones (from 1). A parabola through the standard deviations at 0, 1/2 and 1 approximates those between
        them.
        """
        at_zero, middle, at_one = self._known
        slope, bend = at_one - at_zero, 2 * (at_zero + at_one) - 4 * middle
        tilts: list[float] = []
        while sign * (theta - 0.5) <= 0 and len(tilts) < _INWARD:
            tilts.append(theta)
            away = theta - 0.5
            deviation = middle + away * (slope + bend * away)
            theta += sign * _SPACING / max(deviation, 0.5 * min(self._known))
        return tilts

    def _add(
        self, side: int, tilts: FloatArray, known: RealCumulants, deviations: FloatArray, chosen: list[int]
    ) -> None:
        at = np.array(chosen, dtype=np.intp)
        columns = tilts[at], known.value[at], known.first[at], deviations[at]
        columns += tail_scores(*columns), log_profiles(*columns)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._sides[side] += [Tilt(self._transform, row) for row in rows]

    def _extend(self, side: int) -> bool:
        """Add tilts outwards on one side (1: above 1/2, -1: below), and return whether any was added.

        None is added if no usable tilt lies further out, or the side has 60 tilts already.
        """
        tilts = self._sides[side]
        if side in self._ended or len(tilts) >= _OUTWARD:
            return False
        last = tilts[-1]
        spacing = _SPACING / last.deviation
        if len(tilts) > 1:  # the candidates are closer where the last tilts are
            spacing = min(spacing, 4 * abs(last.theta - tilts[-2].theta))
        offsets = spacing * _SCAN
        offsets = offsets[offsets * last.deviation >= _SMALLEST_SPACING]
        if len(offsets):
            candidates = last.theta + side * offsets
            known = self._transform.cumulants(candidates)
            deviations = _deviations(known)
            self._add(side, candidates, known, deviations, _spaced(deviations, offsets, last.deviation))
        if tilts[-1] is last:
            self._ended.add(side)
        return tilts[-1] is not last

    def _extend_to(self, name: str, lowest: float, highest: float) -> None:
        """Add tilts on both sides until a property of the outermost tilts is outside [`lowest`, `highest`].

        `name` is the property of a `Tilt`, which increases with the tilt. The extension ends earlier where the grid
        ends.
        """
        for side, wanted in ((1, highest), (-1, -lowest)):
            while not side * getattr(self._sides[side][-1], name) >= wanted and self._extend(side):
                pass

    @property
    def tilts(self) -> list[Tilt]:
        """All tilts built so far, by increasing theta."""
        return self._sides[-1][::-1] + self._sides[1]

    def _best(self, tilts: list[Tilt], thresholds: FloatArray) -> tuple[FloatArray, IndexArray]:
        """Return the nats lost by `cancellation`, (tilts, thresholds), and the index of each threshold's best tilt."""
        theta, value, deviation = np.array([(tilt.theta, tilt.value, tilt.deviation) for tilt in tilts]).T[..., None]
        lost = cancellation(theta, value, deviation, self.core_deviation, thresholds)
        return lost, lost.argmin(axis=0)

    def for_thresholds(self, thresholds: FloatArray, slack: float = 0.0, *, shared: bool = True) -> list[Tilt]:
        """Return the best tilt for each threshold of the loss, a list of n tilts.

        It is the nearest to the saddle point of the threshold, or a tilt with a shorter contour that loses few digits.

        Parameters
        ----------
        thresholds : (n,)
            Thresholds to evaluate, in nats.
        slack : float
            Nats that a threshold of a list may lose beyond its best tilt, so that few contours serve the list.
        shared : bool
            Whether a single threshold may use the contour that most requests share.
        """
        self._extend_to("threshold", float(thresholds.min()), float(thresholds.max()))
        tilts = self.tilts
        lost, chosen = self._best(tilts, thresholds)
        if shared and len(thresholds) == 1:
            return [self._shared(tilts[int(chosen[0])], float(thresholds[0]))]
        if slack > 0:
            zone = np.searchsorted(_POLES, np.array([tilt.theta for tilt in tilts]))
            chosen = _few(np.where(zone[:, None] == zone[chosen], lost, np.inf), chosen, slack)
        return [tilts[index] for index in chosen]

    def beyond_the_poles(self, thresholds: FloatArray, slack: float) -> list[Tilt]:
        """Return a tilt above 1 for each of n thresholds (nats), where contours evaluate the profile itself.

        The first tilt is the best for the largest threshold, or the tilt that most requests share. The next serves the
        largest threshold that loses more than `slack` nats by the first, and so on. Without any tilt above 1 the result
        is that of `for_thresholds`.
        """
        self._extend_to("threshold", float(thresholds.min()), float(thresholds.max()))
        tilts = [tilt for tilt in self._sides[1] if tilt.theta > 1]
        if not tilts:
            return self.for_thresholds(thresholds, slack)
        lost, chosen = self._best(tilts, thresholds)
        least = lost[chosen, np.arange(len(chosen))]
        left = np.argsort(-thresholds)
        while len(left):
            index = left[0]
            shared = self._shared(tilts[chosen[index]], float(thresholds[index]), slack)
            best = tilts.index(shared) if shared in tilts else chosen[index]
            serves = lost[best, left] <= least[left] + slack
            serves[0] = True
            chosen[left[serves]] = best
            left = left[~serves]
        return [tilts[index] for index in chosen.tolist()]

    def _shared(self, best: Tilt, threshold: float, slack: float = _SHARED_SLACK) -> Tilt:
        """Return the tilt that most requests share, or `best`, the best tilt for a threshold.

        The shared tilt has a tail score (standard deviations) near `_SHARED_SCORE`. The shared tilt serves where the
        score of `best` is not far from that, and the threshold (nats) loses at most `slack` nats more there than at
        `best`.
        """
        if abs(best.score - _SHARED_SCORE) > _SHARED_DISTANCE:
            return best
        self._extend_to("score", math.inf, _SHARED_SCORE)
        right = self._sides[1]
        # Only tilts up to the first beyond the shared score count, so that earlier requests do not matter.
        end = next((k + 1 for k, tilt in enumerate(right) if tilt.score >= _SHARED_SCORE), len(right))
        longest = max(_SHORT * self.core_deviation, best.deviation)
        short = [tilt for tilt in right[:end] if tilt.deviation <= longest]
        nearest = min(short, key=lambda tilt: abs(tilt.score - _SHARED_SCORE), default=best)
        return nearest if nearest.excess_cancellation(threshold, best) <= slack else best

    def covers(self, thresholds: FloatArray) -> BoolArray:
        """Return a mask of n thresholds (nats) at most a standard deviation outside the range of the saddle points.

        The saddle point of a tilt theta (a real number at which a contour may cross the axis) is the threshold
        K'(theta), where K is the log-moment function of the loss.
        """
        highest, lowest = self._sides[1][-1], self._sides[-1][-1]
        return (thresholds <= highest.threshold + highest.deviation) & (
            thresholds >= lowest.threshold - lowest.deviation
        )

    def covers_rates(self, false_positive_rates: FloatArray) -> BoolArray:
        """Return a mask of n false positive rates whose tail scores are at most 1 outside the range of the grid.

        The tail score of a rate is the number of standard deviations at which a normal law has this tail. A tilt of the
        grid has the score of the rate that it serves best.
        """
        scores = -ndtri(false_positive_rates)
        return (scores <= self._sides[1][-1].score + 1) & (scores >= self._sides[-1][-1].score - 1)

    def for_rates(self, false_positive_rates: FloatArray, slack: float = 0.0) -> list[Tilt]:
        """Return the best tilt for each of n false positive rates, or one that loses at most `slack` nats more.

        The slack lets few contours serve the list. The threshold c has P0(S > c) equal to the rate. The threshold is
        estimated from the tilt at whose saddle point the tail of the loss S under H0 is nearest, and from the standard
        deviation there.
        """
        scores = -ndtri(false_positive_rates)
        self._extend_to("score", float(scores.min()), float(scores.max()))
        centers, thresholds, deviations = np.array([(t.score, t.threshold, t.deviation) for t in self.tilts]).T
        nearest = np.argmin(np.abs(scores[:, None] - centers), axis=1)
        # Scores and tilts may diverge where jumps dominate. No estimate is nearer to the next tilt than to its own.
        half_way = 0.5 * np.diff(thresholds, prepend=-np.inf, append=np.inf)
        moved = (scores - centers[nearest]) * deviations[nearest]
        moved = np.clip(moved, -np.maximum(half_way[nearest], 0.0), np.maximum(half_way[nearest + 1], 0.0))
        return self.for_thresholds(thresholds[nearest] + moved, slack)

    def for_delta(self, delta: float) -> Tilt:
        """Return the best tilt theta > 0 for the threshold at which the profile is `delta`.

        The threshold is estimated by interpolation between two tilts.
        """
        log_delta = math.log(delta)
        while not self._sides[1][-1].log_profile <= log_delta and self._extend(1):
            pass
        tilts = [tilt for tilt in self._sides[1] if tilt.theta > 0]
        after = next((k for k, tilt in enumerate(tilts) if tilt.log_profile <= log_delta), len(tilts) - 1)
        low, high = tilts[max(after - 1, 0)], tilts[after]
        nearest = low if abs(low.log_profile - log_delta) <= abs(high.log_profile - log_delta) else high
        threshold = nearest.threshold
        if low.log_profile > log_delta >= high.log_profile:
            share = (low.log_profile - log_delta) / (low.log_profile - high.log_profile)
            threshold = low.threshold + share * (high.threshold - low.threshold)
        chosen = self.for_thresholds(np.array([threshold]))[0]
        return chosen if chosen.theta > 0 else nearest

    def for_root(self, tilt: Tilt, threshold: float) -> Tilt:
        """Return the tilt whose contour should prove a root of the profile, found at `threshold` (nats).

        The root was found on the contour of `tilt`. The result is `tilt` if the threshold loses at most 1.25 nats more
        by cancellation there than at its best tilt, or if the best tilt is not positive. Otherwise it is the best tilt.
        """
        best = self.for_thresholds(np.array([threshold]))[0]
        return tilt if best.theta <= 0 or tilt.excess_cancellation(threshold, best) <= _SHARED_SLACK else best

    def near_core(self, below: float = math.inf) -> Tilt | None:
        """Return the outermost tilt in (0, `below`) with a short contour on which the transform decays, or None.

        A contour is short where the standard deviation at its tilt is about that of the core, the loss without rare
        jumps. Only the outermost three short contours are tried, and none after the work of the request is spent.
        """
        longest = _SHORT * self.core_deviation
        short = [tilt for tilt in self.tilts if 0 < tilt.theta < below and tilt.deviation <= longest]
        for tilt in short[: -_NEARER - 1 : -1]:
            if is_spent():  # every contour may be expensive
                break
            if tilt.contour.has_decayed.all():
                return tilt
        return None

    def neighbours(self, tilt: Tilt) -> list[Tilt]:
        """Return the neighbours of a tilt in the grid, to try where its contour gives wide enclosures.

        The neighbour towards 1/2 comes first, then the outer one.
        """
        side = 1 if tilt.theta > 0.5 else -1
        if tilt is self._sides[side][-1]:
            self._extend(side)
        tilts = self.tilts
        at = tilts.index(tilt)
        return [tilts[i] for i in (at - side, at + side) if 0 <= i < len(tilts)]


def _few(lost: FloatArray, chosen: IndexArray, slack: float) -> IndexArray:
    """Return the index of a tilt for each threshold, shape (n,), so that few different tilts serve all thresholds.

    A tilt serves a threshold if it loses at most `slack` nats more than the threshold's best tilt `chosen`. `lost` has
    the nats lost, shape (tilts, n). An entry is infinite where a tilt cannot replace the chosen tilt.
    """
    serves = lost <= lost[chosen, np.arange(len(chosen))] + slack
    kept = np.zeros(len(lost), dtype=bool)
    left = np.ones(len(chosen), dtype=bool)
    used = np.unique(chosen)
    while left.any():
        best = used[serves[used][:, left].sum(axis=1).argmax()]
        kept[best] = True
        left &= ~serves[best]
    return np.where(kept[:, None], lost, np.inf).argmin(axis=0)
