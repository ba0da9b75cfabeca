"""Which lattices a composition is read on: as coarse as the tolerance allows, at the tilt that reads best.

The gap between the laws falls with the square of the spacing: a first coarse reading tells which spacing the tolerance
needs. Lattices are kept for further readings, as many as memory allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.tilts import Tilt, TiltGrid
from service.privacy.composition.lattice.runs import LARGEST_CELLS, LatticeRuns, coarse_grid
from service.privacy.composition.lattice.sums import LatticePair
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.work import count_work, is_spent

CUT_DIGITS = (22.0, 40.0, 80.0, 160.0, 290.0)
"""The lattice ends where 10^-digits of the mass of all steps is left."""

_FIRST_CELLS = 6.0
"""Cells of the first lattice in a standard deviation of the loss, over the root of the number of steps."""

_FINER = math.sqrt(3.0)
"""Lattices differ in spacing by powers of this."""

_FINEST = 24
"""Powers tried at most; cells in all are limited besides."""

_MARGIN = 0.9
"""Share of the tolerance that is aimed at: a reading beside it costs another lattice."""

_TELLING, _BLIND = 0.1, 4
"""A reading that is wider does not tell how fine a lattice must be: one so many powers finer is tried next."""

_BLIND_LEVEL = 8
"""Where nothing is told by then, other tilts are tried first."""

_COARSEST = -32
"""The same for coarser lattices, where the first is too large."""

_LOST = 1e-3
"""A reading at a tilt of the grid that is wider than this did not find its threshold."""

_SCOUT_CELLS = 1 << 14
_SCOUT_TILTS = (
    *(1 + 0.25 * 1.6**k for k in range(12)),
    *(1 + 0.25 * 0.4**k for k in range(1, 6)),
    0.5,
    0.2,
    0.8,
    *(-0.25 * 1.6**k for k in range(12)),
)
"""Cells of the widest step's law, and tilts, with which lost thresholds are searched for. Tilts next to 1 serve losses
of hundreds of nats that have several modes.
"""

_A_READING = 2_000.0
"""Work of reading a lattice, in microseconds."""

_A_SEARCH = 400.0
"""The same of looking for the lattices to read, where all are at hand."""

_KEPT_READ = 3
"""Lattices, composed for other numbers, that a number is read on where nothing more may be composed."""

_FEW_PLACES = 12
_LISTED_TOLERANCE = 1e-6
"""Longer lists are read to this relative width at best."""


@final
class LatticeSearch:
    """The lattices of one direction of a run."""

    def __init__(self, runs: LatticeRuns, *, mirrored: bool) -> None:
        self._lattices, self._mirrored = runs, mirrored
        self._tilt_grids: dict[float, TiltGrid | None] = {}
        self._spans: dict[tuple[float, float], float] = {}
        self._count = math.fsum(part.count for part in runs.steps)

    def reversed(self) -> LatticeSearch:
        """The other direction, with the same laws."""
        return LatticeSearch(self._lattices, mirrored=not self._mirrored)

    def grid(self, digits: float) -> TiltGrid | None:
        """Tilts to read at, for lattices that end where 10^-digits is left; None where there are none."""
        if digits not in self._tilt_grids:
            self._tilt_grids[digits] = coarse_grid(self._lattices, digits, mirrored=self._mirrored)
        return self._tilt_grids[digits]

    def epsilon_cap(self, delta: float) -> float:
        """An upper bound of epsilon(delta) from the lattice that steers; infinite where there is none."""
        coarse = self._lattices.coarse(cut_digits(delta))
        run = coarse.mirrored() if coarse is not None and self._mirrored else coarse
        return math.inf if run is None else run.epsilon_cap(delta)

    def _pair(self, digits: float, level: int, tilt: float) -> LatticePair | None:
        """The laws composed at a tilt on the lattice of a level; None where it would be too large."""
        grid = self.grid(digits)
        if grid is None or is_spent():
            return None
        cells = _FIRST_CELLS * math.sqrt(self._count) * _FINER**level
        spacing = grid.core_deviation / cells
        if (digits, tilt) not in self._spans:
            self._spans[digits, tilt] = self._lattices.span(digits, 1 - tilt if self._mirrored else tilt)
        # How far the composed loss reaches was seen on other lattices: too fine a one is not even built.
        if self._spans[digits, tilt] * len(self._lattices.steps) > 2 * LARGEST_CELLS * spacing:
            return None
        run = self._lattices.at(digits, spacing, mirrored=self._mirrored)
        pair = None if run is None else run.line(tilt)
        if run is not None and pair is not None:
            self._spans[digits, tilt] = pair.upper.cells * run.step
        return pair

    def read(
        self,
        digits: float,
        tilts: list[Tilt],
        places: IndexArray,
        known: Readings,
        read: Callable[[LatticePair, IndexArray], Readings],
        *,
        tolerance: float,
        linear: bool = False,
    ) -> None:
        """Tighten `known` at the places by reading each at its tilt, and where that fails on better ones.

        `tolerance`: the relative width to reach. `linear`: the readings are numbers, not their logarithms.
        """
        count_work(_A_SEARCH)
        reading = _Reading(known, read, linear)
        # The finest lattices cost a second for every tilt: a number gets them, a list does not.
        tolerance = tolerance if len(places) <= _FEW_PLACES else max(tolerance, _LISTED_TOLERANCE)
        self._refine(digits, [tilt.theta for tilt in tilts], places, reading, tolerance, blind=_BLIND_LEVEL)
        lost = places[reading.widths(places) > max(_LOST, tolerance)]
        if len(lost):
            self._refine(digits, self._scouted(digits, lost, reading), lost, reading, tolerance, blind=_FINEST)
        wide = places[reading.widths(places) > tolerance]
        if len(wide) and is_spent():  # what was composed for other numbers costs next to nothing
            for pair in self._lattices.finest_lines(_KEPT_READ, mirrored=self._mirrored):
                reading.tighten(pair, wide)

    def _refine(
        self,
        digits: float,
        tilts: list[float],
        places: IndexArray,
        reading: _Reading,
        tolerance: float,
        *,
        blind: int,
    ) -> None:
        """Read each place at its tilt, on lattices as fine as the tolerance needs and the limits allow; up to the level
        `blind` where they tell nothing.
        """
        for tilt in dict.fromkeys(tilts):
            at = places[[chosen == tilt for chosen in tilts]]
            level, tried, alone = 0, set[int](), math.inf
            while level not in tried:
                pair = self._pair(digits, level, tilt)
                if pair is None:  # too fine: the finest that can be had
                    if level == _COARSEST:
                        break
                    level -= 1
                    continue
                tried.add(level)
                before, alone = alone, float(np.nan_to_num(reading.tighten(pair, at), nan=math.inf).max())
                widest = float(reading.widths(at).max())
                if widest <= tolerance or (before < _TELLING and alone > 0.7 * before):  # finer ones do not help
                    break
                if alone >= _TELLING and level >= blind:
                    break
                goal = _MARGIN * tolerance
                wanted = math.log(max(min(widest, alone), goal) / goal) / (2 * math.log(_FINER))
                finer = math.ceil(wanted) if alone < _TELLING else _BLIND
                level = min(level + max(finer, 1), _FINEST)

    def _scouted(self, digits: float, places: IndexArray, reading: _Reading) -> list[float]:
        """For each place the tilt at which a coarse lattice reads it best.

        Saddle points fail to find it where few rare jumps rule: the tilted law has two humps there.
        """
        grid = self.grid(digits)
        if grid is None:
            return [0.5] * len(places)
        spacing = grid.core_deviation / (_FIRST_CELLS * math.sqrt(self._count))
        reach = self._lattices.farthest(digits)
        level = min(2, math.floor(math.log(_SCOUT_CELLS * spacing / reach) / math.log(_FINER)))
        best, narrowest = np.full(len(places), 0.5), np.full(len(places), np.inf)
        for tilt in _SCOUT_TILTS:
            pair = self._pair(digits, max(level, _COARSEST), tilt)
            if pair is not None:
                widths = reading.tighten(pair, places)
                best, narrowest = np.where(widths < narrowest, tilt, best), np.fmin(widths, narrowest)
        return [float(tilt) for tilt in best]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is known at some places, and how a lattice adds to it."""

    known: Readings
    read: Callable[[LatticePair, IndexArray], Readings]
    linear: bool

    def tighten(self, pair: LatticePair, places: IndexArray) -> FloatArray:
        """Read the places at a tilt; how wide that reading alone is."""
        count_work(_A_READING)
        found = self.read(pair, places)
        self.known.tighten(places, found)
        return self._widths(found)

    def widths(self, places: IndexArray) -> FloatArray:
        """Relative widths of all that is known."""
        return self._widths(Readings(self.known.lower[:, places], self.known.upper[:, places]))

    def _widths(self, readings: Readings) -> FloatArray:
        if not self.linear:
            return readings.width()
        upper = readings.upper[0]
        return np.where(np.isfinite(upper), (upper - readings.lower[0]) / np.where(upper > 0, upper, 1.0), 1.0)


def cut_digits(value: float) -> float:
    """How many digits of the mass are kept for a reading of the size of `value`."""
    wanted = 12 - math.log10(value)
    return next((digits for digits in CUT_DIGITS if digits >= wanted), CUT_DIGITS[-1])
