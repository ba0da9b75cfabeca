"""Laws of a statistic under two hypotheses, observed several times, with log-likelihood ratios rounded to a lattice.

The ratios are rounded to multiples of a step. Rounding is post-processing. An attacker who observes only the rounded
ratio has at most the power of an attacker who observes the statistic. The same holds for the sum of several rounded
ratios, and for sums whose partial sums are moved to the edge of a window. So a test of such a sum is a test of the
release, and its power is attained.

All masses are non-negative, so that direct convolutions compute the masses of the sum with a relative error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.lattice_masses import FAINTEST, folded, gathered, window
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.polygon import Corners

MOST_TIMES: Final = 100_000
"""Largest count of composed observations. Forgetting further observations is post-processing, too."""
MOST_NATS: Final = 600.0
"""Largest distance in nats of the means of the sum under both hypotheses."""
CELLS: Final = 2048
"""Count of cells of the lattice in the window of the sum."""
DEVIATIONS: Final = 9.0
"""Half-width of the window beyond the means, in standard deviations of the sum."""
MOST_CELLS: Final = 4096
"""Largest count of cells on each side of 0 for the ratio of a single observation."""
MASS: Final = 1e-17
"""Largest mass of partial sums that is moved to the edges of their windows."""


@final
@dataclass(frozen=True, slots=True)
class TwoLaws:
    """Masses of a statistic at consecutive integers under both hypotheses (H0: record absent, H1: present).

    Attributes
    ----------
    absent, present : array
        Upper bounds of the masses under H0, and lower bounds of the masses under H1, except for rounding (`relative`).
    relative : float
        Bound of the rounding error of ln of each mass.
    extra, missing : float
        Upper bounds of the total excess of `absent`, and of the total deficit of `present`.
    """

    absent: FloatArray
    present: FloatArray
    relative: float
    extra: float
    missing: float

    def composed(self, times: int) -> TwoLaws:
        """Return the laws of the sum of rounded log-likelihood ratios of `times` observations.

        Fewer observations are composed if `times` of them would exceed the range of doubles. This only weakens tests.
        """
        if times == 1:
            return self
        loss, distance, deviation = self._losses()
        times = min(times, MOST_TIMES, int(min(MOST_NATS / max(distance, 1e-300), 1e15)) + 1)
        width = times * distance + 2 * DEVIATIONS * math.sqrt(times) * deviation
        index = np.floor(loss / max(width / CELLS, 1e-300))
        index = np.clip(index, -MOST_CELLS, MOST_CELLS).astype(np.intp)
        laws = self._gathered(index - index.min()).moved_to_window(MASS / times)
        return folded(laws, times, TwoLaws.plus, lambda laws, terms: laws.moved_to_window(MASS * terms / times))

    def corners(self) -> Corners:
        """Return false positive rates and powers of the tests that reject H0 above some likelihood ratio.

        The result is a list of corners of a trade-off curve. They are upper bounds of false positive rates and lower
        bounds of powers.
        """
        some = (self.absent > 0) & (self.present >= 0)
        absent, present = self.absent[some], self.present[some]
        order = np.argsort(-(present / absent), kind="stable")
        absent, present = absent[order], present[order]
        more = math.exp(self.relative + (len(order) + 16) * UNIT_ROUNDOFF)
        rate, power = np.minimum(np.cumsum(absent) * more, 1.0), np.cumsum(present) / more
        rest = np.maximum(_beyond(absent) / more - self.extra, 0.0)
        error = np.minimum(_beyond(present) * more + self.missing, 1.0)
        # Use the smaller one of two complements. The larger one follows.
        rest, power = np.where(rate > 0.5, rest, 1 - rate), np.where(power > 0.5, 1 - error, power)
        return Corners.hull(np.where(rate > 0.5, 1 - rest, rate), rest, power, np.where(power > 0.5, error, 1 - power))

    def _losses(self) -> tuple[FloatArray, float, float]:
        """Return the log-likelihood ratios of all outcomes, the distance of their means, and a standard deviation.

        All are in nats. The means are those under H0 and H1, and the standard deviation is the larger of both.
        """
        some = (self.absent > 0) & (self.present > 0)
        loss = np.zeros(len(self.absent))
        loss[some] = np.log(self.present[some]) - np.log(self.absent[some])
        loss[~some] = loss.min()
        means = [float(masses @ loss) for masses in (self.absent, self.present)]
        squares = [
            float(masses @ (loss - mean) ** 2) for masses, mean in zip((self.absent, self.present), means, strict=True)
        ]
        return loss, abs(means[1] - means[0]), math.sqrt(max(squares))

    def _gathered(self, index: IndexArray) -> TwoLaws:
        """Return the laws of an integer function of the statistic under both hypotheses.

        `index` is the value of the function at each outcome.
        """
        absent, present = (gathered(index, masses) for masses in (self.absent, self.present))
        rounding = (len(index) + 4) * UNIT_ROUNDOFF
        return TwoLaws(absent, present, self.relative + rounding, self.extra, self.missing)

    def plus(self, other: TwoLaws) -> TwoLaws:
        """Return the laws of the sum of two independent statistics under both hypotheses."""
        terms = min(len(self.absent), len(other.absent)) + 4
        return TwoLaws(
            np.convolve(self.absent, other.absent),
            np.convolve(self.present, other.present),
            self.relative + other.relative + terms * UNIT_ROUNDOFF,
            (self.extra + other.extra) * (1 + 1e-9),
            (self.missing + other.missing) * (1 + 1e-9),
        )

    def moved_to_window(self, mass: float) -> TwoLaws:
        """Return the laws with the mass outside a window of integers moved to the edges of the window.

        Tiny masses of H0 are raised, and tiny masses of H1 are dropped, so that no product underflows. The window
        leaves out about `mass` of either law.
        """
        both = np.maximum(self.absent, self.present)
        start, stop = window(np.cumsum(both), np.cumsum(both[::-1]), mass)
        index = np.clip(np.arange(len(both)), start, stop - 1) - start
        moved = self._gathered(index)
        faint = FAINTEST * len(both) * 2
        return TwoLaws(
            np.maximum(moved.absent, FAINTEST),
            np.where(moved.present < FAINTEST, 0.0, moved.present),
            moved.relative,
            moved.extra + faint,
            moved.missing + faint,
        )


def _beyond(values: FloatArray) -> FloatArray:
    return np.concatenate([np.cumsum(values[:0:-1])[::-1], [0.0]])
