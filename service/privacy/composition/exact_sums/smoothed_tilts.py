"""Tilts at which a run of many different +-epsilon steps is evaluated, and the contour of each tilt.

A tilt s = 1/2 + r is the real part of a contour, and the saddle point of the threshold K'(s) of the loss L, for K(s) =
ln E0 e^{sL}. Neighbouring contours are as far apart as the thresholds that they cover allow. The tilts depend on the
run alone, so that equal questions have identical answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeVar, final

from service.privacy.composition.exact_sums.convex_nodes import ConvexNodes
from service.privacy.composition.exact_sums.smoothed_contour import ResponseCumulants, SmoothedContour, SmoothedNodes

Found = TypeVar("Found")

GAP: Final = 2e-7
"""Approximate largest relative width of a result."""
HALF_WIDTH: Final = 2.25
"""Range of a contour on either side of the tilted mean, in standard deviations."""
SPACING: Final = 1.5
"""Distance between the means of neighbouring contours, in standard deviations."""
POLE: Final = 2.0
"""Distance of contours from the tilts 0 and 1, in inverse standard deviations, unless it exceeds NEAREST."""
NEAREST: Final = 0.25
"""Largest distance of contours from the tilts 0 and 1."""
INNER_CURVATURE: Final = 0.5
"""Curvature for |r| < 1/2: at most 1/4 of E min(e^L, x), which contains the type II error."""
STRONG: Final = 1.2
"""Smallest standard deviation at which the type II error has its own contours."""
FEW: Final = 3.5
"""Largest range of a single contour on either side of the middle, in standard deviations."""
MOST_CONTOURS: Final = 400
MOST_HALVINGS: Final = 16
LARGEST_TILT: Final = 60.0
"""Largest product of a tilt and the smallest epsilon. Beyond it a contour would resolve only the largest loss."""

NEAR_THE_END: Final = 1e-13
"""Smallest distance from the largest loss, as a share of that loss, for an evaluation."""


@final
class TiltedRun:
    """Run whose loss L is weighted by e^{(1/2 + r) L} (tilted), with the contour Re z = 1/2 + r.

    The contour evaluates the profile at thresholds near `mean`. `mean` and `deviation` (nats) are those of L under the
    tilted law.
    """

    def __init__(self, cumulants: ResponseCumulants, r: float, left: float, right: float) -> None:
        self._cumulants, self.r = cumulants, r
        self.mean, self.deviation = cumulants.mean(r), cumulants.deviation(r)
        self.low, self.high = self.mean - left * self.deviation, self.mean + right * self.deviation
        value = cumulants.value(r)
        self.score = _score(r + 0.5, value, self.mean, self.deviation)
        """Approximation of -Phi^-1 of the false positive rate at the mean."""
        self.other_score = _score(r - 0.5, value, self.mean, self.deviation)
        """Approximation of -Phi^-1 of the power at the mean."""
        bound, damping = min(value - (r - 0.5) * self.mean, 0.0), max(r - 0.5, 0.0) * (r + 0.5) * self.deviation
        self.log_profile = bound - math.log1p(2.5 * damping) if r > 0.5 else math.log1p(-0.5 * math.exp(bound))
        """Approximation of ln delta at the mean."""

    @cached_property
    def _contour(self) -> SmoothedContour:
        farthest = max(abs(self.high - self.mean), abs(self.mean - self.low)) / self.deviation
        tilt = self.r + min(farthest, HALF_WIDTH) / self.deviation
        curvature = tilt * tilt - 0.25 if self.r > 0.5 else INNER_CURVATURE
        curvature += 4 / self.deviation**2
        return SmoothedContour(self._cumulants, self.r, math.sqrt(GAP / curvature), self.low, self.high)

    @property
    def is_usable(self) -> bool:
        """Whether the contour has usable results: the noise that it needs does not hide the losses of the run."""
        return self._contour.is_usable

    @cached_property
    def nodes(self) -> SmoothedNodes:
        """Bounds of the run's profile at the thresholds of the contour."""
        return self._contour.nodes()

    @cached_property
    def profile(self) -> ConvexNodes:
        """Bounds of D(c) = E0(e^L - e^c)_+ at the thresholds c, or of -E0 min(e^L, e^c) for tilts 1/2 + r, |r| < 1/2.

        L is the loss of the run. Both functions are convex and decreasing in e^c.
        """
        nodes, minus = self.nodes, self.r < 0.5
        bounds = (-nodes.upper, -nodes.lower) if minus else (nodes.lower, nodes.upper)
        return ConvexNodes(
            nodes.thresholds, nodes.spacing, *bounds, nodes.log_scale, self.r - 0.5, nodes.log_error, positive=not minus
        )

    @cached_property
    def inverse(self) -> ConvexNodes:
        """Bounds of e^-c D(c) as a function of e^-c, at the thresholds c.

        D(c) = E0(e^L - e^c)_+ is the profile of the run's loss L.
        """
        nodes = self.nodes
        bounds = nodes.lower[::-1], nodes.upper[::-1]
        tilt, error = -self.r - 0.5, nodes.log_error
        return ConvexNodes(
            -nodes.thresholds[::-1], nodes.spacing, *bounds, nodes.log_scale, tilt, error, rises=True, positive=False
        )


def _score(tilt: float, value: float, mean: float, deviation: float) -> float:
    """Return about the normal quantile -Phi^-1 of the tail probability of a loss beyond `mean`.

    The approximation is Barndorff-Nielsen's r*. `tilt` is the saddle point of the threshold `mean`, and `value`,
    `mean`, `deviation` are K, K' and sqrt(K'') of the log-moment function K there. The result only chooses the tilt at
    which a search starts.
    """
    root = math.copysign(math.sqrt(max(2 * (tilt * mean - value), 1e-300)), tilt)
    return root + math.log(tilt * deviation / root) / root if abs(root) > 1e-3 else root


