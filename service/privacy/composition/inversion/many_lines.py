"""Lines of many runs that are laid out alike, and their tasks: see `many.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np

from service.privacy.composition.inversion.line_runs import mirrored_exactly, unmirrored
from service.privacy.composition.inversion.readings.points import read_points
from service.privacy.composition.inversion.readings.profile import read_profile
from service.privacy.composition.inversion.readings.roots import prove_root, solve_profile
from service.privacy.composition.inversion.run import ContourRun
from service.privacy.composition.inversion.straight import StraightContour
from service.privacy.composition.summands.abstract import LineValues
from service.privacy.composition.summands.sampled_gaussian import SampledGaussianSteps, TruncatedSampledGaussian
from service.privacy.composition.summands.sampled_gaussian_contour import SampledGaussianOnContour
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.combinators.prefetched import Known

LONGEST: Final = 1_500
"""Nodes of a line beyond which a run is left to itself."""

GROUPS_TOGETHER, LINES_TOGETHER = 32, 96
"""Steps, or groups of lines, that are evaluated together, and how many lines: their arrays stay near the processor."""

_ALIKE = 1.6
"""Ratio of the numbers of steps of lines that share their nodes: each has up to 1.3 times the nodes it needs alone."""


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
    def is_first(self) -> bool:
        """Whether it is epsilon of the add direction."""
        return self.wanted.quantity == "epsilon" and not self.wanted.reflected

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
    """One contour: its tasks, and its layout.

    `row`: of the tilt `theta` in the table, the same for contours of equal steps that have the same.
    """

    tasks: list[Task]
    row: int
    part: int
    number: float
    theta: float
    center: float
    deviation: float
    reach: float

    @property
    def region(self) -> int:
        """On how many poles' right side it lies."""
        return (self.theta > 0) + (self.theta > 1)


def grouped(lines: Sequence[Line], rates: FloatArray) -> Iterator[list[list[Line]]]:
    """Yield contours of one step at one tilt, as groups that are about as long, some at a time.

    `rates`: sampling rates of the steps, which steer.
    """
    groups: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: (line.part, line.row, line.number)):
        first = groups[-1][0] if groups else line
        alike = line.number <= _ALIKE * first.number
        if groups and alike and (line.part, line.row) == (first.part, first.row):
            groups[-1].append(line)
        else:
            groups.append([line])
    groups.sort(key=lambda group: group[0].number * rates[group[0].part])
    chosen, count = list[list[Line]](), 0
    for group in groups:
        for start in range(0, len(group), LINES_TOGETHER):
            piece = group[start : start + LINES_TOGETHER]
            if chosen and (len(chosen) == GROUPS_TOGETHER or count + len(piece) > LINES_TOGETHER):
                yield chosen
                chosen, count = [], 0
            chosen.append(piece)
            count += len(piece)
    if chosen:
        yield chosen


@final
class Lines:
    """Lines that are read together: all on the same side of the poles, and with tasks of the same kinds."""

    def __init__(self, parts: TruncatedSampledGaussian, groups: Sequence[Sequence[Line]], *, reflected: bool) -> None:
        """`groups`: lines of one step at one tilt, by rising numbers of steps."""
        self._parts, self._groups, self._reflected = parts, groups, reflected

    def read(self, width: float) -> None:
        """Keep what is narrow enough. Raises NumericalFailure."""
        lines = [line for group in self._groups for line in group]
        part, count, theta, center, deviation, reach = (
            np.array(column) for column in zip(*(line[2:] for line in lines), strict=True)
        )
        groups = Groups.of([len(group) for group in self._groups])
        runs = ManyRuns(self._parts, part, count, theta, groups, reflected=self._reflected)
        # A layout for a narrower loss serves: so the lines of a group have one.
        line = StraightContour(runs, center, deviation[groups.first][groups.place], reach)
        sorted_tasks = [sorted(each.tasks, key=lambda task: task.wanted.quantity) for each in lines]
        for tasks in zip(*sorted_tasks, strict=True):
            self._read(line, tasks, width)

    def _read(self, line: StraightContour, tasks: Sequence[Task], width: float) -> None:
        """One task of each line."""
        at = np.array([task.wanted.at for task in tasks])
        match tasks[0].wanted.quantity:
            case "power":
                points = read_points(line, at)
                found = EnclosureArray.from_logs(points.lower[0], points.upper[0])
            case "profile":
                read = read_profile(line, at)
                found = EnclosureArray.from_logs(read.lower[0], read.upper[0])
            case _:
                found = EnclosureArray(*prove_root(line, solve_profile(line, at), at))
        narrow = (found.lower > 0) & (found.upper - found.lower <= width * found.upper)  # false for NaN
        for index, task in enumerate(tasks):
            if narrow[index]:
                task.known[task.wanted] = found.at(index, Evidence.CERTIFIED)


