"""delta against epsilon: every pair that holds at once, and what the Gaussian curve says in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from api_schemas.answers import Answer, ProbabilityAnswer
from api_schemas.questions import DeltaQuestion
from service.interop.numbers import as_given, rounded_up
from service.web.charts.chances import band, domain_start, line
from service.web.charts.style import HEIGHT, TEXT, Spec, coloured, layered, lines_of_legend, logarithmic

EPSILON, DELTA = "epsilon", "delta"
TITLE: Final = "Every (epsilon, delta) of the run"
SMALLEST_DELTA: Final = 1e-24
"""Smaller numbers are left out of the picture: nobody reports them, and they flatten what is reported."""


@final
class Profile(NamedTuple):
    """A name, and the answers about delta at several epsilons."""

    name: str
    answers: Sequence[Answer]

    def rows(self) -> list[Spec]:
        """The points that a logarithmic axis has a place for."""
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
    """delta(epsilon) of each, and the one pair that is `stated`, epsilon first."""
    rows = [row for each in profiles for row in each.rows()]
    largest = max((row[EPSILON] for row in rows), default=1.0)
    x = {
        "field": EPSILON,
        "type": "quantitative",
        "title": "epsilon (nats)",
        "scale": {"domain": [0, largest], "nice": False},
        "axis": {"tickCount": 6},
    }
    y = logarithmic(DELTA, "delta", (domain_start([row[DELTA] for row in rows]), 1))
    names = [each.name for each in profiles]
    drawn = coloured(names, "profile")
    epsilon, delta = stated
    point = [{EPSILON: epsilon, DELTA: delta, "label": f"({rounded_up(epsilon, 3)}, {as_given(delta)})"}]
    at = {"x": x, "y": y}
    layer: list[Spec] = [
        band(x, y, drawn),
        line(x, y, drawn, "profile_numbers"),
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
        f"Marked: epsilon at most {rounded_up(epsilon)} at a delta of {as_given(delta)}."
    )
    lines = lines_of_legend(names, "profile")
    return layered("profile", TITLE, list(subtitle), description, rows, layer, HEIGHT, lines)
