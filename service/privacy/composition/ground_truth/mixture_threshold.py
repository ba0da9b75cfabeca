"""Thresholds of the loss of one step that is a mixture of shifted Gaussians, in ball arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from flint import arb, ctx

from service.privacy.composition.ground_truth.line import Threshold
from service.privacy.composition.ground_truth.mixture_law import ExactMixture
from service.privacy.composition.ground_truth.normal import normal_tail

FARTHEST: Final = 2.0**100
"""Thresholds beyond are not looked for."""
ROUGH_BITS: Final = 128
HALVINGS: Final = 40
NEWTON_STEPS: Final = 12
WIDENINGS: Final = 8

_Function = Callable[[arb], tuple[arb, arb]]
"""y -> a value that increases with y, and its slope."""


@final
@dataclass(frozen=True, slots=True)
class MixtureThresholds:
    """L increases in y, so S > c is y > y(c) (add) or y < y(-c) (remove, where S = -L)."""

    mixture: ExactMixture
    reflected: bool
    bits: int

    def at(self, threshold: arb) -> Threshold:
        """By the normal law; where a shift is 0 in the mixture alone, L > ln of its weight always."""
        with ctx.workprec(self.bits):
            loss = -threshold if self.reflected else threshold
            weights, d = self.mixture.weights(), self.mixture.distances()
            goal = loss
            if not self.mixture.mirrored and d[0].is_zero():
                above = loss.exp() - weights[0]
                if not above > 0:
                    surely = arb(0) if self.reflected else arb(1)
                    return Threshold(surely, surely, 1 - surely, arb(0))
                goal = above.log()
            y = self._place(goal)
            still, moved = ([arb(1)], [arb(0)]) if not self.mixture.mirrored else (weights, [-each for each in d])
            null = [_tail(still, moved, y, side) for side in (1, -1)]
            mixed = [_tail(weights, d, y, side) for side in (1, -1)]
            density = self._density(y, loss)
            found = (
                Threshold(mixed[1], null[1], null[0], density * loss.exp())
                if self.reflected
                else Threshold(null[0], mixed[0], mixed[1], density)
            )
            return found.without(self.mixture.dropped, reflected=self.reflected)

    def _density(self, y: arb, loss: arb) -> arb:
        """About that of L under H0: that of y over the slope of L."""
        weights, d = self.mixture.weights(), self.mixture.distances()
        plain = -y * y / 2
        present = [w * (x * y - x * x / 2 + plain).exp() for w, x in zip(weights, d, strict=True)]
        mixed = sum(present, arb(0))
        slope = sum((share * x for share, x in zip(present, d, strict=True)), arb(0)) / mixed
        if self.mixture.mirrored:
            absent = [w * (-x * y - x * x / 2 + plain).exp() for w, x in zip(weights, d, strict=True)]
            slope += sum((share * x for share, x in zip(absent, d, strict=True)), arb(0)) / sum(absent, arb(0))
        return (mixed * (-loss).exp() / (slope * (2 * arb.pi()).sqrt())).mid()

    def _rising(self) -> _Function:
        """What is equal to the goal at the threshold: L, or ln of the mixture without the shift 0."""
        weights, d = self.mixture.weights(), self.mixture.distances()
        terms = [(w * (-x * x / 2).exp(), x) for w, x in zip(weights, d, strict=True)]

        def log_sum(y: arb, kept: list[tuple[arb, arb]]) -> tuple[arb, arb]:
            shares = [(term * (x * y).exp(), x) for term, x in kept]
            total = sum((share for share, _ in shares), arb(0))
            return total.log(), sum((share * x for share, x in shares), arb(0)) / total

        if self.mixture.mirrored:

            def loss(y: arb) -> tuple[arb, arb]:
                (here, slope), (there, other) = log_sum(y, terms), log_sum(-y, terms)
                return here - there, slope + other

            return loss
        kept = terms[1:] if d[0].is_zero() else terms
        return lambda y: log_sum(y, kept)

    def _place(self, goal: arb) -> arb:
        """The y at which it is reached, proved from both sides; not a number where none is found."""
        with ctx.workprec(ROUGH_BITS):
            y = _halved(self._rising(), goal)
        value_at = self._rising()
        for _ in range(NEWTON_STEPS):
            value, slope = value_at(y)
            step = ((goal - value) / slope).mid()
            if not step.is_finite():
                return arb.nan()
            y = (y + step).mid()
            if abs(step) <= (abs(y) + 1) * arb(2) ** (-self.bits // 2):
                break
        value, slope = value_at(y)
        reach = ((abs(value - goal).upper() / slope).mid() + (abs(y) + 1) * arb(2) ** (4 - self.bits)).mid()
        for _ in range(WIDENINGS):
            reach *= 4
            left, right = (y - reach).mid(), (y + reach).mid()
            if value_at(left)[0] <= goal and value_at(right)[0] >= goal:
                return left.union(right)
        return arb.nan()


def _halved(value_at: _Function, goal: arb) -> arb:
    """About the place; nothing rests on it."""
    low, high = arb(-1), arb(1)
    while not value_at(low)[0] < goal and low > -FARTHEST:
        low *= 2
    while not value_at(high)[0] > goal and high < FARTHEST:
        high *= 2
    for _ in range(HALVINGS):
        middle = ((low + high) / 2).mid()
        low, high = (middle, high) if value_at(middle)[0] < goal else (low, middle)
    return ((low + high) / 2).mid()


def _tail(weights: list[arb], centers: list[arb], y: arb, side: int) -> arb:
    """The mass of a mixture of normal laws above y (side 1), or below."""
    return sum((w * normal_tail(side * (y - x)) for w, x in zip(weights, centers, strict=True)), arb(0))
