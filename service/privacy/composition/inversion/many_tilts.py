"""Contours of many runs: a table of tilts for all runs of equal steps, and a contour for each run.

A contour is the path of an inversion integral, and its tilt is the real number at which it crosses the axis. `many.py`
describes the method.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtri

from service.privacy.composition.inversion.epsilon_caps import chernoff_caps, chernoff_missed
from service.privacy.composition.inversion.many_contours import (
    GROUPS_TOGETHER,
    ContourBatch,
    PlannedContour,
    Task,
    UnitAtLevel,
    grouped,
)
from service.privacy.composition.inversion.run_law import TRUNCATION_DIGITS
from service.privacy.composition.inversion.tilts import LARGEST_DISCRETISATION, cancellation, log_profiles, tail_scores
from service.privacy.composition.summands.abstract import Summand
from service.privacy.composition.summands.catalogue import separately_truncated
from service.privacy.composition.summands.trapezoid import FEW_SAMPLED, NormalTrapezoid
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.trade_off.combinators.prefetched import Known

_MOST_NODES = 5_000
"""Number of nodes of a grid beyond which a run is evaluated alone."""

_ALIKE = 1.6
"""Largest ratio of the nodes of grids that are evaluated together. Shorter grids are padded."""

_LEAST_SPREAD = 1e-140
"""Deviation of the loss below which a run is evaluated alone, because its variance may underflow."""

_NEAREST_TILT, _FARTHEST_TILT, _RATIO = 0.35, 11.0, 1.22
"""Smallest and largest distance of the tilts of the table from 1/2, and the ratio of neighbouring distances.

The unit of the distances is the inverse deviation of the loss. The largest distance counts from the poles.
"""

_FIRST_OF_RARE, _RATIO_OF_RARE = 1.0, 1.35
"""Distance from 1/2 of the first tilt of rare runs, and the ratio of neighbouring distances.

Jumps dominate the tilted law at farther first tilts. The ratio is larger because many tilts lie between.
"""

_FROM_POLES, _WEAK = 0.25, 0.2
"""Smallest distance of a contour from the poles, in inverse deviations.

