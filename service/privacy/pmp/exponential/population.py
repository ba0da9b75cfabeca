"""Exponential mechanism on one population: logits of objects at points, and their rounding errors.

The parent set X has N = 2n points, and the data D is a uniform n-subset. Object w is drawn with probability p(w|D)
proportional to exp(sum over D of theta_wi), with theta_wi = -epsilon loss_wi/(2 Delta), divided by n for the mean.

The part of an object's losses that is equal at all points cancels in ratios of the object's own probabilities. It only
weights the object in the normaliser. An object that is hardly ever drawn may get a slightly larger weight, which
changes only the normaliser. Its logits are then small numbers, and keep their relative accuracy at any distance from
the points.
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
"""Largest spread of the logits of a subset at which no product of two exponentials underflows."""
NEVER = 80.0
"""Nats: an object with e^-NEVER of the weight of another object is hardly ever drawn."""
LARGEST_SAMPLED_RANGE = 200.0
"""Largest range of the logits of a point at which no ratio of two adjacent subsets overflows."""


def subsets_of(patterns: NDArray[np.int64], points: int) -> NDArray[np.bool_]:
    """Return the subset of `points` points that each bit pattern describes, as a mask of shape (patterns, points)."""
    return patterns[:, None] & (np.int64(1) << np.arange(points, dtype=np.int64)) != 0


def log_sum(logarithms: FloatArray, axis: int) -> FloatArray:
    """Return the logarithm of the sum of e^x over the numbers x in `logarithms` along an axis, which is removed.

    Parameters
    ----------
    logarithms : array
        Numbers x.
    axis : int
        Axis of the sum.

    Returns
    -------
    array
        Logarithms of the sums.
    """
    largest = logarithms.max(axis=axis, keepdims=True)
    return np.log(np.exp(logarithms - largest).sum(axis=axis)) + largest.squeeze(axis)


@final
@dataclass(frozen=True)
class Population:
    """Logits theta_wi of the objects w at the 2n points i of a parent set, for the exponential mechanism.

    The mechanism draws w from the data D with the probability p(w|D), proportional to the exponential of the sum of
    theta_wi over the points i of D. One object, with the smallest loss at a reference point r, has theta = 0 at every
    point: its logits are subtracted from those of all objects, and cancel in p(w|D). The parent set is the population
    from which the data are drawn.

    Attributes
    ----------
    changes : array, shape (objects, 2n)
        theta_wi less theta_wr for the reference point r, the same for all w and i.
    logits : array, shape (objects, 2n)
        theta_wi.
    sum_error : float
        Absolute error bound of every sum of n logits, including the rounding of the sum.
    change_error : float
        Absolute error bound of a change, including the rounding of a sum of four changes.
    """

    changes: FloatArray
    logits: FloatArray
    sum_error: float
    change_error: float

    @staticmethod
    def of(losses: Losses, scale: float) -> Population:
        """Build the logits theta = -`scale` loss of the exponential mechanism.

        `scale` is epsilon/(2 Delta) for the sum of losses and epsilon/(2 Delta n) for their mean over n points, within
        1e-15. Delta is the sensitivity.
        """
        changes = scale * losses.differences
        offsets = -scale * losses.offsets[:, None]
        half = changes.shape[1] // 2
        # The nearest object has the logit 0. The changes of a subset add at most the first sum to another object's
        # logit. An object with a lower offset than `furthest` has at most e^-NEVER of the nearest object's weight.
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
        """Number m of objects among which the mechanism draws."""
        return self.logits.shape[0]

    @property
    def half(self) -> int:
        """Size n of the data, half of the number of points."""
        return self.logits.shape[1] // 2

    @property
    def ratio_error(self) -> float:
        """Absolute error bound of ln(P(w | x in D)/P(w | x not in D)).

        P is the probability to draw the object w from data D with or without x. The error is that of four sums of
        logits, each within `sum_error`.
        """
        return 4 * self.sum_error

    @property
    def is_constant(self) -> bool:
        """Whether every subset is proved to give the same law of the drawn object.

        This is so if the losses of objects differ equally at all points, or if epsilon is 0.
        """
        return self.change_error == 0 and not self.changes.any()

    @property
    def point_range(self) -> float:
        """Largest difference between the logits of two objects at one point."""
        return float(np.ptp(self.logits, axis=0).max())

    @cached_property
    def spread(self) -> float:
        """Upper bound of the difference between the logits of two objects for any subset of n points.

        A logit is minus the scaled loss of an object, without a unit.
        """
        return _sum_of_largest(np.ptp(self.logits, axis=0), self.half)


def _sum_of_largest(values: FloatArray, count: int) -> float:
    return float(np.sort(values)[-count:].sum())
