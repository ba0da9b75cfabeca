"""The `discretised` engine: certified curves of any steps that have curves of their own, on a lattice of losses.

For steps with atoms (Laplace, pure and approximate DP), with bounded losses, of mixed kinds, or so few and rare that the
`contour` engine is wide. `lattice_law.py` brackets a step between two laws on a lattice, `lattice_run.py` composes them at a
tilt, `lattice_readings.py` says what they prove. The gap between the laws falls with the square of the spacing: a first
coarse reading tells which spacing the tolerance needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from service.privacy.composition.contour_ladder import ContourLadder, Rung
from service.privacy.composition.contour_readings import IndexArray, Readings, nothing_known
from service.privacy.composition.lattice_ladder import LatticeRun, LatticeStep, coarse_ladder
from service.privacy.composition.lattice_readings import (
    LatticePair,
    read_lattice_points,
    read_lattice_profile,
    solve_lattice_profile,
)
from service.privacy.composition.options import EngineOptions
from service.privacy.enclosure import Bounds, Enclosure, Evidence, FloatArray
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import Steps
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.pair import TradeOffPair

CUT_DIGITS = (22.0, 40.0, 80.0, 160.0, 290.0)
"""The lattice ends where 10^-digits of the mass of all steps is left."""

SOURCE = "Zhu, Dong, Wang 2022, Theorem 10 (composition of dominating pairs); Doroshenko et al. 2022 (connect the dots)"

_FIRST_CELLS = 6.0
"""Cells of the first lattice in a standard deviation of the loss, over the root of the number of steps."""

_FINER = 3.0
"""Lattices differ in spacing by powers of this."""

_FINEST = 12
"""Powers tried at most; cells in all are limited besides."""

_SLOPE_STEP = 1e-3
"""Relative distance of the rates between which slopes are enclosed."""


def discretised_pair(steps: Steps, sensitivity: float, options: EngineOptions) -> TradeOffPair:
    """The curves of any composition of steps with curves of their own. Raises UnsupportedCombination for steps that have
    none under this relation, and for steps that reveal nothing or everything.
    """
    parts: list[LatticeStep] = []
    for step, count in steps:
        curves = step.curves(sensitivity)
        parts.append(LatticeStep(curves.add, curves.remove, step.loss_atoms(sensitivity), count))
    run = tuple(parts)
    if all(part.add.largest_log_ratio.upper <= 0 and part.add.singular_power.upper <= 0 for part in run):
        raise UnsupportedCombination(
            "method",
            "discretised for a mechanism that reveals nothing",
            "there is nothing to compose.",
            ("closed_form",),
        )
    reason = "discretised: losses of all steps on a lattice, rounded to either side, composed by Fourier transforms."
    add = DiscretisedTradeOff(run, options.relative_tolerance, mirrored=False)
    return TradeOffPair(add, add.reversed(), SOURCE, (reason,))


class DiscretisedTradeOff(AbstractTradeOff):
    """One direction of a composition. Relative width about N/(4 c^2) with c cells in a standard deviation of the loss."""

    evidence = Evidence.CERTIFIED
    method = "discretised"

    def __init__(self, steps: tuple[LatticeStep, ...], tolerance: float, *, mirrored: bool) -> None:
        self._steps, self._tolerance, self._mirrored = steps, tolerance, mirrored
        self._ladders: dict[float, ContourLadder | None] = {}
        self._runs: dict[tuple[float, int], LatticeRun | None] = {}
        self._count = math.fsum(part.count for part in steps)

    @property
    def largest_log_ratio(self) -> Enclosure:
        """Sum of the steps' largest ratios."""
        return self._total([(part.remove if self._mirrored else part.add).largest_log_ratio for part in self._steps])

    @property
    def smallest_log_ratio(self) -> Enclosure:
        """Sum of the steps' smallest ratios."""
        return self._total([(part.remove if self._mirrored else part.add).smallest_log_ratio for part in self._steps])

    def _total(self, ratios: list[Enclosure]) -> Enclosure:
        counts = [part.count for part in self._steps]
        lower = math.fsum(count * ratio.lower for count, ratio in zip(counts, ratios, strict=True))
        upper = math.fsum(count * ratio.upper for count, ratio in zip(counts, ratios, strict=True))
        slack = 4 * UNIT_ROUNDOFF
        lower = lower - slack * abs(lower) if math.isfinite(lower) else lower
        upper = upper + slack * abs(upper) if math.isfinite(upper) else upper
        return Enclosure(lower, upper, Evidence.CERTIFIED)

    @property
    def singular_power(self) -> Enclosure:
        """1 - prod (1 - q)^N over the steps' singular masses q."""
        masses = [(part.remove if self._mirrored else part.add).singular_power for part in self._steps]
        ends: list[float] = []
        for end in ("lower", "upper"):
            logs = [(getattr(mass, end), part.count) for mass, part in zip(masses, self._steps, strict=True)]
            total = math.fsum(count * (math.log1p(-mass) if mass < 1 else -math.inf) for mass, count in logs)
            ends.append(-math.expm1(total))
        slack = 16 * UNIT_ROUNDOFF
        return Enclosure(ends[0] * (1 - slack), min(ends[1] * (1 + slack), 1.0), Evidence.CERTIFIED)

    @property
    def global_gdp_mu(self) -> Enclosure | None:
        """Not known."""
        return None

    def reversed(self) -> DiscretisedTradeOff:
        """The other direction of the same steps."""
        return DiscretisedTradeOff(self._steps, self._tolerance, mirrored=not self._mirrored)

    @np.errstate(all="ignore")
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        n, shift = len(alpha), np.minimum(_SLOPE_STEP, 0.5 * (1 - alpha) / alpha)
        read = self._read_points(np.concatenate([alpha, alpha * (1 - shift), alpha * (1 + shift)]))
        slope = _slopes(read, alpha, shift)
        known = Readings(read.lower[:, :n], read.upper[:, :n])
        power = Bounds.from_logs(known.lower[0], known.upper[0])
        return CurvePoints(Bounds.from_logs(known.lower[1], known.upper[1]), power, slope)

    def _read_points(self, alpha: FloatArray) -> Readings:
        known = nothing_known(len(alpha))
        known.lower[0], known.upper[1] = np.log(alpha), np.log1p(-alpha)
        digits = np.array([self._cut(min(rate, 1 - rate)) for rate in alpha])
        for cut in sorted(set(digits)):
            places = np.flatnonzero(digits == cut)
            ladder = self._ladder(cut)
            if ladder is not None:
                rungs = ladder.for_tails(alpha[places])
                self._refine(cut, rungs, places, known, lambda pair, at: read_lattice_points(pair, alpha[at]))
        return known

    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        beyond = epsilon >= self.largest_log_ratio.upper
        top = math.log(self.singular_power.upper) if self.singular_power.upper > 0 else -math.inf
        known = Readings(np.full((1, len(epsilon)), -np.inf), np.where(beyond, top, 0.0)[None])
        places = np.flatnonzero(~beyond)
        for cut in CUT_DIGITS:
            ladder = self._ladder(cut)
            if ladder is None or len(places) == 0:
                continue
            rungs = ladder.for_thresholds(epsilon[places])
            deep = np.array([rung.log_profile > (11 - cut) * math.log(10) for rung in rungs])
            deep = (deep & ladder.reaches(epsilon[places])) | (cut == CUT_DIGITS[-1])
            chosen = [rung for rung, is_deep in zip(rungs, deep, strict=True) if is_deep]
            self._refine(cut, chosen, places[deep], known, lambda pair, at: read_lattice_profile(pair, epsilon[at]))
            places = places[~deep]
        return Bounds.from_logs(known.lower[0], known.upper[0])

    @np.errstate(all="ignore")
    def _epsilon_formula(self, delta: float) -> Enclosure:
        top = self.largest_log_ratio.upper
        known = Readings(np.zeros((1, 1)), np.full((1, 1), top))
        ladder = self._ladder(self._cut(delta))
        if ladder is not None:
            rung = ladder.for_profile(delta)

            def solved(pair: LatticePair, _: IndexArray) -> Readings:
                low, high = solve_lattice_profile(pair, math.log(delta))
                return Readings(np.array([[max(low, 0.0)]]), np.array([[max(high, 0.0)]]))

            self._refine(self._cut(delta), [rung], np.array([0]), known, solved, linear=True)
        return Enclosure(float(known.lower[0, 0]), float(known.upper[0, 0]), self.evidence)

    def _cut(self, value: float) -> float:
        wanted = 12 - math.log10(value)
        return next((digits for digits in CUT_DIGITS if digits >= wanted), CUT_DIGITS[-1])

    def _ladder(self, digits: float) -> ContourLadder | None:
        if digits not in self._ladders:
            self._ladders[digits] = coarse_ladder(self._steps, -digits * math.log(10), mirrored=self._mirrored)
        return self._ladders[digits]

    def _pair(self, digits: float, level: int, tilt: float) -> LatticePair | None:
        """The laws composed at a tilt on the lattice of a level; None where it would be too large."""
        key = digits, level
        if key not in self._runs:
            ladder = self._ladder(digits)
            assert ladder is not None, "rungs come from a ladder"
            cells = _FIRST_CELLS * math.sqrt(self._count) * _FINER**level
            cut = -digits * math.log(10)
            self._runs[key] = LatticeRun.build(self._steps, ladder.core_deviation / cells, cut, mirrored=self._mirrored)
        run = self._runs[key]
        return None if run is None else run.line(tilt)

    def _refine(
        self,
        digits: float,
        rungs: list[Rung],
        places: IndexArray,
        known: Readings,
        read: Callable[[LatticePair, IndexArray], Readings],
        *,
        linear: bool = False,
    ) -> None:
        """Read each place on its rung's tilt, on lattices as fine as the tolerance needs and the limits allow.

        `linear`: the readings are numbers, not their logarithms.
        """
        for rung in dict.fromkeys(rungs):
            at = places[[chosen is rung for chosen in rungs]]
            level, tried = 0, set[int]()
            while level not in tried:
                pair = self._pair(digits, level, rung.theta)
                if pair is None:  # too fine: the finest that can be had
                    if level == 0:
                        break
                    level -= 1
                    continue
                tried.add(level)
                known.tighten(at, read(pair, at))
                lower, upper = known.lower[:, at], known.upper[:, at]
                widest = float(((upper - lower) / upper).max() if linear else known.width()[at].max())
                if not widest > self._tolerance:
                    break
                finer = math.ceil(math.log(widest / self._tolerance) / (2 * math.log(_FINER)))
                level = min(level + max(1, finer), _FINEST)


def _slopes(read: Readings, alpha: FloatArray, shift: FloatArray) -> Bounds:
    """ln of the slope at each rate, from readings there and at both neighbours alpha (1 -+ shift).

    A concave curve is less steep than its chord to the left and steeper than the one to the right; power and type II error
    give the same differences, the smaller of them with more digits.
    """
    n = len(alpha)
    lower, upper = np.exp(read.lower[:2]), np.exp(read.upper[:2])
    step = alpha * shift
    here, left, right = slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)
    slack = 16 * UNIT_ROUNDOFF
    steepest = np.fmin(
        upper[0, here] - lower[0, left] + slack * upper[0, here],
        upper[1, left] - lower[1, here] + slack * upper[1, left],
    )
    flattest = np.fmax(
        lower[0, right] - upper[0, here] - slack * upper[0, here],
        lower[1, here] - upper[1, right] - slack * upper[1, here],
    )
    high = np.log(np.maximum(steepest, 0.0) / step) + slack
    low = np.log(np.maximum(flattest, 0.0) / step) - slack
    return Bounds(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))
