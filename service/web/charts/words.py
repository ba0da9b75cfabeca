"""Texts of pictures, shortened and wrapped at whole words, never inside a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LONGEST_LINE: Final = 72
"""Characters of a line that is no wider than a picture, in the fonts of the machines that draw pictures."""
LONGEST_TITLE: Final = 52
"""The same for titles, which are larger and bold."""
_BREAK: Final = re.compile(r" (?!%)(?!(?<=\d )\d{3}(?!\d))")
"""A space that may become a line break: none before a percent sign, and none inside a number such as 60 000."""


def wrapped(text: str, longest: int = LONGEST_LINE) -> list[str]:
    """Break a text into lines of at most `longest` characters; a longer word has a line for itself."""
    lines: list[str] = []
    for word in _BREAK.split(text):
        if lines and len(lines[-1]) + 1 + len(word) <= longest:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def ended(text: str) -> str:
    """Return a text with a full stop at its end, unless an ellipsis ends it."""
    return text if text.endswith("…") else f"{text}."


def enumerated(items: Sequence[str], longest: int) -> str:
    """Join items by commas. Those that do not fit into `longest` characters are counted: "and 3 more"."""
    kept = len(items)
    while kept > 1 and len(_joined(items, kept)) > longest:
        kept -= 1
    return _joined(items, kept)


def _joined(items: Sequence[str], kept: int) -> str:
    text = ", ".join(items[:kept])
    return text if kept == len(items) else f"{text} and {len(items) - kept} more"
