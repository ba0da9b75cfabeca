"""Many runs read together, each of one kind of Poisson-sampled Gaussian step: what costs the overhead of many small
arrays for each run alone is an array with one entry for each run here. Lines, errors and readings are those of single
runs (`line.py`, `composition/readings.py`); only what is laid out where is decided here, for all runs at once:

- runs of equal noise and rate share the nodes of their transforms, and a table of cumulants of one step at some tilts;
- every run has a line at the tilt of the table that serves its readings best, and one line for readings that are near
  each other, as a line loses few digits a deviation or two beside its saddle point;
- what is not narrow then is left to the run alone, which has other cuts, neighbouring lines and bent contours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from scipy.special import erfc, ndtri

from service.privacy.composition.contour.engine import ContourTradeOff, chernoff_caps
from service.privacy.composition.contour.line import ContourLine
from service.privacy.composition.contour.run import CUT_DIGITS, ContourRun, ends_are_light
from service.privacy.composition.readings import prove_root, read_points, read_profile, solve_profile
from service.privacy.composition.transforms.abstract import LineValues
from service.privacy.composition.transforms.sampled_gaussian import SampledGaussianParts
from service.privacy.composition.transforms.sampled_gaussian_line import SampledGaussianLine
from service.privacy.composition.transforms.steps import SampledGaussianSteps
from service.privacy.enclosure import Bounds, Enclosure, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.intersected import Intersected
from service.privacy.trade_off.combinators.no_easier import NoEasierThanParts
from service.privacy.trade_off.combinators.read_ahead import Known

_TOGETHER = 48
"""Steps, and lines, that are evaluated together: their arrays stay near the processor."""

_MOST_NODES, _LONGEST = 3_000, 1_500
"""Nodes of a grid, and of a line, beyond which a run is left to itself."""

_NEAREST_TILT, _FARTHEST_TILT, _RATIO = 0.35, 11.0, 1.22
"""Tilts of the table: their distances from 1/2 in inverse deviations of the loss, and how they grow."""

_LARGEST_TRUNCATION = 1e-12
_FROM_POLES = 0.4
"""Inverse deviations that a line stays away from the poles at least."""

_SHORT, _CANCELLATION = 2.0, 8.0
"""As in `ladder.py`: deviations of lines over that of the core that are preferred, and the nats they may lose."""

_NEAR = 3.5
"""Deviations within which readings share a line."""

_FARTHEST = 6.0
"""Deviations from its saddle point to which a line may have to reach: what is farther is ruled by rare jumps."""

_MARGIN = 0.9
"""Deviations beside the guessed thresholds for which a line is laid out."""

_ADD_ONE = 1e-15
"""Rounding of a number of steps times the cumulant of one."""

_LEAST_RIGHT = -2.0
"""ln delta from which a profile is read on the right of both poles, where it keeps its digits."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Readings of one run, and what is `known` of them in the end."""

    run: ContourRun
    readings: tuple[Known, ...]
    known: dict[Known, Enclosure] = field(default_factory=dict[Known, Enclosure])


def run_of(curve: AbstractTradeOff) -> ContourRun | None:
    """The run whose lines a curve reads first; None where it reads none, or where they are not read together."""
    while not isinstance(curve, ContourTradeOff):
        if isinstance(curve, NoEasierThanParts):
            curve = curve.whole
        elif isinstance(curve, Intersected):
            curve = curve.first
        else:
            return None
    return curve.run if curve.run.only_step is not None else None


@np.errstate(all="ignore")
def read_ahead(wanted: Iterable[Wanted], width: float) -> None:
    """Read what is narrower than the relative `width` together, into what is `known` of each run.

    epsilon in both directions: the second is read only where a bound of it, which is kept as well, is not below the
    first.
    """
    tasks = [task for each in wanted for task in _tasks(each)]
    _read_on_cuts([task for task in tasks if not task.is_second], width)
    second = [task for task in tasks if task.is_second and task.known_first is not None]
    _read_on_cuts([task for task in second if not _is_below(task)], width)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Task:
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


def _tasks(wanted: Wanted) -> Iterator[_Task]:
    run, step = wanted.run, wanted.run.only_step
    if step is None:
        return
    for known in dict.fromkeys(wanted.readings):
        if known.quantity == "profile" or 0 < known.at < 1:
            second = known.reflected and known.quantity == "epsilon"
            second = second and known._replace(reflected=False) in wanted.readings
            yield _Task(run, step, known, second, wanted.known)


