"""Chart of success probabilities with a release against those without it, on logarithmic axes.

The chart shows membership inference (power against false positive rate) or reconstruction (gamma against kappa).
Relevant attacks accuse few people wrongly. A linear axis, or the area under the curve, hides such attacks (Carlini et
al. 2022, Membership Inference Attacks From First Principles, Section IV). The probability of reconstruction is the same
curve: gamma(kappa) is the power at a false positive rate of kappa (Kaissis et al. 2023, Theorem 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, final

from service.rendering.charts.series import Series
from service.rendering.charts.style import (
    BAND_OPACITY,
    HEIGHT,
    PERCENT,
    REGION_OPACITY,
    TEXT,
    Spec,
    layered_chart,
    legend_lines,
    logarithmic_axis,
    series_encoding,
    tooltip,
)
from service.rendering.numbers import format_exact, percent_exact, percent_up, rounded_up

RATE, POWER = "false_positive_rate", "power"
RATE_TITLE: Final = "False positive rate (alpha): share of non-members accused"
MARKED: Final = (1e-3, 1e-2)
SMALLEST_POWER: Final = -300
MARK_LABEL: Final[Spec] = {"field": "label", "type": "nominal"}


@final
class Axes(NamedTuple):
    """Name and title of a chart of probabilities, and names and titles of its axes.

    `x` and `y` are columns of the data, and `diagonal` labels the line of guessing.
    """

    name: str
    title: str
    x: str
    y: str
    x_title: str
    y_title: str
    diagonal: str
    label: Spec
    """Position of labels relative to marked points, where no other curve is expected."""
    crowded: bool
    """Whether other curves may pass through the label position. If several curves exist, labels then stand at the axis.
    """


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


def probability_curve(axes: Axes, series: Sequence[Series], subtitle: Sequence[str]) -> Spec:
    """Return a chart of the curves `series` with their enclosures, and the region that no attacker reaches.

    The chart is a Vega-Lite specification with the line of guessing. `subtitle` has its lines of text. Points whose
    rate or power is 0 are left out, since both axes are logarithmic.
    """
    rows = [row for each in series for row in each.rows(axes.x, axes.y)]
    smallest = domain_start([row[axes.x] for row in rows])
    x, y = (
        logarithmic_axis(field, title, (smallest, 1), written=PERCENT)
        for field, title in ((axes.x, axes.x_title), (axes.y, axes.y_title))
    )
    names = [each.name for each in series]
    encoding = series_encoding(names, axes.name)
    layer: list[Spec] = [
        *_unreachable_region(axes, series, x, y),
        _diagonal(axes, smallest, x, y),
        band(x, y, encoding),
        line(x, y, encoding, f"{axes.name}_shares"),
        *_marks_at_small_rates(axes, series, x, y),
    ]
    described = "; ".join(map(_in_words, series))
    axes_text = f"{axes.title}: {axes.y} against {axes.x}, both logarithmic, from {format_exact(smallest)} to 1."
    description = f"{axes_text} Lines: {described}."
    subtitle_lines, lines = [*subtitle, _legend(axes, series)], legend_lines(names, axes.name)
    return layered_chart(axes.name, axes.title, subtitle_lines, description, rows, layer, HEIGHT, lines)


def domain_start(positive: Sequence[float]) -> float:
    """Return the largest power of ten below 1 that is at most the smallest of these positive numbers.

    Return 1e-6 without numbers, and at least 1e-300.
    """
    if not positive:
        return 1e-6
    exponent = math.floor(math.log10(min(positive)) + 1e-9)
    return float(f"1e{min(max(exponent, SMALLEST_POWER), -1)}")


def band(x: Spec, y: Spec, encoding: Spec) -> Spec:
    """Return a mark for the area between lower and upper bounds.

    There is no area where a curve has no bounds (an approximation), or where its lower bound is 0. `x` and `y` are the
    channels of the axes, and `encoding` distinguishes the curves.
    """
    return {
        "transform": [{"filter": "datum.upper !== null && datum.lower !== null && datum.lower > 0"}],
        "mark": {"type": "area", "opacity": BAND_OPACITY, "clip": True},
        "encoding": {
            "x": x,
            "y": {**y, "field": "lower", "stack": None},
            "y2": {"field": "upper"},
            "color": encoding["color"],
        },
    }


def line(x: Spec, y: Spec, encoding: Spec, name: str) -> Spec:
    """Return a mark for the line through the safe values of a curve.

    `x` and `y` are the channels of the axes, and `encoding` distinguishes the curves. `name` lets a page find the line.
    The name ends in `_shares` if the values are probabilities, else in `_numbers`.
    """
    shown = tooltip("curve", [*(each["field"] for each in (x, y)), "lower", "upper"])
    return {
        "name": name,
        "mark": {"type": "line", "strokeWidth": 2, "clip": True},
        "encoding": {"x": x, "y": y, **encoding, "tooltip": shown},
    }


def _unreachable_region(axes: Axes, series: Sequence[Series], x: Spec, y: Spec) -> list[Spec]:
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


def _marks_at_small_rates(axes: Axes, series: Sequence[Series], x: Spec, y: Spec) -> list[Spec]:
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
        {axes.x: rate, axes.y: value, "label": f"{percent_up(value)} at {percent_exact(rate)}"}
        for rate, value, _ in found
    ]
    at = {"x": x, "y": y}
    texts: list[Spec] = [
        {"data": {"values": rows}, "mark": {"type": "text", **axes.label}, "encoding": {**at, "text": MARK_LABEL}}
    ]
    if axes.crowded and len(series) > 1:
        sides = ({"align": "right", "dx": -5}, {"align": "left", "dx": 5})
        texts = [
            {
                "data": {"values": [row]},
                "mark": {"type": "text", "dy": -8, **side},
                "encoding": {"x": x, "y": {"value": "height"}, "text": MARK_LABEL},
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
    return f"Dotted: {axes.diagonal}.{' Shaded: impossible for every attacker.' if shaded else ''}"


def _in_words(series: Series) -> str:
    found = [(rate, series.at(rate)) for rate in MARKED]
    bounds = [f"at most {rounded_up(value)} at {format_exact(rate)}" for rate, value in found if value is not None]
    return f"{series.name}, {' and '.join(bounds)}" if bounds else series.name
