"""Choice of the lattice for a composition: as coarse as the tolerance allows, at the best tilt.

Two laws on a lattice bound the loss of the run from below and above. The gap between the two laws is proportional to
the squared spacing. A first coarse evaluation therefore determines the spacing that the tolerance needs. Lattices are
cached for further evaluations, as many as memory allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from service.privacy.composition.inversion.readings.enclosures import Readings
from service.privacy.composition.inversion.tilts import Tilt, TiltGrid
from service.privacy.composition.lattice.runs import LARGEST_CELLS, LatticeRuns, coarse_tilt_grid
from service.privacy.composition.lattice.sums import LatticePair
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work, is_spent

LATTICE_DIGITS = (22.0, 40.0, 80.0, 160.0, 290.0)
"""Digits at which a lattice may be truncated: 10^-digits of the mass of all steps remains."""

_FIRST_CELLS = 6.0
"""Cells of the first lattice per standard deviation of the loss, divided by the square root of the number of steps."""

_FINER = math.sqrt(3.0)
"""Ratio of the spacings of successive refinements."""

_FINEST = 24
"""Largest refinement. The total number of cells is limited too."""

_MARGIN = 0.9
"""Target width as a share of the tolerance. Missing the tolerance costs another lattice."""

_INFORMATIVE, _UNINFORMED_STEP = 0.1, 4
"""Width above which a result does not determine the necessary refinement, and the increment of the refinement then."""

_UNINFORMED_REFINEMENT = 4
"""Level after which other tilts are tried first, on coarse lattices, if results are still too wide."""

_COARSEST = -32
"""Smallest refinement, if the first lattice is too large."""

_WIDE = 1e-3
"""Width above which an evaluation at a tilt of the grid did not find its threshold."""

_UNSEEN = -2000.0
"""ln of the largest number whose width is not searched at other tilts. Such numbers are 0 in doubles."""

_SEARCH_CELLS = 1 << 14
_SEARCH_TILTS = (
    *(1 + 0.25 * 1.6**k for k in range(12)),
    *(1 + 0.25 * 0.4**k for k in range(1, 6)),
    0.5,
    0.2,
    0.8,
    *(-0.25 * 1.6**k for k in range(12)),
)
"""Cells of the widest step's law, and tilts, of the search for such thresholds.

