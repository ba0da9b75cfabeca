"""Figure or table of a paper: the requests that compute its numbers, and how their answers become points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

Answer: TypeAlias = Any
"""Decoded JSON response of a resource."""
Paper = Literal["reconstruction", "glrt", "membership", "gmip", "pmp"]
"""Name of the page about the paper: docs/guide/paper-*.md."""
Agreement = Literal["yes", "partly", "no"]


class FigurePoint(NamedTuple):
    """Point of a curve in a figure: name of the series, abscissa `x` and `value`.

    `lower` and `upper` are bounds, or the edges of a confidence band, or None if the number has neither.
    """

    series: str
    x: float
    value: float
    lower: float | None = None
    upper: float | None = None


Reader: TypeAlias = Callable[[Answer], list[FigurePoint]]


@dataclass(frozen=True, slots=True)
class FigurePart:
    """Request to the resource named `resource`, and a function `read` from the answer to points of a figure."""

    resource: str
    request: Mapping[str, Any]
    read: Reader


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of a figure: its column of the CSV file, its title, and whether its scale is logarithmic."""

    column: str
    title: str
    logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """Figure or table of a paper that the service computes again from `parts`.

    `x` and `y` are its axes, `label` its number in the paper, and `band` what the edges of points are unless they are
    proved bounds. `agrees` is whether the computed points agree with the paper (`yes`, `partly`, `no`). `finding`
    states what agrees with the paper, and what does not.
    """

    name: str
    paper: Paper
    label: str
    """Number in the paper, for example `Figure 3`."""
    title: str
    x: Axis
    y: Axis
    parts: Sequence[FigurePart]
    agrees: Agreement
    finding: str
    band: str = ""
    """Meaning of the band around a curve, if it shows no proved bounds."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Figure or table of a paper that the service cannot compute, with the reason."""

    paper: Paper
    label: str
    reason: str
