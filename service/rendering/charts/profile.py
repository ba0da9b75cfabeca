"""Chart of delta against epsilon: all pairs (epsilon, delta) of a run, and those of its Gaussian approximation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from api_schemas.answers import Answer, ProbabilityAnswer
from api_schemas.questions import DeltaQuestion
from service.rendering.charts.probability_curve import band, domain_start, line
from service.rendering.charts.style import (
    HEIGHT,
    TEXT,
    Spec,
    layered_chart,
    legend_lines,
    logarithmic_axis,
    series_encoding,
)
from service.rendering.numbers import format_exact, rounded_up

EPSILON, DELTA = "epsilon", "delta"
TITLE: Final = "All pairs (epsilon, delta) of the run"
SMALLEST_DELTA: Final = 1e-24
"""Smallest delta in the chart. Smaller values are never reported, and would flatten the rest of the chart."""


@final
class Profile(NamedTuple):
    """Named privacy profile (delta as a function of epsilon): answers for delta at several values of epsilon."""

    name: str
    answers: Sequence[Answer]

    def rows(self) -> list[Spec]:
        """Return the points with a delta above 1e-24 as rows for a logarithmic axis.

        Answers that have no number for delta are left out.
        """
        return [
            {
                "series": self.name,
                EPSILON: each.question.epsilon,
                DELTA: each.value,
                "lower": each.lower,
                "upper": each.upper,
            }
            for each in self.answers
            if isinstance(each, ProbabilityAnswer)
            and isinstance(each.question, DeltaQuestion)
            and each.value > SMALLEST_DELTA
        ]


def profile(profiles: Sequence[Profile], stated: tuple[float, float], subtitle: Sequence[str]) -> Spec:
    """Return a chart of delta against epsilon (nats) for each profile, with a mark at the pair `stated`.

    `stated` is (epsilon, delta), and `subtitle` has lines of text.
    """
    rows = [row for each in profiles for row in each.rows()]
    largest = max((row[EPSILON] for row in rows), default=1.0)
    x = {
        "field": EPSILON,
        "type": "quantitative",
        "title": "epsilon (nats)",
        "scale": {"domain": [0, largest], "nice": False},
        "axis": {"tickCount": 6},
    }
    y = logarithmic_axis(DELTA, "delta", (domain_start([row[DELTA] for row in rows]), 1))
    names = [each.name for each in profiles]
    encoding = series_encoding(names, "profile")
    epsilon, delta = stated
    point = [{EPSILON: epsilon, DELTA: delta, "label": f"({rounded_up(epsilon, 3)}, {format_exact(delta)})"}]
    at = {"x": x, "y": y}
    layer: list[Spec] = [
        band(x, y, encoding),
        line(x, y, encoding, "profile_numbers"),
        {
            "data": {"values": point},
            "mark": {"type": "point", "filled": True, "size": 42, "color": TEXT},
            "encoding": at,
        },
        {
            "data": {"values": point},
            "mark": {"type": "text", "align": "right", "dx": -7, "dy": 13},
            "encoding": {**at, "text": {"field": "label", "type": "nominal"}},
        },
    ]
    description = (
        f"{TITLE}: delta, logarithmic, against epsilon. Lines: {', '.join(names)}. "
        f"Marked: epsilon at most {rounded_up(epsilon)} at a delta of {format_exact(delta)}."
    )
    lines = legend_lines(names, "profile")
    return layered_chart("profile", TITLE, list(subtitle), description, rows, layer, HEIGHT, lines)