def _is_below(task: _Task) -> bool:
    """Whether epsilon of the remove direction is at most that of add."""
    cap, first = task.known.get(task.wanted._replace(quantity="epsilon_cap")), task.known_first
    return cap is not None and first is not None and cap.upper <= first.lower


def _read_on_cuts(tasks: Sequence[_Task], width: float) -> None:
    """All tasks on the first cut of each, and those that are wide then on the second."""
    if tasks:
        shallow, light = _cuts(tasks)
        _read(tasks, shallow, width)
        wide = np.array([not task.is_known for task in tasks]) & (light != shallow)
        _read([task for task, again in zip(tasks, wide, strict=True) if again], light[wide], width)


def _read(tasks: Sequence[_Task], cuts: IndexArray, width: float) -> None:
    """All tasks, some steps at a time."""
    if not tasks:
        return
    by_line: dict[tuple[int, bool], list[int]] = {}
    for index, task in enumerate(tasks):
        by_line.setdefault((id(task.run), task.wanted.reflected), []).append(index)
    by_step: dict[tuple[float, float, int], list[list[int]]] = {}
    for places in by_line.values():
        step, cut = tasks[places[0]].step, int(cuts[places].max())
        by_step.setdefault((step.noise_multiplier, step.sample_rate, cut), []).append(places)
    keys = list(by_step)
    counts = [[tasks[places[0]].step.number for places in by_step[key]] for key in keys]
    most, least = np.array([float(max(each)) for each in counts]), np.array([float(min(each)) for each in counts])
    steps = _Steps.of(keys, most, least)
    for block in steps.blocks():
        found = _Table(steps, block)
        for lines in found.lines([by_step[keys[index]] for index in block], tasks):
            try:
                lines.read(width)
            except NumericalFailure:
                continue  # whichever run it is says so alone


def _cuts(tasks: Sequence[_Task]) -> tuple[IndexArray, IndexArray]:
    """The first two of `ContourRun.cuts`."""
    at = np.array([task.wanted.at for task in tasks])
    deviation = np.maximum(np.array([task.run.deviation for task in tasks]), 1e-290)
    by_threshold = np.array([task.wanted.quantity == "profile" for task in tasks])
    by_power = np.array([task.wanted.quantity == "power" for task in tasks])
    rate = np.where(by_threshold, 0.5, at)
    score = np.where(by_threshold, np.minimum((np.abs(at) + 0.5 * deviation**2) / deviation, 36.0), np.abs(ndtri(rate)))
    value = np.where(
        by_threshold, 0.5 * erfc(score / math.sqrt(2)), np.where(by_power, np.minimum(rate, 1 - rate), rate)
    )
    digits = np.array(CUT_DIGITS)[:, None]
    enough = digits >= 12 - np.log10(np.maximum(value, 1e-300))
    enough[-1] = True
    sigma, p, count = (np.array([float(task.step[place]) for task in tasks]) for place in range(3))
    theta = 0.5 + np.ceil(score) / deviation
    shape = enough.shape
    light = ends_are_light(*(np.broadcast_to(each, shape) for each in (sigma, p, count, digits, theta)))
    both, shallow = enough & light, enough.argmax(axis=0)
    return shallow, np.where(both.any(axis=0), both.argmax(axis=0), shallow)


@final
@dataclass(frozen=True)
class _Steps:
    """Different steps, arrays (P,): `most` and `least` how often they are taken, `digits` where their laws are cut."""

    sigma: FloatArray
    rate: FloatArray
    digits: FloatArray
    most: FloatArray
    least: FloatArray

    @staticmethod
    def of(keys: Sequence[tuple[float, float, int]], most: FloatArray, least: FloatArray) -> _Steps:
        """Of noise, rate and cut."""
        sigma, rate = np.array([key[0] for key in keys]), np.array([key[1] for key in keys])
        return _Steps(sigma, rate, np.array([CUT_DIGITS[key[2]] for key in keys]), most, least)

    def parts(self, places: IndexArray) -> SampledGaussianParts:
        """Their transforms, with the most steps of each: nodes that serve those serve fewer."""
        deviation = np.sqrt(self.least) * np.minimum(self.rate / self.sigma, 1.0)
        columns = (column[places].tolist() for column in (self.sigma, self.rate, self.most))
        listed = tuple(
            SampledGaussianSteps(sigma, rate, int(count)) for sigma, rate, count in zip(*columns, strict=True)
        )
        return SampledGaussianParts(listed, deviation[places], self.digits[places], separate=True)

    def blocks(self) -> Iterator[IndexArray]:
        """Steps whose grids are about as long, some at a time."""
        nodes = self.parts(np.arange(len(self.sigma))).lengths
        order = np.argsort(nodes, kind="stable")
        order = order[nodes[order] <= _MOST_NODES]
        for start in range(0, len(order), _TOGETHER):
            yield order[start : start + _TOGETHER]