Tilts next to 1 serve losses of hundreds of nats with several modes.
"""

_A_READING, _A_THRESHOLD = 300.0, 0.05
"""Work of an evaluation of a lattice, and of each of its thresholds, in microseconds."""

_A_SEARCH = 400.0
"""Work of the choice of lattices if all of them are cached, in microseconds."""

_KEPT_READ = 3
"""Number of cached lattices that are evaluated if the allowance permits no further composition."""

_FEW_NUMBERS = 12
_LISTED_TOLERANCE = 1e-6
"""Smallest relative width for lists with more than _FEW_NUMBERS numbers."""


@final
class LatticeSearch:
    """Search for a lattice and a tilt that give a narrow enclosure of a number, for one direction of a run.

    A lattice is a grid of privacy losses with a spacing. A tilt is an exponent: masses are multiplied by e^{tilt loss}
    before the composition of the steps.
    """

    def __init__(self, runs: LatticeRuns, *, reflected: bool) -> None:
        self._lattices, self._reflected = runs, reflected
        self._tilt_grids: dict[float, TiltGrid | None] = {}
        self._spans: dict[tuple[float, float], float] = {}
        self._count = math.fsum(part.count for part in runs.steps)

    def reversed(self) -> LatticeSearch:
        """Return the search for the other direction (swapped hypotheses), with the same lattice laws."""
        return LatticeSearch(self._lattices, reflected=not self._reflected)

    def tilt_grid(self, digits: float) -> TiltGrid | None:
        """Return the tilts at which the run may be composed, on lattices that end where 10^-digits of mass remains.

        The result is None if a coarse lattice gives no tilts.
        """
        if digits not in self._tilt_grids:
            self._tilt_grids[digits] = coarse_tilt_grid(self._lattices, digits, reflected=self._reflected)
        return self._tilt_grids[digits]

    def epsilon_cap(self, delta: float) -> float:
        """Return an upper bound (nats) of epsilon(delta) from a lattice of few cells; infinite without one."""
        coarse = self._lattices.coarse(digits_for(delta))
        run = coarse.reflected() if coarse is not None and self._reflected else coarse
        return math.inf if run is None else run.epsilon_cap(delta)

    def complement_cap(self, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds of ln(1 - delta(epsilon)) from a lattice of few cells (0 without one).

        The result has the shape of `epsilon` (nats).
        """
        found = np.zeros_like(epsilon)
        for value, slope in self._complement_caps:
            exponents = slope * epsilon
            found = np.fmin(found, value + exponents + 8 * UNIT_ROUNDOFF * (1 + abs(value) + np.abs(exponents)))
        return found

    @cached_property
    def _complement_caps(self) -> list[tuple[float, float]]:
        coarse = self._lattices.coarse(LATTICE_DIGITS[0])
        run = coarse.reflected() if coarse is not None and self._reflected else coarse
        return [] if run is None else run.complement_caps()

    def _pair(self, digits: float, refinement: int, tilt: float) -> LatticePair | None:
        """Return the run composed at a tilt on the lattice of a refinement, or None.

        A tilt is an exponent: masses are multiplied by e^{tilt loss} before the composition. Each refinement has a
        spacing smaller by a fixed factor. The lattice ends where 10^-digits of mass remains. The result is None if the
        lattice would be too large, the run has no tilts, or the work of the request is spent.
        """
        tilt_grid = self.tilt_grid(digits)
        if tilt_grid is None or is_spent():
            return None
        cells = _FIRST_CELLS * math.sqrt(self._count) * _FINER**refinement
        spacing = tilt_grid.core_deviation / cells
        if (digits, tilt) not in self._spans:
            self._spans[digits, tilt] = self._lattices.span(digits, 1 - tilt if self._reflected else tilt)
        # Other lattices determined the range of the composed loss. A lattice that is too fine is not even built.
        if self._spans[digits, tilt] * len(self._lattices.steps) > 2 * LARGEST_CELLS * spacing:
            return None
        run = self._lattices.at(digits, spacing, reflected=self._reflected)
        pair = None if run is None else run.compose(tilt)
        if run is not None and pair is not None:
            self._spans[digits, tilt] = pair.upper.cells * run.step
            self._lattices.limit_memory()
        return pair

    def read(
        self,
        digits: float,
        tilts: list[Tilt],
        indices: IndexArray,
        known: Readings,
        read: Callable[[LatticePair, IndexArray], Readings],
        *,
        tolerance: float,
        linear: bool = False,
    ) -> None:
        """Evaluate numbers at the given indices and tilts to narrow `known`, and at better tilts if they stay wide.

        Parameters
        ----------
        digits : float
            The lattices end where 10^-digits of mass remains.
        tilts : list of Tilt
            Tilt of each number: a real exponent, with which masses are multiplied by e^{tilt loss}.
        indices : array
            Indices of the numbers in `known`.
        known : Readings
            Bounds to tighten in place.
        read : callable
            Function that returns bounds of the numbers at some indices from a composed pair of laws.
        tolerance : float
            Relative width to reach; long lists aim at a larger width.
        linear : bool
            Whether the results are numbers instead of logarithms.
        """
        count_work(_A_SEARCH)
        reading = _Reading(known, read, linear)
        # The finest lattices cost a second for every tilt, so long lists do not use them.
        tolerance = tolerance if len(indices) <= _FEW_NUMBERS else max(tolerance, _LISTED_TOLERANCE)
        self._refine(
            digits,
            [tilt.theta for tilt in tilts],
            indices,
            reading,
            tolerance,
            uninformed_refinement=_UNINFORMED_REFINEMENT,
        )
        is_lost = reading.widths(indices, least=_UNSEEN) > max(_WIDE, tolerance)
        lost = indices[is_lost]
        if len(lost):
            first = [tilt.theta for tilt, each in zip(tilts, is_lost, strict=True) if each]
            best = self._best_tilts(digits, first, lost, reading)
            self._refine(digits, best, lost, reading, tolerance, uninformed_refinement=_FINEST)
        wide = indices[reading.widths(indices) > tolerance]
        if len(wide) and is_spent():  # Cached compositions for other numbers cost almost nothing.
            for pair in self._lattices.finest_composed(_KEPT_READ, reflected=self._reflected):
                reading.tighten(pair, wide)

    def read_composed(
        self, indices: IndexArray, known: Readings, read: Callable[[LatticePair, IndexArray], Readings]
    ) -> None:
        """Evaluate numbers on lattices that are composed already, to narrow `known` after the work limit is reached.

        Parameters
        ----------
        indices : array
            Indices of the numbers in `known`.
        known : Readings
            Bounds to tighten in place.
        read : callable
            Function that returns bounds of the numbers at some indices from a composed pair of laws.
        """
        reading = _Reading(known, read, linear=False)
        for pair in self._lattices.finest_composed(_KEPT_READ, reflected=self._reflected):
            reading.tighten(pair, indices)

    def _refine(
        self,
        digits: float,
        tilts: list[float],
        indices: IndexArray,
        reading: _Reading,
        tolerance: float,
        *,
        uninformed_refinement: int,
    ) -> None:
        """Evaluate the numbers with the indices `indices`, each at its tilt, on lattices that become finer.

        `reading` has the known bounds and the function that evaluates composed laws. Laws omit a mass of 10^-digits.
        Lattices are as fine as the tolerance needs and the limits allow. A tilt is an exponent: masses are multiplied
        by e^{tilt loss}. Each refinement of the lattice divides its spacing by a fixed factor. The search stops at the
        refinement `uninformed_refinement` if the results are still too wide to determine a refinement.
        """
        for tilt in dict.fromkeys(tilts):
            at = indices[[chosen == tilt for chosen in tilts]]
            refinement, tried, alone = 0, set[int](), math.inf
            while refinement not in tried:
                pair = self._pair(digits, refinement, tilt)
                if pair is None:  # too fine: try the next coarser refinement
                    if refinement == _COARSEST:
                        break
                    refinement -= 1
                    continue
                tried.add(refinement)
                before, alone = alone, float(np.nan_to_num(reading.tighten(pair, at), nan=math.inf).max())
                widest = float(reading.widths(at).max())
                if widest <= tolerance or (
                    before < _INFORMATIVE and alone > 0.7 * before
                ):  # finer refinements do not help
                    break
                if alone >= _INFORMATIVE and refinement >= uninformed_refinement:
                    break
                goal = _MARGIN * tolerance
                wanted = math.log(max(min(widest, alone), goal) / goal) / (2 * math.log(_FINER))
                finer = math.ceil(wanted) if alone < _INFORMATIVE else _UNINFORMED_STEP
                refinement = min(refinement + max(finer, 1), _FINEST)

    def _best_tilts(self, digits: float, tilts: list[float], indices: IndexArray, reading: _Reading) -> list[float]:
        """Return, for the number with each of `indices`, the tilt at which a coarse lattice gives the narrowest result.

        A tilt is an exponent: masses are multiplied by e^{tilt loss}. `tilts` are the present tilts of the numbers.
        Laws omit a mass of 10^-digits, and `reading` evaluates them.

        Indices without a useful result on any coarse lattice keep their tilt. Saddle points do not find this tilt if
        few rare jumps (large losses) dominate, because the tilted law then has two modes.
        """
        tilt_grid = self.tilt_grid(digits)
        if tilt_grid is None:
            return tilts
        spacing = tilt_grid.core_deviation / (_FIRST_CELLS * math.sqrt(self._count))
        reach = self._lattices.farthest(digits)
        refinement = min(2, math.floor(math.log(_SEARCH_CELLS * spacing / reach) / math.log(_FINER)))
        best, narrowest = np.array(tilts), np.ones(len(indices))
        for tilt in dict.fromkeys([*tilts, *_SEARCH_TILTS]):
            pair = self._pair(digits, max(refinement, _COARSEST), tilt)
            if pair is not None:
                widths = reading.tighten(pair, indices)
                best, narrowest = np.where(widths < narrowest, tilt, best), np.fmin(widths, narrowest)
        return [float(tilt) for tilt in best]


