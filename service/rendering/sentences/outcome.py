"""Outcomes of the limits of a policy in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from service.rendering.numbers import SHOWN, percent_down, rounded_down

OUTCOMES: Final[Mapping[str, str]] = {"met": "Kept", "violated": "Not kept", "undecided": "Not decided"}
WARNING: Final = "warning only"


def margin_text(limit: float, margin: float | None) -> str:
    """Format a margin (relative distance of a number from its limit) in percent, rounded down.

    A margin is negative beyond the limit. For a limit of 0, it is the distance itself, as a plain number. Return ""
    without a margin.
    """
    if margin is None:
        return ""
    return percent_down(margin) if limit else rounded_down(margin, SHOWN)


def outcome(verdict: str, severity: str, margin: str) -> str:
    """Return the outcome of a limit of a policy in words, with its margin, and whether the limit is only a warning.

    `verdict` is that of a ruling, `severity` a member of its rule, and `margin` the text of `margin_text`.
    """
    counts = "" if severity == "error" else f", {WARNING}"
    return f"{OUTCOMES[verdict]}{f', margin {margin}' if margin else ''}{counts}"
