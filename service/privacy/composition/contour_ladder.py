"""Which line serves which threshold: a fixed ladder of lines per run, built outwards from the poles only as far as asked.

The lines depend on the run alone, never on what was asked before, so that the same question always gets the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.contour_line import ContourLine
from service.privacy.composition.loss_transform import LossTransform
from service.privacy.enclosure import FloatArray

_SPACING = 2.0
"""Distance of neighbouring lines in standard deviations of the tilted loss."""

_LARGEST_DEVIATION = 2.0
"""Lines whose tilted loss spreads more than this times the core's are a second choice: rare large jumps dominate there, the
law is bimodal and the line long; a line nearer to the core serves the same thresholds at the price of a few digits."""

_LARGEST_GROWTH = 1.4
"""Neighbouring rungs' deviations differ by at most this factor; where rare jumps take over, the rungs move closer."""

_HALVINGS = 12
_BATCH = 4
"""Rungs evaluated at once; those after a sharp growth of the deviation are dropped and placed anew."""

_OUTWARD_LINES = 60
_INWARD_LINES = 20


class Rung:
    """One tilt of the ladder with its cumulants; its line is built on first use."""

    def __init__(self, transform: LossTransform, theta: float, value: float, threshold: float, deviation: float) -> None:
        self._transform, self.theta, self.threshold, self.deviation = transform, theta, threshold, deviation
        root = math.copysign(math.sqrt(max(2 * (theta * threshold - value), 1e-300)), theta)
        self.score = root + math.log(theta * deviation / root) / root if abs(root) > 1e-3 else root
        """About -Phi^{-1}(P0(S > threshold)) (Barndorff-Nielsen's r*): only used to choose a line."""
        damping = max(theta - 1, 0.0) * max(theta, 1.0) * deviation
        self.log_profile = (min(value - (theta - 1) * threshold, 0.0) if theta > 1 else 0.0) - math.log1p(2.5 * damping)
        """About ln delta(threshold) (saddle point): only used to choose a line."""

    @cached_property
    def line(self) -> ContourLine:
        return ContourLine(self._transform, self.theta, self.threshold, self.deviation, 1.25 * self.deviation)


