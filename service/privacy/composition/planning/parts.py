"""Runs that the contour engine serves, and other properties of runs that decide on an engine.

A step of two losses has the privacy loss +epsilon or -epsilon. A part is the description of a step for the contour
engine.
"""

from __future__ import annotations

import math
from typing import Final

from service.privacy.composition.exact_sums.laplace_reach import can_sum, log_atoms
from service.privacy.mechanisms.abstract import AbstractStep, Part, Steps
from service.privacy.mechanisms.laplace import Laplace
from service.privacy.trade_off.atomic_law import AtomicLaw

LARGEST_LAPLACE: Final = 20.0
"""Loss (nats) of a Laplace step above which the step reveals nearly everything, and contours cost seconds."""
LARGEST_DEVIATION: Final = 1_000.0
"""Approximate standard deviation of the loss of a run with Laplace steps above which contours lose their digits."""
MOST_LAPLACE: Final = 64
"""Maximal number of different Laplace steps; each has its own nodes and majorants on every contour."""
FROZEN: Final = 80.0
"""Nats. Without other steps, the part of the transform of Laplace steps that does not fall must be below e^-FROZEN."""
MOST_SHIFTS: Final = (10_000, 300)
"""Maximal number of losses of all steps of two losses, beside a single step and beside a sum of Laplace steps.

Every number needs twice as many numbers of the other steps' curve.
"""

Counted = tuple[Part, int]


def contour_parts(steps: Steps) -> tuple[Counted, ...] | None:
    """Return the pairs (part, count) of a run for the contour engine; None where it cannot serve, or would be wide.

    A Gaussian step, sampled or not, makes the transform of any run's loss fall along the contour. So do many Laplace
    steps, whose atoms together have negligible mass. Steps of two losses never do.
    """
    found = tuple((step.part(), count) for step, count in steps)
    known = tuple((part, count) for part, count in found if part is not None)
    laplace = [(*part.laplace, count) for part, count in known if part.laplace is not None]
    if len(known) < len(found) or len(laplace) > MOST_LAPLACE:
        return None
    if any(loss > LARGEST_LAPLACE for loss, _, _ in laplace):
        return None
    variance = math.fsum(count * (loss * rate) ** 2 for loss, rate, count in laplace)
    if variance > LARGEST_DEVIATION**2:
        return None
    if not any(part.decays for part, _ in known):
        frozen = math.fsum(count * log_atoms(loss, rate) for loss, rate, count in laplace)
        return known if frozen <= -FROZEN else None
    return known


def listed_laws(steps: Steps) -> list[AtomicLaw]:
    """Return the laws of those losses of a run that have lists of values. `steps` has mechanisms with their counts."""
    return [law for step, _ in steps if (part := step.part()) is not None and (law := part.listed_law) is not None]


def shifts_beside(steps: Steps) -> tuple[tuple[AbstractStep, int], int] | None:
    """Return ((step, count), losses) for a run of one kind of step and of steps with the losses +-epsilon, or None.

    The curve of the step or of `count` such steps has a closed form. `losses` is the number of sums of the +-epsilon.
    The result is None if there are several kinds of steps with other losses, or too many sums.
    """
    others: list[tuple[AbstractStep, int]] = []
    losses = 1
    for step, count in steps:
        part = step.two_point()
        if part is None:
            others.append((step, count))
        elif part.epsilon > 0:
            losses *= count + 1
    if len(others) != 1:
        return None
    ((step, count),) = others
    if count > 1 and loss_of_sum(step, count) is None:
        return None
    return ((step, count), losses) if losses <= MOST_SHIFTS[count > 1] else None


def loss_of_sum(step: AbstractStep, count: int) -> float | None:
    """Return the largest loss (nats) of a Laplace step if `count` such steps have exact sums; None otherwise."""
    return step.largest_loss if isinstance(step, Laplace) and can_sum(count, step.largest_loss) else None


def several_exponentials(steps: Steps) -> bool:
    """Return whether the shift of an exponential step can depend on the outcome of another exponential step.

    The shift is the position of the loss interval, which an adversary chooses. The worst case of each step alone, the
    pair of `bounded_range.py`, then dominates the run but is not attained. A single exponential step may come last, and
    attains its pair.
    """
    return sum(count for epsilon, count in exponentials(steps) if epsilon > 0) > 1


def exponentials(steps: Steps) -> list[tuple[float, int]]:
    """Return the parameters of the exponential steps among the steps of a run.

    Parameters
    ----------
    steps : Steps
        Steps with their counts.

    Returns
    -------
    list of (float, int)
        Epsilon and count of each kind of exponential step.
    """
    return [(known, count) for step, count in steps if (known := step.adaptive_range) is not None]
