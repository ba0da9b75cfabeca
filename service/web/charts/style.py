"""How every picture looks: colours, strokes and what all specs have in common.

Nothing here names a background, and what is written takes the colour of the text around it (`currentColor`), so that
one spec reads on light and on dark ground. The colours stem from Okabe and Ito (2008), without those that vanish on
white or on black: each has a contrast of 3 or more to both (WCAG 2.2, 1.4.11). Strokes differ as well as colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from service.web.charts.words import LONGEST_LINE, LONGEST_TITLE, wrapped

Spec: TypeAlias = dict[str, Any]
"""A Vega-Lite spec, or a part of one."""

VEGA_LITE: Final = "application/vnd.vegalite.v5+json"
SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
"""A name of the language, never fetched. What is used of it means the same in versions 5 and 6."""

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
"""Of labels on logarithmic axes: 1e-6, but 0.01."""
PERCENT: Final = "format(100 * datum.value, '.6~g') + ' %'"
"""Of labels on axes of probabilities."""


def whole(chart: Spec, digests: list[str]) -> Spec:
    """A picture that stands for itself. `digests`: of the results that it shows."""
    return {"$schema": SCHEMA, **chart, "usermeta": {"digests": digests}, "config": CONFIG}


def column(charts: list[Spec]) -> Spec:
    """Pictures one below the other; each has its own data, scales, title and description. Parameters stand above."""
    if len(charts) == 1:
        return charts[0]
    params = {param["name"]: param for chart in charts for param in chart.get("params", ())}
    charts = [{key: part for key, part in chart.items() if key != "params"} for chart in charts]
    said = " ".join(chart["description"] for chart in charts)
    apart = {"scale": dict.fromkeys(("color", "strokeDash"), "independent")}
    found: Spec = {"description": said, "vconcat": charts, "resolve": apart}
    return {**found, "params": list(params.values())} if params else found


def layered(
    name: str,
    title: str,
    subtitle: list[str],
    description: str,
    rows: list[Spec],
    layer: list[Spec],
    height: int,
    params: list[Spec] | None = None,
) -> Spec:
    """Return marks over one table of data. `subtitle`: sentences; `description`: the picture in words, for people who
    do not see it.
    """
    heading = wrapped(title, LONGEST_TITLE)
    found: Spec = {
        "name": name,
        "title": {
            "text": heading[0] if len(heading) == 1 else heading,
            "subtitle": [line for sentence in subtitle for line in wrapped(sentence)],
        },
        "description": description,
        "width": WIDTH,
        "height": height,
        "data": {"values": rows},
        "layer": layer,
    }
    return {**found, "params": params} if params else found


def coloured(names: list[str], picture: str) -> Spec:
    """Return the encoding that tells the series `names` of a picture apart by colour and by stroke: two channels and
    one legend.
    """
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(names))]
    dashes = [DASHES[(place + place // len(COLOURS)) % len(DASHES)] for place in range(len(names))]
    legend = {"legend": {"labelExpr": f"{_lines_name(picture)}[datum.index]"}} if _are_long(names) else {}
    shared = {"field": "series", "type": "nominal", "title": None, **legend}
    return {
        "color": {**shared, "scale": {"domain": names, "range": colours}},
        "strokeDash": {**shared, "scale": {"domain": names, "range": dashes}},
    }


def lines_of_legend(names: list[str], picture: str) -> list[Spec]:
    """Return the parameter with the lines of each name in a legend, where one of the names needs several. Names are
    data there: none becomes part of an expression.
    """
    return [{"name": _lines_name(picture), "value": list(map(wrapped, names))}] if _are_long(names) else []


def _lines_name(picture: str) -> str:
    return f"{picture}_names"


def _are_long(names: list[str]) -> bool:
    return any(len(name) > LONGEST_LINE for name in names)


def tooltip(series: str, fields: Sequence[str]) -> list[Spec]:
    """Return what is shown at a point: the name of its `series`, and numbers with all their digits. Numbers that a
    format rounds to the nearest are no bounds.
    """
    titles = {"series": series, **{field: field.replace("_", " ") for field in fields}}
    return [{"field": field, "type": "nominal", "title": title} for field, title in titles.items()]


def logarithmic(
    field: str, title: str, domain: tuple[float, float], labels: int = 8, written: str = POWERS_OF_TEN
) -> Spec:
    """A channel on a logarithmic axis: a line and a label at powers of ten, at most `labels` of them."""
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
