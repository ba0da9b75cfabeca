"""Log-moment functions K(z) = ln E0 e^{zS} of the privacy loss S of one run of any steps, or of many runs.

They are evaluated on contours, the vertical lines in the complex plane along which inversion integrals are computed.
Many runs have sampled Gaussian steps of one law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np
from typing_extensions import override

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


class TransformsOfRuns(ABC):
    """Base of R runs with a contour Re z = theta each; the last axis of every array has one entry for each run.

    K(z) = ln E0 e^{zS} is the log-moment function of the privacy loss S of a run under the hypothesis H0, and M = e^K.
    The real number theta at which the contour crosses the axis is the *tilt*. Heights are imaginary parts of z. Nodes
    on a contour have the distance `step`. A subclass sets the attributes and supplies bounds of K, its values on the
    contours, their majorants, and limits of nodes and work.

    Attributes
    ----------
    theta : (R,)
        Tilts at which the contours cross the real axis.
    log_accuracy : float or (R,)
        Minus ln of the part of an integral that contours may omit, relative to the scale of the contour. Only the
        layout depends on it.
    gaussian_mu_squared : (R,)
        Sum of mu^2 over the Gaussian steps without sampling of each run.
    origin : (R,) each
        K(theta) to full precision, and a bound of its absolute error.
    log_truncated_mass : (R,) each
        ln of upper bounds of the probability that truncation omits under H0, and under H1.
    log_variation : (R,)
        ln V with |M(theta + it)/M(theta)| <= V/t for t > 0, for one step of each run with the moment-generating
        function M.
    most_nodes : (R,)
        Maximal number of nodes of each contour.
    """

    theta: FloatArray
    log_accuracy: float | FloatArray
    gaussian_mu_squared: FloatArray
    origin: tuple[FloatArray, FloatArray]
    log_truncated_mass: tuple[FloatArray, FloatArray]
    log_variation: FloatArray
    most_nodes: FloatArray

    @abstractmethod
    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Return the number of nodes of each contour that would need more than `most_nodes` nodes, shape (runs,).

        Such a contour ends early, and its enclosures are wide. `step` is the distance of the nodes of each contour,
        shape (runs,).
        """

    @abstractmethod
    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Return a mask (runs,) of the contours whose work is within a limit.

        A contour ends at its height in `heights`, and its nodes have the distance `step`; both have the shape (runs,).
        """

    def longest(self, periods: FloatArray) -> FloatArray:
        """Return the period of each contour, shape (runs,), from the `periods` that the contours need.

        A period is 2 pi over the distance of the nodes. Contours that share nodes have the longest of their periods.
        """
        return periods

    def atomic_mass(self, _tilts: FloatArray, /) -> float | FloatArray:
        """Return the total mass of the atoms of the loss S, weighted by e^{tilt S}, in the shape of the tilts.

        S is the privacy loss of a run. The result is one number 0 if the transform of every run decays.
        """
        return 0.0

    @abstractmethod
    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """Return upper bounds of K at real `tilts`, both of shape (tilts, runs), infinite where none is known.

        K(s) = ln E0 e^{sS} is the log-moment function of the loss S of a run.
        """

    @abstractmethod
    def values(self, step: FloatArray, counts: IndexArray) -> ValuesOnContour:
        """Return K(theta + i k `step`) - K(theta), k = 0..the largest count, with error bounds, shape (R, nodes + 1).

        K(z) = ln E0 e^{zS} for the loss S of a run, and theta is the real number at which its contour crosses the axis.
        The bounds hold up to the `counts` of each contour. R is the number of runs.
        """

    @abstractmethod
    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: upper bounds of ln |M(theta + it)/M(theta)| for all t >= each height, (H, R).

        `whole` is for the run, and `single` is the smallest bound of one step of it. M is the moment-generating
        function of the loss, and theta the real number at which the contour crosses the axis. R is the number of runs,
        and H that of heights of each run.
        """


def with_exact_complement(tilts: FloatArray) -> FloatArray:
    """Return for each tilt the nearest double theta for which 1 - theta is exact; the tilt itself if theta is 0 or 1.

    Where K(1 - theta) of a log-moment function K is small compared with its slope, rounding of 1 - theta would change K
    by more than all other errors. The result has the shape of `tilts`.
    """
    near: FloatArray = 1 - (1 - tilts)
    return np.where((near == 0) | (near == 1), tilts, near)


def complement_error(tilts: FloatArray) -> FloatArray:
    """Return a bound of the error of the log-moment function K(1 - theta) from rounding of 1 - theta, at tilts theta.

    The tilts are those of `with_exact_complement`, and the result has their shape. The bound is 0 where 1 - theta is
    exact, and else infinite: the tilt is too near a pole 0 or 1.
    """
    return np.where(1 - (1 - tilts) == tilts, 0.0, np.inf)


@final
class TransformOfRun(TransformsOfRuns):
    """Log-moment function of one run on one contour, so that R = 1."""

    def __init__(self, transform: LossTransform, theta: float) -> None:
        """Prepare the contour Re z = theta (the tilt) of the run with the log-moment function `transform`.

        The largest number of nodes is small for runs of Gaussian steps, which other truncation levels and deformed
        contours also serve.
        """
        self.theta, self.log_accuracy = np.array([theta]), 44.0
        self.theta = with_exact_complement(self.theta) if transform.reflected else self.theta
        self._transform, self._contour = transform, TransformOnContour(transform, float(self.theta[0]))
        self.gaussian_mu_squared = np.array([transform.gaussian_mu_squared])
        value, error = (np.array([each]) for each in self._contour.origin())
        self.origin = value, error + (complement_error(self.theta) if transform.reflected else 0.0)
        null, alternative = (np.array([each]) for each in transform.log_truncated_mass)
        self.log_truncated_mass, self.log_variation = (null, alternative), np.array([self._contour.log_variation()])
        most = self._few if transform.is_gaussian else min(_LARGEST_NODES, _LARGEST_WORK // transform.work)
        self.most_nodes = np.array([float(max(_FEWEST, most))])

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Return the number of nodes, shape (1,), of a contour that would need more than `most_nodes` nodes.

        The contour ends early, and its enclosures are wide. `step` is the distance of the nodes. The number is smaller
        where a node is expensive: sampled Laplace steps have more quadrature nodes at greater heights (imaginary
        parts).
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

    @override
    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        height = float(heights[0])
        if not np.isfinite(height):
            return np.array([False])
        return np.array([height / float(step[0]) * self._contour.work(height) <= _MOST_WORK])

    @override
    def atomic_mass(self, tilts: FloatArray) -> float | FloatArray:
        if self._transform.decays:
            return 0.0
        return np.exp([self._transform.log_atoms(float(tilt)) for tilt in tilts])

    @override
    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        cumulants = self._transform.cumulants(tilts[:, 0])
        return np.where(np.isfinite(cumulants.error), cumulants.value + cumulants.error, np.inf)[:, None]

    @override
    def values(self, step: FloatArray, counts: IndexArray) -> ValuesOnContour:
        count = int(counts[0])
        count_work(_AN_ELEMENT * count * self._contour.work(count * float(step[0])))
        found = self._contour.values(float(step[0]), count)
        return ValuesOnContour(found.difference[None], found.error[None])

    @override
    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        whole, single = self._contour.log_majorants(heights[:, 0])
        return whole[:, None], single[:, None]
