"""Losses of objects at points, as the differences on which the mechanism depends.

The laws p(w|D) depend only on l_wi - l_0i, where 0 is the object nearest to a point r of the population. A part of a
point's losses that is equal for all objects cancels. With the point r:

    l_wi - l_0i = offset_w - difference_wi;
    offset_w = l_wr - l_0r;  difference_wi = (l_0i - l_0r) - (l_wi - l_wr).

Every D has n points, so the non-negative offsets only weight the objects. The effect of exchanging points depends on
the differences alone. They are as small as the points are close, even for distant objects. Each part is computed from
accurate terms, never as the difference of two losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics import error_free
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

UNDERFLOW: Final = 1e-140
"""Upper bound of the error of a distance by products below the smallest normal double."""


@final
@dataclass(frozen=True)
class Losses:
    """Differences l_wi - l_0i = offset_w - difference_wi of the losses of object w and of a fixed object 0 at point i.

    Attributes
    ----------
    differences : array, shape (objects, points)
        difference_wi.
    offsets : array, shape (objects,)
        offset_w, the part that is equal for all points.
    errors : array, shape (points,)
        Absolute error bounds of the differences of each point, including the rounding of clipped points.
    offset_errors : array, shape (objects,)
        Absolute error bounds of the offsets, including the rounding of clipped points.
    widest_range : float
        Max over objects of (max - min over points), the sensitivity of the sum loss on the population.
    range_error : float
        Absolute error bound of `widest_range`.
    """

    differences: FloatArray
    offsets: FloatArray
    errors: FloatArray
    offset_errors: FloatArray
    widest_range: float
    range_error: float

    @staticmethod
    def given(values: FloatArray) -> Losses:
        """Build the losses from exact `values`, shape (objects, points), with errors of the order of 2^-106."""
        nearest = int(values[:, 0].argmin())
        one, one_rest = error_free.difference(values[nearest], values)
        two, two_rest = one[:, :1], one_rest[:, :1]
        rounded, rest = error_free.difference(one, two)
        differences = rounded + (rest + (one_rest - two_rest))
        alike = bool((one == two).all() and (one_rest == two_rest).all())
        sizes = np.abs(values).max(axis=0)
        errors = 32 * UNIT_ROUNDOFF**2 * (sizes + sizes[0]) + 2 * UNIT_ROUNDOFF * np.abs(differences).max(axis=0)
        widest = float(np.ptp(values, axis=1).max())
        return Losses(
            differences,
            -one[:, 0],
            np.zeros_like(errors) if alike else errors,
            UNIT_ROUNDOFF * np.abs(one[:, 0]),
            widest,
            2 * UNIT_ROUNDOFF * widest,
        )

    @staticmethod
    def euclidean(points: FloatArray, objects: FloatArray, clip_radius: float) -> Losses:
        """Build the losses |w - x| for `points` x (N, d), clipped to norm `clip_radius`, and `objects` w (m, d).

        r is a point of the data. |w - x| - |w - r| = (r - x).(2w - x - r)/(|w - x| + |w - r|) has terms within a few
        roundings u = 2^-53. By Cauchy's inequality its error is at most (2d + 24) u |x - r|.
        """
        dimension = points.shape[1]
        norms = norms_of(points)
        scales = np.minimum(1.0, clip_radius / np.maximum(norms, clip_radius))
        clipped = points * scales[:, None]
        if (objects == objects[0]).all():  # All objects have the same losses.
            none = np.zeros(len(points))
            widest = float(np.ptp(_changes(clipped, clipped[0], objects[0])))
            far = 2 * (2 * dimension + 24) * UNIT_ROUNDOFF * 2 * float((norms * scales).max())
            same = np.zeros(len(objects))
            return Losses(np.zeros((len(objects), len(points))), same, none, same, widest, far)
        middle = int(norms_of(clipped - clipped.mean(axis=0)).argmin())
        reference = clipped[middle]
        changes = np.stack([_changes(clipped, reference, chosen) for chosen in objects])
        # A clipped point is within (d/2 + 8) u of its norm, which is at most the radius. Other points are exact.
        moved = np.where(scales < 1, (0.5 * dimension + 16) * UNIT_ROUNDOFF * clip_radius, 0.0)
        each = (2 * dimension + 24) * UNIT_ROUNDOFF * norms_of(clipped - reference) + moved + moved[middle] + UNDERFLOW
        nearest = int(norms_of(objects - reference).argmin())
        offsets, offset_errors = _offsets(objects, reference, nearest)
        return Losses(
            changes[nearest] - changes,
            offsets,
            2 * each + UNIT_ROUNDOFF * np.abs(changes).max(axis=0),
            offset_errors + 2 * float(moved[middle]),
            float(np.ptp(changes, axis=1).max()),
            2 * float(each.max()),
        )


def norms_of(vectors: FloatArray) -> FloatArray:
    """Return Euclidean norms along the last axis, without overflow or underflow.

    Parameters
    ----------
    vectors : array, shape (..., d)
        Vectors.

    Returns
    -------
    array, shape (...)
        Norms.
    """
    largest = np.abs(vectors).max(axis=-1)
    scale = np.where(largest > 0, largest, 1.0)
    return scale * np.sqrt(((vectors / scale[..., None]) ** 2).sum(axis=-1))


def ball_sensitivity(objects: FloatArray, clip_radius: float) -> float:
    """Return the sensitivity of the sum of Euclidean losses for points within a ball.

    Parameters
    ----------
    objects : array, shape (m, d)
        Objects w.
    clip_radius : float
        Norm C to which points are clipped.

    Returns
    -------
    float
        C + max over w of min(C, |w|). The mean loss over n points has 1/n of this sensitivity.

    Notes
    -----
    It is sup over x, x' of |w - x| - |w - x'|, maximised over the objects. Source: Lowy et al. 2023, Definition 7, for
    the Euclidean loss.
    """
    return clip_radius + min(clip_radius, float(norms_of(objects).max()))


def largest_distance(objects: FloatArray) -> float:
    """Return the largest distance of two objects.

    Parameters
    ----------
    objects : array, shape (m, d)
        Objects.

    Returns
    -------
    float
        Largest Euclidean distance.

    Notes
    -----
    A replaced record changes the difference of two objects' Euclidean losses by at most twice this distance. So
    epsilon/Delta times the distance bounds the differential privacy of the sum loss.
    """
    return max(float(norms_of(objects - chosen).max()) for chosen in objects)


def _changes(points: FloatArray, reference: FloatArray, chosen: FloatArray) -> FloatArray:
    here, there = chosen - points, chosen - reference
    lengths = norms_of(here) + norms_of(there)
    products = np.einsum("ij,ij->i", reference - points, here + there)
    return np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _offsets(objects: FloatArray, reference: FloatArray, nearest: int) -> tuple[FloatArray, FloatArray]:
    """Return |w - r| - |w_0 - r| of every object w, and absolute error bounds, shape (objects,), for r = `reference`.

    w_0 is the object with the index `nearest`. The formula is (|w - r|^2 - |w_0 - r|^2)/(|w - r| + |w_0 - r|). The
    squares of coordinates are pairs of doubles and are summed exactly, so the relative errors are a few u = 2^-53.
    """
    distances, rests = error_free.difference(objects, reference[None, :])
    squares, square_rests = error_free.square(distances)
    crossed, crossed_rests = error_free.product(2 * distances, rests)
    # The squares of the rounding errors are below u^2 times the squares, and are rounded.
    parts = np.concatenate((squares, square_rests, crossed, crossed_rests, rests**2), axis=1)
    first = (-parts[nearest]).tolist()
    lengths = norms_of(distances)
    offsets = [
        math.fsum(row + first) / total if total > 0 else 0.0
        for row, total in zip(parts.tolist(), (lengths + lengths[nearest]).tolist(), strict=True)
    ]
    relative = (objects.shape[1] + 16) * UNIT_ROUNDOFF * np.abs(offsets)
    return np.array(offsets), relative + 16 * UNIT_ROUNDOFF**2 * (lengths + lengths[nearest]) + UNDERFLOW
