"""Approximate shape of the privacy loss of a run. It decides the choice between engines, and estimates of their cost.

A *jump* is the large loss of a step that samples the record, where few steps do.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from service.privacy.composition.planning.parts import Counted
from service.privacy.mechanisms.abstract import (
    GaussianMixturePart,
    TwoPointPart,
)

DIRECT_NOISE: Final = 0.5
"""Noise multiplier of a sampled step below which the contour of two steps is long, and often wide."""
SMOOTH_NOISE: Final = 1.25
"""Noise over the shift from which contours of two mixtures are short and narrow, where both hypotheses are mixtures.

No loss then has a limit beside which its law is dense.
"""
LARGEST_LOSS: Final = 30.0
"""Approximate deviation of the loss of a run from which the run reveals everything."""
MOST_JUMPS, LEAST_JUMPS = 5.0, 1e-7
"""Largest expected number of jumps of a run that are rare, and smallest number that counts."""
FEW_STEPS: Final = 30
"""Number of sampled steps, or of steps of two losses, up to which their loss has several modes."""
LEAST_FEW: Final = 1e-2
"""Standard deviation of the loss from which these modes matter."""
LARGEST_RATE: Final = 0.25
"""Largest rate of a step whose jumps are rare."""
SMOOTH: Final = 1.0
"""mu of Gaussian steps from which no other step has visible jumps."""
LEAST_LAPLACE: Final = 0.05
"""Loss of a sampled Laplace step below which its transform has many nodes."""
WIDE_JUMP: Final = 6.0
"""Ratio of a jump to the deviation of the rest from which modes are separate and contours as long as the ratio."""
FARTHEST: Final = 6.0
"""Deviations of the noise up to which jumps are considered."""
LONG_RUN: Final = 10_000
"""Number of steps from which sampled Laplace steps have no separate modes."""

Shape = Literal["smooth", "jumps", "everything"]
"""Kinds of a loss: one mode; rare large jumps; far beyond any threshold of practical interest."""


def is_direct(parts: tuple[Counted, ...]) -> bool:
    """Return whether the closed form of a run of two steps should be evaluated before an inversion contour is tried.

    It should be if the noise is below half of the distance of neighbouring shifts, or for mixtures whose loss has rare
    large values. A contour would be long then, and its enclosures often wide. `parts` are the kinds of steps with their
    counts.
    """
    if any(part.noise_between_shifts < DIRECT_NOISE for part, _ in parts):
        return True
    mixtures = [part for part, _ in parts if isinstance(part, GaussianMixturePart)]
    narrow = all(part.mirrored and part.noise_multiplier >= _smooth_noise(part) * part.shifts[-1] for part in mixtures)
    return bool(mixtures) and not narrow and shape_of(parts)[0] != "smooth"


def has_distant_shifts(parts: tuple[Counted, ...]) -> bool:
    """Return whether a run has at most 30 steps that are mixtures, some with shifts far apart.

    Far apart means more than two standard deviations of the noise. The inversion contour of such a run has many nodes,
    and cannot be deformed. `parts` are the kinds of steps with their counts.
    """
    mixtures = [(part, count) for part, count in parts if part.mixture_terms > 0]
    distant = any(part.noise_between_shifts < DIRECT_NOISE for part, _ in mixtures)
    return distant and sum(count for _, count in mixtures) <= FEW_STEPS


def shape_of(parts: tuple[Counted, ...]) -> tuple[Shape, float]:
    """Return the approximate shape of the loss of a run, and the expected number of steps that use a record.

    Parameters
    ----------
    parts : tuple
        Descriptions of the kinds of steps, with the number of steps of each kind.

    Returns
    -------
    (Shape, float)
        Shape of the loss, and the expected number of steps in whose sample a record is. A shape "everything" has a loss
        so large that the output reveals the record. A shape "jumps" has rare large losses of a step that matter
        compared with the loss of all other steps. All other losses are "smooth".
    """
    gaussian = math.sqrt(
        min(math.fsum(count * mu.upper**2 for part, count in parts if (mu := part.gaussian_shift) is not None), 1e300)
    )
    jumping = [(*part.jump, count) for part, count in parts if part.jump is not None]
    stated = [(part.epsilon, count) for part, count in parts if isinstance(part, TwoPointPart)]
    hits = math.fsum(rate * count for _, rate, count in jumping)
    sampled = math.hypot(*(math.sqrt(count) * rate / noise for noise, rate, count in jumping))
    if math.hypot(gaussian, sampled, *(math.sqrt(count) * epsilon for epsilon, count in stated)) > LARGEST_LOSS:
        return "everything", hits
    smooth = math.hypot(gaussian, sampled)
    jumps = [_farthest(noise, rate) for noise, rate, count in jumping if rate < LARGEST_RATE and _rare(rate * count)]
    jumps += [epsilon for epsilon, count in stated if count <= FEW_STEPS]
    steps = sum(count for _, count in parts)
    laplace = [part.laplace for part, _ in parts if part.laplace is not None]
    long = steps < LONG_RUN and any(rate < 1 and loss < LEAST_LAPLACE for loss, rate in laplace)
    few = 0 < sum(count for _, rate, count in jumping if rate < 1) <= FEW_STEPS and sampled >= LEAST_FEW
    if gaussian < SMOOTH and (max(jumps, default=0.0) > WIDE_JUMP * smooth or long or few):
        return "jumps", hits
    return "smooth", hits


def _smooth_noise(part: GaussianMixturePart) -> float:
    """Return the least ratio of noise to shift at which contours give narrow enclosures for a mixture of Gaussians.

    Noise and shift are in one unit, and `part` describes the mixture. The ratio is in general the one that mirrored
    mixtures need. Mixtures with one rare shift need less noise, because deformed contours serve them.
    """
    return DIRECT_NOISE if len(part.shifts) == 2 and part.weights[1] < LARGEST_RATE else SMOOTH_NOISE


def _rare(jumps: float) -> bool:
    return LEAST_JUMPS < jumps < MOST_JUMPS


def _farthest(noise: float, rate: float) -> float:
    loss = min((FARTHEST + 0.5 / noise) / noise, 700.0)
    return math.log1p(rate * math.expm1(loss))
