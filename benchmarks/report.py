"""The result of a subject, and its formatting as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Reach:
    """One line of the table of goals: the goal, the measurement, and whether the measurement meets the goal.

    With `required`, a run that misses the goal fails.
    """

    what: str
    reach: str
    measured: str
    met: bool
    required: bool = False


@dataclass(frozen=True)
class Table:
    """Table of the report with measurements of one kind."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", *_grid(self.columns, self.rows)]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])


@dataclass
class Section:
    """Section of the report with all measurements of a subject."""

    title: str
    reaches: list[Reach] = field(default_factory=list[Reach])
    tables: list[Table] = field(default_factory=list[Table])

    def markdown(self) -> str:
        return "\n\n".join([f"## {self.title}", *(table.markdown() for table in self.tables)])


def reach_table(reaches: Iterable[Reach]) -> str:
    rows = [(one.what, one.reach, one.measured, "met" if one.met else "**not met**") for one in reaches]
    return "\n".join(_grid(("what", "reach", "measured", ""), rows))


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def times(ratio: float) -> str:
    return f"{ratio:.3g}x"


def _grid(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    body = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *body]


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).replace("|", "\\|")
