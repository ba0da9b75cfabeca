"""Tests of the loss L of one step that is a mixture of shifted Gaussians, in ball arithmetic."""

from __future__ import annotations

import math
from typing import Final, final

from flint import arb, ctx

from service.privacy.composition.ground_truth.contour import Threshold
from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.numerics.roots import bisected

FARTHEST: Final = 2.0**100
"""Largest threshold of a search."""
ROUGH_BITS: Final = 128
HALVINGS: Final = 40
NEWTON_STEPS: Final = 12
WIDENINGS: Final = 8
_SQRT_2PI: Final = math.sqrt(2 * math.pi)


@final
class MixtureThresholds:
    """Source of the tests S > c of one step that is a mixture of shifted Gaussians, for exact thresholds c.

    The loss L increases in the outcome y. In the add direction S = L, and S > c is y > y(c) with the root y(c) of L(y)
    = c. In the remove direction S = -L, and S > c is y < y(-c).
    """

    def __init__(self, mixture: ExactMixture, reflected: bool, bits: int) -> None:
        self._mirrored, self._reflected, self.bits, self._dropped = (
            mixture.mirrored,
            reflected,
            bits,
            mixture.moved_mass,
        )
        self._silent = not mixture.mirrored and mixture.shifts[0] == 0
        with ctx.workprec(bits):
            present = list(zip(mixture.weights(), mixture.distances(), strict=True))
            self._absent = [(w, -x) for w, x in present] if mixture.mirrored else [(arb(1), arb(0))]
            self._unshifted, self._present = present[0][0], present[self._silent :]
            self._shifted = sum((w for w, _ in self._present), arb(0))
            self._terms = [(w * (-x * x / 2).exp(), x) for w, x in self._present]

    def at(self, threshold: arb) -> Threshold:
        """Return the test S > c at the threshold c (nats), from normal tail probabilities.

        S is the loss L, or -L for remove. If only the mixture has a shift 0, L always exceeds ln of the weight of this
        shift.
        """
        with ctx.workprec(self.bits):
            goal = loss = -threshold if self._reflected else threshold
            if self._silent:
                above = loss.expm1() + self._shifted
                if not above > 0:
                    surely = arb(0) if self._reflected else arb(1)
                    return Threshold(surely, surely, 1 - surely, arb(0))
                goal = above.log()
            y = self._root(goal)
            null = [_tail(self._absent, y, side) for side in (1, -1)]
            mixed = [_tail(self._present, y, side) for side in (1, -1)]
            if self._silent:
                mixed = [tail + self._unshifted * plain for tail, plain in zip(mixed, null, strict=True)]
            slope = self._rising(y.mid())[1] * (goal - loss).exp()
            density = sum((w * (-(y - x) * (y - x) / 2).exp() for w, x in self._absent), arb(0)) / slope / _SQRT_2PI
            found = (
                Threshold(mixed[1], null[1], null[0], (density * loss.exp()).mid())
                if self._reflected
                else Threshold(null[0], mixed[0], mixed[1], density.mid())
            )
            return found.without(self._dropped, reflected=self._reflected)

    def _rising(self, y: arb) -> tuple[arb, arb]:
        """Return value (nats) and slope, at the outcome y, of the increasing function whose root is sought.

        The function is the loss L, or ln of the mixture's density ratio without shift 0 if it has this shift.
        """
        value, slope = self._log_sum(y)
        if not self._mirrored:
            return value, slope
        there, other = self._log_sum(-y)
        return value - there, slope + other

    def _log_sum(self, y: arb) -> tuple[arb, arb]:
        shares = [(term * (x * y).exp(), x) for term, x in self._terms]
        total = sum((share for share, _ in shares), arb(0))
        return total.log(), sum((share * x for share, x in shares), arb(0)) / total

    def _root(self, goal: arb) -> arb:
        """Return a ball with the outcome y at which the loss reaches `goal` (nats), proved from both sides.

        A ball is a number with an error bound. If the mixture has a shift 0, ln of the density ratio without this shift
        replaces the loss. The result is NaN if no y is found.
        """
        if len(self._terms) == 1 and not self._mirrored:
            ((term, x),) = self._terms
            return (goal - term.log()) / x
        with ctx.workprec(ROUGH_BITS):
            y = self._rough_place(goal)
        for _ in range(NEWTON_STEPS):
            value, slope = self._rising(y)
            step = ((goal - value) / slope).mid()
            if not step.is_finite():
                return arb.nan()
            y = (y + step).mid()
            if abs(step) <= (abs(y) + 1) * arb(2) ** (-self.bits // 2):
                break
        value, slope = self._rising(y)
        margin = ((abs(value - goal).upper() / slope).mid() + (abs(y) + 1) * arb(2) ** (4 - self.bits)).mid()
        for _ in range(WIDENINGS):
            margin *= 4
            left, right = (y - margin).mid(), (y + margin).mid()
            if self._rising(left)[0] <= goal and self._rising(right)[0] >= goal:
                return left.union(right)
        return arb.nan()

    def _rough_place(self, goal: arb) -> arb:
        """Return an approximate outcome y at which the loss reaches `goal` (nats); no result relies on it."""
        low, high = -1.0, 1.0
        while not self._rising(arb(low))[0] < goal and low > -FARTHEST:
            low *= 2
        while not self._rising(arb(high))[0] > goal and high < FARTHEST:
            high *= 2
        low, high = bisected(lambda y: not self._rising(arb(y))[0] < goal, low, high, HALVINGS)
        return arb(0.5 * (low + high))


def normal_tail(x: arb) -> arb:
    """Return P(N(0, 1) > x), between its values at the endpoints of the ball.

    The endpoints are exact numbers. For a ball far from 0, the error bound of the library is relative to 1, not to the
    tail.
    """
    scaled = x / arb(2).sqrt()
    return scaled.lower().erfc().union(scaled.upper().erfc()) / 2


def _tail(parts: list[tuple[arb, arb]], y: arb, side: int) -> arb:
    """Return the mass above y (`side` 1) or below y (-1) of a mixture of normal laws.

    `parts` has (weight, center) of each law, as balls.
    """
    return sum((w * normal_tail(side * (y - x)) for w, x in parts), arb(0))
