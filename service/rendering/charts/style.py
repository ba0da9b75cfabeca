"""Visual style of all charts: colours, strokes, and the parts that all specifications share.

The style sets no background. Text takes the colour of the surrounding text (`currentColor`), so that one specification
suits light and dark backgrounds. The colours are those of Okabe and Ito (2008) without those that vanish on white or
black: each colour has a contrast of at least 3 to both (WCAG 2.2, 1.4.11). Strokes differ, too, for readers who do not
see colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from service.rendering.charts.words import LONGEST_LINE, LONGEST_TITLE, wrap

Spec: TypeAlias = dict[str, Any]
"""Vega-Lite specification, or a part of one."""

VEGA_LITE: Final = "application/vnd.vegalite.v5+json"
SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
"""Identifier of the language; it is never fetched. All used features mean the same in versions 5 and 6."""

COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A7F00", "#767676")
DASHES: Final[tuple[list[int], ...]] = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
TEXT: Final = "currentColor"
WIDTH, HEIGHT, STRIP_HEIGHT = 480, 300, 56
BAND_OPACITY, REGION_OPACITY = 0.28, 0.09

CONFIG: Final[Spec] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "domainColor": TEXT,
        "tickColor": TEXT,
        "gridColor": TEXT,
        "domainOpacity": 0.6,
        "tickOpacity": 0.6,
        "gridOpacity": 0.12,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titlePadding": 8,
    },
    "legend": {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "orient": "bottom",
        "direction": "vertical",
        "labelLimit": 0,
        "labelFontSize": 12,
        "symbolType": "stroke",
        "symbolStrokeWidth": 2.5,
        "symbolSize": 500,
        "symbolOpacity": 1,
    },
    "title": {
        "color": TEXT,
        "subtitleColor": TEXT,
        "anchor": "start",
        "fontSize": 14,
        "subtitleFontSize": 12,
        "subtitlePadding": 4,
        "offset": 12,
    },
    "text": {"color": TEXT, "fontSize": 12},
    "rule": {"color": TEXT},
    "concat": {"spacing": 32},
}
POWERS_OF_TEN: Final = "datum.value >= 0.001 ? format(datum.value, '~g') : format(datum.value, '.0e')"
"""Label expression of logarithmic axes: 1e-6, but 0.01."""
PERCENT: Final = "format(100 * datum.value, '.6~g') + ' %'"
"""Label expression of probability axes."""


def finalize_spec(chart: Spec, digests: list[str]) -> Spec:
    """Return a complete Vega-Lite specification of `chart`, with the style of the service.

    `digests` identify the results that the chart shows.
    """
    return {"$schema": SCHEMA, **chart, "usermeta": {"digests": digests}, "config": CONFIG}


def stack_charts(charts: list[Spec]) -> Spec:
    """Combine charts into a vertical stack.

    Each chart keeps its data, scales and texts; parameters move to the top level. A single chart is returned unchanged.
    """
    if len(charts) == 1:
        return charts[0]
    params = {param["name"]: param for chart in charts for param in chart.get("params", ())}
    charts = [{key: part for key, part in chart.items() if key != "params"} for chart in charts]
    description = " ".join(chart["description"] for chart in charts)
    apart = {"scale": dict.fromkeys(("color", "strokeDash"), "independent")}
    found: Spec = {"description": description, "vconcat": charts, "resolve": apart}
    return {**found, "params": list(params.values())} if params else found


def layered_chart(
    name: str,
    title: str,
    subtitle: list[str],
    description: str,
    rows: list[Spec],
    layer: list[Spec],
    height: int,
    params: list[Spec] | None = None,
) -> Spec:
    """Return a chart of several layers of marks over one table of data.

    `rows` is the table, and `layer` has the marks. `name` and `title` are those of the chart, `height` is in pixels,
    and `params` are parameters of Vega-Lite. `subtitle` has sentences. `description` is the chart in words, for people
    who do not see it.
    """
    heading = wrap(title, LONGEST_TITLE)
    found: Spec = {
        "name": name,
        "title": {
            "text": heading[0] if len(heading) == 1 else heading,
            "subtitle": [line for sentence in subtitle for line in wrap(sentence)],
        },
        "description": description,
        "width": WIDTH,
        "height": height,
        "data": {"values": rows},
        "layer": layer,
    }
    return {**found, "params": params} if params else found


def series_encoding(names: list[str], picture: str) -> Spec:
    """Return a Vega-Lite encoding that distinguishes the series `names` by colour and stroke, with one legend.

    `picture` is the name of the chart. There are 6 colours and 4 strokes; 24 series differ in at least one.
    """
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    dashes = [DASHES[(place + place // len(COLOURS)) % len(DASHES)] for place in range(len(names))]
    legend = {"legend": {"labelExpr": f"{_lines_name(picture)}[datum.index]"}} if _are_long(names) else {}
    shared = {"field": "series", "type": "nominal", "title": None, **legend}
    return {
        "color": {**shared, "scale": {"domain": names, "range": colours}},
        "strokeDash": {**shared, "scale": {"domain": names, "range": dashes}},
    }


def legend_lines(names: list[str], picture: str) -> list[Spec]:
    """Return a Vega parameter with the lines into which the legend of the chart `picture` breaks each name.

    The list is empty if every name fits into one line (72 characters). Names are data of the parameter, and never
    become part of an expression.
    """
    return [{"name": _lines_name(picture), "value": list(map(wrap, names))}] if _are_long(names) else []


def _lines_name(picture: str) -> str:
    return f"{picture}_names"


def _are_long(names: list[str]) -> bool:
    return any(len(name) > LONGEST_LINE for name in names)


def tooltip(series: str, fields: Sequence[str]) -> list[Spec]:
    """Return a tooltip of a point: its series, under the title `series`, and its numbers in the columns `fields`.

    Numbers have all their digits, since a bound that a format rounds to the nearest value would not be a bound.
    """
    titles = {"series": series, **{field: field.replace("_", " ") for field in fields}}
    return [{"field": field, "type": "nominal", "title": title} for field, title in titles.items()]


def logarithmic_axis(
    field: str, title: str, domain: tuple[float, float], labels: int = 8, written: str = POWERS_OF_TEN
) -> Spec:
    """Return an encoding channel with a logarithmic axis, grid lines and up to `labels` labels at powers of ten.

    `field` is the column of the data, `title` that of the axis, `domain` the range of its values, and `written` the
    format of labels.
    """
    ends = [round(math.log10(end)) for end in domain]
    step = max(1, math.ceil((ends[1] - ends[0]) / labels))
    values = [float(f"1e{power}") for power in range(ends[1], ends[0] - 1, -step)]
    axis = {
        "values": values[::-1],
        "labelExpr": written,
        "labelOverlap": True,
        "labelSeparation": 6,
        "labelFlush": False,
    }
    scale = {"type": "log", "domain": list(domain), "nice": False}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}
