"""The profile of two independent steps, from below and above, by sums over the loss of the first.

With L = L1 + L2, a test of level eps on the sum is, given L1 = l, one of level eps - l on L2, so for every real eps

    delta(eps) = E_H1 [ delta_2(eps - L1) ],

delta_2 the profile of the second step, in closed form. L1 is taken in cells (`loss_cells.py`), whose two pairs make
sums that bound delta. Cells are divided where these differ, for the threshold that is asked: a cell in n parts leaves
about n^-2 of its difference, so that shares of parts go with the cube root of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log_ends
from service.privacy.trade_off.sampling.loss_cells import Cells, CellStep, divided
from service.privacy.trade_off.shifted.gaussian_mixture import GaussianMixtureTradeOff

PER_ROUND: Final = 1e-2
"""To what share the difference is to come down in one round of dividing cells."""
MOST_ROUNDS: Final = 12
MOST_CELLS: Final = 60_000
"""With more a reading would take seconds; it stays wider."""
SHORT: Final = 1e-4
"""Distance at which slopes are taken, over that to the largest epsilon."""


@final
@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step whose loss is taken in cells, and whether the hypotheses are exchanged. `ends`: it from below and above,
    where its shift is not exact: the larger is easier to tell apart.
    """

    ends: tuple[CellStep, CellStep]
    swapped: bool = False

    def cells(self, borders: FloatArray) -> tuple[Cells, Cells]:
        """Between neighbours of the borders, for either end of the shift."""
        low = self.ends[0].cells(borders)
        high = low if self.ends[1] == self.ends[0] else self.ends[1].cells(borders)
        return (low.swapped(), high.swapped()) if self.swapped else (low, high)


@final
class Sums:
    """Both sums over cells of the first step, beside the curve `rest` of the other: ends of the profile everywhere,
    close together where the cells are narrow.
    """

    def __init__(self, first: FirstStep, rest: AbstractTradeOff, borders: FloatArray) -> None:
        self.first, self.rest, self.borders = first, rest, borders
        self.low, self.high = first.cells(borders)
        self.shares = self.high.upper_shares()
        self._table = rest.table if isinstance(rest, GaussianMixtureTradeOff) else None

    def lower_parts(self, epsilon: float, side: int = -1) -> FloatArray:
        """ln of the parts of the lower sum, themselves from below (-1) or above (1)."""
        return self.low.log_mass[0] + self._log_rest(epsilon, self.low.mean[0], side)

    def upper_parts(self, epsilon: float) -> FloatArray:
        """ln of the parts of the upper sum, from above."""
        return self._spread(self._log_rest(epsilon, self.high.border[1], 1))

    def about_parts(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """About the parts of both sums; where there is a table, without any bound."""
        if self._table is None:
            return self.lower_parts(epsilon), self.upper_parts(epsilon)
        with np.errstate(invalid="ignore"):
            lower = self.low.log_mass[0] + self._table.log_profile(epsilon - self.low.mean[0])
            upper = self._spread(self._table.log_profile(epsilon - self.high.border[1]))
        if np.isnan(lower).any() or np.isnan(upper).any():  # losses beyond what a table of doubles holds
            return self.lower_parts(epsilon), self.upper_parts(epsilon)
        return lower, upper

    def _spread(self, logs: FloatArray) -> FloatArray:
        """The parts of the upper sum, from ln of the profile of the other step at the borders."""
        with np.errstate(divide="ignore"):
            parts: FloatArray = np.logaddexp(np.log1p(-self.shares) + logs[:-1], np.log(self.shares) + logs[1:])
        return self.high.log_mass[1] + parts

    def _log_rest(self, epsilon: float, losses: FloatArray, side: int) -> FloatArray:
        slack = 2 * UNIT_ROUNDOFF * np.where(np.isfinite(losses), abs(epsilon) + np.abs(losses), 0.0)
        return log_ends(self.rest.profile(epsilon - losses - side * slack))[(side + 1) // 2]

    def lower(self, epsilon: float, side: int = -1) -> float:
        """ln of the lower sum, itself from below (-1) or above (1)."""
        return _log_sum(self.lower_parts(epsilon, side), side)

    def upper(self, epsilon: float) -> float:
        """ln of the upper sum, from above."""
        return _log_sum(self.upper_parts(epsilon), 1)

    def log_ends_at(self, epsilon: float) -> tuple[float, float]:
        """Both ends of ln delta."""
        return self.lower(epsilon), self.upper(epsilon)

    def profile(self, epsilon: FloatArray) -> EnclosureArray:
        """Both ends of delta."""
        ends = np.minimum(np.array([self.log_ends_at(each) for each in epsilon.tolist()]), 0.0)
        return EnclosureArray.from_logs(ends[:, 0], ends[:, 1])

    def middle(self, epsilon: float) -> float:
        """About ln delta; it steers."""
        lower, upper = self.about_parts(epsilon)
        return float(np.logaddexp(_log_sum(lower, -1), _log_sum(upper, 1)) - math.log(2))

    def lower_ends(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ends of ln of the lower sum, which is a profile itself but for its total mass."""
        low, high = (np.array([self.lower(float(each), side) for each in epsilon]) for side in (-1, 1))
        return low, high

    def near_root(self, epsilon: float, log_delta: float, most: float) -> tuple[float, float]:
        """About the epsilons at which the sums have a delta, by the slope of the lower one at an epsilon nearby."""
        near = SHORT * min(1 + epsilon, max(most - epsilon, SHORT))
        lower = self.lower(epsilon)
        slope = (lower - self.lower(epsilon + near)) / near
        if not 0 < slope < math.inf:
            return epsilon, epsilon
        ends = [epsilon + (value - log_delta) / slope for value in (lower, self.upper(epsilon))]
        return min(max(ends[0], 0.0), most), min(max(ends[1], 0.0), most)

    def refined(self, epsilon: float, target: float) -> Sums:
        """With cells so narrow that the sums differ by about `target` at a threshold, relative to delta."""
        found = self
        for _ in range(MOST_ROUNDS):
            lower, upper = found.about_parts(epsilon)
            scale = _log_sum(upper, 1)
            if scale == -math.inf or is_spent():
                return found
            gaps = np.maximum(np.exp(upper - scale) - np.exp(lower - scale), 0.0)
            gaps[[0, -1]] = 0.0
            gap = float(gaps.sum())
            if gap <= target:
                return found
            roots = np.cbrt(gaps)
            parts = np.ceil(roots * math.sqrt(float(roots.sum()) / max(0.5 * target, PER_ROUND * gap)))
            borders = divided(found.borders, parts[::-1] if self.first.swapped else parts)
            if len(borders) == len(found.borders) or len(borders) > MOST_CELLS:
                return found
            found = Sums(self.first, self.rest, borders)
        return found


def _log_sum(parts: FloatArray, side: int) -> float:
    """ln of a sum of positive parts, from below (-1) or above (1)."""
    most = float(parts.max())
    if most == -math.inf:
        return most
    total = most + math.log(float(np.exp(parts - most).sum()))
    # Every part and its distance from the largest are rounded, then their exponential and their sum.
    return total + side * (FUNCTION_ERROR * (8 + abs(most)) + len(parts) * UNIT_ROUNDOFF)