@final
class _Table:
    """Cumulants of single steps at some tilts s around 1/2, arrays (S, P)."""

    def __init__(self, steps: _Steps, places: IndexArray) -> None:
        self.parts = steps.parts(places)
        most, least = steps.most[places], steps.least[places]
        middle = self.parts.cumulants(np.full((1, len(places)), 0.5))
        self._core = np.sqrt(middle.second[0] / most)
        near, far = _NEAREST_TILT / (self._core * np.sqrt(most)), _FARTHEST_TILT / (self._core * np.sqrt(least))
        side = math.ceil(float(np.log(far / near).max()) / math.log(_RATIO)) + 1
        offsets = near * (far / near) ** (np.arange(side) / (side - 1))[:, None]
        self._tilts = np.concatenate([0.5 - offsets[::-1], 0.5 + offsets])
        found = self.parts.cumulants(self._tilts)
        usable = (found.truncation < _LARGEST_TRUNCATION) & (found.second > 0) & np.isfinite(found.first + found.value)
        usable[side:] = np.logical_and.accumulate(usable[side:])
        usable[:side] = np.logical_and.accumulate(usable[:side][::-1])[::-1]
        self._usable = usable
        self._value, self._first, self._second = found.value / most, found.first / most, found.second / most
        self._error = found.error / most + _ADD_ONE * np.abs(self._value)

    def lines(self, placed: Sequence[Sequence[Sequence[int]]], tasks: Sequence[_Task]) -> Iterator[_Lines]:
        """The lines that serve the tasks of every step, those that are alike together."""
        for reflected in (False, True):
            chosen = [
                (part, places)
                for part, runs in enumerate(placed)
                for places in runs
                if tasks[places[0]].wanted.reflected is reflected
            ]
            if not chosen:
                continue
            part = np.array([part for part, _ in chosen])
            listed = [[tasks[place] for place in places] for _, places in chosen]
            yield from _Runs(self, part, listed, reflected).lines()
        self._keep_caps(placed, tasks)

    def _keep_caps(self, placed: Sequence[Sequence[Sequence[int]]], tasks: Sequence[_Task]) -> None:
        """Upper bounds of epsilon of the remove direction, beside that of add."""
        chosen = [
            (part, tasks[place])
            for part, runs in enumerate(placed)
            for places in runs
            for place in places
            if tasks[place].wanted.quantity == "epsilon" and not tasks[place].wanted.reflected
        ]
        if not chosen:
            return
        part, count = np.array([part for part, _ in chosen]), np.array([float(task.step.number) for _, task in chosen])
        delta = np.array([task.wanted.at for _, task in chosen])
        # s > 1 of the remove direction is the tilt 1 - s < 0 of add, whose mass of H0 is that of H1 there.
        tilts = np.where(self._tilts < -1e-9, 1 - self._tilts, np.nan)[:, part]
        dropped = np.log(count) + self.parts.log_dropped_null[part]
        caps = chernoff_caps(tilts, count * self._value[:, part], count * self._error[:, part], dropped, delta)
        for (_, task), cap in zip(chosen, caps.tolist(), strict=True):
            known = Known(True, "epsilon_cap", task.wanted.at)
            task.known[known] = Enclosure(0.0, cap, Evidence.CERTIFIED)

    def of_runs(self, part: IndexArray, count: FloatArray, *, reflected: bool) -> tuple[FloatArray, ...]:
        """theta, K, K', the deviation, all (S, R), by rising theta, and where they are of use."""
        side = slice(None, None, -1) if reflected else slice(None)
        theta = 1 - self._tilts[side][:, part] if reflected else self._tilts[:, part]
        first = -self._first[side][:, part] if reflected else self._first[:, part]
        deviation = np.sqrt(count * self._second[side][:, part])
        return theta, count * self._value[side][:, part], count * first, deviation, self._usable[side][:, part]

    def core(self, part: IndexArray, count: FloatArray) -> FloatArray:
        """Deviations of the losses of runs."""
        return self._core[part] * np.sqrt(count)


