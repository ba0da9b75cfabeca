"""Mixture over a family of curves whose power rises with a parameter, between two mixtures of finitely many curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log, log_down, log_ends, log_up
from service.privacy.trade_off.enclosed.weighted_sums import WeightedSums, log_sum

STEEPEST: Final = 690.0
FIRST_LEVELS: Final = 65
SHARES: Final = np.arange(1, 4) / 4
"""Positions at which a cell of levels is split, in widths of the cell."""
CHUNK: Final = 64
"""Count of rates that are evaluated together. All of them use all levels."""
NEIGHBOURS: Final = np.array([1e-2, 0.2, 0.9])[:, None]
"""Distances, relative to alpha or 1 - alpha, of the rates between which chords bound the slope."""
SLACK: Final = 8 * FUNCTION_ERROR


@dataclass(frozen=True, slots=True)
class Part:
    """Curve of a family with rising power, with its weights in the two mixtures that bound the whole family.

    Attributes
    ----------
    curve : AbstractTradeOff
        The curve.
    below, above : Fraction
        Weights in the lower and in the upper mixture; one of them may be 0.
    """

    curve: AbstractTradeOff
    below: Fraction
    above: Fraction


@final
class BracketedMixture(AbstractTradeOff):
    """Mixture over a family of curves with rising power, enclosed by two finite mixtures of them.

    Notes
    -----
    Profiles mix linearly, so that delta lies between sum below_i delta_i and sum above_i delta_i. power(alpha) = min
    over c of delta(c) + e^c alpha, and every c gives an upper bound. On an interval (cell) [c, c'] of log slopes
    (levels) the power is at least delta(c') + e^c alpha, because profiles fall. Type II errors are 1 - power with the
    absolute accuracy of the power; the inverse curve has relative accuracy for small type II errors. Chords between
    enclosures bound the slopes.
    """

    def __init__(self, parts: Sequence[Part], close: float, most_levels: int) -> None:
        """Build the mixture from `parts` in the order of rising power.

        Parameters
        ----------
        parts : sequence of Part
            Curves in the order of rising power.
        close : float
            A cell of levels is split until its possible minimum is within this number of the smallest value at a level,
            in the logarithm of the power.
        most_levels : int
            Largest count of levels.
        """
        self.parts = tuple(parts)
        self._close, self._most_levels = close, most_levels
        self.evidence = Evidence.weakest(*(part.curve.evidence for part in parts))
        if self.evidence is Evidence.EXACT:
            self.evidence = Evidence.CERTIFIED
        self.method = next(part.curve.method for part in parts if part.below > 0)
        self._below = [part for part in parts if part.below > 0]
        self._above = [part for part in parts if part.above > 0]
        self._sums_below = WeightedSums([part.below for part in self._below])
        self._sums_above = WeightedSums([part.above for part in self._above])

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        least = max(part.curve.largest_log_ratio.lower for part in self._below)
        return Enclosure(least, max(part.curve.largest_log_ratio.upper for part in self._above), self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        low = sum((part.below * Fraction(part.curve.singular_power.lower) for part in self._below), Fraction(0))
        high = sum((part.above * Fraction(part.curve.singular_power.upper) for part in self._above), Fraction(0))
        outward = 2 * UNIT_ROUNDOFF
        return Enclosure(float(low) * (1 - outward), min(float(high) * (1 + outward), 1.0), self.evidence)

    @override
    def reversed(self) -> AbstractTradeOff:
        return self._reversed

    @cached_property
    def _reversed(self) -> BracketedMixture:
        return BracketedMixture(
            [Part(part.curve.reversed(), part.below, part.above) for part in self.parts], self._close, self._most_levels
        )

    @override
    @np.errstate(all="ignore")
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        read = [part.curve.profile(epsilon) for part in self.parts]
        pairs = list(zip(self.parts, map(log_ends, read), strict=True))
        low = self._sums_below.of_logs(np.stack([ends[0] for part, ends in pairs if part.below > 0]), -1)
        high = self._sums_above.of_logs(np.stack([ends[1] for part, ends in pairs if part.above > 0]), 1)
        return EnclosureArray.from_logs(np.minimum(low, high), high)

    @override
    @np.errstate(all="ignore")
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        left, right = alpha * (1 - NEIGHBOURS), alpha + (1 - alpha) * NEIGHBOURS
        rates = np.concatenate((alpha[None], left, right))
        read = [self._log_powers(rates[:, start : start + CHUNK].ravel()) for start in range(0, len(alpha), CHUNK)]
        log_low, log_high = (
            np.concatenate([end.reshape(len(rates), -1) for end in ends], axis=1) for ends in zip(*read, strict=True)
        )
        low, high = np.exp(log_low) * (1 - SLACK), np.exp(log_high) * (1 + SLACK)
        # A concave power is less steep than its chords to the left, and steeper than its chords to the right.
        steepest = ((high[0] - low[1:4]) / (alpha - left)).min(axis=0)
        flattest = ((low[4:] - high[0]) / (right - alpha)).max(axis=0)
        steep, flat = log(steepest), log(np.maximum(flattest, 0.0))
        slope = EnclosureArray(flat - SLACK * (1 + np.abs(np.nan_to_num(flat))), steep + SLACK * (1 + np.abs(steep)))
        error = EnclosureArray(
            np.maximum(1 - high[0] - UNIT_ROUNDOFF, 0.0), np.minimum(1 - low[0] + UNIT_ROUNDOFF, 1 - alpha)
        )
        error = EnclosureArray(error.lower, error.upper, log_down(error.lower), log_up(error.upper))
        return CurvePoints(error, EnclosureArray.from_logs(log_low[0], log_high[0]), slope)

    def _log_powers(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (lower, upper) bounds of ln power at the rates alpha, shape (n,), from profiles at log slopes."""
        levels = self._first_levels(alpha)
        low, high = log_ends(self.profile(levels))
        log_alpha = np.log(alpha)[:, None]
        while len(levels) < self._most_levels:
            # Cells that may contain a value below the smallest value at a level.
            seen = np.logaddexp(low, levels + log_alpha).min(axis=1)
            proved = np.logaddexp(low[1:], levels[:-1] + log_alpha)
            open_cells = np.flatnonzero((proved < seen[:, None] - self._close).any(axis=0))
            if not open_cells.size:
                break
            width = levels[open_cells + 1] - levels[open_cells]
            new = (levels[open_cells, None] + width[:, None] * SHARES).ravel()
            new_low, new_high = log_ends(self.profile(new))
            order = np.argsort(np.concatenate((levels, new)), kind="stable")
            levels = np.concatenate((levels, new))[order]
            low, high = np.concatenate((low, new_low))[order], np.concatenate((high, new_high))[order]
        slack = SLACK * (1 + np.abs(levels))
        upper = log_sum(high, levels + slack + log_alpha, 1).min(axis=1)
        inner = log_sum(low[1:], (levels - slack)[:-1] + log_alpha, -1).min(axis=1)
        ends = np.minimum(low[0], (levels - slack)[-1] + log_alpha[:, 0] * (1 + SLACK))
        lower = np.maximum(np.minimum(inner, ends), np.log(alpha) * (1 + SLACK))
        upper = np.minimum(upper, 0.0)
        return np.minimum(lower, upper), upper

    def _first_levels(self, alpha: FloatArray) -> FloatArray:
        """Return log slopes with which a search for points at the rates `alpha` starts.

        They form a range around the slopes of the weakest and the strongest part at these rates.
        """
        slopes = [part.curve.points(alpha).log_slope for part in (self._below[0], self._below[-1])]
        ends = np.concatenate([end for slope in slopes for end in (slope.lower, slope.upper)])
        ends = ends[np.isfinite(ends)]
        low, high = (float(ends.min()), float(ends.max())) if ends.size else (-1.0, 1.0)
        return np.linspace(max(low - 1, -STEEPEST), min(high + 1, STEEPEST), FIRST_LEVELS)
