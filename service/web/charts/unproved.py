"""What stands in place of pictures where nothing is proved about a run: a picture that claims nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from service.web.charts.style import STRIP_HEIGHT, TEXT, Spec, layered

TITLE: Final = "Nothing is proved about this run"
SHOWN: Final = "No curves: none of them is known to bound anything."


def unproved(reasons: Sequence[str]) -> Spec:
    """Return a picture without curves. `reasons`: sentences that say why."""
    told = [each for each in reasons if each]
    text: Spec = {
        "data": {"values": [{"text": SHOWN}]},
        "mark": {"type": "text", "color": TEXT},
        "encoding": {"text": {"field": "text", "type": "nominal"}},
    }
    return layered("unproved", TITLE, told, " ".join([f"{TITLE}.", *told]), [], [text], STRIP_HEIGHT)
