"""Chart of the relative width of the enclosures (lower and upper bound) of a trade-off curve, below the curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from service.rendering.charts.probability_curve import RATE, RATE_TITLE, domain_start
from service.rendering.charts.series import Series
from service.rendering.charts.style import (
    PERCENT,
    STRIP_HEIGHT,
    Spec,
    layered_chart,
    logarithmic_axis,
    series_encoding,
    tooltip,
)
from service.rendering.numbers import format_exact, rounded_up

NARROWEST: Final = 1e-17
"""Smallest width on the axis. It stands for equal bounds and is below the distance of two neighbouring doubles."""


def enclosure_widths(series: Sequence[Series], names: Sequence[str] | None = None) -> Spec | None:
    """Return a chart of the relative widths (upper - lower) / upper of the power at each rate, for each curve.

    The chart is a Vega-Lite specification. The result is None if no curve has bounds at a positive rate. `names` has
    the names of all series in the order in which colours are assigned, by default the order of `series`. A width of 0
    is drawn as 1e-17. There is no legend.
    """
    rows = [row for each in series for row in _rows(each)]
    if not rows:
        return None
    encoding = series_encoding(list(names or [each.name for each in series]), "widths")
    widest = max(row["relative_width"] for row in rows)
    top = domain_start([max(widest, NARROWEST)]) * 10
    x = logarithmic_axis(RATE, RATE_TITLE, (domain_start([row[RATE] for row in rows]), 1), written=PERCENT)
    y = logarithmic_axis("drawn", "Relative width", (NARROWEST, min(top, 1.0)), labels=3)
    layer: list[Spec] = [
        {
            "name": "widths_numbers",
            "mark": {"type": "line", "strokeWidth": 1.5, "clip": True},
            "encoding": {
                "x": x,
                "y": y,
                "color": {**encoding["color"], "legend": None},
                "strokeDash": {**encoding["strokeDash"], "legend": None},
                "tooltip": tooltip("curve", [RATE, "relative_width"]),
            },
        }
    ]
    largest = rounded_up(widest, 2)
    description = (
        f"Relative width of the enclosures of the power, logarithmic. The smallest value {format_exact(NARROWEST)} "
        f"stands for a width of 0. The largest width is at most {largest}."
    )
    subtitle_lines = [f"(upper - lower) / upper; the largest width is at most {largest}."]
    return layered_chart("widths", "Precision of the curves", subtitle_lines, description, rows, layer, STRIP_HEIGHT)


def _rows(series: Series) -> list[Spec]:
    if series.lower is None or series.upper is None:
        return []
    return [
        {
            "series": series.name,
            RATE: rate,
            "relative_width": (upper - lower) / upper,
            "drawn": max((upper - lower) / upper, NARROWEST),
        }
        for rate, lower, upper in sorted(zip(series.rates, series.lower, series.upper, strict=True))
        if rate > 0 and upper > 0
    ]
