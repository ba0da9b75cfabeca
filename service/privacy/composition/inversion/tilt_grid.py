"""Which line serves which threshold: a fixed ladder of lines per run, built outwards from the poles as far as asked.

The lines depend on the run alone, never on what was asked before, so that the same question always gets the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.line import ContourLine
from service.privacy.composition.inversion.line_runs import OneRun
from service.privacy.composition.inversion.loss_transform import LossTransform
from service.privacy.composition.summands.abstract import RealCumulants
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import is_spent

_SPACING = 2.0
"""Distance of neighbouring lines in standard deviations of the tilted loss."""

_REACH = 1.75
"""How far on either side of its saddle point a line is laid out for, in the same unit: more than half way to the next,
as far as a usual place may be.
"""

_USUAL_SCORE, _USUAL_REACH, _USUAL_SLACK = 4.2, 2.5, 1.25
"""Rates and deltas from about 1e-3 to 1e-8, which most questions ask about, share the line whose own score is nearest
to the first number, where they lose no more nats by it than the third (a factor of 3.5): making a line costs several
times what reading it costs. Places whose best line is farther away than the second number do not ask for it.
"""

_LARGEST_DEVIATION = 2.0
"""Lines whose tilted loss spreads more than this times the core's are a second choice: rare large jumps dominate there,
the law is bimodal and the line long; a line nearer to the core serves the same thresholds at the price of a few digits.
"""

_LARGEST_CANCELLATION = 8.0
"""Nats (about 3.5 digits) that a short line may lose before the saddle line is preferred."""

_LARGEST_TRUNCATION = 1e-12
"""A rung needs K to this accuracy, rounding aside: beyond it the cut of far jumps rules the tilted law."""

_LARGEST_GROWTH = 1.4
"""Neighbouring rungs' deviations differ by at most this factor; where rare jumps take over, the rungs move closer."""

_SMALLEST_SPACING = 0.04
"""In standard deviations, like `_SPACING`: a ladder that would need closer rungs ends."""

_NEARER = 3
"""Lines near the core that are tried where those at saddle points have no end."""

_POLES = np.array([0.0, 1.0])
"""Between them, and on either side, lines give different ones of each pair of complements directly."""

_HALVINGS = 12
"""How often the first rung of a weak loss is moved closer to the middle when jumps rule it."""

_BATCH = 4
"""Rungs evaluated at once, besides closer ones; those after a sharp growth of the deviation are dropped."""

_OUTWARD_LINES = 60
_INWARD_LINES = 20
"""Most rungs on one side of the middle, and most between a pole and the middle."""


class Cumulants(Protocol):
    """What a ladder is placed by: K, K', K'' of a loss at real tilts."""

    def cumulants(self, tilts: FloatArray) -> RealCumulants:
        """At tilts of shape (S,)."""
        ...


class Rung:
    """One tilt of the ladder with its cumulants; its line is built on first use."""

    def __init__(self, transform: Cumulants, theta: float, value: float, threshold: float, deviation: float) -> None:
        """`value`, `threshold`, `deviation`: K, K' (the threshold with this saddle point) and sqrt K'' at `theta`."""
        self._transform, self.theta = transform, theta
        self.value, self.threshold, self.deviation = value, threshold, deviation
        root = math.copysign(math.sqrt(max(2 * (theta * threshold - value), 1e-300)), theta)
        self.score = root + math.log(theta * deviation / root) / root if abs(root) > 1e-3 else root
        """About -Phi^{-1}(P0(S > threshold)) (Barndorff-Nielsen's r*): only used to choose a line."""
        damping = max(theta - 1, 0.0) * max(theta, 1.0) * deviation
        self.log_profile = (min(value - (theta - 1) * threshold, 0.0) if theta > 1 else 0.0) - math.log1p(2.5 * damping)
        """About ln delta(threshold) (saddle point): only used to choose a line."""

    @cached_property
    def line(self) -> ContourLine:
        """The line at this tilt, laid out for thresholds near its saddle point."""
        if not isinstance(self._transform, LossTransform):
            raise NumericalFailure("only a loss with a complex transform has lines")
        deviation = np.array([self.deviation])
        return ContourLine(
            OneRun(self._transform, self.theta), np.array([self.threshold]), deviation, _REACH * deviation
        )

    def loses(self, threshold: float, other: Rung) -> float:
        """How many nats more a reading at the threshold loses to cancellation on this line than on another."""
        return self.value - other.value - (self.theta - other.theta) * threshold


