"""Evaluation of many runs together, where each run repeats a few kinds of steps of one law (`RunLaw.unit`).

A single run pays the overhead of many small arrays. Arrays with one entry for each run pay the overhead once. Contours
(paths of inversion integrals), errors and enclosures are those of single runs (`straight.py`, `readings/`). This module
chooses the contours of all runs:

- Runs that repeat equal steps share the nodes of their transforms. They also share a table of cumulants of one step at
  some tilts, the real numbers at which contours cross the axis.
- Every run has a contour at the tilt of the table that serves its numbers best. Numbers that are near each other share
  a contour, because a contour loses few digits a standard deviation or two beside its saddle point.
- Numbers that stay wide are evaluated for each run alone, with other truncation levels, neighbouring contours and
  deformed contours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from scipy.special import erfc, ndtri

from service.privacy.composition.inversion.engine import ContourTradeOff
from service.privacy.composition.inversion.many_contours import Task, UnitAtLevel
from service.privacy.composition.inversion.many_tilts import CumulantTable, Units
from service.privacy.composition.inversion.run_law import TRUNCATION_DIGITS, RunLaw
from service.privacy.composition.summands.abstract import Summand
from service.privacy.enclosure import Enclosure
from service.privacy.errors import DeadlinePassed, NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import is_late
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.data_processing_bound import DataProcessingBound
from service.privacy.trade_off.combinators.intersected import Intersected
from service.privacy.trade_off.combinators.prefetched import Known
from service.privacy.trade_off.combinators.sum_of_guarantees import SumOfGuarantees

_SHARE = 0.5
"""Share of the time of a request after which nothing more is evaluated together. Single runs need the rest."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Numbers of one run that shall be evaluated (`readings`), and the enclosures found so far in `known`."""

    run: RunLaw
    readings: tuple[Known, ...]
    known: dict[Known, Enclosure] = field(default_factory=dict[Known, Enclosure])


def run_of(curve: AbstractTradeOff) -> RunLaw | None:
    """Return the run of a curve that can be evaluated together with other runs, or None.

    Bounds around the curve of a run (data processing, sums of guarantees, intersections) are removed first. The result
    is None if contours do not evaluate the curve, or if its run does not repeat a few steps of one law (`RunLaw.unit`).
    """
    while isinstance(curve, DataProcessingBound | Intersected | SumOfGuarantees):
        curve = curve.curve
    return curve.run if isinstance(curve, ContourTradeOff) and curve.run.unit is not None else None


@np.errstate(all="ignore")
def evaluate_together(wanted: Iterable[Wanted], width: float) -> None:
    """Evaluate the numbers `wanted` of many runs together, and keep the narrow enclosures in `known` of each run.

    An enclosure is kept if its relative width is at most `width`. For each epsilon of the add direction, an upper bound
    of epsilon of the remove direction at that delta is kept, as the quantity `epsilon_cap`. Where epsilon is needed in
    both directions, that of the remove direction is evaluated only if that of the add direction was found and
    `epsilon_cap` may exceed it.

    Raises
    ------
    DeadlinePassed
        When a share of the time of the request has passed.
    """
    wanted = tuple(wanted)
    tasks = [task for each in wanted for task in _tasks(each)]
    _read_at_levels([task for task in tasks if not task.is_second], width)
    second = [task for task in tasks if task.is_second and task.known_first is not None]
    _read_at_levels([task for task in second if not _is_below(task)], width)
    for each in wanted:
        if each.run.is_symmetric:
            each.known.update({known._replace(reflected=True): found for known, found in each.known.items()})


def _tasks(wanted: Wanted) -> Iterator[Task]:
    run = wanted.run
    if run.unit is None:
        return
    directions = (each._replace(reflected=each.reflected and not run.is_symmetric) for each in wanted.readings)
    for known in dict.fromkeys(directions):
        if known.quantity == "profile" or 0 < known.at < 1:
            second = known.reflected and known.quantity == "epsilon"
            second = second and known._replace(reflected=False) in wanted.readings
            yield Task(run, *run.unit, known, second, wanted.known)


def _is_below(task: Task) -> bool:
    """Return whether epsilon of the remove direction is proved to be at most epsilon of the add direction.

    Both epsilons are at the delta of the task, which is one number to evaluate. The result is False if one of them is
    not known.
    """
    cap, first = task.known.get(task.wanted._replace(quantity="epsilon_cap")), task.known_first
    return cap is not None and first is not None and cap.upper <= first.lower


def _read_at_levels(tasks: Sequence[Task], width: float) -> None:
    """Evaluate all tasks (numbers of runs) at the first truncation level of each, and wide ones at the second level.

    Enclosures of relative width up to `width` are kept in the tasks.
    """
    if tasks:
        shallow, light = _levels(tasks)
        _read(tasks, shallow, width)
        wide = np.array([not task.is_known for task in tasks]) & (light != shallow)
        _read([task for task, again in zip(tasks, wide, strict=True) if again], light[wide], width)


