"""The lines of one direction of a run: a grid for each cut of its far jumps; what is asked where they are wide."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Final, final

import numpy as np

from service.privacy.composition.inversion.deformed.run import BentRun, bent_run
from service.privacy.composition.inversion.fallback import FallbackBounds
from service.privacy.composition.inversion.line import ContourLine
from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.run import CUT_DIGITS, ContourRun
from service.privacy.composition.inversion.tilts import Tilt, TiltGrid
from service.privacy.composition.planning.accuracy import Accuracy
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent

EVIDENCE: Final = Evidence.CERTIFIED
"""Of all readings."""

_MANY = 8
"""Different steps of one kind from which rounding of their shared sums decides the width, and contours cost more."""

HOPELESS = 1e-4
"""Relative width above which bent contours are read after the first straight lines, before others are tried."""

_MOST_WIDE = 8
"""Longest list of wide readings that bent contours serve: each contour serves one and takes .1 to 1 second."""

_SMALLEST_VARIANCE = 1e-200
"""Losses that vary less are below the range in which tilts and thresholds can be represented."""

SLACK_OF_LISTS = 4.0
"""Nats (less than two digits) that a place of a list may lose for the sake of fewer lines."""

_CUTS_SHARED = 2
"""Places of a list whose first guesses are at most so much shallower than the deepest begin with that one: every cut
has lines of its own.
"""

Read = Callable[[ContourLine, IndexArray], Readings]
"""What a line says of some places."""


@final
class RunLines:
    """What readings of one direction of a run share."""

    def __init__(self, run: ContourRun, accuracy: Accuracy, *, reflected: bool) -> None:
        self.run, self.accuracy, self.reflected = run, accuracy, reflected
        self.good_width = accuracy.straight if run.most_together <= _MANY else accuracy.straight_of_many
        self._tilt_grids: dict[float, TiltGrid | None] = {}

    @cached_property
    def fallback(self) -> FallbackBounds:
        """Bounds that need no line. Laplace and two-point steps always say something of the record."""
        transform = self.run.transform(CUT_DIGITS[-1], reflected=self.reflected)
        steps, never = self.run.sampled_gaussian or (), self.run.log_prob_never_sampled
        return FallbackBounds(self.run.gaussian_mu_squared, never, self.reflected, transform, steps, self.run.global_mu)

    @cached_property
    def bent(self) -> BentRun | None:
        """Bent contours for runs of few kinds of sampled Gaussian steps, with Gaussian ones or not; None for others."""
        steps, squares = self.run.sampled_gaussian, self.run.gaussian_mu_squared
        return None if steps is None else bent_run(steps, squares, self.accuracy, reflected=self.reflected)

    def wide(self, known: Readings, rows: int = 2, width: float | None = None) -> IndexArray:
        """The places to read on bent contours: wider than `width`, or than the tolerance."""
        places = np.flatnonzero(known.width(rows) > (self.accuracy.deformed if width is None else width))
        asked = 0 < len(places) <= _MOST_WIDE and self.bent is not None and not is_spent()
        return places if asked else places[:0]

    def grid(self, digits: float) -> TiltGrid | None:
        """The lines for the run cut at 10^-digits; None where its loss is out of range."""
        if digits not in self._tilt_grids:
            self._tilt_grids[digits] = None
            transform = self.run.transform(digits, reflected=self.reflected)
            if transform is not None:
                variances = transform.cumulants(np.array([0.0, 0.5, 1.0])).second
                if np.isfinite(variances).all() and (variances > _SMALLEST_VARIANCE).all():
                    grid = TiltGrid(transform, variances)
                    self._tilt_grids[digits] = grid if grid.usable else None
        return self._tilt_grids[digits]

    @property
    def largest_log_ratio(self) -> Enclosure:
        """+inf for add where Gaussian noise is, else a sum over the steps; for remove -sum N ln(1 - p + p e^-e), e
        infinite for Gaussian noise, unless a Gaussian step is there.
        """
        low, high = self.run.reach
        return around(-low, self.run.reach_error) if self.reflected else around(high)

    @property
    def smallest_log_ratio(self) -> Enclosure:
        """The negative of the other direction's largest."""
        low, high = self.run.reach
        return around(-high) if self.reflected else around(low, self.run.reach_error)

    def has_end(self, tilt: Tilt) -> bool:
        """Whether it is worth while to try other lines beside this one: in runs of Gaussian steps it always is."""
        return self.run.is_gaussian or bool(tilt.line.ends.all())

    def read(
        self,
        grid: TiltGrid | None,
        tilts: list[Tilt],
        places: IndexArray,
        known: Readings,
        read: Read,
        rows: int = 2,
    ) -> bool:
        """Tighten `known` by reading each place on its tilt's line, and what is wide then on neighbouring lines of the
        grid too, where one is given.

        False where a line of a mixed run has no end: its neighbours, or those of another cut, have none either.
        """
        ended = True
        for tilt in dict.fromkeys(tilts):
            if is_spent():  # what is known without a line stays
                return False
            at = places[[chosen is tilt for chosen in tilts]]
            known.tighten(at, read(tilt.line, at))
            if not self.has_end(tilt):
                ended = False
                continue
            for other in () if grid is None else grid.neighbours(tilt):
                at = at[known.width(rows)[at] > self.good_width]
                if len(at) == 0:
                    break
                known.tighten(at, read(other.line, at))
        return ended


def shared(orders: IndexArray) -> IndexArray:
    """Cuts to begin with in a list: of places whose first guesses are alike, the deepest of these."""
    first = orders[:, 0]
    deepest = int(first.max())
    return np.where(first >= deepest - _CUTS_SHARED, deepest, first)


def without(places: IndexArray, known: IndexArray) -> IndexArray:
    """The places that are not among the known ones; mostly there are none of either."""
    return np.setdiff1d(places, known) if len(places) and len(known) else places


def around(value: float, error: float = 0.0) -> Enclosure:
    """A sum of at most 256 parts, or its root, whose terms are rounded: 600 u covers all of it. `error`: of terms."""
    if math.isinf(value):
        return Enclosure.point(value)
    slack = 600 * UNIT_ROUNDOFF * abs(value) + error
    return Enclosure(value - slack, value + slack, EVIDENCE)