class ContourLadder:
    """The lines of one run in one direction, sorted by tilt; the methods `for_...` choose among them."""

    def __init__(self, transform: Cumulants, variances: FloatArray) -> None:
        """`variances`: K'' of the transform at 0, 1/2 and 1, positive."""
        self._transform = transform
        at_zero, middle, at_one = self._known = tuple(math.sqrt(float(variance)) for variance in variances)
        self.core_deviation = middle
        self._right: list[Rung] = []
        self._left: list[Rung] = []
        self._exhausted = {1: False, -1: False}
        if middle < 1:
            offset = max(1 / middle, 0.75)
            right, left = np.array([0.5 + offset]), np.array([0.5 - offset])
            previous = middle
        else:
            right = np.array([*self._inward(1 - 0.5 / at_one, -1.0)[::-1], 1 + 0.5 / at_one])
            left = np.array([*self._inward(0.5 / at_zero, 1.0)[::-1], -0.5 / at_zero])
            previous = math.inf
        cumulants = transform.cumulants(np.concatenate([right, left]))
        for side, tilts, known in (
            (1, right, cumulants.of(slice(0, len(right)))),
            (-1, left, cumulants.of(slice(len(right), None))),
        ):
            if not self._append(side, tilts, previous, known=known) and middle < 1:
                self._start_nearer(side)

    @property
    def usable(self) -> bool:
        """Whether there is a line on either side of the middle."""
        return bool(self._right and self._left)

    def _start_nearer(self, side: int) -> None:
        """The first rung of a weak loss where jumps rule it a standard deviation from the middle."""
        offset = 1 / self.core_deviation
        for _ in range(_HALVINGS - 1):
            offset *= 0.5
            if self._append(side, np.array([0.5 + side * max(offset, 0.75)]), self.core_deviation):
                return
        self._append(side, np.array([0.5 + side * 0.75]), math.inf)

    def _inward(self, theta: float, sign: float) -> list[float]:
        """Tilts from a pole towards 1/2, where a strong loss leaves room between the poles, by the deviations that are
        known, through which goes a parabola: it steers.
        """
        at_zero, middle, at_one = self._known
        slope, bend = at_one - at_zero, 2 * (at_zero + at_one) - 4 * middle
        tilts: list[float] = []
        while sign * (theta - 0.5) <= 0 and len(tilts) < _INWARD_LINES:
            tilts.append(theta)
            away = theta - 0.5
            deviation = middle + away * (slope + bend * away)
            theta += sign * _SPACING / max(deviation, 0.5 * min(self._known))
        return tilts

    def _append(
        self, side: int, tilts: FloatArray, previous: float, optional: int = 0, known: RealCumulants | None = None
    ) -> bool:
        """Add the rungs at `tilts` up to the first that cannot serve; False if none was added.

        A rung cannot serve where K cannot be evaluated, or where its deviation has grown too much over the `previous`.
        The first `optional` tilts stand closer than need be: if the tilt after them cannot serve, the last of them that
        can is added alone. `known`: the cumulants, where they are.
        """
        rungs = self._right if side > 0 else self._left
        cumulants = self._transform.cumulants(tilts) if known is None else known
        usable = (cumulants.truncation < _LARGEST_TRUNCATION) & (cumulants.second > 0) & np.isfinite(cumulants.first)
        deviations = np.sqrt(np.where(usable, cumulants.second, np.nan))
        serves = deviations <= _LARGEST_GROWTH * np.array([previous] * (optional + 1) + [*deviations[optional:-1]])
        first = optional
        while first > 0 and not serves[first]:
            first -= 1
        end = first
        while end < len(tilts) and serves[end] and (end == first or first == optional):
            theta, value, threshold = tilts[end], cumulants.value[end], cumulants.first[end]
            rungs.append(Rung(self._transform, float(theta), float(value), float(threshold), float(deviations[end])))
            end += 1
        return end > first

    def _extend(self, side: int) -> bool:
        """Add rungs outwards; False when the transform cannot be evaluated further out or the ladder is long enough."""
        rungs = self._right if side > 0 else self._left
        if self._exhausted[side] or len(rungs) >= _OUTWARD_LINES:
            return False
        last = rungs[-1]
        spacing = _SPACING / last.deviation
        if len(rungs) > 1:
            spacing = min(spacing, 2 * abs(last.theta - rungs[-2].theta))
        halvings = math.ceil(math.log2(spacing * last.deviation / _SMALLEST_SPACING)) - 1
        closer = [spacing * 0.5**k for k in range(halvings, 0, -1)]
        offsets = np.array([*closer, *(spacing * k for k in range(1, _BATCH + 1))])
        if self._append(side, last.theta + side * offsets, last.deviation, optional=len(closer)):
            return True
        self._exhausted[side] = True
        return False

    @property
    def rungs(self) -> list[Rung]:
        """All rungs built so far, by increasing tilt."""
        return self._left[::-1] + self._right

    def _reach(self, side: int, far_enough: Callable[[Rung], bool]) -> None:
        """Extend one side until its last rung is far enough, or to the end of the ladder."""
        rungs = self._right if side > 0 else self._left
        while not far_enough(rungs[-1]) and self._extend(side):
            pass

    def for_thresholds(self, thresholds: FloatArray, slack: float = 0.0, *, usual: bool = True) -> list[Rung]:
        """The best rung for each threshold: the nearest to its saddle point, or a shorter line that loses few digits.

        `usual`: whether one threshold may be read on the line that most questions share. `slack`: nats that a threshold
        of a list may lose beyond what it loses there, so that few rungs serve them all.
        """
        self._reach_all(thresholds)
        rungs = self.rungs
        cancellation, chosen = self._best(rungs, thresholds)
        if usual and len(thresholds) == 1:
            return [self._usual(rungs[int(chosen[0])], float(thresholds[0]))]
        if slack > 0:
            zone = np.searchsorted(_POLES, np.array([rung.theta for rung in rungs]))
            alike = zone == zone[chosen][:, None]
            chosen = _few(np.where(alike, cancellation, np.inf), chosen, slack)
        return [rungs[chosen[i]] for i in range(len(thresholds))]

    def beyond_the_poles(self, thresholds: FloatArray, slack: float) -> list[Rung]:
        """Rungs right of the poles, where lines give the profile itself: the best for the largest threshold, or the one
        that most questions share, for the largest that would lose more nats by it than `slack`, and so on.
        """
        self._reach_all(thresholds)
        rungs = [rung for rung in self._right if rung.theta > 1]
        if not rungs:
            return self.for_thresholds(thresholds, slack)
        cancellation, chosen = self._best(rungs, thresholds)
        left = np.ones(len(chosen), dtype=bool)
        for place in np.argsort(-thresholds):
            if not left[place]:
                continue
            best = chosen[place]
            usual = self._usual(rungs[best], float(thresholds[place]), slack)
            best = rungs.index(usual) if usual in rungs else best
            serves = left & (cancellation[:, best] <= cancellation[np.arange(len(chosen)), chosen] + slack)
            serves[place] = True
            chosen = np.where(serves, best, chosen)
            left &= ~serves
        return [rungs[chosen[i]] for i in range(len(thresholds))]

    def _reach_all(self, thresholds: FloatArray) -> None:
        highest, lowest = float(thresholds.max()), float(thresholds.min())
        self._reach(1, lambda rung: rung.threshold >= highest)
        self._reach(-1, lambda rung: rung.threshold <= lowest)

    def _best(self, rungs: list[Rung], thresholds: FloatArray) -> tuple[FloatArray, IndexArray]:
        """What each threshold loses on each rung, in nats, shape (thresholds, rungs), infinite where only shorter lines
        should serve it; and the best.

        K(theta) - theta c is least at the saddle point; by how much a rung exceeds that is the logarithm of its
        cancellation.
        """
        values, tilts = np.array([rung.value for rung in rungs]), np.array([rung.theta for rung in rungs])
        cancellation = values - tilts * thresholds[:, None]
        cancellation -= cancellation.min(axis=1, keepdims=True)
        short = np.array([rung.deviation <= _LARGEST_DEVIATION * self.core_deviation for rung in rungs])
        among_short = np.where(short, cancellation, np.inf)
        serves = among_short.min(axis=1) <= _LARGEST_CANCELLATION
        cancellation[serves] = among_short[serves]
        return cancellation, cancellation.argmin(axis=1)

    def _usual(self, best: Rung, threshold: float, slack: float = _USUAL_SLACK) -> Rung:
        """The line that most questions share, where it serves a threshold nearly as well as the best one does."""
        if abs(best.score - _USUAL_SCORE) > _USUAL_REACH:
            return best
        self._reach(1, lambda rung: rung.score >= _USUAL_SCORE)
        longest = max(_LARGEST_DEVIATION * self.core_deviation, best.deviation)
        short = [rung for rung in self._right[: self._up_to_usual] if rung.deviation <= longest]
        usual = min(short, key=lambda rung: abs(rung.score - _USUAL_SCORE), default=best)
        return usual if usual.loses(threshold, best) <= slack else best

    @property
    def _up_to_usual(self) -> int:
        """How many rungs there are up to the first beyond the usual score: how far others asked does not matter."""
        return next((k + 1 for k, rung in enumerate(self._right) if rung.score >= _USUAL_SCORE), len(self._right))

    def reaches(self, thresholds: FloatArray) -> BoolArray:
        """Whether the ladder's saddle points come within a standard deviation of each threshold."""
        highest, lowest = self._right[-1], self._left[-1]
        return (thresholds <= highest.threshold + highest.deviation) & (
            thresholds >= lowest.threshold - lowest.deviation
        )

    def reaches_tails(self, false_positive_rates: FloatArray) -> BoolArray:
        """The same of the rates that `for_tails` was asked for."""
        scores = -ndtri(false_positive_rates)
        return (scores <= self._right[-1].score + 1) & (scores >= self._left[-1].score - 1)

    def for_tails(self, false_positive_rates: FloatArray, slack: float = 0.0) -> list[Rung]:
        """The best rung for each rate, its threshold guessed from the rung whose tail P0(S > c) is nearest, and that
        one's deviation, up to the middle between rungs.
        """
        scores = -ndtri(false_positive_rates)
        highest, lowest = float(scores.max()), float(scores.min())
        self._reach(1, lambda rung: rung.score >= highest)
        self._reach(-1, lambda rung: rung.score <= lowest)
        rungs = self.rungs
        centers = np.array([rung.score for rung in rungs])
        nearest = np.argmin(np.abs(scores[:, None] - centers), axis=1)
        thresholds = np.array([rung.threshold for rung in rungs])
        deviations = np.array([rung.deviation for rung in rungs])
        # Score and tilt may turn apart where jumps rule: no guess leaves its rung by more than half way to the next.
        half_way = 0.5 * np.diff(thresholds, prepend=-np.inf, append=np.inf)
        moved = (scores - centers[nearest]) * deviations[nearest]
        moved = np.clip(moved, -np.maximum(half_way[nearest], 0.0), np.maximum(half_way[nearest + 1], 0.0))
        return self.for_thresholds(thresholds[nearest] + moved, slack)

    def for_profile(self, delta: float) -> Rung:
        """The best rung with theta > 0 for a level of the profile, its threshold guessed between those of two rungs."""
        level = math.log(delta)
        self._reach(1, lambda rung: rung.log_profile <= level)
        rungs = [rung for rung in self._right if rung.theta > 0]
        after = next((k for k, rung in enumerate(rungs) if rung.log_profile <= level), len(rungs) - 1)
        low, high = rungs[max(after - 1, 0)], rungs[after]
        nearest = low if abs(low.log_profile - level) <= abs(high.log_profile - level) else high
        threshold = nearest.threshold
        if low.log_profile > level >= high.log_profile:
            share = (low.log_profile - level) / (low.log_profile - high.log_profile)
            threshold = low.threshold + share * (high.threshold - low.threshold)
        chosen = self.for_thresholds(np.array([threshold]))[0]
        return chosen if chosen.theta > 0 else nearest

    def for_root(self, rung: Rung, threshold: float) -> Rung:
        """The line to prove a root on that was found at `threshold` on a rung: the best, or that one where it loses
        hardly more.
        """
        best = self.for_thresholds(np.array([threshold]))[0]
        return rung if best.theta <= 0 or rung.loses(threshold, best) <= _USUAL_SLACK else best

    def near_core(self, below: float = math.inf) -> Rung | None:
        """Of the lines to the right of the pole at 0, at smaller tilts than this, that no rare jump makes long, the
        outermost one with an end; None where none of the first few has one.
        """
        longest = _LARGEST_DEVIATION * self.core_deviation
        short = [rung for rung in self.rungs if 0 < rung.theta < below and rung.deviation <= longest]
        for rung in short[: -_NEARER - 1 : -1]:
            if is_spent():  # every line may be dear
                break
            if rung.line.ends.all():
                return rung
        return None

    def neighbours(self, rung: Rung) -> list[Rung]:
        """Other lines to try when one is too wide: alternately towards the core and outwards."""
        side = 1 if rung.theta > 0.5 else -1
        ends = self._right if side > 0 else self._left
        if rung is ends[-1]:
            self._extend(side)
        rungs = self.rungs
        at = rungs.index(rung)
        return [rungs[i] for i in (at - side, at + side) if 0 <= i < len(rungs)]


def _few(cancellation: FloatArray, chosen: IndexArray, slack: float) -> IndexArray:
    """Few of the chosen rungs, so that each threshold has one among them within the slack of its own, and the best of
    these. `cancellation`: shape (thresholds, rungs), infinite where a rung cannot stand in for the chosen one.
    """
    places = np.arange(len(chosen))
    serves = cancellation <= cancellation[places, chosen][:, None] + slack
    kept = np.zeros(cancellation.shape[1], dtype=bool)
    left = np.ones(len(chosen), dtype=bool)
    used = np.unique(chosen)
    while left.any():
        best = used[serves[left][:, used].sum(axis=0).argmax()]
        kept[best] = True
        left &= ~serves[:, best]
    return np.where(kept, cancellation, np.inf).argmin(axis=1)