@dataclass(frozen=True, slots=True)
class _Reading:
    """Known bounds of some numbers, by index, with the function that evaluates composed laws to tighten them.

    `read` is this function. `linear` is whether the bounds are numbers instead of logarithms.
    """

    known: Readings
    read: Callable[[LatticePair, IndexArray], Readings]
    linear: bool

    def tighten(self, pair: LatticePair, indices: IndexArray) -> FloatArray:
        """Narrow `known` in place at the indices by one composition, and return the relative widths of its results.

        `pair` has the upper and the lower law of the run, composed at one tilt.
        """
        count_work(_A_READING + _A_THRESHOLD * pair.upper.threshold_count)
        found = self.read(pair, indices)
        self.known.tighten(indices, found)
        return self._widths(found)

    def widths(self, indices: IndexArray, least: float = -math.inf) -> FloatArray:
        """Return the relative widths of the known bounds of the numbers with these indices, in their shape.

        Numbers of at most e^`least` have the width 0. The default has no such limit.
        """
        lower, upper = self.known.lower[:, indices], self.known.upper[:, indices]
        if not self.linear:
            lower = np.where(upper < least, upper, lower)
        return self._widths(Readings(lower, upper))

    def _widths(self, readings: Readings) -> FloatArray:
        if not self.linear:
            return readings.width()
        upper = readings.upper[0]
        return np.where(np.isfinite(upper), (upper - readings.lower[0]) / np.where(upper > 0, upper, 1.0), 1.0)


def digits_for(value: float) -> float:
    """Return the digits d of truncation (10^-d of the mass is omitted) that a result of the size of `value` needs."""
    wanted = 12 - math.log10(value)
    return next((digits for digits in LATTICE_DIGITS if digits >= wanted), LATTICE_DIGITS[-1])
