"""At which tilts a run of many different responses is read, and what each of these lines has to say.

Tilts are those of the saddle points of thresholds: lines are as far apart as they reach. They depend on the run alone,
so that the same question always gets the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeVar, final

from service.privacy.composition.exact_sums.convex_readings import ConvexNodes
from service.privacy.composition.exact_sums.smoothed_line import LineNodes, ResponseCumulants, SmoothedLine

Reading = TypeVar("Reading")

GAP: Final = 2e-7
"""Relative: about how wide a reading may be."""
REACH: Final = 2.25
"""Deviations of the tilted loss on either side of its mean that a line reads."""
SPACING: Final = 1.5
"""Deviations between the means of neighbouring lines."""
POLE: Final = 2.0
"""Deviations that lines keep from tilts of 0 and 1, where there is room."""
NEAREST: Final = 0.25
"""How far they keep at most."""
INNER_CURVATURE: Final = 0.5
"""At most 1/4 of E min(e^L, x), of which the type II error is a part."""
STRONG: Final = 1.2
"""Deviation from which the type II error is read by lines of its own."""
FEW: Final = 3.5
"""Deviations that one line may read on either side of the middle."""
MOST_LINES: Final = 400
MOST_HALVINGS: Final = 16
LARGEST_TILT: Final = 60.0
"""Times the smallest epsilon: beyond it a line would see but the largest loss."""

NEAR_THE_END: Final = 1e-13
"""Share of the largest loss: nearer to it nothing is read."""


@final
class Rung:
    """A tilt 1/2 + r and the thresholds that are read at it."""

    def __init__(self, cumulants: ResponseCumulants, r: float, left: float, right: float) -> None:
        self._cumulants, self.r = cumulants, r
        self.mean, self.deviation = cumulants.mean(r), cumulants.deviation(r)
        self.low, self.high = self.mean - left * self.deviation, self.mean + right * self.deviation
        value = cumulants.value(r)
        self.score = _score(r + 0.5, value, self.mean, self.deviation)
        """About -Phi^-1 of the false positive rate at the mean."""
        self.other_score = _score(r - 0.5, value, self.mean, self.deviation)
        """The same of the power."""
        bound, damping = min(value - (r - 0.5) * self.mean, 0.0), max(r - 0.5, 0.0) * (r + 0.5) * self.deviation
        self.log_profile = bound - math.log1p(2.5 * damping) if r > 0.5 else math.log1p(-0.5 * math.exp(bound))
        """About ln delta at the mean."""

    @cached_property
    def _line(self) -> SmoothedLine:
        farthest = max(abs(self.high - self.mean), abs(self.mean - self.low)) / self.deviation
        tilt = self.r + min(farthest, REACH) / self.deviation
        curvature = tilt * tilt - 0.25 if self.r > 0.5 else INNER_CURVATURE
        curvature += 4 / self.deviation**2
        return SmoothedLine(self._cumulants, self.r, math.sqrt(GAP / curvature), self.low, self.high)

    @property
    def legible(self) -> bool:
        """Whether its line says anything."""
        return self._line.legible

    @cached_property
    def nodes(self) -> LineNodes:
        """Its line, read."""
        return self._line.nodes()

    @cached_property
    def profile(self) -> ConvexNodes:
        """D, or for |r| < 1/2 minus E0 min(e^L, e^c): both are convex in e^c and fall."""
        nodes, minus = self.nodes, self.r < 0.5
        ends = (-nodes.upper, -nodes.lower) if minus else (nodes.lower, nodes.upper)
        return ConvexNodes(
            nodes.thresholds, nodes.spacing, *ends, nodes.log_scale, self.r - 0.5, nodes.log_error, positive=not minus
        )

    @cached_property
    def inverse(self) -> ConvexNodes:
        """e^-c D as a function of e^-c."""
        nodes = self.nodes
        ends = nodes.lower[::-1], nodes.upper[::-1]
        tilt, error = -self.r - 0.5, nodes.log_error
        return ConvexNodes(
            -nodes.thresholds[::-1], nodes.spacing, *ends, nodes.log_scale, tilt, error, rises=True, positive=False
        )


def _score(tilt: float, value: float, mean: float, deviation: float) -> float:
    """About -Phi^-1 of a tail at its saddle point (Barndorff-Nielsen's r*)."""
    root = math.copysign(math.sqrt(max(2 * (tilt * mean - value), 1e-300)), tilt)
    return root + math.log(tilt * deviation / root) / root if abs(root) > 1e-3 else root


@final
class ResponseLadder:
    """The rungs of a run: of r > 1/2, as many as are asked for, and of |r| < 1/2 where the run reveals much."""

    def __init__(self, cumulants: ResponseCumulants) -> None:
        self._cumulants = cumulants
        self._at_one, self._deviation = cumulants.mean(0.5), cumulants.deviation(0.5)
        self._largest = cumulants.largest
        self._smallest = float(cumulants.epsilon.min())
        strong = cumulants.deviation(0.0) >= STRONG
        self.inner = self._inner() if strong else []
        lowest = self._at_one - 0.5 * self._deviation if strong else -self._at_one - self._deviation
        self.outer = [self._first(lowest)]

    def _first(self, lowest: float) -> Rung:
        """The lowest with r > 1/2, reaching down to a threshold."""
        away, mean, deviation = 2 * POLE / self._deviation, self._at_one, self._deviation
        for _ in range(MOST_HALVINGS):
            away *= 0.5
            mean, deviation = self._cumulants.mean(0.5 + away), self._cumulants.deviation(0.5 + away)
            if mean - max(2 * FEW, POLE) * deviation <= lowest:
                break
        left = max((mean - lowest) / deviation, REACH)
        return Rung(self._cumulants, 0.5 + away, left, REACH)

    def _inner(self) -> list[Rung]:
        run = self._cumulants
        middle = run.deviation(0.0)
        edge = self._at_one + 0.75 * self._deviation
        if edge <= FEW * middle:
            return [Rung(run, 0.0, edge / middle, edge / middle)]
        end = 0.5 - min(POLE / self._deviation, NEAREST)
        half = [0.0]
        while half[-1] < end and len(half) < MOST_LINES:
            half.append(min(self._next(half[-1]), end))
        tilts = [-r for r in half[:0:-1]] + half
        reach = max((edge - run.mean(end)) / run.deviation(end), REACH)
        return [Rung(run, r, reach if r == -end else REACH, reach if r == end else REACH) for r in tilts]

    def _next(self, r: float) -> float:
        """The next tilt to the right whose line reaches as far as this one."""
        run = self._cumulants
        deviation = run.deviation(r)
        high, step = run.mean(r) + REACH * deviation, SPACING / deviation
        for _ in range(MOST_HALVINGS):
            if run.mean(r + step) - REACH * run.deviation(r + step) <= high - 0.25 * deviation:
                break
            step *= 0.5
        return r + step

    def extend(self) -> bool:
        """Add a rung on the right; False where there is nothing more to see."""
        last = self.outer[-1].r
        r = self._next(last)
        left = self._largest - self._cumulants.mean(r)
        if len(self.outer) >= MOST_LINES or r * self._smallest > LARGEST_TILT or left < NEAR_THE_END * self._largest:
            return False
        self.outer.append(Rung(self._cumulants, r, REACH, REACH))
        return True

    def for_threshold(self, c: float) -> Rung | None:
        """The rung nearest to a threshold; None where none reaches it."""
        while self.outer[-1].mean < c and self.extend():
            pass
        reached = [rung for rung in (*self.inner, *self.outer) if rung.low <= c <= rung.high and rung.legible]
        return min(reached, key=lambda rung: abs(c - rung.mean) / rung.deviation, default=None)

    def first_reading(
        self,
        score: Callable[[Rung], float],
        wanted: float,
        read: Callable[[Rung], tuple[Reading | None, int]],
        *,
        swapped: bool = False,
    ) -> tuple[Rung, Reading] | None:
        """Return the first reading that succeeds, with its rung; None where none does.

        The search starts at the rung whose score, which increases with its tilt, is nearest to the wanted one. `read`
        returns the reading, or None with the side on which it may be: 1 towards larger losses, -1 towards smaller ones.
        `swapped`: only rungs of r > 1/2 are read, and sides are those of minus the loss.
        """
        while score(self.outer[-1]) < wanted and self.extend():
            pass
        rungs = self.outer if swapped else [*self.inner, *self.outer]
        at, seen = min(range(len(rungs)), key=lambda i: abs(score(rungs[i]) - wanted)), set[int]()
        while 0 <= at < len(rungs) and at not in seen and rungs[at].legible:
            seen.add(at)
            found, side = read(rungs[at])
            if found is not None:
                return rungs[at], found
            at += -side if swapped else side
            if at == len(rungs) and self.extend() and not swapped:
                rungs.append(self.outer[-1])
        return None
