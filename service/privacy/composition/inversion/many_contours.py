"""Contours of many runs that are laid out alike, and the numbers to evaluate on them.

A contour is the path of an inversion integral. `many.py` describes the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.inversion.readings.points import read_points
from service.privacy.composition.inversion.readings.profile import read_profile
from service.privacy.composition.inversion.readings.roots import prove_root, solve_profile
from service.privacy.composition.inversion.run_law import RunLaw
from service.privacy.composition.inversion.straight import StraightContour
from service.privacy.composition.inversion.transforms_of_runs import (
    TransformsOfRuns,
    complement_error,
    with_exact_complement,
)
from service.privacy.composition.summands.abstract import Summand, ValuesOnContour
from service.privacy.composition.summands.catalogue import separate_on_contour
from service.privacy.composition.summands.trapezoid import FEW_SAMPLED, NormalTrapezoid
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.combinators.prefetched import Known

LONGEST: Final = 6_000
"""Number of nodes of a contour beyond which a run is evaluated alone."""

GROUPS_TOGETHER, CONTOURS_TOGETHER = 32, 96
"""Maximal number of steps, or groups of contours, and of contours that are evaluated together.

Their arrays fit into caches.
"""

_LOG_ACCURACY, _RARE = 44.0, 38.0
"""-ln of the part that contours leave out, and that of rare runs.

