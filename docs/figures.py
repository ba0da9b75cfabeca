"""The pictures of the guide, from what the service answers: python docs/figures.py writes docs/guide/figures/*.svg.

They are drawn as the pictures of the service are, by `service/rendering/charts`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from api_schemas.curves import CurvesResponse
from privacy_bounds import Local
from service.rendering.chart_catalogue import RATES
from service.rendering.chart_images import PAPER, ChartRequest, render_chart
from service.rendering.charts.probability_curve import RATE, RATE_TITLE, ROC, domain_start, line, probability_curve
from service.rendering.charts.series import first_curve_series, series_of
from service.rendering.charts.style import (
    COLOURS,
    HEIGHT,
    Spec,
    finalize_spec,
    layered_chart,
    logarithmic_axis,
    series_encoding,
)
from service.rendering.numbers import format_exact, rounded_up

FOLDER: Final = Path(__file__).parent / "guide" / "figures"
RUN: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
DELTA: Final = 1e-5
NAMES: Final = {"auto": "certified: width of the enclosure", "edgeworth": "Edgeworth series", "clt": "central limit"}
SAMPLERS: Final = ("poisson", "fixed_without_replacement", "fixed_with_replacement", "shuffled")
BAR, BAR_HEIGHT = 22, 44


def curves(mechanism: Any, methods: Sequence[str] = ("auto",)) -> CurvesResponse:
    """The curves of a mechanism by these methods."""
    body = {"mechanism": mechanism, "methods": methods, "false_positive_rates": RATES}
    return CurvesResponse.model_validate_json(Local().send("/v1/curves", json.dumps(body).encode()))


def epsilon_alone() -> Spec:
    """What the run allows, and what its (epsilon, delta) alone would allow."""
    epsilon = Local().epsilon(RUN, delta=DELTA).value
    pair = {"type": "approximate_dp", "epsilon": epsilon, "delta": DELTA}
    series = [
        first_curve_series("What the run allows, proved", curves(RUN)),
        first_curve_series(
            f"All that epsilon {rounded_up(epsilon, 3)} at delta {format_exact(DELTA)} says", curves(pair)
        )._replace(worst=False),
    ]
    return probability_curve(ROC, series, ["Noise multiplier 1, sampling rate 0.01, 1000 steps"])


def widths() -> Spec:
    """How far apart the ends are, against approximations that have no ends."""
    told = curves(RUN, tuple(NAMES))
    exact, *others = series_of(told)
    rows: list[Spec] = [
        {
            "series": NAMES["auto"],
            RATE: rate,
            "error": max((upper - lower) / upper, 1e-17),
            "lower": None,
            "upper": None,
        }
        for rate, lower, upper in zip(exact.rates, exact.lower or (), exact.upper or (), strict=True)
        if rate < 1
    ]
    for name, other in zip(("edgeworth", "clt"), others, strict=True):
        rows += [
            {"series": NAMES[name], RATE: rate, "error": abs(value / true - 1), "lower": None, "upper": None}
            for rate, value, true in zip(other.rates, other.value, exact.value, strict=True)
            if rate < 1 and value != true
        ]
    title = "Error of three ways to compute the same curve"
    x = logarithmic_axis(RATE, RATE_TITLE, (1e-6, 1))
    y = logarithmic_axis("error", "Relative error, or width", (domain_start([row["error"] for row in rows]), 10))
    marks = [line(x, y, series_encoding(list(NAMES.values()), "figure"), "error_numbers")]
    return layered_chart("widths", title, ["Power of the same run"], f"{title}.", rows, marks, HEIGHT)


def samplers() -> Spec:
    """Epsilon of one run by how batches are drawn: both ends."""
    run = {"type": "dpsgd", "noise_multiplier": 1.0, "batch_size": 480, "dataset_size": 48000, "epochs": 10}
    rows: list[Spec] = []
    for sampling in SAMPLERS:
        answer = Local().epsilon(run | {"sampling": sampling}, delta=DELTA, relative_tolerance=1e-4)
        lower, upper = answer.lower or 0.0, answer.upper or 0.0
        said = f"{upper:.2f}" if upper - lower < 1e-3 * upper else f"between {lower:.2f} and {upper:.2f}"
        rows.append({"series": sampling.replace("_", " "), "lower": lower, "upper": upper, "label": said})
    y = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "sort": None,
        "axis": {"labelLimit": 240, "minExtent": 190},
    }
    x = {"field": "lower", "type": "quantitative", "title": "epsilon (nats)", "scale": {"domain": [0, 32]}}
    layer: list[Spec] = [
        {"mark": {"type": "bar", "size": BAR, "color": COLOURS[0]}, "encoding": {"y": y, "x": x}},
        {
            "mark": {"type": "bar", "size": BAR, "color": COLOURS[1]},
            "encoding": {"y": y, "x": x, "x2": {"field": "upper"}},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 6},
            "encoding": {
                "y": y,
                "x": {**x, "field": "upper"},
                "text": {"field": "label", "type": "nominal"},
            },
        },
    ]
    title = "Epsilon at delta 1e-5 by how batches are drawn"
    told = ["Blue: surely so much. Orange: what is open between an attack and a theorem."]
    return layered_chart("samplers", title, told, f"{title}.", rows, layer, BAR_HEIGHT * len(rows))


def write(chart: Spec) -> None:
    """A picture on white, under its name: it stands in pages of other hosts."""
    spec = {**finalize_spec(chart, []), "background": PAPER, "padding": 12}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{chart['name']}.svg").write_bytes(
        render_chart(ChartRequest(spec=json.dumps(spec), image="svg")) + b"\n"
    )


if __name__ == "__main__":
    write({**epsilon_alone(), "name": "epsilon_alone"})
    write(widths())
    write(samplers())
