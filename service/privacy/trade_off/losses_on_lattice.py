"""Two laws of one statistic that is seen several times, with the log-likelihood ratios rounded to a lattice.

Rounding is post-processing: whoever sees only the rounded ratio has no more power than whoever sees the statistic. So
has whoever sees the sum of several rounded ratios, or sums in which any partial sum outside a window was moved to its
edge. Tests of such a sum are tests of what was released, and what they reach is attained.

Both laws have non-negative terms, so the masses of the sum come from direct convolutions with a relative error.
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
"""Times that are composed. Further times are forgotten, which is post-processing, too."""
MOST_NATS: Final = 600.0
"""Distance of the means of the sum under both hypotheses up to which times are composed."""
CELLS: Final = 2048
"""Cells of the lattice in the window of the sum."""
DEVIATIONS: Final = 9.0
"""Standard deviations of the sum on either side, which make the window."""
MOST_CELLS: Final = 4096
"""Cells on either side of 0 for the ratio of a single time."""
MASS: Final = 1e-17
"""Mass of partial sums that is moved to the edges of their windows."""


@final
@dataclass(frozen=True, slots=True)
class TwoLaws:
    """Masses of a statistic at consecutive integers, `absent` under H0 and `present` under H1.

    `absent` is at least the mass and `present` at most, both up to a factor between e^-relative and e^relative.
    `extra` is at least what `absent` has in excess, and `missing` what `present` lacks, in all.
    """

    absent: FloatArray
    present: FloatArray
    relative: float
    extra: float
    missing: float

    def composed(self, times: int) -> TwoLaws:
        """Return the laws of the sum of rounded log-likelihood ratios of a statistic that is seen `times` times.

        Times are forgotten where more would take the sum out of the range of doubles.
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
        """Return the tests that say "present" above a likelihood ratio: rates rounded up and powers rounded down."""
        some = (self.absent > 0) & (self.present >= 0)
        absent, present = self.absent[some], self.present[some]
        order = np.argsort(-(present / absent), kind="stable")
        absent, present = absent[order], present[order]
        more = math.exp(self.relative + (len(order) + 16) * UNIT_ROUNDOFF)
        rate, power = np.minimum(np.cumsum(absent) * more, 1.0), np.cumsum(present) / more
        rest = np.maximum(_beyond(absent) / more - self.extra, 0.0)
        error = np.minimum(_beyond(present) * more + self.missing, 1.0)
        # The smaller of two complements is known, and the other one follows.
        rest, power = np.where(rate > 0.5, rest, 1 - rate), np.where(power > 0.5, 1 - error, power)
        return Corners.hull(np.where(rate > 0.5, 1 - rest, rate), rest, power, np.where(power > 0.5, error, 1 - power))

    def _losses(self) -> tuple[FloatArray, float, float]:
        """Return the log-likelihood ratios, the distance of their means, and their larger standard deviation."""
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
        """Return the laws of an index of the statistic."""
        absent, present = (gathered(index, masses) for masses in (self.absent, self.present))
        rounding = (len(index) + 4) * UNIT_ROUNDOFF
        return TwoLaws(absent, present, self.relative + rounding, self.extra, self.missing)

    def plus(self, other: TwoLaws) -> TwoLaws:
        """Return the laws of the sum of two independent statistics."""
        terms = min(len(self.absent), len(other.absent)) + 4
        return TwoLaws(
            np.convolve(self.absent, other.absent),
            np.convolve(self.present, other.present),
            self.relative + other.relative + terms * UNIT_ROUNDOFF,
            (self.extra + other.extra) * (1 + 1e-9),
            (self.missing + other.missing) * (1 + 1e-9),
        )

    def moved_to_window(self, mass: float) -> TwoLaws:
        """Return the laws with what is far out under both hypotheses moved to the edges of a window.

        Faint masses of H0 are raised, and faint ones of H1 left out, so that no product underflows.
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
    """Return the sums of what follows each value."""
    return np.concatenate([np.cumsum(values[:0:-1])[::-1], [0.0]])
