"""The exponential mechanism on one population: losses of points, logits of objects, and what their rounding can move.

The parent set X has N = 2n points, the data D is a uniform n-subset of it. Object w is drawn with probability
p(w|D) proportional to exp(sum over D of theta_wi), theta_wi = -epsilon loss_wi/(2 Delta), divided by n for the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from service.privacy.enclosure import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

LARGEST_LINEAR_SPREAD = 600.0
"""Up to this spread of the logits of a subset no product of two exponentials underflows."""
LARGEST_SAMPLED_RANGE = 200.0
"""Up to this range of the logits of a point no ratio of two subsets that differ in a point overflows."""


@final
@dataclass(frozen=True)
class Losses:
    """Losses (objects x points), and for each point a bound on the absolute rounding error of its losses."""

    values: FloatArray
    errors: FloatArray

    @staticmethod
    def given(values: FloatArray) -> Losses:
        """Losses that are known exactly."""
        return Losses(values, np.zeros_like(values[0]))

    @staticmethod
    def euclidean(points: FloatArray, objects: FloatArray, clip_radius: float) -> Losses:
        """|w - x| for points (N x d) clipped to norm `clip_radius`, and objects (m x d)."""
        norms = norms_of(points)
        scales = np.minimum(1.0, clip_radius / np.maximum(norms, clip_radius))
        clipped = points * scales[:, None]
        values = np.stack([norms_of(clipped - chosen) for chosen in objects])
        # A norm of d coordinates is within (d/2 + 4) u of its value, a clipped point within (d/2 + 8) u of its norm.
        error = (2 * points.shape[1] + 24) * UNIT_ROUNDOFF
        sizes: FloatArray = values.max(axis=0) + norms * scales
        if (objects == objects[0]).all():
            sizes = np.zeros_like(norms)  # whatever the losses are, they are the same
        return Losses(values, error * sizes)

    @property
    def widest_range(self) -> float:
        """max over objects of (max - min over points): the sensitivity of the sum loss on the population."""
        return float(np.ptp(self.values, axis=1).max())


def subsets_of(patterns: NDArray[np.int64], points: int) -> NDArray[np.bool_]:
    """Which of the points each bit pattern names: patterns x points."""
    return patterns[:, None] & (np.int64(1) << np.arange(points, dtype=np.int64)) != 0


def norms_of(vectors: FloatArray) -> FloatArray:
    """Euclidean norms along the last axis, without overflow or underflow."""
    largest = np.abs(vectors).max(axis=-1)
    scale = np.where(largest > 0, largest, 1.0)
    return scale * np.sqrt(((vectors / scale[..., None]) ** 2).sum(axis=-1))


def ball_sensitivity(objects: FloatArray, clip_radius: float) -> float:
    """sup over x, x' of norm at most C of |w - x| - |w - x'|, largest over the objects: C + max min(C, |w|).

    Of the sum loss; that of the mean loss is an n-th of it. Lowy et al. 2023, Definition 7, for the Euclidean loss.
    """
    return clip_radius + min(clip_radius, float(norms_of(objects).max()))


def largest_distance(objects: FloatArray) -> float:
    """The largest distance of two objects (m x d): no replaced record moves the difference of two objects' Euclidean
    losses by more than twice it, so epsilon/Delta times it bounds the differential privacy of the sum loss.
    """
    return max(float(norms_of(objects - chosen).max()) for chosen in objects)


@final
@dataclass(frozen=True)
class Population:
    """Logits theta (objects x 2n points), those of the first object taken off each point, which cancels in p(w|D).

    `sum_error` bounds the error of every sum of n of them, rounding of the sum included.
    """

    logits: FloatArray
    sum_error: float

    @staticmethod
    def of(losses: Losses, scale: float) -> Population:
        """theta = -scale loss; `scale` = epsilon/(2 Delta), for the mean loss epsilon/(2 Delta n), is within 1e-15."""
        values = losses.values
        logits = scale * (values[0] - values)
        half = values.shape[1] // 2
        largest = _sum_of_largest(np.abs(logits).max(axis=0), half)
        rounding = (half + 24) * UNIT_ROUNDOFF * largest
        return Population(logits, rounding + 2 * scale * _sum_of_largest(losses.errors, half))

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
        """Whether every subset surely gives the same law: all objects have the same losses, or epsilon is 0."""
        return self.sum_error == 0 and not self.logits.any()

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