def _read(tasks: Sequence[Task], levels: IndexArray, width: float) -> None:
    """Evaluate tasks in blocks of similar steps, and store the enclosures of relative width up to `width` in the tasks.

    A task is one number to compute of one run. `levels` has the truncation level of each task as an index in
    `TRUNCATION_DIGITS`.
    """
    if not tasks:
        return
    by_direction: dict[tuple[int, bool], list[int]] = {}
    for index, task in enumerate(tasks):
        by_direction.setdefault((id(task.run), task.wanted.reflected), []).append(index)
    by_kind: dict[tuple[Any, ...], dict[UnitAtLevel, list[list[Task]]]] = {}
    for indices in by_direction.values():
        first, level = tasks[indices[0]], int(levels[indices].max())
        by_unit = by_kind.setdefault((first.unit[0].batch, len(first.unit)), {})
        by_unit.setdefault((first.unit, level, first.is_rare), []).append([tasks[index] for index in indices])
    for by_unit in by_kind.values():
        _read_units(by_unit, width)


def _read_units(by_unit: dict[UnitAtLevel, list[list[Task]]], width: float) -> None:
    """Evaluate tasks of runs of one law with an equal number of kinds of steps, and keep narrow enclosures.

    A key of `by_unit` has the repeated steps, the truncation level, and whether few steps use the record. The value
    lists the runs that repeat these steps, each as the list of its tasks (numbers to evaluate). Enclosures of relative
    width up to `width` are kept. Raises DeadlinePassed if a share of the time of the request has passed.
    """
    units, runs = Units.of(by_unit), list(by_unit.values())
    for block in units.blocks():
        indices: list[int] = block.tolist()
        listed = [(unit, each) for unit, index in enumerate(indices) for each in runs[index]]
        for batch in CumulantTable(units, block).batches(listed):
            if is_late(_SHARE):
                raise DeadlinePassed
            try:
                batch.evaluate(width)
            except NumericalFailure:
                continue  # whichever run it is says so alone


def _levels(tasks: Sequence[Task]) -> tuple[IndexArray, IndexArray]:
    """Return two truncation levels for each task (number of a run), as indices in `TRUNCATION_DIGITS`, shape (tasks,).

    A level says how little of the law is omitted. The first level is the shallowest that has enough digits. The second
    is the shallowest of these and deeper levels at which the quadrature grid ends with a negligible weight, or again
    the first level if there is none.
    """
    at = np.array([task.wanted.at for task in tasks])
    deviation = np.maximum(np.array([task.run.deviation for task in tasks]), 1e-290)
    by_threshold = np.array([task.wanted.quantity == "profile" for task in tasks])
    by_power = np.array([task.wanted.quantity in {"power", "point"} for task in tasks])
    rate = np.where(by_threshold, 0.5, at)
    score = np.where(by_threshold, np.minimum((np.abs(at) + 0.5 * deviation**2) / deviation, 36.0), np.abs(ndtri(rate)))
    value = np.where(
        by_threshold, 0.5 * erfc(score / math.sqrt(2)), np.where(by_power, np.minimum(rate, 1 - rate), rate)
    )
    digits = np.array(TRUNCATION_DIGITS)[:, None]
    enough = digits >= 12 - np.log10(np.maximum(value, 1e-300))
    enough[-1] = True
    light = _last_nodes_are_negligible(tasks, 0.5 + np.ceil(score) / deviation)
    both, shallow = enough & light, enough.argmax(axis=0)
    return shallow, np.asarray(np.where(both.any(axis=0), both.argmax(axis=0), shallow), dtype=np.intp)


def _last_nodes_are_negligible(tasks: Sequence[Task], theta: FloatArray) -> BoolArray:
    """Return whether quadrature grids end with a negligible weight at the tilts `theta` of the tasks, (levels, tasks).

    The weight of a node is that of the loss S times e^{theta S}. Levels are those of `TRUNCATION_DIGITS`. The value is
    always true for tasks of runs that seldom use the record (`Task.is_rare`).
    """
    digits = np.array(TRUNCATION_DIGITS)
    light = np.ones((len(digits), len(tasks)), dtype=bool)
    by_law: dict[type[Summand], list[int]] = {}
    for index, task in enumerate(tasks):
        if not task.is_rare:  # tilts of rare runs are near the core at every level
            by_law.setdefault(type(task.unit[0]), []).append(index)
    for law, indices in by_law.items():
        light[:, indices] = law.last_nodes_are_negligible(
            [tasks[index].run.summands for index in indices], digits, theta[indices]
        )
    return light
