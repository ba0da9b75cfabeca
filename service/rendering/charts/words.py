"""Chart texts, shortened and wrapped at whole words, never inside a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LONGEST_LINE: Final = 72
"""Largest number of characters of a line that fits into a chart, in the fonts of the machines that render charts."""
LONGEST_TITLE: Final = 52
"""Largest number of characters of a title line. Titles are larger and bold."""
_BREAK: Final = re.compile(r" (?!%)(?!(?<=\d )\d{3}(?!\d))")
"""Space that may become a line break: not before a percent sign, and not inside a number such as 60 000."""


def wrap(text: str, longest: int = LONGEST_LINE) -> list[str]:
    """Split a text into lines of at most `longest` characters. A longer word has a line of its own."""
    lines: list[str] = []
    for word in _BREAK.split(text):
        if lines and len(lines[-1]) + 1 + len(word) <= longest:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def with_full_stop(text: str) -> str:
    """Return a text with a full stop at its end, unless an ellipsis ends it."""
    return text if text.endswith("…") else f"{text}."


def join_counted(items: Sequence[str], longest: int) -> str:
    """Join items by commas. Items that do not fit into `longest` characters are counted: "and 3 more".

    The first item is always written.
    """
    kept = len(items)
    while kept > 1 and len(_joined(items, kept)) > longest:
        kept -= 1
    return _joined(items, kept)


def _joined(items: Sequence[str], kept: int) -> str:
    text = ", ".join(items[:kept])
    return text if kept == len(items) else f"{text} and {len(items) - kept} more"