The second number is the smallest deviation that counts, for weak losses.
"""

_LARGEST_CANCELLATION = 13.0
"""Nats that a number may lose on a short contour: rounding leaves more digits than these evaluations need."""

_NEAR = 3.5
"""Largest distance of thresholds that share a contour, in deviations."""

_FARTHEST = 40.0
"""Largest distance from the saddle point that a contour serves, in deviations. Rare jumps dominate beyond it."""

_MARGIN = 0.9
"""Margin beside the estimated thresholds for which a contour is laid out, in deviations."""

_SURE = 1e-9
"""Type II error up to which a power is known well enough without a contour."""

_ADD_ONE = 1e-15
"""Relative rounding of a number of steps times the cumulant of one step."""

_LEAST_RIGHT = -2.0
"""ln delta below which a profile is evaluated on the right of both poles, where it keeps its digits."""


@final
@dataclass(frozen=True)
class Units:
    """P different units of steps of one law. A unit is a tuple of steps that runs repeat.

    Attributes
    ----------
    units : tuple
        Steps of each unit.
    spread : (P,)
        Approximate standard deviation of the loss of each unit, in nats.
    digits : (P,)
        Truncation levels: jumps of the loss of probability 10^-digits are omitted.
    most, least : (P,)
        Largest and smallest number of times that a run repeats the unit.
    """

    units: tuple[tuple[Summand, ...], ...]
    spread: FloatArray
    digits: FloatArray
    most: FloatArray
    least: FloatArray

    @staticmethod
    def of(runs: Mapping[UnitAtLevel, Sequence[Sequence[Task]]]) -> Units:
        """Return the units of all tasks: the tuples of steps that runs repeat, each at one truncation level.

        A key of `runs` has the steps of a unit, the index of its truncation level in `TRUNCATION_DIGITS`, and whether
        few steps use the record. The value lists the runs that repeat the unit, each as the list of its tasks (numbers
        to evaluate).
        """
        units = tuple(unit for unit, _, _ in runs)
        squares = [sum(step.count * min(step.spread, 1.0) ** 2 for step in unit) for unit in units]
        counts = [[float(tasks[0].times) for tasks in listed] for listed in runs.values()]
        most, least = (np.array([end(each) for each in counts]) for end in (max, min))
        digits = np.array([TRUNCATION_DIGITS[level] for _, level, _ in runs])
        return Units(units, np.sqrt(squares), digits, most, least)

    def law(self, indices: IndexArray) -> NormalTrapezoid:
        """Return the log-moment functions of the units with the given indices.

        Each is laid out for the largest number of repetitions of the unit. Quadrature nodes that serve the largest
        number also serve fewer repetitions. A unit is a tuple of steps that runs repeat (`Units`).
        """
        chosen: list[int] = indices.tolist()
        steps = tuple(step for index in chosen for step in self.units[index])
        deviation = np.sqrt(self.least) * self.spread
        return separately_truncated(steps, deviation[indices], self.digits[indices], self.most[indices])

    def blocks(self) -> Iterator[IndexArray]:
        """Yield arrays of indices of units, blocks whose quadrature grids have similar lengths.

        Units with more than 5,000 nodes, or with losses below 1e-140 in size, are left out. A unit is a tuple of steps
        that runs repeat (`Units`).
        """
        nodes: IndexArray = self.law(np.arange(len(self.units))).lengths.reshape(len(self.units), -1).max(axis=1)
        order = np.argsort(nodes, kind="stable")
        order = order[(nodes <= _MOST_NODES)[order] & (self.spread >= _LEAST_SPREAD)[order]]
        start = 0
        while start < len(order):
            alike = np.searchsorted(nodes[order], _ALIKE * nodes[order[start]], side="right")
            end = min(int(alike), start + GROUPS_TOGETHER)
            yield order[start:end]
            start = end


@final
class CumulantTable:
    """Cumulants K, K', K'' of P units of steps at S tilts around 1/2, arrays (S, P).

    K(s) = ln E0 e^{sL} is the log-moment function of the loss L of one unit, a tuple of steps that runs repeat.
    `real_law` has the quadrature nodes of the table, and `contour_law` has the nodes for contours.
    """

    def __init__(self, units: Units, indices: IndexArray) -> None:
        self.contour_law = units.law(indices)
        self.real_law = self.contour_law.real
        most, least = units.most[indices], units.least[indices]
        middle = self.real_law.cumulants(np.full((1, len(indices)), 0.5))
        self.core = np.sqrt(middle.second[0] / most)
        near: FloatArray = _NEAREST_TILT / (self.core * np.sqrt(most))
        rare = self.real_law.over_run(self.real_law.rate) < FEW_SAMPLED
        near = np.where(rare, np.minimum(near, _FIRST_OF_RARE), near)
        far = 0.5 + _FARTHEST_TILT / (self.core * np.sqrt(least))
        side = math.ceil(float((np.log(far / near) / np.log(np.where(rare, _RATIO_OF_RARE, _RATIO))).max())) + 1
        offsets = near * (far / near) ** (np.arange(side) / (side - 1))[:, None]
        self.tilts = np.concatenate([0.5 - offsets[::-1], 0.5 + offsets])
        found = self.real_law.cumulants(self.tilts)
        usable = (
            (found.discretisation < LARGEST_DISCRETISATION)
            & (found.second > 0)
            & np.isfinite(found.first + found.value)
        )
        usable[side:] = np.logical_and.accumulate(usable[side:])
        usable[:side] = np.logical_and.accumulate(usable[:side][::-1])[::-1]
        self.usable = usable
        self.value, self.first, self.second = found.value / most, found.first / most, found.second / most
        self.error = found.error / most + _ADD_ONE * np.abs(self.value)

    def batches(self, runs: Sequence[tuple[int, Sequence[Task]]]) -> Iterator[ContourBatch]:
        """Yield batches of contours that serve the tasks (numbers to evaluate) of all runs.

        `runs` has (index of the run's unit of steps, tasks of the run in one direction). Similar contours are in one
        batch. A unit is a tuple of steps that runs repeat (`Units`).
        """
        for reflected in (False, True):
            chosen = [(unit, tasks) for unit, tasks in runs if tasks[0].wanted.reflected is reflected]
            if chosen:
                yield from _Runs(self, chosen, reflected).batches()
        self._keep_caps([(unit, task) for unit, tasks in runs for task in tasks if task.is_first])

    def _keep_caps(self, chosen: Sequence[tuple[int, Task]]) -> None:
        """Keep in each task an upper bound of epsilon of the remove direction, at the delta of the task.

        `chosen` has (index of the unit of steps, task), where a task is epsilon of the add direction. A unit is a tuple
        of steps that runs repeat (`Units`).
        """
        if not chosen:
            return
        unit, count = np.array([unit for unit, _ in chosen]), np.array([float(task.times) for _, task in chosen])
        delta = np.array([task.wanted.at for _, task in chosen])
        # The tilt s > 1 of remove is the tilt 1 - s < 0 of add, and the mass of H0 of add is that of H1 of remove.
        tilts = np.where(self.tilts < -1e-9, 1 - self.tilts, np.nan)[:, unit]
        truncated = np.log(count) + self.real_law.log_truncated_once[0][unit]
        caps = chernoff_caps(tilts, count * self.value[:, unit], count * self.error[:, unit], truncated, delta)
        for (_, task), cap in zip(chosen, caps.tolist(), strict=True):
            known = Known(True, "epsilon_cap", task.wanted.at)
            task.known[known] = Enclosure(0.0, cap, Evidence.CERTIFIED)


@final
class _Runs:
    """R runs in one direction with their tasks (numbers to evaluate), and their columns of a `CumulantTable`.

    Arrays have the shape (S, R): S tilts theta, increasing, of each run.
    """

    def __init__(self, table: CumulantTable, runs: Sequence[tuple[int, Sequence[Task]]], reflected: bool) -> None:
        self._law, self._reflected = table.contour_law, reflected
        self._tasks = [tasks for _, tasks in runs]
        self._unit = np.array([unit for unit, _ in runs])
        self._count = np.array([float(tasks[0].times) for tasks in self._tasks])
        rising = slice(None, None, -1 if reflected else 1), self._unit
        theta, first, self._usable = table.tilts[rising], table.first[rising], table.usable[rising]
        self._theta, first = (1 - theta, -first) if reflected else (theta, first)
        self._value, self._threshold = self._count * table.value[rising], self._count * first
        self._deviation = np.sqrt(self._count * table.second[rising])
        self._core = table.core[self._unit] * np.sqrt(self._count)
        self._error = self._count * table.error[rising]
        null, alternative = table.real_law.log_truncated_once
        self._log_truncated_mass = np.log(self._count) + (null if reflected else alternative)[self._unit]

    def batches(self) -> Iterator[ContourBatch]:
        """Yield batches of contours that serve all tasks of the runs.

        The contours of a batch lie on one side of the poles 0 and 1 and have tasks of equal kinds. A task is one number
        to evaluate (`Task`).
        """
        self._keep_sure_powers()
        if all(task.is_known for tasks in self._tasks for task in tasks):
            return
        alike: dict[tuple[int, tuple[str, ...]], list[PlannedContour]] = {}
        for contour in self._placed():
            kinds = tuple(sorted(task.wanted.quantity for task in contour.tasks))
            alike.setdefault((contour.region, kinds), []).append(contour)
        for contours in alike.values():
            for groups in grouped(contours, self._law.over_run(self._law.rate)):
                yield ContourBatch(self._law, groups, reflected=self._reflected)

    def _keep_sure_powers(self) -> None:
        """Keep an enclosure of each power whose type II error is at most 1e-9 by a Chernoff bound, in its task.

        A truncated law has no digits of so small type II errors, so that a contour would not help. A task is one number
        to evaluate (`Task`).
        """
        listed = [(run, task) for run, tasks in enumerate(self._tasks) for task in tasks]
        listed = [(run, task) for run, task in listed if task.wanted.quantity == "power"]
        run, alpha = (
            np.array([run for run, _ in listed], dtype=np.intp),
            np.array([task.wanted.at for _, task in listed]),
        )
        tilts = np.where((self._theta > 0) & (self._theta < 1), self._theta, np.nan)[:, run]
        missed = chernoff_missed(tilts, self._value[:, run], self._error[:, run], self._log_truncated_mass[run], alpha)
        for (_, task), most in zip(listed, missed.tolist(), strict=True):
            if most <= _SURE:
                task.known[task.wanted] = Enclosure(1 - 1.01 * max(most, 1e-13), 1.0, Evidence.CERTIFIED)

    def _placed(self) -> Iterator[PlannedContour]:
        """Yield a contour for every run, or several contours where the thresholds of its numbers are far apart.

        Runs without a suitable tilt have no contour.
        """
        owner, guesses, asked = self._guesses()
        low, high = np.full(len(self._core), np.inf), np.full(len(self._core), -np.inf)
        np.minimum.at(low, owner, guesses)
        np.maximum.at(high, owner, guesses)
        together = (high - low <= _NEAR * self._core)[owner]
        groups: dict[tuple[int, int], list[int]] = {}
        for index, (run, shared) in enumerate(zip(owner.tolist(), together.tolist(), strict=True)):
            groups.setdefault((run, -1 if shared else index), []).append(index)
        run = np.array([key[0] for key in groups])
        least = np.array([guesses[indices].min() for indices in groups.values()])
        most = np.array([guesses[indices].max() for indices in groups.values()])
        right = np.array([any(_is_far(asked[index]) for index in indices) for indices in groups.values()])
        row = self._rows(run, 0.5 * (least + most), right)
        pick = np.maximum(row, 0), run
        center, deviation, theta = self._threshold[pick], self._deviation[pick], self._theta[pick]
        half_width = np.maximum(most - center, center - least) + _MARGIN * deviation
        unit, count = self._unit[run], self._count[run]
        columns = row, unit, count, theta, center, deviation, half_width
        for indices, *layout in zip(groups.values(), *(each.tolist() for each in columns), strict=True):
            if layout[0] >= 0 and layout[-1] <= _FARTHEST * layout[-2]:
                yield PlannedContour([asked[index] for index in indices], *layout)

    def _guesses(self) -> tuple[IndexArray, FloatArray, list[Task]]:
        """Return the run of each task, an approximate threshold (nats) of its number, and the tasks.

        The results have one length. Tasks that are known, or have no finite threshold, are left out. A task is one
        number to evaluate (`Task`). No bound depends on the thresholds.
        """
        listed = [(run, task) for run, tasks in enumerate(self._tasks) for task in tasks if not task.is_known]
        owner, tasks = np.array([run for run, _ in listed]), [task for _, task in listed]
        at = np.array([task.wanted.at for task in tasks])
        kind = np.array([task.wanted.quantity.replace("point", "power") for task in tasks])
        found = np.where(kind == "profile", at, np.nan)
        for name, rising, wanted in (
            ("power", tail_scores, -ndtri(np.where(kind == "power", at, 0.5))),
            ("epsilon", _depths, -np.log(np.where(kind == "epsilon", at, 0.5))),
        ):
            indices = np.flatnonzero(kind == name)
            if len(indices):
                own = owner[indices]
                rows = (each[:, own] for each in (self._theta, self._value, self._threshold, self._deviation))
                found[indices] = self._threshold_at(rising(*rows), wanted[indices], own)
        known = np.isfinite(found)
        return owner[known], found[known], [task for task, is_known in zip(tasks, known, strict=True) if is_known]

    def _threshold_at(self, rising: FloatArray, wanted: FloatArray, run: IndexArray) -> FloatArray:
        """Return the thresholds (nats) at which increasing functions of the tilt reach the values `wanted`, shape (n,).

        `rising` has the functions of n tasks at the tilts, shape (tilts, n), and `run` has the runs of the tasks. The
        interpolation is linear. Where a value is not reached, the result is the threshold of the last usable tilt.
        """
        usable, threshold = self._usable[:, run], self._threshold[:, run]
        reached = usable & (rising >= wanted)
        last = usable.shape[0] - 1 - usable[::-1].argmax(axis=0)
        after = np.asarray(np.where(reached.any(axis=0), reached.argmax(axis=0), last), dtype=np.intp)
        before = np.maximum(after - 1, usable.argmax(axis=0))
        indices = np.arange(len(run))
        low, high = rising[before, indices], rising[after, indices]
        share = np.clip((wanted - low) / np.where(high > low, high - low, np.inf), 0.0, 1.0)
        return threshold[before, indices] + share * (threshold[after, indices] - threshold[before, indices])

    def _rows(self, run: IndexArray, center: FloatArray, right: BoolArray) -> IndexArray:
        """Return the index of the tilt of each contour in the table, shape (n,), or -1 where no tilt serves.

        `run` is the run of each contour, `center` is the threshold (nats) to serve, and `right` is whether the contour
        has to lie on the right of both poles 0 and 1.
        """
        theta, deviation = self._theta[:, run], self._deviation[:, run]
        apart = np.minimum(np.abs(theta), np.abs(theta - 1)) * np.maximum(deviation, _WEAK) >= _FROM_POLES
        serves = self._usable[:, run] & apart & ((theta > 1) | ~right)
        value = np.where(serves, self._value[:, run], np.inf)
        lost = cancellation(theta, value, deviation, self._core[run], center, _LARGEST_CANCELLATION)
        return np.asarray(np.where(serves.any(axis=0), lost.argmin(axis=0), -1), dtype=np.intp)


def _depths(theta: FloatArray, value: FloatArray, threshold: FloatArray, deviation: FloatArray) -> FloatArray:
    return -log_profiles(theta, value, threshold, deviation)


def _is_far(task: Task) -> bool:
    return task.wanted.quantity == "epsilon" and math.log(task.wanted.at) < _LEAST_RIGHT
