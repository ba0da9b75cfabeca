"""What lines are laid out for: one run of any steps, or many runs of one kind of sampled Gaussian step each."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np

from service.privacy.composition.inversion.loss_transform import LossTransform, TransformLine
from service.privacy.composition.summands.abstract import LineValues
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import did

_LARGEST_NODES = 200_000
_LARGEST_WORK = 10_000_000
"""Bounds of a line's nodes, and of its nodes times the array elements of one evaluation of K: they bound its time."""

_AN_ELEMENT = 3e-3
"""Work of an array element of one evaluation of K, in microseconds."""

_MOST_WORK = 1_000_000_000
"""The same with the nodes of its sampled Laplace steps that its height takes: about a second."""

_WORK_WITHOUT_END = 150_000_000
"""The same of a line that leaves out too much for many digits, on which more is wasted."""

_FEWEST = 16
_FEW_NODES, _LITTLE_WORK = 4_000, 2_500_000
"""Nodes and work of a line that would need more than that, what it leaves out being too much for many digits whatever
it costs; and of all lines of runs of Gaussian steps.
"""

_FEWEST_OF_MANY, _MANY_STEPS = 250, 300
"""Nodes of a line that are always allowed where there are more different steps than this, each of which adds work."""


class LineRuns(Protocol):
    """R runs with a line each, at the tilts `theta`; every array has one entry for each run, at the end."""

    @property
    def theta(self) -> FloatArray:
        """Where the lines cross the real axis."""
        ...

    @property
    def gaussian_mu_squared(self) -> FloatArray:
        """Of the Gaussian steps without sampling."""
        ...

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """K(theta) to full precision, and a bound of its error."""
        ...

    @property
    def log_dropped(self) -> tuple[FloatArray, FloatArray]:
        """ln of the mass of H0 and of H1 that the cut of the sampled parts leaves out, at most."""
        ...

    @property
    def log_variation(self) -> FloatArray:
        """ln V with |M(theta + it)/M(theta)| <= V/t for one of the steps."""
        ...

    @property
    def most_nodes(self) -> FloatArray:
        """How many nodes a line may have."""
        ...

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """How many nodes a line with these steps has where that is not enough."""
        ...

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Whether a line up to these heights is not too much work."""
        ...

    def longest(self, periods: FloatArray) -> FloatArray:
        """The periods of lines (R,), where those that share their nodes have the longest of theirs."""
        ...

    def atomic_mass(self, tilts: FloatArray, /) -> float | FloatArray:
        """The mass, tilted by e^{tilt S}, of losses whose transform does not fall; 0 where there are none."""
        ...

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """Upper bounds of K at real tilts (S, R), infinite where there are none."""
        ...

    def values(self, step: FloatArray, counts: IndexArray) -> LineValues:
        """K(theta + i k step) - K(theta), k = 0..the largest count, and bounds of the errors, which hold up to the
        count of each line: (R, nodes + 1).
        """
        ...

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Upper bounds of Re K(theta + it) - K(theta), t >= each height (H, R), and the least that one step adds."""
        ...


def mirrored_exactly(tilts: FloatArray) -> FloatArray:
    """The tilts next to those given that have exact complements: where K(1 - theta) is small beside its slope, the
    rounding of 1 - theta would change it by more than all else.
    """
    near: FloatArray = 1 - (1 - tilts)
    return np.where((near == 0) | (near == 1), tilts, near)


def unmirrored(tilts: FloatArray) -> FloatArray:
    """The error of K(1 - theta) at tilts that are too near a pole to have exact complements: it is not known."""
    return np.where(1 - (1 - tilts) == tilts, 0.0, np.inf)


@final
class OneRun:
    """The line of one run."""

    def __init__(self, transform: LossTransform, theta: float) -> None:
        self.theta = mirrored_exactly(np.array([theta])) if transform.reflected else np.array([theta])
        self._transform, self._line = transform, TransformLine(transform, float(self.theta[0]))
        self.gaussian_mu_squared = np.array([transform.gaussian_mu_squared])

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """See `LineRuns`, here and below."""
        value, error = self._line.origin()
        return np.array([value]), np.array([error]) + (unmirrored(self.theta) if self._transform.reflected else 0.0)

    @property
    def log_dropped(self) -> tuple[FloatArray, FloatArray]:
        """ln of what the cut leaves out."""
        null, alternative = self._transform.log_dropped
        return np.array([null]), np.array([alternative])

    @property
    def log_variation(self) -> FloatArray:
        """ln V."""
        return np.array([self._line.log_variation()])

    @property
    def most_nodes(self) -> FloatArray:
        """Runs of Gaussian steps have cheaper ways where a line is long: other cuts, and deformed contours."""
        transform = self._transform
        if transform.is_gaussian:
            return np.array([float(self._few)])
        return np.array([float(max(_FEWEST, min(_LARGEST_NODES, _LARGEST_WORK // transform.work)))])

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Fewer where the nodes of its sampled Laplace steps, which rise with its height, are many."""
        few, between = self._few, float(step[0])
        while few > _FEWEST and few * self._line.work(few * between) > _WORK_WITHOUT_END:
            few = max(few // 2, _FEWEST)
        return np.array([float(few)])

    @property
    def _few(self) -> int:
        transform = self._transform
        least = _FEWEST_OF_MANY if transform.different > _MANY_STEPS else _FEWEST
        return max(least, min(_FEW_NODES, _LITTLE_WORK // transform.work))

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """By the nodes of its sampled Laplace steps as well."""
        height = float(heights[0])
        if not np.isfinite(height):
            return np.array([False])
        return np.array([height / float(step[0]) * self._line.work(height) <= _MOST_WORK])

    def longest(self, periods: FloatArray) -> FloatArray:
        """It shares them with none."""
        return periods

    def atomic_mass(self, tilts: FloatArray) -> float | FloatArray:
        """Of atoms."""
        if self._transform.decays:
            return 0.0
        return np.exp([self._transform.log_atoms(float(tilt)) for tilt in tilts])

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """K and its error."""
        cumulants = self._transform.cumulants(tilts[:, 0])
        return np.where(np.isfinite(cumulants.error), cumulants.value + cumulants.error, np.inf)[:, None]

    def values(self, step: FloatArray, counts: IndexArray) -> LineValues:
        """At the nodes of the line."""
        count = int(counts[0])
        did(_AN_ELEMENT * count * self._line.work(count * float(step[0])))
        found = self._line.values(float(step[0]), count)
        return LineValues(found.difference[None], found.error[None])

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Above the heights."""
        whole, single = self._line.log_majorants(heights[:, 0])
        return whole[:, None], single[:, None]
