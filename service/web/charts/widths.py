"""How well a curve is known: the relative width of its enclosures, as a strip below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from service.interop.numbers import as_given, rounded_up
from service.web.charts.chances import RATE, RATE_TITLE, domain_start
from service.web.charts.series import Series
from service.web.charts.style import PERCENT, STRIP_HEIGHT, Spec, coloured, layered, logarithmic, tooltip

NARROWEST: Final = 1e-17
"""Drawn where both ends are the same double: below what two neighbouring doubles differ by."""


def widths(series: Sequence[Series], names: Sequence[str] | None = None) -> Spec | None:
    """(upper - lower) / upper of the power at each rate; None where no curve has a bound."""
    rows = [row for each in series for row in _rows(each)]
    if not rows:
        return None
    drawn = coloured(list(names or [each.name for each in series]), "widths")
    widest = max(row["relative_width"] for row in rows)
    top = domain_start([max(widest, NARROWEST)]) * 10
    x = logarithmic(RATE, RATE_TITLE, (domain_start([row[RATE] for row in rows]), 1), written=PERCENT)
    y = logarithmic("drawn", "Relative width", (NARROWEST, min(top, 1.0)), labels=3)
    layer: list[Spec] = [
        {
            "name": "widths_numbers",
            "mark": {"type": "line", "strokeWidth": 1.5, "clip": True},
            "encoding": {
                "x": x,
                "y": y,
                "color": {**drawn["color"], "legend": None},
                "strokeDash": {**drawn["strokeDash"], "legend": None},
                "tooltip": tooltip("curve", [RATE, "relative_width"]),
            },
        }
    ]
    largest = rounded_up(widest, 2)
    description = (
        f"Relative width of the enclosures of the power, logarithmic, down to {as_given(NARROWEST)}, which stands for "
        f"none. The widest is at most {largest}."
    )
    told = [f"(upper - lower) / upper; the widest is at most {largest}."]
    return layered("widths", "How well the curves are known", told, description, rows, layer, STRIP_HEIGHT)


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
