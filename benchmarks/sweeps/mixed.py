"""Random runs of mixed parts: width and cost of `auto` answers, and why some answers are wide."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from benchmarks.report import Reach, Section, Table
from benchmarks.sweeps.processes import spread
from benchmarks.timing import cpu_seconds
from service.privacy.composition.planning.choose import pair
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure
from service.privacy.errors import NumericalFailure
from service.privacy.mechanisms.abstract import GaussianPart, SampledGaussianPart, TwoPointPart
from tests.privacy.mixed_box import MixedPoint, mixed_points

POINTS: Final = 400
SEED: Final = 4
OPTIONS: Final = EngineOptions(relative_tolerance=1e-6)
LARGEST_WIDTH: Final = 1e-6
MOST_SECONDS: Final = 0.5
LEAST_SHARE: Final = 0.9


@dataclass(frozen=True)
class MixedReading:
    """Relative width and CPU seconds of one answer about a random composition, computed without caches.

    `failure` is set if there was no answer.
    """

    point: MixedPoint
    width: float
    seconds: float
    failure: str = ""

    @property
    def reason(self) -> str:
        """Reason why the answer may be wide: the part that neither contour inversion nor a closed form covers."""
        parts = [(step.part(), count) for step, count in self.point.mechanism.elementary_steps()]
        if self.failure:
            return self.failure
        if any(isinstance(part, GaussianPart) for part, _ in parts):
            return "a Gaussian step ends every line: digits or time lost on it"
        if any(isinstance(part, SampledGaussianPart) for part, _ in parts):
            return "sampled Gaussian steps few, rare or both: their transform does not fall within reach"
        if all(isinstance(part, TwoPointPart) for part, _ in parts):
            return "steps of two losses alone"
        return "few or rare Laplace steps: their atoms do not vanish"


def measure(points: int = POINTS) -> Section:
    section = Section("Mixed runs")
    found = spread(_reading, mixed_points(points, SEED))
    narrow = sum(one.width <= LARGEST_WIDTH for one in found) / len(found)
    quick = sum(one.seconds <= MOST_SECONDS for one in found) / len(found)
    failures = [f"{one.point}: {one.failure}" for one in found if one.failure]
    section.reaches += [
        Reach(
            f"{points} random runs of 2 to 6 mixed parts: relative width <= 1e-6",
            ">= 90 %",
            f"{narrow:.1%}",
            narrow >= LEAST_SHARE,
        ),
        Reach("the same runs within 0.5 s CPU", ">= 90 %", f"{quick:.1%}", quick >= LEAST_SHARE),
        Reach("the same runs: answers", "all", f"{len(failures)} without", not failures, required=True),
    ]
    section.tables += [_summary(found), *_beyond(found)]
    return section


def _reading(point: MixedPoint) -> MixedReading:
    answers: list[Enclosure] = []
    try:
        seconds = cpu_seconds(lambda: answers.append(point.question.ask(pair(point.mechanism, options=OPTIONS))))
    except NumericalFailure as failure:
        return MixedReading(point, math.inf, 0.0, str(failure))
    return MixedReading(point, answers[0].relative_width(), seconds)


def _summary(found: Sequence[MixedReading]) -> Table:
    seconds, widths = sorted(one.seconds for one in found), sorted(one.width for one in found)
    late = math.ceil(0.9 * len(found)) - 1
    rows = [
        (name, median(values), values[late], values[-1])
        for name, values in (("CPU s, cold", seconds), ("relative width", widths))
    ]
    words = "Power, delta and epsilon; either direction; `tests/privacy/mixed_box.py` draws the runs."
    return Table("Random runs of mixed parts", ("what", "median", "90 %", "most"), rows, (words,))


def _beyond(found: Sequence[MixedReading]) -> list[Table]:
    beyond = [one for one in found if one.width > LARGEST_WIDTH or one.seconds > MOST_SECONDS]
    wide = Counter(one.reason for one in beyond if one.width > LARGEST_WIDTH)
    slow = Counter(one.reason for one in beyond if one.width <= LARGEST_WIDTH)
    reasons = [(reason, wide[reason], slow[reason]) for reason in sorted({*wide, *slow})]
    rows = [
        (str(one.point), one.reason, f"{one.width:.1e}", f"{one.seconds:.2f}")
        for one in sorted(beyond, key=lambda one: (-one.width, -one.seconds))
    ]
    return [
        Table("Why mixed runs are wide or slow", ("reason", "wide", "slow only"), reasons),
        Table("Mixed runs that are wider or dearer, widest first", ("run", "reason", "relative width", "CPU s"), rows),
    ]
