"""Log-moment functions K(z) = ln E0 e^{zS} of the privacy loss S of one run of any steps, or of many runs.

They are evaluated on contours, the vertical lines in the complex plane along which inversion integrals are computed.
Many runs have sampled Gaussian steps of one law.
"""

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
    """Protocol of R runs with a contour Re z = theta each; the last axis of every array has one entry for each run.

    K(z) = ln E0 e^{zS} is the log-moment function of the privacy loss S of a run under the hypothesis H0, and M = e^K.
    The real number theta at which the contour crosses the axis is the *tilt*. Heights are imaginary parts of z. Nodes
    on a contour have the distance `step`.
    """

    @property
    def theta(self) -> FloatArray:
        """Tilts at which the contours cross the real axis, shape (R,)."""
        ...

    @property
    def log_accuracy(self) -> float | FloatArray:
        """Minus ln of the part of an integral that contours may omit, relative to the scale of the contour.

        Only the layout of the contour depends on it.
        """
        ...

    @property
    def gaussian_mu_squared(self) -> FloatArray:
        """Sum of mu^2 over the Gaussian steps without sampling of each run, shape (R,)."""
        ...

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """K(theta) to full precision, and a bound of its absolute error, each of shape (R,).

        K(z) = ln E0 e^{zS} for the loss S of a run, and theta is the real number at which its contour crosses the axis.
        """
        ...

    @property
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        """ln of upper bounds of the probability that truncation omits under H0, and under H1, shape (R,) each."""
        ...

    @property
    def log_variation(self) -> FloatArray:
        """ln V with |M(theta + it)/M(theta)| <= V/t for t > 0, for one step of each run, shape (R,).

        M is the moment-generating function of that step, and theta the real number at which the contour crosses the
        axis.
        """
        ...

    @property
    def most_nodes(self) -> FloatArray:
        """Maximal number of nodes of each contour, shape (R,)."""
        ...

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Return the number of nodes of each contour for which `most_nodes` nodes are too few, shape (R,).

        `step` is the distance of the nodes of each contour, shape (R,).
        """
        ...

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Return a mask (R,) of the contours whose work is within a limit.

        A contour ends at its height, and its nodes have the distance `step`.
        """
        ...

    def longest(self, periods: FloatArray) -> FloatArray:
        """Return the period of each contour, shape (R,), from the `periods` that the contours need.

        A period is 2 pi over the distance of the nodes. Contours that share nodes have the longest of their periods.
        """
        ...

    def atomic_mass(self, tilts: FloatArray, /) -> float | FloatArray:
        """Return the total mass of the atoms of the loss S, weighted by e^{tilt S}, where the transform does not decay.

        The result is 0 where it decays. S is the privacy loss of a run.
        """
        ...

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """Return upper bounds of K at real `tilts`, both of shape (S, R), infinite where none is known.

        K(s) = ln E0 e^{sS} is the log-moment function of the loss S of a run.
        """
        ...

    def values(self, step: FloatArray, counts: IndexArray) -> ValuesOnContour:
        """Return K(theta + i k `step`) - K(theta), k = 0..the largest count, with error bounds, shape (R, nodes + 1).

        K(z) = ln E0 e^{zS} for the loss S of a run, and theta is the real number at which its contour crosses the axis.
        The bounds hold up to the `counts` of each contour.
        """
        ...

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: bounds of ln |M(theta + it)/M(theta)| for all t >= each height, shape (H, R).

        `whole` is for the run, and `single` is the smallest bound of one step of it. M is the moment-generating
        function of the loss, and theta the real number at which the contour crosses the axis.
        """
        ...


def with_exact_complement(tilts: FloatArray) -> FloatArray:
    """Return for each tilt the nearest double theta for which 1 - theta is exact, if it is not 0 or 1.

    Where K(1 - theta) of a log-moment function K is small beside its slope, rounding of 1 - theta would change K by
    more than all other errors.
    """
    near: FloatArray = 1 - (1 - tilts)
    return np.where((near == 0) | (near == 1), tilts, near)


def complement_error(tilts: FloatArray) -> FloatArray:
    """Return the error of K(1 - theta) from rounding of 1 - theta, at tilts theta from `with_exact_complement`.

    It is 0, or infinite at tilts too near a pole 0 or 1 for an exact complement.
    """
    return np.where(1 - (1 - tilts) == tilts, 0.0, np.inf)


@final
class TransformOfRun:
    """Log-moment function of one run on one contour, as in the protocol `TransformsOfRuns` with R = 1."""

    log_accuracy = 44.0

    def __init__(self, transform: LossTransform, theta: float) -> None:
        self.theta = with_exact_complement(np.array([theta])) if transform.reflected else np.array([theta])
        self._transform, self._contour = transform, TransformOnContour(transform, float(self.theta[0]))
        self.gaussian_mu_squared = np.array([transform.gaussian_mu_squared])

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """K(theta) and a bound of its absolute error, each of shape (1,).

        K(z) = ln E0 e^{zS} for the loss S of the run, and theta is the real number at which the contour crosses the
        axis.
        """
        value, error = self._contour.origin()
        return np.array([value]), np.array([error]) + (
            complement_error(self.theta) if self._transform.reflected else 0.0
        )

    @property
    def log_truncated_mass(self) -> tuple[FloatArray, FloatArray]:
        """ln of upper bounds of the probability that truncation omits under H0, and under H1, shape (1,) each."""
        null, alternative = self._transform.log_truncated_mass
        return np.array([null]), np.array([alternative])

    @property
    def log_variation(self) -> FloatArray:
        """ln V with |M(theta + it)/M(theta)| <= V/t for t > 0, for one of the steps, shape (1,).

        M = e^K is the moment-generating function of that step, and theta the tilt of the contour.
        """
        return np.array([self._contour.log_variation()])

    @property
    def most_nodes(self) -> FloatArray:
        """Maximal number of nodes of the contour, shape (1,).

        It is small for runs of Gaussian steps, which other truncation levels and deformed contours also serve.
        """
        transform = self._transform
        if transform.is_gaussian:
            return np.array([float(self._few)])
        return np.array([float(max(_FEWEST, min(_LARGEST_NODES, _LARGEST_WORK // transform.work)))])

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Return the number of nodes, shape (1,), of a contour for which `most_nodes` nodes are too few.

        `step` is the distance of the nodes. The number is smaller where a node is expensive: sampled Laplace steps have
        more quadrature nodes at greater heights (imaginary parts).
        """
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
        """Return whether the work of the contour up to its height is within the limit, shape (1,).

        The nodes have the distance `step`. The quadrature nodes of sampled Laplace steps, which increase with the
        height, are included.
        """
        height = float(heights[0])
        if not np.isfinite(height):
            return np.array([False])
        return np.array([height / float(step[0]) * self._contour.work(height) <= _MOST_WORK])

    def longest(self, periods: FloatArray) -> FloatArray:
        """Return the `periods` unchanged, because a single contour shares no nodes with others."""
        return periods

    def atomic_mass(self, tilts: FloatArray) -> float | FloatArray:
        """Return the mass of the atoms of the loss S, weighted by e^{tilt S}, at each tilt.

        The result is 0 where the transform of the run decays.
        """
        if self._transform.decays:
            return 0.0
        return np.exp([self._transform.log_atoms(float(tilt)) for tilt in tilts])

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """Return upper bounds of the log-moment function K at real `tilts` (S, 1), infinite where none is known."""
        cumulants = self._transform.cumulants(tilts[:, 0])
        return np.where(np.isfinite(cumulants.error), cumulants.value + cumulants.error, np.inf)[:, None]

    def values(self, step: FloatArray, counts: IndexArray) -> ValuesOnContour:
        """Return K(theta + i k `step`) - K(theta) at the nodes k = 0.. of the contour, shape (1, nodes + 1).

        The result has error bounds. K is the log-moment function of the run, and theta the tilt of the contour.
        """
        count = int(counts[0])
        count_work(_AN_ELEMENT * count * self._contour.work(count * float(step[0])))
        found = self._contour.values(float(step[0]), count)
        return ValuesOnContour(found.difference[None], found.error[None])

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: bounds of ln |M(theta + it)/M(theta)| for all t >= each height, shape (H, 1).

        M is the moment-generating function of the run (`whole`) or of one step (`single`), and theta the tilt of the
        contour.
        """
        whole, single = self._contour.log_majorants(heights[:, 0])
        return whole[:, None], single[:, None]
