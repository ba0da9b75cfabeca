"""Points of a Gaussian sum or mean query, clipped, and their distances in units of the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

SINGLE_ROUNDOFF = 2.0**-24
SAFE_SQUARE = 1e-280
"""Smallest safe squared distance. Below it squares may underflow, and the largest coordinate bounds the distance."""


@final
@dataclass(frozen=True)
class QueryPoints:
    """Points (N x d) of which a random half is summed, for a release with independent normal noise.

    Attributes
    ----------
    positions : array, shape (N, d)
        Clipped points.
    moved : float
        Bound of the distance by which rounding moves a clipped point.
    scale : float
        The sum times `scale` is released with noise of standard deviation 1: 1/noise_std for the sum and 1/(n
        noise_std) for the mean, within 4 u, u = 2^-53. Replacing x by x' changes the result by r = |x - x'| scale
        standard deviations of the noise.
    """

    positions: FloatArray
    moved: float
    scale: float

    @staticmethod
    def of(points: FloatArray, clip_radius: float | None, scale: float) -> QueryPoints:
        """Return the points, shape (N, d). If `clip_radius` is not None, longer points are scaled to this norm.

        `scale` is the weight of a point in the released sum over the noise.
        """
        if clip_radius is None:
            return QueryPoints(points, 0.0, scale)
        norms = _norms(points)
        factors = np.minimum(1.0, clip_radius / np.maximum(norms, clip_radius))
        rounding = (points.shape[1] + 16) * UNIT_ROUNDOFF * clip_radius if (factors < 1).any() else 0.0
        return QueryPoints(np.where(factors < 1, factors, 1.0)[:, None] * points, rounding, scale)

    @property
    def count(self) -> int:
        """Number N of points of the parent set (population of which the data are a part)."""
        return len(self.positions)

    @property
    def dimension(self) -> int:
        """Dimension d of the points."""
        return self.positions.shape[1]

    @property
    def coincide(self) -> bool:
        """Whether all points of the parent set (population of which the data are a part) are equal."""
        return bool((self.positions == self.positions[0]).all())

    def ratios(self, point: int) -> FloatArray:
        """Return upper bounds of the distances from one point to all other points.

        Parameters
        ----------
        point : int
            Index of the point.

        Returns
        -------
        array, shape (N - 1,)
            Distances r in standard deviations of the noise, in the order of the points; 0 for duplicates of the point.
        """
        differences = self.positions - self.positions[point]
        squares = np.einsum("ij,ij->i", differences, differences)
        distances = np.sqrt(squares)
        if (small := squares < SAFE_SQUARE).any():
            distances[small] = math.sqrt(self.dimension) * np.abs(differences[small]).max(axis=1)
        slack = 1 + (self.dimension + 16) * UNIT_ROUNDOFF
        ratios = np.where(distances > 0, distances * slack + 2 * self.moved, 0.0) * (self.scale * slack)
        return np.delete(ratios, point)

    @cached_property
    def centred(self) -> FloatArray:
        """Positions less their mean, shape (N, d), each within the distance `centring_error` of the exact one."""
        return self.positions - self.positions.mean(axis=0)

    @cached_property
    def centring_error(self) -> float:
        """Bound of the distance between a rounded centred position and the exact position."""
        return 4 * UNIT_ROUNDOFF * float(_norms(np.abs(self.positions).max(axis=0)[None])[0]) + self.moved

    @cached_property
    def radii(self) -> FloatArray:
        """Distances of the points from their mean, shape (N,), in the unit of the points."""
        return _norms(self.centred)

    @cached_property
    def _padded(self) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
        """Factors L and R, shape (N, d + 2), and a unit of length: L R' has upper bounds of all squared distances.

        u32 = 2^-24 is the unit of rounding in single precision. |x|^2 + |y|^2 - 2 x.y as a product of d + 2 columns has
        an error of at most (3 d + 12) u32 (|x|^2 + |y|^2), including the rounding to single precision. The padding is
        twice this error, for roundings of the callers.
        """
        unit = float(self.radii.max()) or 1.0
        inner = self.centred / unit
        padding = (6 * inner.shape[1] + 48) * SINGLE_ROUNDOFF
        squares = (inner**2).sum(axis=1) * (1 + padding) + (8 * self.centring_error / unit + 1e-36)
        ones = np.ones(self.count)
        left = np.column_stack((inner, squares, ones)).astype(np.float32)
        right = np.column_stack((-2 * inner, ones, squares)).astype(np.float32)
        return left, right, unit

    @property
    def unit(self) -> float:
        """Unit of length of `padded_squares`, in standard deviations of the noise.

        All distances are at most twice this length.
        """
        return self._padded[2] * self.scale

    def padded_squares(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return upper bounds of squared distances in single precision.

        Parameters
        ----------
        rows : array of int, shape (k,)
            Indices of points.

        Returns
        -------
        array of float32, shape (k, N)
            Squared distances from these points to all points, in units of the length `unit`.
        """
        left, right, _ = self._padded
        return left[rows] @ right.T


def _norms(vectors: FloatArray) -> FloatArray:
    """Return the Euclidean norms of the rows of `vectors`, without overflow or underflow."""
    largest = float(np.abs(vectors).max(initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return np.zeros(len(vectors))
    scaled = vectors / largest
    return largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
