"""Profile of two independent steps, bounded from both sides by sums over the loss of the first step.

The loss is L = L1 + L2. Given L1 = l, a test of L at the threshold eps is a test of L2 at the threshold eps - l. So for
every real eps

    delta(eps) = E_H1 [ delta_2(eps - L1) ],

where delta_2 is the profile of the second step in closed form. The cells of `loss_cells.py` discretise L1, and the two
pairs of each cell give sums that bound delta. Refinement divides the cells where the sums differ, for the requested
threshold. A cell in n parts leaves about n^-2 of its difference, so that the count of parts is proportional to the cube
root of the difference.
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
"""Share to which one round of refinement reduces the difference."""
MOST_ROUNDS: Final = 12
MOST_CELLS: Final = 60_000
"""Largest count of cells. More cells would take seconds, so the result stays wider."""
SHORT: Final = 1e-4
"""Distance for numerical slopes, relative to the distance to the largest epsilon."""


@final
@dataclass(frozen=True, slots=True)
class FirstStep:
    """First of two independent steps, whose loss is divided into cells, and the order of the hypotheses.

    Attributes
    ----------
    ends : tuple of CellStep
        The step with the lower and with the upper bound of its shift. The larger shift is easier to distinguish.
    swapped : bool
        Whether the hypotheses are swapped.
    """

    ends: tuple[CellStep, CellStep]
    swapped: bool = False

    def cells(self, borders: FloatArray) -> tuple[Cells, Cells]:
        """Return the cells (noise intervals) between `borders`, for the lower and for the upper bound of the shift."""
        low = self.ends[0].cells(borders)
        high = low if self.ends[1] == self.ends[0] else self.ends[1].cells(borders)
        return (low.swapped(), high.swapped()) if self.swapped else (low, high)


@final
class Sums:
    """Lower and upper sum for the privacy profile of two steps, over cells (noise intervals) of the first step.

    `rest` is the curve of the other step.

    Both sums bound the profile everywhere, and are close together where the cells are narrow.
    """

    def __init__(self, first: FirstStep, rest: AbstractTradeOff, borders: FloatArray) -> None:
        self.first, self.rest, self.borders = first, rest, borders
        self.low, self.high = first.cells(borders)
        self.shares = self.high.upper_shares()
        self._table = rest.table if isinstance(rest, GaussianMixtureTradeOff) else None

    def lower_parts(self, epsilon: float, side: int = -1) -> FloatArray:
        """Return lower (`side` -1) or upper (1) bounds of ln of the terms of the lower sum, shape (cells,).

        The lower sum bounds the profile at `epsilon` from below. A cell is an interval of the noise of the first of two
        steps.
        """
        return self.low.log_mass[0] + self._log_rest(epsilon, self.low.mean[0], side)

    def upper_parts(self, epsilon: float) -> FloatArray:
        """Return upper bounds of the logarithms of the terms of the upper sum, shape (cells,).

        The upper sum bounds the profile at `epsilon` from above. A cell is an interval of the noise of the first of two
        steps.
        """
        return self._spread(self._log_rest(epsilon, self.high.border[1], 1))

    def about_parts(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Return approximate ln of the terms of the lower and of the upper sum, shape (cells,), without error bounds.

        The sums are those for the profile of both steps at `epsilon` (nats). The numbers come from a table of the
        second step's profile, if there is one.
        """
        if self._table is None:
            return self.lower_parts(epsilon), self.upper_parts(epsilon)
        with np.errstate(invalid="ignore"):
            lower = self.low.log_mass[0] + self._table.log_profile(epsilon - self.low.mean[0])
            upper = self._spread(self._table.log_profile(epsilon - self.high.border[1]))
        if np.isnan(lower).any() or np.isnan(upper).any():  # the losses exceed the range of the table
            return self.lower_parts(epsilon), self.upper_parts(epsilon)
        return lower, upper

    def _spread(self, logs: FloatArray) -> FloatArray:
        """Return ln of the terms of the upper sum, given ln of the other step's profile at the borders (`logs`)."""
        with np.errstate(divide="ignore"):
            parts: FloatArray = np.logaddexp(np.log1p(-self.shares) + logs[:-1], np.log(self.shares) + logs[1:])
        return self.high.log_mass[1] + parts

    def _log_rest(self, epsilon: float, losses: FloatArray, side: int) -> FloatArray:
        slack = 2 * UNIT_ROUNDOFF * np.where(np.isfinite(losses), abs(epsilon) + np.abs(losses), 0.0)
        return log_ends(self.rest.profile(epsilon - losses - side * slack))[(side + 1) // 2]

    def lower(self, epsilon: float, side: int = -1) -> float:
        """Return a lower (`side` -1) or upper (1) bound of ln of the lower sum for delta(epsilon), epsilon in nats.

        The lower sum bounds the profile of two steps from below, up to rounding.
        """
        return _log_sum(self.lower_parts(epsilon, side), side)

    def upper(self, epsilon: float) -> float:
        """Return an upper bound of ln of the upper sum for the privacy profile at one `epsilon` (nats).

        The upper sum bounds the profile of two steps from above.
        """
        return _log_sum(self.upper_parts(epsilon), 1)

    def log_ends_at(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) bounds of ln delta(`epsilon`), the profile of the two steps together, at one epsilon.

        `epsilon` is in nats.
        """
        return self.lower(epsilon), self.upper(epsilon)

    def profile(self, epsilon: FloatArray) -> EnclosureArray:
        """Return enclosures of delta(`epsilon`), the profile of the two steps together; epsilon in nats, shape (n,)."""
        ends = np.minimum(np.array([self.log_ends_at(each) for each in epsilon.tolist()]), 0.0)
        return EnclosureArray.from_logs(ends[:, 0], ends[:, 1])

    def middle(self, epsilon: float) -> float:
        """Return approximate ln delta(epsilon) at one `epsilon` (nats), without an error bound, for searches."""
        lower, upper = self.about_parts(epsilon)
        return float(np.logaddexp(_log_sum(lower, -1), _log_sum(upper, 1)) - math.log(2))

    def lower_ends(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (lower, upper) bounds of ln of the lower sum at `epsilon`, shape (n,).

        The lower sum bounds the profile from below. It is itself the profile of two laws, except that the total mass is
        not exactly 1.
        """
        low, high = (np.array([self.lower(float(each), side) for each in epsilon]) for side in (-1, 1))
        return low, high

    def near_root(self, epsilon: float, log_delta: float, most: float) -> tuple[float, float]:
        """Return approximate epsilons (nats) at which the lower and the upper sum for the profile are e^`log_delta`.

        The slope of the lower sum at `epsilon` gives both; without a usable slope both are `epsilon`. `most` is the
        largest result. Sums bound the profile of two steps.
        """
        near = SHORT * min(1 + epsilon, max(most - epsilon, SHORT))
        lower = self.lower(epsilon)
        slope = (lower - self.lower(epsilon + near)) / near
        if not 0 < slope < math.inf:
            return epsilon, epsilon
        ends = [epsilon + (value - log_delta) / slope for value in (lower, self.upper(epsilon))]
        return min(max(ends[0], 0.0), most), min(max(ends[1], 0.0), most)

    def refined(self, epsilon: float, target: float) -> Sums:
        """Return sums over so many cells that the lower and the upper sum at `epsilon` nearly agree.

        Their relative difference is about `target`, or larger if the cells would be too many or the work of the request
        is spent. Cells are intervals of the noise of the first step.
        """
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
    """Return a lower (`side` -1) or upper (1) bound of ln of the sum of e^part over `parts`."""
    most = float(parts.max())
    if most == -math.inf:
        return most
    total = most + math.log(float(np.exp(parts - most).sum()))
    # The bound covers the rounding of every part, of its distance from the largest, of its exponential and of the sum.
    return total + side * (FUNCTION_ERROR * (8 + abs(most)) + len(parts) * UNIT_ROUNDOFF)
