"""The exponential mechanism on one population: losses of points, logits of objects, and what their rounding can move.

The parent set X has N = 2n points, the data D is a uniform n-subset of it. Object w is drawn with probability
p(w|D) proportional to exp(sum over D of theta_wi), theta_wi = -epsilon loss_wi/(2 Delta), divided by n for the mean.

What is the same for an object at all points cancels in ratios of its own probabilities: it only weighs the object in
the normaliser. An object that is hardly ever drawn may be drawn a little more often, with no change but that of the
normaliser; its logits are small numbers then, and keep their digits however far from the points it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.exponential.losses import Losses

LARGEST_LINEAR_SPREAD = 600.0
"""Up to this spread of the logits of a subset no product of two exponentials underflows."""
NEVER = 80.0
"""Nats: objects whose weight is e^-this of another's are hardly ever drawn."""
LARGEST_SAMPLED_RANGE = 200.0
"""Up to this range of the logits of a point no ratio of two subsets that differ in a point overflows."""


def subsets_of(patterns: NDArray[np.int64], points: int) -> NDArray[np.bool_]:
    """Which of the points each bit pattern names: patterns x points."""
    return patterns[:, None] & (np.int64(1) << np.arange(points, dtype=np.int64)) != 0


@final
@dataclass(frozen=True)
class Population:
    """Logits theta (objects x 2n points), those of the nearest object taken off each point, which cancels in p(w|D).

    `changes`: theta_wi less theta_wr for one point r, the same for all objects. `sum_error` bounds the error of every
    sum of n logits, rounding of the sum included; `change_error` that of a change, and of what adding four of them
    rounds.
    """

    changes: FloatArray
    logits: FloatArray
    sum_error: float
    change_error: float

    @staticmethod
    def of(losses: Losses, scale: float) -> Population:
        """theta = -scale loss; `scale` = epsilon/(2 Delta), for the mean loss epsilon/(2 Delta n), is within 1e-15."""
        changes = scale * losses.differences
        offsets = -scale * losses.offsets[:, None]
        half = changes.shape[1] // 2
        # The nearest object has the logit 0, any other at most this beside its offsets: what is further off than they
        # can make up for by so much has no more than e^-NEVER of the weight.
        furthest = -(_sum_of_largest(np.ptp(changes, axis=0), half) + NEVER) / half
        seen = offsets[:, 0] > furthest
        offsets = np.maximum(offsets, furthest)
        largest = _sum_of_largest(np.abs(changes).max(axis=0), half) + half * float(np.abs(offsets).max())
        sum_error = scale * (_sum_of_largest(losses.errors, half) + half * float(losses.offset_errors[seen].max()))
        sum_error += float((~seen).sum()) * math.exp(-NEVER) * 1.01
        change_error = scale * float(losses.errors.max()) + 24 * UNIT_ROUNDOFF * float(np.abs(changes).max())
        return Population(changes, changes + offsets, (half + 24) * UNIT_ROUNDOFF * largest + sum_error, change_error)

    @property
    def object_count(self) -> int:
        """m, the number of objects."""
        return self.logits.shape[0]

    @property
    def half(self) -> int:
        """n, the size of the data: half of the points."""
        return self.logits.shape[1] // 2

    @property
    def ratio_error(self) -> float:
        """What `sum_error` moves ln(P(w | x in D)/P(w | x not in D)) by at most: numerators and normalisers of both."""
        return 4 * self.sum_error

    @property
    def tells_nothing(self) -> bool:
        """Whether every subset surely gives the same law: losses of objects differ by the same at all points, or
        epsilon is 0.
        """
        return self.change_error == 0 and not self.changes.any()

    @property
    def point_range(self) -> float:
        """The largest max - min over the objects of the logits of one point."""
        return float(np.ptp(self.logits, axis=0).max())

    @cached_property
    def spread(self) -> float:
        """At least max - min over the objects of the logit of any n-subset."""
        return _sum_of_largest(np.ptp(self.logits, axis=0), self.half)


def _sum_of_largest(values: FloatArray, count: int) -> float:
    return float(np.sort(values)[-count:].sum())
