"""Law of the total loss of equal steps whose losses are so large that masses at the tilt 1/2 underflow.

Masses are logarithms, and each law is a short list of its heavy losses. If all losses of a step are large, each
hypothesis has its mass at few losses, so that nearly all sums of losses have negligible masses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.lattice_masses import folded
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work

NEGLIGIBLE: Final = -730.0
"""ln of the largest mass that is left out, under both hypotheses."""
MOST_PAIRS: Final = 4_000_000
"""Largest number of pairs of losses in one sum of two laws."""
PAIRS_PER_MICROSECOND: Final = 5.0


class _TooManyLosses(Exception):
    """Raised if a sum of two laws has too many pairs of losses."""


@final
@dataclass(frozen=True, slots=True)
class DistantAtoms:
    """Law with the losses top - step index_k, and the masses e^{logs_k} at the tilt 1/2.

    Attributes
    ----------
    top, step : float
        Largest loss, and spacing, in nats.
    index : array of int, shape (n,)
        Distance of each loss from the largest one in units of the spacing, rising.
    logs : array, shape (n,)
        ln of sqrt(dP0 dP1).
    relative : float
        Relative error of the masses.
    lost : float
        Upper bound of the left-out probability of either hypothesis.
    """

    top: float
    step: float
    index: IndexArray
    logs: FloatArray
    relative: float
    lost: float

    @property
    def losses(self) -> FloatArray:
        """Losses of all masses in nats, in descending order."""
        return self.top - self.step * self.index.astype(np.float64)

    def plus(self, other: DistantAtoms) -> DistantAtoms:
        """Return the law of the sum of two independent losses on lattices of one spacing, without negligible masses."""
        pairs = len(self.index) * len(other.index)
        if pairs > MOST_PAIRS:
            raise _TooManyLosses
        count_work(pairs / PAIRS_PER_MICROSECOND)
        index = (self.index[:, None] + other.index).ravel()
        logs = (self.logs[:, None] + other.logs).ravel()
        order = np.argsort(index, kind="stable")
        index, logs = index[order], logs[order]
        starts = np.flatnonzero(np.concatenate([[True], np.diff(index) != 0]))
        terms = min(len(self.index), len(other.index)) + 8
        size = 1 + float(np.abs(logs).max())
        return DistantAtoms(
            self.top + other.top,
            self.step,
            index[starts],
            np.logaddexp.reduceat(logs, starts),
            self.relative + other.relative + 4 * terms * UNIT_ROUNDOFF * size,
            (self.lost + other.lost) * (1 + 4 * UNIT_ROUNDOFF),
        ).trimmed()

    def trimmed(self) -> DistantAtoms:
        """Return the law without losses whose mass is negligible under both hypotheses."""
        heaviest = self.logs + 0.5 * np.abs(self.losses)
        kept = heaviest > NEGLIGIBLE
        if kept.all():
            return self
        size = 1 + float(np.abs(self.logs).max())
        slack = 1 + 8 * UNIT_ROUNDOFF * size + 2 * self.relative
        lost = self.lost + float(np.count_nonzero(~kept)) * math.exp(NEGLIGIBLE) * slack
        return DistantAtoms(self.top, self.step, self.index[kept], self.logs[kept], self.relative, lost)

    def sum_of(self, count: int) -> DistantAtoms | None:
        """Return the law of the sum of `count` independent losses with this law; None with too many losses."""
        try:
            return folded(self.trimmed(), count, DistantAtoms.plus, lambda law, _: law)
        except _TooManyLosses:
            return None
