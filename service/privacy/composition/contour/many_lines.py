"""Lines of many runs that are laid out alike, and their tasks: see `many.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from service.privacy.composition.contour.line import ContourLine
from service.privacy.composition.contour.run import ContourRun
from service.privacy.composition.readings import prove_root, read_points, read_profile, solve_profile
from service.privacy.composition.transforms.abstract import LineValues
from service.privacy.composition.transforms.sampled_gaussian import SampledGaussianParts
from service.privacy.composition.transforms.sampled_gaussian_line import SampledGaussianLine
from service.privacy.composition.transforms.steps import SampledGaussianSteps
from service.privacy.enclosure import Bounds, Enclosure, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.combinators.read_ahead import Known

LONGEST: Final = 1_500
"""Nodes of a line beyond which a run is left to itself."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One reading. `is_second`: epsilon of the remove direction, where that of add is read as well."""

    run: ContourRun
    step: SampledGaussianSteps
    wanted: Known
    is_second: bool
    known: dict[Known, Enclosure]

    @property
    def is_known(self) -> bool:
        """Whether it has been read."""
        return self.wanted in self.known

    @property
    def known_first(self) -> Enclosure | None:
        """epsilon of the add direction."""
        return self.known.get(self.wanted._replace(reflected=False))


@final
class Line(NamedTuple):
    """One line: its tasks, on which side of the poles it lies, about how many steps have the record, and its layout."""

    tasks: list[Task]
    region: int
    expected: float
    part: int
    number: float
    theta: float
    center: float
    deviation: float
    reach: float


@final
class Lines:
    """Lines that are read together: all on the same side of the poles, and with tasks of the same kinds."""

    def __init__(self, parts: SampledGaussianParts, lines: Sequence[Line], *, reflected: bool) -> None:
        self._parts, self._lines, self._reflected = parts, lines, reflected

    def read(self, width: float) -> None:
        """Keep what is narrow enough. Raises NumericalFailure."""
        columns = [np.array(column) for column in zip(*(line[3:] for line in self._lines), strict=True)]
        part, count, theta, center, deviation, reach = columns
        runs = ManyRuns(self._parts.of(part, count), theta, reflected=self._reflected)
        line = ContourLine(runs, center, deviation, reach)
        sorted_tasks = [sorted(each.tasks, key=lambda task: task.wanted.quantity) for each in self._lines]
        for tasks in zip(*sorted_tasks, strict=True):
            self._read(line, tasks, width)

    def _read(self, line: ContourLine, tasks: Sequence[Task], width: float) -> None:
        """One task of each line."""
        at = np.array([task.wanted.at for task in tasks])
        match tasks[0].wanted.quantity:
            case "power":
                points = read_points(line, at)
                found = Bounds.from_logs(points.lower[0], points.upper[0])
            case "profile":
                read = read_profile(line, at)
                found = Bounds.from_logs(read.lower[0], read.upper[0])
            case _:
                found = Bounds(*prove_root(line, solve_profile(line, at), at))
        narrow = (found.lower > 0) & (found.upper - found.lower <= width * found.upper)  # false for NaN
        for index, task in enumerate(tasks):
            if narrow[index]:
                task.known[task.wanted] = found.at(index, Evidence.CERTIFIED)


@final
class ManyRuns:
    """`LineRuns` of one kind of sampled Gaussian step each, in one direction."""

    def __init__(self, parts: SampledGaussianParts, theta: FloatArray, *, reflected: bool) -> None:
        self._parts, self._reflected, self.theta = parts, reflected, theta
        self._line = SampledGaussianLine(parts, 1 - theta if reflected else theta)
        self.gaussian_mu_squared = np.zeros_like(theta)

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """See `LineRuns`, here and below."""
        value, error = self._line.origins
        return value, error + 4 * UNIT_ROUNDOFF * np.abs(value)

    @property
    def log_dropped(self) -> tuple[FloatArray, FloatArray]:
        """ln of what the cut leaves out."""
        counts = np.log(self._parts.count)
        null, alternative = counts + self._parts.log_dropped_null, counts + self._parts.log_dropped_alternative
        return (alternative, null) if self._reflected else (null, alternative)

    @property
    def log_variation(self) -> FloatArray:
        """ln V."""
        return self._line.log_variations()

    @property
    def most_nodes(self) -> tuple[FloatArray, FloatArray]:
        """Runs whose lines are longer are left to themselves."""
        most = np.full_like(self.theta, float(LONGEST))
        return most, np.full_like(self.theta, 4.0)

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Whatever has few nodes."""
        return heights < LONGEST * step

    def log_frozen(self, tilts: FloatArray) -> FloatArray:
        """There are no atoms."""
        return np.full_like(tilts, -np.inf)

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """K and its error."""
        cumulants = self._parts.cumulants(1 - tilts if self._reflected else tilts)
        return np.where(np.isfinite(cumulants.error), cumulants.value + cumulants.error, np.inf)

    def values(self, step: FloatArray, counts: IndexArray) -> LineValues:
        """At the nodes of the lines."""
        found = self._line.values(step[:, None], int(counts.max()), counts)
        error = found.error + 4 * UNIT_ROUNDOFF * np.abs(found.difference)
        return LineValues(np.conj(found.difference) if self._reflected else found.difference, error)

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Above the heights."""
        return self._line.log_majorants(heights)
