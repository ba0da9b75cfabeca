"""The pictures of the guide, from what the service answers: python docs/figures.py writes docs/guide/figures/*.svg.

They are drawn as the pictures of the service are, by `service/rendering/charts`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

from api_schemas.curves import CurvesResponse
from privacy_bounds import Local
from service.rendering.chart_catalogue import RATES
from service.rendering.chart_images import PAPER, ChartRequest, render_chart
from service.rendering.charts.probability_curve import ROC, line, probability_curve
from service.rendering.charts.series import first_curve_series
from service.rendering.charts.style import (
    COLOURS,
    HEIGHT,
    Spec,
    finalize_spec,
    layered_chart,
    series_encoding,
)
from service.rendering.numbers import format_exact, rounded_up

FOLDER: Final = Path(__file__).parent / "guide" / "figures"
RUN: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
DELTA: Final = 1e-5
SAMPLERS: Final = ("poisson", "fixed_without_replacement", "fixed_with_replacement", "shuffled")
METHODS: Final = {
    "contour inversion": "contour",
    "discretised losses": "discretised",
    "Edgeworth series": "edgeworth",
    "central limit theorem": "clt",
}
BAR, BAR_HEIGHT = 22, 44


def curves(mechanism: Any) -> CurvesResponse:
    """Compute the certified trade-off curve of a mechanism."""
    body = {"mechanism": mechanism, "false_positive_rates": RATES}
    return CurvesResponse.model_validate_json(Local().send("/v1/curves", json.dumps(body).encode()))


def epsilon_alone() -> Spec:
    """Draw the power of an attack on a training run, and the power that its (epsilon, delta) alone would allow."""
    epsilon = Local().epsilon(RUN, delta=DELTA).value
    pair = {"type": "approximate_dp", "epsilon": epsilon, "delta": DELTA}
    series = [
        first_curve_series("What the run allows, proved", curves(RUN)),
        first_curve_series(
            f"All that epsilon {rounded_up(epsilon, 3)} at delta {format_exact(DELTA)} says", curves(pair)
        )._replace(worst=False),
    ]
    return probability_curve(ROC, series, ["Noise multiplier 1, sampling rate 0.01, 1000 steps"])


def samplers() -> Spec:
    """Draw both bounds of the epsilon of one run for each way of drawing batches."""
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


def addition() -> Spec:
    """Draw the cumulant generating functions of two steps, and their sum, which is that of the run."""
    orders = [count / 20 for count in range(61)]
    laplace = [laplace_cumulant(order) for order in orders]
    gaussian = [(order * order - order) / 2 for order in orders]
    curves = {
        "Laplace step, scale 1": laplace,
        "Gaussian step, noise 1": gaussian,
        "both steps: the sum": [sum(pair) for pair in zip(laplace, gaussian, strict=True)],
    }
    rows: list[Spec] = [
        {"series": name, "order": order, "cumulant": value}
        for name, values in curves.items()
        for order, value in zip(orders, values, strict=True)
    ]
    x = {"field": "order", "type": "quantitative", "title": "s"}
    y = {"field": "cumulant", "type": "quantitative", "title": "K(s) = ln E exp(s L)"}
    marks = [line(x, y, series_encoding(list(curves), "figure"), "cumulant_numbers")]
    title = "Cumulant generating functions add up"
    return layered_chart("addition", title, ["Privacy loss L of a run of two steps"], f"{title}.", rows, marks, HEIGHT)


def laplace_cumulant(order: float) -> float:
    """Return K(`order`), the cumulant generating function of a Laplace step's privacy loss of at most 1 nat."""
    if order == 0.5:
        return -0.5 + math.log(1.5)
    return math.log((order * math.exp(order - 1) + (order - 1) * math.exp(-order)) / (2 * order - 1))


def enclosures() -> Spec:
    """Draw the epsilon of one run by four methods: approximations are points, certified answers are intervals."""
    rows: list[Spec] = []
    for name, method in METHODS.items():
        answer = Local().epsilon(RUN, delta=DELTA, method=method)
        value = answer.value
        lower, upper = (value, value) if answer.lower is None else (answer.lower, answer.upper)
        bounds = "no bounds" if answer.lower is None else f"from {lower:.12f} to {upper:.12f}"
        rows.append({"series": name, "lower": lower, "upper": upper, "label": f"{value:.4f}, {bounds}"})
    y = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "sort": None,
        "axis": {"labelLimit": 240, "minExtent": 190},
    }
    x = {
        "field": "lower",
        "type": "quantitative",
        "title": "epsilon (nats)",
        "scale": {"domain": [1.5, 2.5], "zero": False},
    }
    layer: list[Spec] = [
        {
            "mark": {"type": "bar", "size": BAR, "color": COLOURS[0]},
            "encoding": {"y": y, "x": x, "x2": {"field": "upper"}},
        },
        {"mark": {"type": "tick", "size": BAR, "thickness": 3, "color": COLOURS[0]}, "encoding": {"y": y, "x": x}},
        {
            "mark": {"type": "text", "align": "left", "dx": 6},
            "encoding": {"y": y, "x": {**x, "field": "upper"}, "text": {"field": "label", "type": "nominal"}},
        },
    ]
    title = "Epsilon of one run at delta 1e-5 by four methods"
    told = ["Approximations are single numbers. A certified answer is an interval around the truth."]
    return layered_chart("enclosures", title, told, f"{title}.", rows, layer, BAR_HEIGHT * len(rows))


def write(chart: Spec) -> None:
    """Write a chart on a white background to a file with its name, because pages of other hosts show it."""
    spec = {**finalize_spec(chart, []), "background": PAPER, "padding": 12}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{chart['name']}.svg").write_bytes(
        render_chart(ChartRequest(spec=json.dumps(spec), image="svg")) + b"\n"
    )


if __name__ == "__main__":
    write({**epsilon_alone(), "name": "epsilon_alone"})
    write(samplers())
    write(addition())
    write(enclosures())
