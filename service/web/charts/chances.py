"""Chances of an attacker against chances without the release, both logarithmic: of finding members, of reconstructing.

Attacks that matter accuse few people falsely, and a linear picture, or the area below it, hides them (Carlini et al.
2022, Membership Inference Attacks From First Principles, Section IV). The chance to reconstruct is the same curve read
at another place: gamma(kappa) is the power at a false positive rate of kappa (Kaissis et al. 2023, Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from service.interop.numbers import as_given, percent_given, percent_up, rounded_up
from service.web.charts.series import Series
from service.web.charts.style import (
    BAND_OPACITY,
    HEIGHT,
    PERCENT,
    REGION_OPACITY,
    TEXT,
    Spec,
    coloured,
    layered,
    lines_of_legend,
    logarithmic,
    tooltip,
)

RATE, POWER = "false_positive_rate", "power"
RATE_TITLE: Final = "False positive rate (alpha): share of others accused falsely"
MARKED: Final = (1e-3, 1e-2)
SMALLEST_POWER: Final = -300
LABEL: Final[Spec] = {"field": "label", "type": "nominal"}


@final
class Axes(NamedTuple):
    """What a picture of chances is called, and its axes: the names of their fields, and what is written at them."""

    name: str
    title: str
    x: str
    y: str
    x_title: str
    y_title: str
    diagonal: str
    label: Spec
    """Where figures stand at their points: where no other line is expected."""
    crowded: bool
    """Whether other lines pass there, where there are others: then figures stand at the axis, below all lines."""


ROC: Final = Axes(
    name="roc",
    title="How often an attack can succeed",
    x=RATE,
    y=POWER,
    x_title=RATE_TITLE,
    y_title="Power (1 - beta): share of members found",
    diagonal="guessing",
    label={"align": "right", "dx": -7, "dy": -8},
    crowded=True,
)
RECONSTRUCTION: Final = Axes(
    name="reconstruction",
    title="How often a record can be reconstructed",
    x="baseline_success",
    y="gamma",
    x_title="Chance without the release (kappa)",
    y_title="Chance with the release (gamma)",
    diagonal="the chance without the release",
    label={"align": "left", "dx": 7, "dy": 14},
    crowded=False,
)


def chances(axes: Axes, series: Sequence[Series], subtitle: Sequence[str]) -> Spec:
    """Every curve with its enclosure, the diagonal, and where nobody gets to in the worst case."""
    rows = [row for each in series for row in each.rows(axes.x, axes.y)]
    smallest = domain_start([row[axes.x] for row in rows])
    x, y = (
        logarithmic(field, title, (smallest, 1), written=PERCENT)
        for field, title in ((axes.x, axes.x_title), (axes.y, axes.y_title))
    )
    names = [each.name for each in series]
    drawn = coloured(names, axes.name)
    layer: list[Spec] = [
        *_impossible(axes, series, x, y),
        _diagonal(axes, smallest, x, y),
        band(x, y, drawn),
        line(x, y, drawn, f"{axes.name}_shares"),
        *_marks(axes, series, x, y),
    ]
    said = "; ".join(map(_told, series))
    description = (
        f"{axes.title}: {axes.y} against {axes.x}, both logarithmic, from {as_given(smallest)} to 1. Lines: {said}."
    )
    told, lines = [*subtitle, _legend(axes, series)], lines_of_legend(names, axes.name)
    return layered(axes.name, axes.title, told, description, rows, layer, HEIGHT, lines)


def domain_start(positive: Sequence[float]) -> float:
    """The power of ten at or below the smallest of these positive numbers and below 1; 1e-6 where there are none."""
    if not positive:
        return 1e-6
    exponent = math.floor(math.log10(min(positive)) + 1e-9)
    return float(f"1e{min(max(exponent, SMALLEST_POWER), -1)}")


def band(x: Spec, y: Spec, drawn: Spec) -> Spec:
    """Between the ends of the enclosures: the truth lies in it. Of approximations there is none."""
    return {
        "transform": [{"filter": "datum.upper !== null && datum.lower !== null && datum.lower > 0"}],
        "mark": {"type": "area", "opacity": BAND_OPACITY, "clip": True},
        "encoding": {
            "x": x,
            "y": {**y, "field": "lower", "stack": None},
            "y2": {"field": "upper"},
            "color": drawn["color"],
        },
    }


def line(x: Spec, y: Spec, drawn: Spec, name: str) -> Spec:
    """Return the line through the safe ends. `name`: what a page that reads values off the picture finds it by; it ends
    in `_shares` where the values are probabilities, else in `_numbers`.
    """
    shown = tooltip("curve", [*(each["field"] for each in (x, y)), "lower", "upper"])
    return {
        "name": name,
        "mark": {"type": "line", "strokeWidth": 2, "clip": True},
        "encoding": {"x": x, "y": y, **drawn, "tooltip": shown},
    }


def _impossible(axes: Axes, series: Sequence[Series], x: Spec, y: Spec) -> list[Spec]:
    """Above the upper ends of the worst case, whichever of its curves is the highest at a rate."""
    proved = [each for each in series if each.worst and each.upper is not None]
    if not proved:
        return []
    tops: dict[float, float] = {}
    for each in proved:
        for rate, upper in zip(each.rates, each.upper or (), strict=True):
            if rate > 0 and upper > 0:
                tops[rate] = max(upper, tops.get(rate, 0.0))
    rows = [{axes.x: rate, "at_most": top, "everything": 1} for rate, top in sorted(tops.items())]
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "area", "color": TEXT, "opacity": REGION_OPACITY, "clip": True},
            "encoding": {"x": x, "y": {**y, "field": "at_most", "stack": None}, "y2": {"field": "everything"}},
        }
    ]


def _diagonal(axes: Axes, smallest: float, x: Spec, y: Spec) -> Spec:
    ends = [{axes.x: smallest, axes.y: smallest}, {axes.x: 1, axes.y: 1}]
    return {
        "data": {"values": ends},
        "mark": {"type": "line", "color": TEXT, "opacity": 0.55, "strokeWidth": 1, "strokeDash": [1, 3]},
        "encoding": {"x": x, "y": y},
    }


def _marks(axes: Axes, series: Sequence[Series], x: Spec, y: Spec) -> list[Spec]:
    """The worst case in figures, where people compare attacks."""
    found = [
        (rate, value, each)
        for each in series
        if each.worst or len(series) == 1
        for rate in MARKED
        if (value := each.at(rate)) is not None and value > 0
    ][: len(MARKED)]
    if not found:
        return []
    rows = [
        {axes.x: rate, axes.y: value, "label": f"{percent_up(value)} at {percent_given(rate)}"}
        for rate, value, _ in found
    ]
    at = {"x": x, "y": y}
    texts: list[Spec] = [
        {"data": {"values": rows}, "mark": {"type": "text", **axes.label}, "encoding": {**at, "text": LABEL}}
    ]
    if axes.crowded and len(series) > 1:
        sides = ({"align": "right", "dx": -5}, {"align": "left", "dx": 5})
        texts = [
            {
                "data": {"values": [row]},
                "mark": {"type": "text", "dy": -8, **side},
                "encoding": {"x": x, "y": {"value": "height"}, "text": LABEL},
            }
            for row, side in zip(rows, sides, strict=False)
        ]
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeDash": [2, 2], "opacity": 0.5},
            "encoding": {"x": x},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "point", "filled": True, "size": 42, "color": TEXT},
            "encoding": at,
        },
        *texts,
    ]


def _legend(axes: Axes, series: Sequence[Series]) -> str:
    shaded = any(each.worst and each.upper is not None for each in series)
    return f"Dotted: {axes.diagonal}.{' Shaded: no attacker gets there.' if shaded else ''}"


def _told(series: Series) -> str:
    found = [(rate, series.at(rate)) for rate in MARKED]
    said = [f"at most {rounded_up(value)} at {as_given(rate)}" for rate, value in found if value is not None]
    return f"{series.name}, {' and '.join(said)}" if said else series.name
