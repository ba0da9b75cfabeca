"""Transforms on contours: one run of any steps, or many runs of one kind of sampled Gaussian step each."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np

from service.privacy.composition.inversion.loss_transform import LossTransform, TransformOnContour
from service.privacy.composition.summands.abstract import ValuesOnContour
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import count_work

_LARGEST_NODES = 200_000
_LARGEST_WORK = 10_000_000
"""Maximal number of nodes of a contour, and of nodes times array elements of one evaluation of K.

Both bound the time of a contour.
"""

_AN_ELEMENT = 3e-3
"""Work of an array element of one evaluation of K, microseconds."""

_MOST_WORK = 1_000_000_000
"""Maximal work with the nodes of sampled Laplace steps that the height of a contour needs: about three seconds."""

_WORK_WITHOUT_END = 150_000_000
"""Maximal work of a contour whose truncation error allows few digits."""

_FEWEST = 16
_FEW_NODES, _LITTLE_WORK = 4_000, 2_500_000
"""Nodes and work of a contour that would need more, and whose truncation error allows few digits.

They also limit the contours of Gaussian steps.
"""

_FEWEST_OF_MANY, _MANY_STEPS = 250, 300
"""Number of nodes that a contour always may have with more different steps than the second number.

Each different step adds work.
"""


class TransformsOfRuns(Protocol):
    """Protocol of R runs with a contour each, at the tilts `theta`.

    The last axis of every array has one entry for each run.
    """

    @property
    def theta(self) -> FloatArray:
        """Tilts at which the contours cross the real axis."""
        ...

    @property
    def log_accuracy(self) -> float | FloatArray:
        """-ln of the part that the layout of contours leaves out, relative to their scales; it steers."""
        ...

    @property
    def gaussian_mu_squared(self) -> FloatArray:
        """Sum of mu^2 over the Gaussian steps without sampling."""
        ...

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """K(theta) to full precision, and a bound of its error."""
        ...

    @property
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        """ln of upper bounds of the truncated mass of H0 and of H1."""
        ...

    @property
    def log_variation(self) -> FloatArray:
        """ln V with |M(theta + it)/M(theta)| <= V/t for one of the steps."""
        ...

    @property
    def most_nodes(self) -> FloatArray:
        """Maximal number of nodes of each contour."""
        ...

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Return the number of nodes of a contour with these steps where `most_nodes` are not enough."""
        ...

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Return whether the work of a contour up to these heights is within the limit."""
        ...

    def longest(self, periods: FloatArray) -> FloatArray:
        """Return the periods of contours, shape (R,); contours that share nodes have the longest of their periods."""
        ...

    def atomic_mass(self, tilts: FloatArray, /) -> float | FloatArray:
        """Return the mass, tilted by e^{tilt S}, of losses whose transform does not decay; 0 without any."""
        ...

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """Return upper bounds of K at real tilts (S, R), infinite where none is known."""
        ...

    def values(self, step: FloatArray, counts: IndexArray) -> ValuesOnContour:
        """Return K(theta + i k step) - K(theta), k = 0..the largest count, and bounds of the errors; (R, nodes + 1).

        The bounds hold up to the count of each contour.
        """
        ...

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return upper bounds of Re K(theta + it) - K(theta), t >= each height (H, R), and the least of one step."""
        ...


def with_exact_complement(tilts: FloatArray) -> FloatArray:
    """Return the nearest tilts that have exact complements.

    Where K(1 - theta) is small beside its slope, rounding of 1 - theta would change K by more than all other errors.
    """
    near: FloatArray = 1 - (1 - tilts)
    return np.where((near == 0) | (near == 1), tilts, near)


def complement_error(tilts: FloatArray) -> FloatArray:
    """Return the error of K(1 - theta) from rounding: infinite at tilts too near a pole to have exact complements."""
    return np.where(1 - (1 - tilts) == tilts, 0.0, np.inf)


@final
class TransformOfRun:
    """Transform of one run on one contour."""

    log_accuracy = 44.0

    def __init__(self, transform: LossTransform, theta: float) -> None:
        self.theta = with_exact_complement(np.array([theta])) if transform.reflected else np.array([theta])
        self._transform, self._contour = transform, TransformOnContour(transform, float(self.theta[0]))
        self.gaussian_mu_squared = np.array([transform.gaussian_mu_squared])

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """K(theta) and a bound of its error."""
        value, error = self._contour.origin()
        return np.array([value]), np.array([error]) + (
            complement_error(self.theta) if self._transform.reflected else 0.0
        )

    @property
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        """ln of the truncated mass of H0 and of H1."""
        null, alternative = self._transform.log_truncated_mass
        return np.array([null]), np.array([alternative])

    @property
    def log_variation(self) -> FloatArray:
        """ln V with |M(theta + it)/M(theta)| <= V/t for one of the steps."""
        return np.array([self._contour.log_variation()])

    @property
    def most_nodes(self) -> FloatArray:
        """Maximal number of nodes: few for runs of Gaussian steps, which have other levels and deformed contours."""
        transform = self._transform
        if transform.is_gaussian:
            return np.array([float(self._few)])
        return np.array([float(max(_FEWEST, min(_LARGEST_NODES, _LARGEST_WORK // transform.work)))])

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Return fewer nodes where sampled Laplace steps, whose nodes increase with the height, have many."""
        few, between = self._few, float(step[0])
        while few > _FEWEST and few * self._contour.work(few * between) > _WORK_WITHOUT_END:
            few = max(few // 2, _FEWEST)
        return np.array([float(few)])

    @property
    def _few(self) -> int:
        transform = self._transform
        least = _FEWEST_OF_MANY if transform.different > _MANY_STEPS else _FEWEST
        return max(least, min(_FEW_NODES, _LITTLE_WORK // transform.work))

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Return whether the work of the contour, with the nodes of its sampled Laplace steps, is within the limit."""
        height = float(heights[0])
        if not np.isfinite(height):
            return np.array([False])
        return np.array([height / float(step[0]) * self._contour.work(height) <= _MOST_WORK])

    def longest(self, periods: FloatArray) -> FloatArray:
        """Return the periods unchanged, because one contour shares no nodes."""
        return periods

    def atomic_mass(self, tilts: FloatArray) -> float | FloatArray:
        """Return the tilted mass of the atoms of a run whose transform does not decay."""
        if self._transform.decays:
            return 0.0
        return np.exp([self._transform.log_atoms(float(tilt)) for tilt in tilts])

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """Return K plus a bound of its error."""
        cumulants = self._transform.cumulants(tilts[:, 0])
        return np.where(np.isfinite(cumulants.error), cumulants.value + cumulants.error, np.inf)[:, None]

    def values(self, step: FloatArray, counts: IndexArray) -> ValuesOnContour:
        """Return K at the nodes, relative to K(theta)."""
        count = int(counts[0])
        count_work(_AN_ELEMENT * count * self._contour.work(count * float(step[0])))
        found = self._contour.values(float(step[0]), count)
        return ValuesOnContour(found.difference[None], found.error[None])

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the majorants above the heights, as described in `TransformsOfRuns`."""
        whole, single = self._contour.log_majorants(heights[:, 0])
        return whole[:, None], single[:, None]