@final
class Groups(NamedTuple):
    """Lines one after the other that belong together: of each group the first and the last, and the group of each."""

    first: IndexArray
    last: IndexArray
    place: IndexArray

    @staticmethod
    def of(sizes: Sequence[int]) -> Groups:
        """Groups of so many lines."""
        lengths = np.array(sizes, dtype=np.intp)
        ends = lengths.cumsum()
        return Groups(ends - lengths, ends - 1, np.repeat(np.arange(len(sizes)), lengths))


@final
class ManyRuns:
    """`LineRuns` of one kind of sampled Gaussian step each, in one direction.

    K of N steps is N times that of one, so that the lines of a group, which are at one tilt, share their nodes and what
    costs most: the transform of one step there. It is taken for the most steps of the group, and a share of it serves
    fewer, with three roundings more.
    """

    def __init__(
        self,
        parts: TruncatedSampledGaussian,
        part: IndexArray,
        count: FloatArray,
        theta: FloatArray,
        groups: Groups,
        *,
        reflected: bool,
    ) -> None:
        """Of each line its part, its number of steps and its tilt."""
        self._groups, self._reflected = groups, reflected
        self.theta = mirrored_exactly(theta) if reflected else theta
        self._count, self._share = count, count / count[groups.last][groups.place]
        self._parts = parts.of(part[groups.first], count[groups.last])
        own = self.theta[groups.first]
        self._line = SampledGaussianOnContour(self._parts, 1 - own if reflected else own)
        self.gaussian_mu_squared = np.zeros_like(theta)

    @property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """See `LineRuns`, here and below."""
        value, error = (self._shared(each) for each in self._line.origins)
        error = error + 8 * UNIT_ROUNDOFF * np.abs(value)
        return value, error + (unmirrored(self.theta) if self._reflected else 0.0)

    @property
    def log_dropped(self) -> tuple[FloatArray, FloatArray]:
        """ln of what the cut leaves out."""
        counts, place = np.log(self._count), self._groups.place
        null = counts + self._parts.log_dropped_null[place]
        alternative = counts + self._parts.log_dropped_alternative[place]
        return (alternative, null) if self._reflected else (null, alternative)

    @property
    def log_variation(self) -> FloatArray:
        """ln V."""
        return self._line.log_variations()[self._groups.place]

    @property
    def most_nodes(self) -> FloatArray:
        """Runs whose lines are longer are left to themselves, ..."""
        return np.full_like(self.theta, float(LONGEST))

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """... so that it does not matter what these have."""
        return np.full_like(step, 4.0)

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Whatever has few nodes."""
        return heights < LONGEST * step

    def longest(self, periods: FloatArray) -> FloatArray:
        """The lines of a group have the period that serves all of them."""
        return np.maximum.reduceat(periods, self._groups.first)[self._groups.place]

    def atomic_mass(self, _: FloatArray) -> float:
        """There are no atoms."""
        return 0.0

    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        """K and its error."""
        own = tilts[:, self._groups.first]
        cumulants = self._parts.cumulants(1 - own if self._reflected else own)
        value, error = self._shared(cumulants.value), self._shared(cumulants.error)
        error = error + 4 * UNIT_ROUNDOFF * np.abs(value)
        return np.where(np.isfinite(error), value + error, np.inf)

    def values(self, step: FloatArray, counts: IndexArray) -> LineValues:
        """At the nodes of the lines."""
        first = self._groups.first
        found = self._line.values(step[first, None], int(counts.max()), counts[first])
        share, place = self._share[:, None], self._groups.place
        difference = found.difference[place] * share
        error = found.error[place] * (share * (1 + 4 * UNIT_ROUNDOFF)) + 8 * UNIT_ROUNDOFF * np.abs(difference)
        return LineValues(np.conj(difference) if self._reflected else difference, error)

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Above the heights, which are those of the group; by the fewest steps in it, as every step only lowers it."""
        first, place = self._groups.first, self._groups.place
        _, single = self._line.log_majorants(heights[:, first])
        return (single * self._count[first])[:, place], single[:, place]

    def _shared(self, values: FloatArray) -> FloatArray:
        """What grows with the number of steps, of every line from that of the most steps of its group."""
        return values[..., self._groups.place] * self._share