@final
class _Runs:
    """Runs in one direction with their tasks, and what the table says about them: arrays (S, R)."""

    def __init__(self, table: _Table, part: IndexArray, tasks: Sequence[Sequence[_Task]], reflected: bool) -> None:
        self._table, self._part, self._tasks, self._reflected = table, part, tasks, reflected
        self._count = np.array([float(each[0].step.number) for each in tasks])
        self._core = table.core(part, self._count)
        self._theta, self._value, self._threshold, self._deviation, self._usable = table.of_runs(
            part, self._count, reflected=reflected
        )

    def lines(self) -> Iterator[_Lines]:
        """Their lines, those on the same side of the poles and with as many tasks of each kind together."""
        alike: dict[tuple[int, tuple[str, ...]], list[_Line]] = {}
        for line in self._placed():
            kinds = tuple(sorted(task.wanted.quantity for task in line.tasks))
            alike.setdefault((line.region, kinds), []).append(line)
        for lines in alike.values():
            lines.sort(key=lambda line: line.expected)
            for start in range(0, len(lines), _TOGETHER):
                yield _Lines(self._table.parts, lines[start : start + _TOGETHER], reflected=self._reflected)

    def _placed(self) -> Iterator[_Line]:
        """A line for every run, or several where its readings are far apart."""
        owner, guesses, asked = self._guesses()
        low, high = np.full(len(self._core), np.inf), np.full(len(self._core), -np.inf)
        np.minimum.at(low, owner, guesses)
        np.maximum.at(high, owner, guesses)
        together = (high - low <= _NEAR * self._core)[owner]
        groups: dict[tuple[int, int], list[int]] = {}
        for place, (run, shared) in enumerate(zip(owner.tolist(), together.tolist(), strict=True)):
            groups.setdefault((run, -1 if shared else place), []).append(place)
        run = np.array([key[0] for key in groups])
        least = np.array([guesses[places].min() for places in groups.values()])
        most = np.array([guesses[places].max() for places in groups.values()])
        right = np.array([any(_is_far(asked[place]) for place in places) for places in groups.values()])
        row = self._rows(run, 0.5 * (least + most), right)
        pick = np.maximum(row, 0), run
        center, deviation, theta = self._threshold[pick], self._deviation[pick], self._theta[pick]
        reach = np.maximum(most - center, center - least) + _MARGIN * deviation
        region = (theta > 0).astype(int) + (theta > 1)
        parts, count = self._part[run], self._count[run]
        expected = count * self._table.parts.rate[parts]
        for index, places in enumerate(groups.values()):
            if row[index] >= 0 and reach[index] <= _FARTHEST * deviation[index]:
                yield _Line(
                    [asked[place] for place in places],
                    int(region[index]),
                    float(expected[index]),
                    int(parts[index]),
                    float(count[index]),
                    float(theta[index]),
                    float(center[index]),
                    float(deviation[index]),
                    float(reach[index]),
                )

    def _guesses(self) -> tuple[IndexArray, FloatArray, list[_Task]]:
        """The run of each task, about its threshold, and the tasks."""
        listed = [(run, task) for run, tasks in enumerate(self._tasks) for task in tasks]
        owner, tasks = np.array([run for run, _ in listed]), [task for _, task in listed]
        at = np.array([task.wanted.at for task in tasks])
        kind = np.array([task.wanted.quantity for task in tasks])
        found = np.where(kind == "profile", at, np.nan)
        for name, rising, wanted in (
            ("power", self._score, -ndtri(np.where(kind == "power", at, 0.5))),
            ("epsilon", -self._log_profile, -np.log(np.where(kind == "epsilon", at, 0.5))),
        ):
            places = np.flatnonzero(kind == name)
            if len(places):
                found[places] = self._threshold_at(rising[:, owner[places]], wanted[places], owner[places])
        known = np.isfinite(found)
        return owner[known], found[known], [task for task, is_known in zip(tasks, known, strict=True) if is_known]

    def _threshold_at(self, rising: FloatArray, wanted: FloatArray, run: IndexArray) -> FloatArray:
        """Where something that rises with the tilt reaches a value, by linear interpolation; at the last tilt of use
        where it does not.
        """
        usable, threshold = self._usable[:, run], self._threshold[:, run]
        reached = usable & (rising >= wanted)
        last = usable.shape[0] - 1 - usable[::-1].argmax(axis=0)
        after = np.where(reached.any(axis=0), reached.argmax(axis=0), last)
        before = np.maximum(after - 1, usable.argmax(axis=0))
        places = np.arange(len(run))
        low, high = rising[before, places], rising[after, places]
        share = np.clip((wanted - low) / np.where(high > low, high - low, np.inf), 0.0, 1.0)
        return threshold[before, places] + share * (threshold[after, places] - threshold[before, places])

    @cached_property
    def _score(self) -> FloatArray:
        """About -Phi^{-1}(P0(S > threshold)), as in `ladder.py`."""
        theta = self._theta
        root = np.copysign(np.sqrt(np.maximum(2 * (theta * self._threshold - self._value), 1e-300)), theta)
        return np.where(np.abs(root) > 1e-3, root + np.log(theta * self._deviation / root) / root, root)

    @cached_property
    def _log_profile(self) -> FloatArray:
        """About ln delta(threshold), as there."""
        theta = self._theta
        damping = np.maximum(theta - 1, 0.0) * np.maximum(theta, 1.0) * self._deviation
        tail = np.where(theta > 1, np.minimum(self._value - (theta - 1) * self._threshold, 0.0), 0.0)
        return tail - np.log1p(2.5 * damping)

    def _rows(self, run: IndexArray, center: FloatArray, right: BoolArray) -> IndexArray:
        """The tilt of each line by its place in the table; -1 where none serves. `right`: of both poles."""
        theta, deviation = self._theta[:, run], self._deviation[:, run]
        apart = np.minimum(np.abs(theta), np.abs(theta - 1)) * deviation >= _FROM_POLES
        serves = self._usable[:, run] & apart & ((theta > 1) | ~right)
        loss = np.where(serves, self._value[:, run] - theta * center, np.inf)
        loss = loss - loss.min(axis=0)
        short = np.where(deviation <= _SHORT * self._core[run], loss, np.inf)
        chosen = np.where(short.min(axis=0) <= _CANCELLATION, short.argmin(axis=0), loss.argmin(axis=0))
        return np.where(serves.any(axis=0), chosen, -1)


