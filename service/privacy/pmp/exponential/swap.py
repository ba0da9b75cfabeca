"""Certified upper bound of the PMP parameter of the exponential mechanism in polynomial time, by exchanging points.

Replacing x by b changes ln p(w|D) by theta_wb - theta_wx - ln E exp(theta_vb - theta_vx) for some law of v. The change
is at least minus s(x, b) = max over v of (theta_wx - theta_vx) - (theta_wb - theta_vb). A subset with x has n partners
b outside it, and each subset without x results from n subsets with x. So P(w | x not in D) is at least P(w | x in D)
times the smallest mean of e^-s(x, b) over n points b, the n points with the largest s. The other direction uses s(b,
x). PMP is practical membership privacy: the attacker does not know which records were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.pmp.exponential.population import Population

LARGEST_BLOCK = 2**18
"""Largest size of a block of the matrix of an object's exchanges."""


@final
@dataclass(frozen=True, slots=True)
class SwapBounds:
    """Upper bounds of log ratios by swapped points, in nats, shape (objects, points), including rounding.

    p(w|D) is the probability that the mechanism draws the object w from the data D, and P(w | x in D) the probability
    given that D contains the point x.

    Attributes
    ----------
    with_point, without : array
        Bounds of ln(P(w | x in D)/P(w | x not in D)) and of its negative.
    gain, loss : array
        Bounds of ln p(w|D)/p(w|D') and of its negative, for any D with x and D' with another point in place of x.
    """

    with_point: FloatArray
    without: FloatArray
    gain: FloatArray
    loss: FloatArray

    @property
    def either(self) -> FloatArray:
        """Upper bounds (nats) of |ln(P(w | x in D)/P(w | x not in D))|, shape (objects, points).

        P(w | x in D) is the probability that the mechanism draws the object w, given that the data D contain the point
        x.
        """
        return np.maximum(self.with_point, self.without)

    @property
    def largest_swap(self) -> float:
        """Bound of |ln p(w|D)/p(w|D')| over all objects w and all adjacent subsets D, D'.

        p(w|D) is the probability that the mechanism draws w from the data D. Adjacent subsets of the population differ
        in one point.
        """
        return float(self.gain.max())


def swap_bounds(population: Population) -> SwapBounds:
    """Compute the swap bounds of all objects and points of a population.

    They are upper bounds in nats, shape (objects, points). The cost is about m^2 N^2 + m N^2 log N for m objects
    and N points. The memory is m N numbers and some megabytes.
    """
    logits = population.changes
    objects, points = logits.shape
    found = SwapBounds(*np.zeros((4, objects, points)))
    rows = max(1, LARGEST_BLOCK // points)
    for chosen in range(objects):
        differences = logits[chosen] - logits
        for start in range(0, points, rows):
            block = slice(start, start + rows)
            gains, losses = _swaps(differences, block)
            found.with_point[chosen, block] = _negative_log_mean(gains, population.half)
            found.without[chosen, block] = _negative_log_mean(losses, population.half)
            found.gain[chosen, block], found.loss[chosen, block] = gains.max(axis=1), losses.max(axis=1)
    # The exchange has two differences of two logits. The mean has a relative error of at most 64 u for any size.
    slack = 4 * population.change_error + 64 * UNIT_ROUNDOFF
    if not population.is_constant:
        for bound in (found.with_point, found.without, found.gain, found.loss):
            np.add(bound, slack, out=bound)
    return found


def _swaps(differences: FloatArray, block: slice) -> tuple[FloatArray, FloatArray]:
    """Return the swap bounds s(x, b) and s(b, x) of one object w, for points x of `block` and all points b.

    `differences`, shape (objects, points), are the logits of w less those of each object. Both results have the shape
    (block, points). p(w|D) is the probability that the mechanism draws w from the data D. s(x, b) bounds the decrease
    of ln p(w|D) if x is replaced by b. It is minus infinity for b = x, which is no partner.
    """
    points = differences.shape[1]
    places = range(block.start, min(block.stop, points))
    gains, losses = np.empty((len(places), points)), np.empty((len(places), points))
    for row, place in enumerate(places):
        changes = differences[:, place, None] - differences
        changes.max(axis=0, out=gains[row])
        np.negative(changes.min(axis=0), out=losses[row])
        gains[row, place] = losses[row, place] = -np.inf
    return gains, losses


def _negative_log_mean(swaps: FloatArray, count: int) -> FloatArray:
    largest = np.partition(swaps, swaps.shape[1] - count, axis=1)[:, -count:]
    smallest = largest.min(axis=1, keepdims=True)
    return smallest[:, 0] - np.log(np.exp(smallest - largest).mean(axis=1))
