"""Vega-Lite specification and CSV file of a figure of a paper."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Final

from service.rendering.charts.style import (
    BAND_OPACITY,
    HEIGHT,
    Spec,
    finalize_spec,
    layered_chart,
    legend_lines,
    logarithmic_axis,
    series_encoding,
    tooltip,
)
from service.rendering.paper_figures.figure import Axis, FigurePoint, PaperFigure

BOUNDS: Final = ("lower", "upper")


def figure_spec(figure: PaperFigure, points: Sequence[FigurePoint], citation: str) -> Spec:
    """Return the Vega-Lite chart of a figure with these points. `citation` names the paper.

    A logarithmic axis omits points that are not positive. The CSV file has all points.
    """
    names = list(dict.fromkeys(point.series for point in points))
    shown = [
        point
        for point in points
        if (point.x > 0 or not figure.x.logarithmic) and (point.value > 0 or not figure.y.logarithmic)
    ]
    rows = [dict(zip(columns(figure), point, strict=True)) for point in shown]
    x = _axis(figure.x, [point.x for point in shown])
    y = _axis(figure.y, [point.value for point in shown])
    encoding = series_encoding(names, figure.name)
    order = {"field": figure.x.column, "type": "quantitative"}
    band = {
        "transform": [
            {"filter": f"datum.lower !== null && datum.lower {'> 0' if figure.y.logarithmic else '!== null'}"}
        ],
        "mark": {"type": "area", "opacity": BAND_OPACITY, "clip": True},
        "encoding": {
            "x": x,
            "y": {**y, "field": "lower", "stack": None},
            "y2": {"field": "upper"},
            "color": encoding["color"],
        },
    }
    line = {
        "name": f"{figure.name}_numbers",
        "mark": {"type": "line", "strokeWidth": 2, "clip": True},
        "encoding": {
            "x": x,
            "y": y,
            **encoding,
            "order": order,
            "tooltip": tooltip("curve", columns(figure)[1:]),
        },
    }
    subtitle = [f"{figure.label} of {citation}.", *([figure.band] if figure.band else [])]
    description = f"{figure.title}: {figure.y.column} against {figure.x.column}. Curves: {'; '.join(names)}."
    lines = legend_lines(names, figure.name)
    chart = layered_chart(figure.name, figure.title, subtitle, description, rows, [band, line], HEIGHT, lines)
    return finalize_spec(chart, [])


def columns(figure: PaperFigure) -> tuple[str, ...]:
    """Return the columns of the CSV file of a figure: series, abscissa, value, lower and upper bound."""
    return ("series", figure.x.column, figure.y.column, *BOUNDS)


def figure_csv(figure: PaperFigure, points: Sequence[FigurePoint]) -> bytes:
    """Return all points of a figure as CSV with all digits, header row first.

    Numbers without bounds have empty cells.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns(figure))
    writer.writerows(points)
    return text.getvalue().encode()


def _axis(axis: Axis, values: Sequence[float]) -> Spec:
    if not axis.logarithmic:
        scale = {"zero": False, "nice": True}
        return {"field": axis.column, "type": "quantitative", "title": axis.title, "scale": scale}
    first, last = (math.log10(each(values)) for each in (min, max))
    return logarithmic_axis(axis.column, axis.title, (10.0 ** math.floor(first), 10.0 ** math.ceil(last)))