class ContourLadder:
    """The lines of one run in one direction, sorted by tilt; `for_threshold` and `for_tail` pick the nearest."""

    def __init__(self, transform: LossTransform) -> None:
        self._transform = transform
        at_zero, middle, at_one = (math.sqrt(max(float(v), 0.0)) for v in transform.cumulants(np.array([0.0, 0.5, 1.0])).second)
        self.core_deviation = middle
        if middle < 1:
            right, left = [0.5 + 1 / middle], [0.5 - 1 / middle]
        else:
            right = self._inward(1 - 0.5 / at_one, -1.0)[::-1] + [1 + 0.5 / at_one]
            left = self._inward(0.5 / at_zero, 1.0)[::-1] + [-0.5 / at_zero]
        self._right: list[Rung] = []
        self._left: list[Rung] = []
        self._exhausted = {1: False, -1: False}
        self._append(1, np.array(right), math.inf)
        self._append(-1, np.array(left), math.inf)

    def _inward(self, theta: float, sign: float) -> list[float]:
        """Tilts from a pole towards 1/2, where a strong loss leaves room between the poles."""
        tilts: list[float] = []
        while sign * (theta - 0.5) <= 0 and len(tilts) < _INWARD_LINES:
            tilts.append(theta)
            theta += sign * _SPACING / math.sqrt(float(self._transform.cumulants(np.array([theta])).second[0]))
        return tilts

    def _append(self, side: int, tilts: FloatArray, previous: float) -> bool:
        """Add the rungs at `tilts` up to the first that cannot be evaluated or whose deviation has grown too much; False if none."""
        rungs = self._right if side > 0 else self._left
        cumulants = self._transform.cumulants(tilts)
        usable = np.isfinite(cumulants.error) & (cumulants.second > 0) & np.isfinite(cumulants.first)
        added = False
        for i, theta in enumerate(tilts):
            deviation = math.sqrt(float(cumulants.second[i])) if usable[i] else math.nan
            if not deviation <= _LARGEST_GROWTH * previous:
                break
            rungs.append(Rung(self._transform, float(theta), float(cumulants.value[i]), float(cumulants.first[i]), deviation))
            added, previous = True, deviation
        return added

    def _extend(self, side: int) -> bool:
        """Add rungs outwards; False when the transform cannot be evaluated further out or the ladder is long enough."""
        rungs = self._right if side > 0 else self._left
        if self._exhausted[side] or len(rungs) >= _OUTWARD_LINES:
            return False
        last = rungs[-1]
        spacing = _SPACING / last.deviation
        if len(rungs) > 1:
            spacing = min(spacing, 2 * abs(last.theta - rungs[-2].theta))
        for _ in range(_HALVINGS):
            if self._append(side, last.theta + side * spacing * np.arange(1, _BATCH + 1), last.deviation):
                return True
            spacing *= 0.5
        self._exhausted[side] = True
        return False

    @property
    def rungs(self) -> list[Rung]:
        """All rungs built so far, by increasing tilt."""
        return self._left[::-1] + self._right

    def _reach(self, side: int, far_enough: Callable[[Rung], bool]) -> None:
        """Extend one side until its last rung is far enough, or no longer a first choice, or the end of the ladder."""
        rungs = self._right if side > 0 else self._left
        while not far_enough(rungs[-1]) and self._first_choice(rungs[-1]) and self._extend(side):
            pass

    def _first_choice(self, rung: Rung) -> bool:
        return rung.deviation <= _LARGEST_DEVIATION * self.core_deviation

    def _choices(self) -> list[Rung]:
        return [rung for rung in self.rungs if self._first_choice(rung)] or self.rungs

    def for_thresholds(self, thresholds: FloatArray) -> list[Rung]:
        """The rung whose saddle is nearest to each threshold, in units of its standard deviation."""
        highest, lowest = float(thresholds.max()), float(thresholds.min())
        self._reach(1, lambda rung: rung.threshold >= highest)
        self._reach(-1, lambda rung: rung.threshold <= lowest)
        rungs = self._choices()
        centers = np.array([rung.threshold for rung in rungs])
        deviations = np.array([rung.deviation for rung in rungs])
        return [rungs[int(i)] for i in np.argmin(np.abs(thresholds[:, None] - centers) / deviations, axis=1)]

    def for_tails(self, false_positive_rates: FloatArray) -> list[Rung]:
        """The rung whose tail P0(S > c) is nearest to each rate."""
        scores = -ndtri(false_positive_rates)
        highest, lowest = float(scores.max()), float(scores.min())
        self._reach(1, lambda rung: rung.score >= highest)
        self._reach(-1, lambda rung: rung.score <= lowest)
        rungs = self._choices()
        centers = np.array([rung.score for rung in rungs])
        return [rungs[int(i)] for i in np.argmin(np.abs(scores[:, None] - centers), axis=1)]

    def for_profile(self, delta: float) -> Rung:
        """The rung with theta > 0 whose saddle value of delta is nearest to the given one."""
        level = math.log(delta)
        self._reach(1, lambda rung: rung.log_profile <= level)
        rungs = [rung for rung in self._choices() if rung.theta > 0]
        return min(rungs, key=lambda rung: abs(rung.log_profile - level))

    def neighbours(self, rung: Rung) -> list[Rung]:
        """Other lines to try when one is too wide: outwards first where that is a second choice, else towards the core first."""
        side = 1 if rung.theta > 0.5 else -1
        ends = self._right if side > 0 else self._left
        if rung is ends[-1]:
            self._extend(side)
        rungs = self.rungs
        at = rungs.index(rung)
        order = [at - side, at + side, at - 2 * side, at + 2 * side]
        if at + side < len(rungs) and at + side >= 0 and not self._first_choice(rungs[at + side]):
            order = [at + side, at - side, at + 2 * side]
        return [rungs[i] for i in order if 0 <= i < len(rungs)]
