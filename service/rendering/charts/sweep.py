"""Chart of the answers of a sweep against the number that varies.

If a second number varies, each of its values has a line, and a shaded area marks where a target holds. The charts have
parameters: `target_0` is a limit for the first answer, and so on; `calibrated` is a number on the axis. These
parameters are null until a caller sets them. `own` is the number of the run itself, if the axis contains it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from api_schemas.pointers import place_of
from api_schemas.questions import EpsilonQuestion, QuestionSpec, ReconstructionQuestion, TradeOffQuestion
from api_schemas.sweeps import SweepsResponse, SweptAnswer
from service.rendering.charts.style import (
    BAND_OPACITY,
    COLOURS,
    PERCENT,
    TEXT,
    Spec,
    layered_chart,
    legend_lines,
    series_encoding,
    tooltip,
)
from service.rendering.numbers import format_exact
from service.resources.read_numbers import is_guarantee

SWEEP_HEIGHT: Final = 240
WIDE: Final = 20.0
"""Ratio of largest to smallest number above which an axis is logarithmic."""
MOST_SERIES: Final = 24
MINOR_GRID: Final[Spec] = {
    "condition": {"test": "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-9", "value": 0.15},
    "value": 0.04,
}
"""Opacity of grid lines: weaker between powers of ten."""
FEASIBLE_OPACITY: Final = 0.15
ONLY: Final = "all points"
CALIBRATED: Final = "calibrated"
OWN: Final = "own"
THIS_RUN: Final = "this run"
NOT_SHARES: Final = ("epsilon", "delta", "gdp_mu", "deletion_capacity")
"""Questions whose answers are shown as numbers, not in percent."""


def sweep(response: SweepsResponse, place: int, subtitle: Sequence[str]) -> Spec:
    """Return a chart of one answer against the varied number with the most values.

    The chart has a series for each combination of the other varied numbers. `place` is the index of the answer. Points
    without a finite answer are left out and counted in the subtitle.
    """
    along, others = _axis_and_series_pointers(response)
    answer = response.answers[place]
    names = _series(response, others)
    rows = _finite_rows(response, answer, along, names)
    kept = list(dict.fromkeys(names))
    layer, rows = _layers_and_shown_rows(response, place, along, rows, kept)
    left_out = sum(value is None or not math.isfinite(value) for value in answer.value)
    description = f"{answer.label} against {along}, {len(rows)} points"
    description += f", {len(kept)} lines by {', '.join(others)}" if others else ""
    subtitle_lines = [*subtitle, *([f"{left_out} points have no finite answer."] if left_out else [])]
    given = {_target_name(place): None, CALIBRATED: None, OWN: _value_in_request(response, along)}
    params: list[Spec] = [{"name": name, "value": value} for name, value in given.items()]
    params += legend_lines(kept, f"sweep_{place}") if len(kept) <= MOST_SERIES else []
    return layered_chart(
        f"sweep_{place}", answer.label, subtitle_lines, f"{description}.", rows, layer, SWEEP_HEIGHT, params
    )


def _finite_rows(response: SweepsResponse, answer: SweptAnswer, along: str, names: Sequence[str]) -> list[Spec]:
    rows: list[Spec] = [
        {"series": name, "x": x, "value": value, "lower": lower, "upper": upper}
        for name, x, value, lower, upper in zip(
            names, response.columns[along], answer.value, answer.lower, answer.upper, strict=True
        )
        if value is not None and math.isfinite(value)
    ]
    return sorted(rows, key=lambda row: (row["series"], row["x"]))


def _layers_and_shown_rows(
    response: SweepsResponse, place: int, along: str, rows: list[Spec], names: list[str]
) -> tuple[list[Spec], list[Spec]]:
    answer, name = response.answers[place], f"sweep_{place}"
    question = response.questions[answer.question]
    is_share = question.type not in NOT_SHARES
    x = _axis("x", _pointer_label(along), [row["x"] for row in rows])
    y = _axis("value", _axis_title(answer, question), [row["value"] for row in rows])
    if is_share:
        y["axis"]["labelExpr"] = PERCENT
    if _is_logarithmic(y):  # which has no place for zero
        rows = [row for row in rows if row["value"] > 0]
    encoding = _series_encoding_or_one_colour(names, name)
    at_most = answer.reads != "type_two_error" and not is_guarantee(question)
    layer: list[Spec] = [
        *_limit_marks(_target_name(place), y, is_share=is_share, at_most=at_most),
        _band(x, y, encoding),
        *_line(x, y, encoding, f"{name}_{'shares' if is_share else 'numbers'}"),
        *_vertical_line_marks(CALIBRATED, x, CALIBRATED, below=True),
        *_vertical_line_marks(OWN, x, THIS_RUN, below=False),
    ]
    return layer, rows


def _target_name(place: int) -> str:
    return f"target_{place}"


def _value_in_request(response: SweepsResponse, along: str) -> float | None:
    start, _, pointer = along.partition("/mechanism")
    number = None if start or not pointer else place_of(response.mechanism, pointer).number
    column = response.columns[along]
    return number if number is not None and min(column) <= number <= max(column) else None


def _pointer_label(pointer: str) -> str:
    *_, owner, name = pointer.split("/")
    return (f"{owner} {name}" if name.isdecimal() else name).replace("_", " ")


def _axis_and_series_pointers(response: SweepsResponse) -> tuple[str, list[str]]:
    # the varied number with the most values is on the axis; numbers that vary together make a single series
    counts = {pointer: len(set(column)) for pointer, column in response.columns.items()}
    along = max(counts, key=lambda pointer: counts[pointer])
    together = response.combine == "zip"
    return along, [] if together else [pointer for pointer in counts if pointer != along and counts[pointer] > 1]


def _axis_title(answer: SweptAnswer, question: QuestionSpec) -> str:
    if "*" in answer.label or "direction" in answer.label:
        return answer.label
    match question:
        case EpsilonQuestion(delta=delta):
            return f"epsilon at delta {format_exact(delta)}"
        case TradeOffQuestion(false_positive_rates=rates) if answer.point is not None:
            name = "power" if answer.reads == "power" else "type II error"
            return f"{name} at alpha {format_exact(rates[answer.point])}"
        case ReconstructionQuestion(baseline_success=float() as chance):
            return f"gamma at kappa {format_exact(chance)}"
        case _:
            return answer.label


def _series(response: SweepsResponse, others: Sequence[str]) -> list[str]:
    columns = [(_pointer_label(pointer), response.columns[pointer]) for pointer in others]
    return [
        ", ".join(f"{name} {format_exact(column[place])}" for name, column in columns) or ONLY
        for place in range(response.points)
    ]


def _axis(field: str, title: str, numbers: Sequence[float]) -> Spec:
    positive = [each for each in numbers if each > 0]
    wide = bool(positive) and max(positive) / min(positive) > WIDE and min(numbers) >= 0
    scale: Spec = {"type": "log", "nice": field == "value"} if wide else {"type": "linear", "zero": False, "nice": True}
    axis: Spec = {"tickCount": 5, "labelOverlap": True, "format": "~g"}
    if wide:
        axis |= {"gridOpacity": MINOR_GRID, "tickOpacity": MINOR_GRID}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _is_logarithmic(channel: Spec) -> bool:
    return channel["scale"]["type"] == "log"


def _series_encoding_or_one_colour(names: list[str], picture: str) -> Spec:
    if len(names) > MOST_SERIES:
        return {"color": {"value": COLOURS[0]}, "detail": {"field": "series", "type": "nominal"}}
    encoding = series_encoding(names, picture)
    if names == [ONLY]:
        encoding = {channel: {**each, "legend": None} for channel, each in encoding.items()}
    return encoding


def _band(x: Spec, y: Spec, encoding: Spec) -> Spec:
    positive = " && datum.lower > 0" if _is_logarithmic(y) else ""
    return {
        "transform": [{"filter": f"datum.upper !== null && datum.lower !== null{positive}"}],
        "mark": {"type": "area", "opacity": BAND_OPACITY, "clip": True},
        "encoding": {
            "x": x,
            "y": {**y, "field": "lower", "stack": None},
            "y2": {"field": "upper"},
            **{channel: encoding[channel] for channel in ("color", "detail") if channel in encoding},
        },
    }


def _line(x: Spec, y: Spec, encoding: Spec, name: str) -> list[Spec]:
    shown = tooltip("line", ["x", "value", "lower", "upper"])
    shown[1]["title"] = x["title"]
    points = {key: each for key, each in encoding.items() if key != "strokeDash"}
    return [
        {
            "name": name,
            "mark": {"type": "line", "strokeWidth": 2, "clip": True},
            "encoding": {"x": x, "y": y, **encoding},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 24, "opacity": 1},
            "encoding": {"x": x, "y": y, **points, "tooltip": shown},
        },
    ]


def _limit_marks(name: str, y: Spec, *, is_share: bool, at_most: bool) -> list[Spec]:
    # Vega-Lite marks of a line and of the area in which the limit holds, invisible while the parameter `name` is null
    word = f"at {'most' if at_most else 'least'} "
    number = f"format(100 * {name}, '.12~g') + ' %'" if is_share else name
    given: Spec = {
        "data": {"values": [{}]},
        "transform": [
            {"filter": f"isValid({name})"},
            {"calculate": name, "as": "limit"},
            {"calculate": f"'{word}' + {number}", "as": "label"},
        ],
    }
    channel = {**y, "field": "limit"}
    kept: Spec = {"y2": {"value": "height"}} if at_most else {"y2": {"value": 0}}
    return [
        {
            **given,
            "mark": {"type": "rect", "color": COLOURS[2], "opacity": FEASIBLE_OPACITY},
            "encoding": {"y": channel, **kept},
        },
        {
            **given,
            "mark": {"type": "rule", "strokeDash": [4, 3], "color": TEXT},
            "encoding": {"y": channel},
        },
        {
            **given,
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "dx": -4, "dy": -3},
            "encoding": {"y": channel, "x": {"value": "width"}, "text": {"field": "label", "type": "nominal"}},
        },
    ]


def _vertical_line_marks(param: str, x: Spec, label: str, *, below: bool) -> list[Spec]:
    # Vega-Lite marks of a line at the value of the parameter `param`, invisible while it is null
    given: Spec = {
        "data": {"values": [{"label": label}]},
        "transform": [{"filter": f"isValid({param})"}, {"calculate": param, "as": "x"}],
    }
    text: Spec = {"dy": -4, "dx": 4, "align": "left"} if below else {"dy": -5, "align": "center"}
    return [
        {
            **given,
            "mark": {"type": "rule", "strokeDash": [2, 2] if below else [1, 0], "color": TEXT},
            "encoding": {"x": x},
        },
        {
            **given,
            "mark": {"type": "text", "baseline": "bottom", **text},
            "encoding": {
                "x": x,
                "y": {"value": "height"} if below else {"value": 0},
                "text": {"field": "label", "type": "nominal"},
            },
        },
    ]
