"""Chart in place of curves for a run about which nothing is proved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from service.rendering.charts.style import STRIP_HEIGHT, TEXT, Spec, layered_chart

TITLE: Final = "Nothing is proved about this run"
SHOWN: Final = "No curves, because none is known to be a bound."


def unproved(reasons: Sequence[str]) -> Spec:
    """Return a chart without curves, for a run about which nothing is proved.

    `reasons` are sentences that explain why.
    """
    sentences = [each for each in reasons if each]
    text: Spec = {
        "data": {"values": [{"text": SHOWN}]},
        "mark": {"type": "text", "color": TEXT},
        "encoding": {"text": {"field": "text", "type": "nominal"}},
    }
    return layered_chart("unproved", TITLE, sentences, " ".join([f"{TITLE}.", *sentences]), [], [text], STRIP_HEIGHT)
