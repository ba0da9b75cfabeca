"""Charts and reports: cost of rendering beside the answer. The chart engine is warm."""

from __future__ import annotations

import json
from typing import Any, Final

from benchmarks.report import Reach, Section, Table, milliseconds
from benchmarks.timing import median_cpu_seconds

RUN: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
CURVES: Final = {"mechanism": RUN, "grid": {"smallest": 1e-6, "largest": 1.0, "count": 61}}
ASSESSMENT: Final = {"mechanism": RUN, "context": {"delta": 1e-5}}
LARGEST_SVG_SECONDS: Final = 0.3
LARGEST_REPORT_SECONDS: Final = 1.0
VEGA_LITE: Final = "application/vnd.vegalite.v5+json"


def measure() -> Section:
    from service.command.in_process import evaluate, render
    from service.rendering.chart_images import ChartRequest, render_chart
    from service.resources.catalogue import resource

    def answer(name: str, request: dict[str, Any]) -> bytes:
        found = evaluate(resource(name), json.dumps(request).encode(), "")
        if not isinstance(found, bytes):
            raise TypeError(found.detail)
        return found

    curves, assessment = answer("curves", CURVES), answer("assessments", ASSESSMENT)
    spec = render(resource("curves"), curves, VEGA_LITE).decode()
    render(resource("assessments"), assessment, "text/html")  # Warm the chart engine.
    found = {
        "curves, 61 points: the answer": median_cpu_seconds(lambda: answer("curves", CURVES)),
        "its spec": median_cpu_seconds(lambda: render(resource("curves"), curves, VEGA_LITE)),
        "its SVG": median_cpu_seconds(lambda: render_chart(ChartRequest(spec=spec, image="svg"))),
        "its PNG": median_cpu_seconds(lambda: render_chart(ChartRequest(spec=spec, image="png"))),
        "assessment of C1: the answer": median_cpu_seconds(lambda: answer("assessments", ASSESSMENT)),
        "its report, with the answers it shows": median_cpu_seconds(
            lambda: render(resource("assessments"), assessment, "text/html")
        ),
    }
    _, _, svg, _, told, page = found.values()
    return Section(
        "Pictures",
        [
            Reach("SVG of a curve", "<= 300 ms", milliseconds(svg), svg <= LARGEST_SVG_SECONDS),
            Reach(
                "report of C1, with the assessment",
                "<= 1 s",
                milliseconds(told + page),
                told + page <= LARGEST_REPORT_SECONDS,
            ),
        ],
        [Table("Pictures (CPU s of all threads, median)", ("what", "CPU s"), list(found.items()))],
    )