The long contours of rare runs end at a tenth of their relative width.
"""

_OF_POINTS: Final = ("point", "type_two_error", "log_slope")

_ALIKE = 1.6
"""Largest ratio of the numbers of steps of contours that share nodes. Each has up to 1.3 times the nodes it needs."""


UnitAtLevel = tuple[tuple[Summand, ...], int, bool]
"""Steps that runs take several times, the index of their truncation level, and whether few of them use the record."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One number to evaluate, of a run that repeats the steps `unit` `times` times.

    Attributes
    ----------
    wanted : Known
        Name and argument of the number.
    is_second : bool
        Whether the number is epsilon of the remove direction, and epsilon of the add direction is evaluated as well.
    known : dict
        Enclosures of all numbers of the run that have been evaluated.
    """

    run: RunLaw
    unit: tuple[Summand, ...]
    times: int
    wanted: Known
    is_second: bool
    known: dict[Known, Enclosure]

    @property
    def is_first(self) -> bool:
        """Whether the number of this task is epsilon of the add direction."""
        return self.wanted.quantity == "epsilon" and not self.wanted.reflected

    @property
    def is_rare(self) -> bool:
        """Whether fewer than 5 steps of the run are expected to use the record.

        The law of the loss then has a narrow core and rare jumps, and the contour is long.
        """
        return sum(step.sampled for step in self.unit) * self.times < FEW_SAMPLED

    @property
    def is_known(self) -> bool:
        """Whether a narrow enclosure of the number of this task has been found.

        A task is one number to evaluate.
        """
        return self.wanted in self.known

    @property
    def known_first(self) -> Enclosure | None:
        """Enclosure of epsilon of the add direction at the delta of this task, or None where it was not evaluated."""
        return self.known.get(self.wanted._replace(reflected=False))


@final
class PlannedContour(NamedTuple):
    """Contour of one run with its tasks (numbers to evaluate) and its layout.

    Attributes
    ----------
    tasks : list of Task
        Numbers that the contour evaluates.
    row : int
        Index of the tilt in the table of tilts, equal for contours of equal steps at one tilt.
    unit : int
        Index of the steps that the run repeats.
    number : float
        How many times the run repeats these steps.
    theta : float
        Tilt: the real number at which the contour crosses the axis.
    center, deviation : float
        K'(theta) and sqrt K''(theta) of the run's log-moment function K, in nats.
    half_width : float
        Distance from `center` up to which thresholds are evaluated, in nats.
    """

    tasks: list[Task]
    row: int
    unit: int
    number: float
    theta: float
    center: float
    deviation: float
    half_width: float

    @property
    def region(self) -> int:
        """Number of poles (0 and 1) on the left of the contour: 0, 1 or 2."""
        return (self.theta > 0) + (self.theta > 1)


def grouped(contours: Sequence[PlannedContour], rates: FloatArray) -> Iterator[list[list[PlannedContour]]]:
    """Yield batches of groups of contours.

    A group has contours of runs that repeat the same steps, which cross the real axis at one point. A batch has groups
    of similar lengths. `rates` are the sampling rates of the repeated steps; only the order depends on them.
    """
    groups: list[list[PlannedContour]] = []
    for contour in sorted(contours, key=lambda contour: (contour.unit, contour.row, contour.number)):
        first = groups[-1][0] if groups else contour
        alike = contour.number <= _ALIKE * first.number
        if groups and alike and (contour.unit, contour.row) == (first.unit, first.row):
            groups[-1].append(contour)
        else:
            groups.append([contour])
    groups.sort(key=lambda group: group[0].number * rates[group[0].unit])
    chosen, count = list[list[PlannedContour]](), 0
    for group in groups:
        for start in range(0, len(group), CONTOURS_TOGETHER):
            piece = group[start : start + CONTOURS_TOGETHER]
            if chosen and (len(chosen) == GROUPS_TOGETHER or count + len(piece) > CONTOURS_TOGETHER):
                yield chosen
                chosen, count = [], 0
            chosen.append(piece)
            count += len(piece)
    if chosen:
        yield chosen


@final
class ContourBatch:
    """Contours of many runs that are evaluated together.

    All lie on one side of the poles 0 and 1, and all have tasks (numbers to evaluate) of the same kinds.
    """

    def __init__(self, law: NormalTrapezoid, groups: Sequence[Sequence[PlannedContour]], *, reflected: bool) -> None:
        """Store `groups`: contours of runs that repeat the same steps and cross the real axis at one point.

        The contours of a group are by increasing numbers of repetitions. `law` has the transforms of the steps, and
        `reflected` is whether the hypotheses are swapped.
        """
        self._law, self._groups, self._reflected = law, groups, reflected

    def evaluate(self, width: float) -> None:
        """Evaluate all tasks of the batch, and store enclosures of relative width up to `width` in the tasks.

        `width` is a filter and no target: wider enclosures are discarded. A task is one number to evaluate (`Task`).

        Raises
        ------
        NumericalFailure
            Where two proved enclosures of a number do not meet.
        """
        planned = [each for group in self._groups for each in group]
        unit, count, theta, center, deviation, half_width = (
            np.array(column) for column in zip(*(each[2:] for each in planned), strict=True)
        )
        groups = Groups.of([len(group) for group in self._groups])
        runs = TransformsOfManyRuns(self._law, unit, count, theta, groups, reflected=self._reflected)
        # A layout for a narrower loss serves too, so that the contours of a group share one layout.
        contour = StraightContour(runs, center, deviation[groups.first][groups.of_contour], half_width)
        sorted_tasks = [sorted(each.tasks, key=lambda task: task.wanted.quantity) for each in planned]
        for tasks in zip(*sorted_tasks, strict=True):
            self._evaluate(contour, tasks, width)

    def _evaluate(self, contour: StraightContour, tasks: Sequence[Task], width: float) -> None:
        """Evaluate one task of each contour, all of one kind, and store enclosures of relative width up to `width`.

        Wider enclosures are discarded. `tasks` has one task (number to evaluate) for each contour of `contour`, in
        their order.
        """
        at = np.array([task.wanted.at for task in tasks])
        match tasks[0].wanted.quantity:
            case "power" | "point":
                read = read_points(contour, at)
            case "profile":
                read = read_profile(contour, at)
            case _:
                self._keep(tasks, [EnclosureArray(*prove_root(contour, solve_profile(contour, at), at))], width)
                return
        logs = zip(read.lower[:2], read.upper[:2], strict=True)
        ends = EnclosureArray(read.lower[-1], read.upper[-1])
        self._keep(tasks, [*(EnclosureArray.from_logs(*each) for each in logs), ends], width)

    @staticmethod
    def _keep(tasks: Sequence[Task], found: Sequence[EnclosureArray], width: float) -> None:
        """Store the enclosures of each task in the task (in place) where their relative width is at most `width`.

        Wider enclosures are discarded. `found` has the enclosures of one number, or of power, type II error and ln
        slope of a point, each of shape (tasks,). Those of a point are stored if power and type II error are narrow. A
        task is one number to evaluate (`Task`).
        """
        wanted = _OF_POINTS if tasks[0].wanted.quantity == "point" else (tasks[0].wanted.quantity,)
        narrow = np.ones(len(tasks), dtype=bool)
        for bounds in found[: min(len(wanted), 2)]:
            narrow &= (bounds.lower > 0) & (bounds.upper - bounds.lower <= width * bounds.upper)  # false for NaN
        kept: list[int] = np.flatnonzero(narrow).tolist()
        for index in kept:
            for name, bounds in zip(wanted, found, strict=False):
                known = tasks[index].wanted._replace(quantity=name)
                tasks[index].known[known] = bounds.at(index, Evidence.CERTIFIED)


@final
class Groups(NamedTuple):
    """Consecutive contours in groups that share their nodes.

    `first` and `last` are the indices of the first and last contour of each group, shape (groups,). `of_contour` is the
    group of each contour, shape (contours,).
    """

    first: IndexArray
    last: IndexArray
    of_contour: IndexArray

    @staticmethod
    def of(sizes: Sequence[int]) -> Groups:
        """Build the groups of consecutive contours with these sizes."""
        lengths = np.array(sizes, dtype=np.intp)
        ends = lengths.cumsum()
        return Groups(ends - lengths, ends - 1, np.repeat(np.arange(len(sizes)), lengths))


@final
class TransformsOfManyRuns(TransformsOfRuns):
    """Log-moment functions K of R runs on a contour each, in one direction.

    Each run repeats a unit of steps of one law. K of N repetitions is N times K of one. The contours of a group are at
    one tilt (the real number at which a contour crosses the axis). So they share their nodes and the transform of one
    unit there, the most expensive part. The transform is computed for the largest number of repetitions of the group. A
    share of it serves fewer repetitions, with three roundings more.
    """

    def __init__(
        self,
        law: NormalTrapezoid,
        unit: IndexArray,
        count: FloatArray,
        theta: FloatArray,
        groups: Groups,
        *,
        reflected: bool,
    ) -> None:
        """Lay out the contours of R runs; all arrays have the shape (R,).

        `law` has the log-moment functions of all units of steps. `unit` is the index of the steps that a run repeats,
        `count` is how often they are repeated, and `theta` is the tilt. `groups` has the contours that share nodes, and
        `reflected` is whether the hypotheses are swapped. Runs with more nodes than `most_nodes` are evaluated alone.
        """
        self._groups, self._reflected = groups, reflected
        self.theta = with_exact_complement(theta) if reflected else theta
        self._count, self._share = count, count / count[groups.last][groups.of_contour]
        self._law = law.of(unit[groups.first], count[groups.last])
        own = self.theta[groups.first]
        self._contour = separate_on_contour(self._law, 1 - own if reflected else own)
        self.gaussian_mu_squared = np.zeros_like(theta)
        rare = self._law.over_run(self._law.rate) < FEW_SAMPLED
        self.log_accuracy = np.where(rare, _RARE, _LOG_ACCURACY)[groups.of_contour]
        value, error = (self._shared(each) for each in self._contour.origins)
        error = error + 8 * UNIT_ROUNDOFF * np.abs(value)
        self.origin = value, error + (complement_error(self.theta) if reflected else 0.0)
        null, alternative = (np.log(count) + each[groups.of_contour] for each in self._law.log_truncated_once)
        self.log_truncated_mass = (alternative, null) if reflected else (null, alternative)
        self.log_variation = self._law.least_of_run(self._contour.log_variations())[groups.of_contour]
        self.most_nodes = np.full_like(theta, float(LONGEST))

    def few_nodes(self, step: FloatArray) -> FloatArray:
        """Return 4, in the shape of `step`: the number of nodes of a contour that would need too many nodes.

        Its enclosures are wide and are not kept. `step` is the distance of the nodes of each contour.
        """
        return np.full_like(step, 4.0)

    @override
    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        return heights < LONGEST * step

    def longest(self, periods: FloatArray) -> FloatArray:
        """Return for each contour the longest of the `periods` of its group, shape (runs,).

        A period is 2 pi over the distance of the nodes.
        """
        return np.maximum.reduceat(periods, self._groups.first)[self._groups.of_contour]

    @override
    def log_bounds(self, tilts: FloatArray) -> FloatArray:
        own = tilts[:, self._groups.first]
        cumulants = self._law.cumulants(1 - own if self._reflected else own)
        value, error = self._shared(cumulants.value), self._shared(cumulants.error)
        error = error + 4 * UNIT_ROUNDOFF * np.abs(value)
        return np.where(np.isfinite(error), value + error, np.inf)

    @override
    def values(self, step: FloatArray, counts: IndexArray) -> ValuesOnContour:
        first = self._groups.first
        last = np.maximum.reduceat(counts, first)
        found = self._contour.values(step[first, None], int(counts.max()), last)
        share, of_contour = self._share[:, None], self._groups.of_contour
        difference = found.difference[of_contour] * share
        error = found.error[of_contour] * (share * (1 + 4 * UNIT_ROUNDOFF)) + 8 * UNIT_ROUNDOFF * np.abs(difference)
        return ValuesOnContour(np.conj(difference) if self._reflected else difference, error)

    def log_majorants(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `(whole, single)`: upper bounds of ln |M(theta + it)/M(theta)| for all t >= each height, (H, R).

        M is the moment-generating function of the run (`whole`) or of one step (`single`), and theta is the tilt of the
        run's contour. The bounds are those of the smallest number of repetitions of each group, because every further
        step only lowers them. R is the number of runs, and H that of heights of each run.
        """
        first, of_contour = self._groups.first, self._groups.of_contour
        whole, single = self._contour.log_majorants(heights[:, first])
        return (whole * self._share[first])[:, of_contour], single[:, of_contour]

    def _shared(self, values: FloatArray) -> FloatArray:
        """Return values for all R contours from the values of each group's largest number of repetitions.

        The values are proportional to the number of repetitions; the last axis of `values` is the group.
        """
        return values[..., self._groups.of_contour] * self._share