def _is_far(task: _Task) -> bool:
    return task.wanted.quantity == "epsilon" and math.log(task.wanted.at) < _LEAST_RIGHT


@final
class _Line(NamedTuple):
    """One line: its tasks, on which side of the poles it lies, about how many steps have the record, and its layout."""

    tasks: list[_Task]
    region: int
    expected: float
    part: int
    count: float
    theta: float
    center: float
    deviation: float
    reach: float


@final
class _Lines:
    """Lines that are read together: all on the same side of the poles, and with tasks of the same kinds."""

    def __init__(self, parts: SampledGaussianParts, lines: Sequence[_Line], *, reflected: bool) -> None:
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

    def _read(self, line: ContourLine, tasks: Sequence[_Task], width: float) -> None:
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
        for index in np.flatnonzero(narrow):
            tasks[index].known[tasks[index].wanted] = found.at(int(index), Evidence.CERTIFIED)


@final
class ManyRuns:
    """`LineRuns` of one kind of sampled Gaussian step each, in one direction."""

    def __init__(self, parts: SampledGaussianParts, theta: FloatArray, *, reflected: bool) -> None:
        self._parts, self._reflected, self.theta = parts, reflected, theta
        self._line = SampledGaussianLine(parts, 1 - theta if reflected else theta)
        self.gaussian_mu_squared = np.zeros_like(theta)

    @cached_property
    def origin(self) -> tuple[FloatArray, FloatArray]:
        """See `LineRuns`, here and below."""
        value, error = self._line.origins
        return value, error + 4 * UNIT_ROUNDOFF * np.abs(value)

    @cached_property
    def log_dropped(self) -> tuple[FloatArray, FloatArray]:
        """ln of what the cut leaves out."""
        counts = np.log(self._parts.count)
        null, alternative = counts + self._parts.log_dropped_null, counts + self._parts.log_dropped_alternative
        return (alternative, null) if self._reflected else (null, alternative)

    @cached_property
    def log_variation(self) -> FloatArray:
        """ln V."""
        return self._line.log_variations()

    @property
    def most_nodes(self) -> tuple[FloatArray, FloatArray]:
        """Runs whose lines are longer are left to themselves."""
        most = np.full_like(self.theta, float(_LONGEST))
        return most, np.full_like(self.theta, 4.0)

    def is_affordable(self, heights: FloatArray, step: FloatArray) -> BoolArray:
        """Whatever has few nodes."""
        return heights < _LONGEST * step

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