@final
class ResponseTilts:
    """Run of +-epsilon steps at several tilts, in the order of the tilts 1/2 + r.

    At a tilt s the law of the loss L is weighted by e^{sL}, and the inversion contour Re z = s evaluates thresholds
    near the weighted mean. Tilts with r > 1/2 (`outer`) are added on demand. Tilts with |r| < 1/2 (`inner`) exist if
    the standard deviation of the loss at r = 0 is at least `STRONG`.
    """

    def __init__(self, cumulants: ResponseCumulants) -> None:
        self._cumulants = cumulants
        self._at_one, self._deviation = cumulants.mean(0.5), cumulants.deviation(0.5)
        self._largest = cumulants.largest
        self._smallest = float(cumulants.epsilon.min())
        strong = cumulants.deviation(0.0) >= STRONG
        self.inner = self._inner() if strong else []
        lowest = self._at_one - 0.5 * self._deviation if strong else -self._at_one - self._deviation
        self.outer = [self._first(lowest)]

    def _first(self, lowest: float) -> TiltedRun:
        """Return the run at the smallest tilt 1/2 + r, r > 1/2, whose contour covers thresholds down to `lowest`."""
        away, mean, deviation = 2 * POLE / self._deviation, self._at_one, self._deviation
        for _ in range(MOST_HALVINGS):
            away *= 0.5
            mean, deviation = self._cumulants.mean(0.5 + away), self._cumulants.deviation(0.5 + away)
            if mean - max(2 * FEW, POLE) * deviation <= lowest:
                break
        left = max((mean - lowest) / deviation, HALF_WIDTH)
        return TiltedRun(self._cumulants, 0.5 + away, left, HALF_WIDTH)

    def _inner(self) -> list[TiltedRun]:
        run = self._cumulants
        middle = run.deviation(0.0)
        edge = self._at_one + 0.75 * self._deviation
        if edge <= FEW * middle:
            return [TiltedRun(run, 0.0, edge / middle, edge / middle)]
        end = 0.5 - min(POLE / self._deviation, NEAREST)
        half = [0.0]
        while half[-1] < end and len(half) < MOST_CONTOURS:
            half.append(min(self._next(half[-1]), end))
        tilts = [-r for r in half[:0:-1]] + half
        half_width = max((edge - run.mean(end)) / run.deviation(end), HALF_WIDTH)
        return [
            TiltedRun(run, r, half_width if r == -end else HALF_WIDTH, half_width if r == end else HALF_WIDTH)
            for r in tilts
        ]

    def _next(self, r: float) -> float:
        """Return the next larger r, whose contour Re z = 1/2 + r covers thresholds next to those of the given r.

        An inversion contour evaluates the profile at thresholds near the mean of the tilted loss.
        """
        run = self._cumulants
        deviation = run.deviation(r)
        high, step = run.mean(r) + HALF_WIDTH * deviation, SPACING / deviation
        for _ in range(MOST_HALVINGS):
            if run.mean(r + step) - HALF_WIDTH * run.deviation(r + step) <= high - 0.25 * deviation:
                break
            step *= 0.5
        return r + step

    def extend(self) -> bool:
        """Add the run at the next larger tilt to `outer`, and return whether it was added.

        Return False if there are too many contours, or if the mean loss at the tilt is too near the largest loss for
        its contour to add digits.
        """
        last = self.outer[-1].r
        r = self._next(last)
        left = self._largest - self._cumulants.mean(r)
        if len(self.outer) >= MOST_CONTOURS or r * self._smallest > LARGEST_TILT or left < NEAR_THE_END * self._largest:
            return False
        self.outer.append(TiltedRun(self._cumulants, r, HALF_WIDTH, HALF_WIDTH))
        return True

    def for_threshold(self, c: float) -> TiltedRun | None:
        """Return the run at the tilt whose contour is nearest to a threshold c (nats) of the loss.

        The result is None if no contour covers c.
        """
        while self.outer[-1].mean < c and self.extend():
            pass
        reached = [
            tilted for tilted in (*self.inner, *self.outer) if tilted.low <= c <= tilted.high and tilted.is_usable
        ]
        return min(reached, key=lambda tilted: abs(c - tilted.mean) / tilted.deviation, default=None)

    def first_result(
        self,
        score: Callable[[TiltedRun], float],
        wanted: float,
        read: Callable[[TiltedRun], tuple[Found | None, int]],
        *,
        swapped: bool = False,
    ) -> tuple[TiltedRun, Found] | None:
        """Return the first tilted run at which an evaluation succeeds, with the result, or None.

        Parameters
        ----------
        score : callable
            Score of a tilted run, a normal quantile of its threshold. It increases with the tilt.
        wanted : float
            The search starts at the tilted run with the nearest score.
        read : callable
            Returns (result, 0), or (None, side) with the side on which a result may be: 1 towards larger losses, -1
            towards smaller ones, 0 if unknown.
        swapped : bool
            Whether only tilts 1/2 + r with r > 1/2 are tried, and sides refer to minus the loss.
        """
        while score(self.outer[-1]) < wanted and self.extend():
            pass
        tilted_runs = self.outer if swapped else [*self.inner, *self.outer]
        at, seen = min(range(len(tilted_runs)), key=lambda i: abs(score(tilted_runs[i]) - wanted)), set[int]()
        while 0 <= at < len(tilted_runs) and at not in seen and tilted_runs[at].is_usable:
            seen.add(at)
            found, side = read(tilted_runs[at])
            if found is not None:
                return tilted_runs[at], found
            at += -side if swapped else side
            if at == len(tilted_runs) and self.extend() and not swapped:
                tilted_runs.append(self.outer[-1])
        return None
