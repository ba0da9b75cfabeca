"""Which runs the contour engine serves."""

from __future__ import annotations

import math
from typing import Final

from service.privacy.composition.laplace_reach import log_atoms
from service.privacy.mechanisms.abstract import LaplacePart, Part, Steps
from service.privacy.mechanisms.exponential import Exponential

LARGEST_LAPLACE: Final = 1.6
"""Losses (nats) of Laplace steps above which the law between their atoms is too steep for one quadrature rule."""
LARGEST_DEVIATION: Final = 20.0
"""About the standard deviation of the loss of a run with Laplace steps from which lines lose their digits."""
MOST_LAPLACE: Final = 8
"""Different Laplace steps: each has nodes and majorants of its own on every line."""
FROZEN: Final = 80.0
"""Nats: what Laplace steps alone leave of a transform that does not fall must be smaller than e^-this."""

Counted = tuple[Part, int]


def contour_parts(steps: Steps, sensitivity: float) -> tuple[Counted, ...] | None:
    """What the steps add to a composition that the contour engine reads; None where it cannot, or would be wide."""
    found = tuple((step.part(sensitivity), count) for step, count in steps)
    known = tuple((part, count) for part, count in found if part is not None)
    laplace = [(part, count) for part, count in known if isinstance(part, LaplacePart)]
    if len(known) < len(found) or len(laplace) > MOST_LAPLACE:
        return None
    if any(part.loss > LARGEST_LAPLACE for part, _ in laplace):
        return None
    variance = math.fsum(count * (part.loss * part.sample_rate) ** 2 for part, count in laplace)
    if variance > LARGEST_DEVIATION**2:
        return None
    if len(laplace) == len(known):
        frozen = math.fsum(count * log_atoms(part.loss, part.sample_rate) for part, count in laplace)
        return known if frozen <= -FROZEN else None
    return known


def several_exponentials(steps: Steps) -> bool:
    """Whether the shift of an exponential step can depend on the outcome of another: its worst case alone, the pair of
    `bounded_range.py`, then dominates the run but is not attained. One exponential step may come last, and attains it.
    """
    return sum(count for step, count in steps if isinstance(step, Exponential) and step.epsilon > 0) > 1
