"""Nodes of the sums behind proved decimal digits, and the error that is raised for too many nodes."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from service.privacy.errors import UnsupportedCombination
from service.privacy.numerics.balls import ball


@dataclass(frozen=True, slots=True)
class ShiftedNodes:
    """Nodes y = (j + offset) step, first <= j <= last, on the line Im y = shift, for one moment.

    `top` is the height of the strip above the real axis that bounds the error. A sum on the real axis has shift 0 and a
    strip of half-width `top` on both sides.
    """

    step: float
    offset: float
    first: int
    last: int
    shift: float
    top: float

    def __len__(self) -> int:
        return self.last - self.first + 1

    def y(self, j: int) -> arb:
        """Return the real part of the node with the index j as a ball (number with an error bound)."""
        return (arb(j) + ball(self.offset)) * ball(self.step)


def out_of_reach(reason: str) -> UnsupportedCombination:
    """Return the error for a run or a number that the ground-truth engine cannot compute, with the `reason`."""
    return UnsupportedCombination(
        "method", "ground_truth for this run", reason, ("auto", "contour", "discretised", "saddlepoint")
    )
