"""Texts of other people inside Markdown and file names."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST_NAME: Final = 80
_MARKUP: Final = "\\`*_{}[]<>#|&!~@"
_LINKED: Final = re.compile(r":(?=\S)|(?<=www)\.", re.IGNORECASE)


def cell(text: str) -> str:
    """Return a text of ours, which may have code spans, for a table."""
    return text.replace("|", "&#124;")


def plain(text: str) -> str:
    """Return a text that somebody sent as Markdown and HTML show it. No links are made of addresses."""
    return "".join(f"&#{ord(each)};" if each in f"{_MARKUP}:." else each for each in text)


def prose(text: str) -> str:
    """Return sentences in which somebody's words stand as Markdown shows them, readable where nothing is markup."""
    escaped = "".join(f"&#{ord(each)};" if each in _MARKUP else each for each in text)
    return _LINKED.sub(lambda found: f"&#{ord(found[0])};", escaped)


def file_name(name: str) -> str:
    """Return a name of ASCII letters, digits and dashes, "" where nothing of it is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", ascii_name)[:LONGEST_NAME].strip("-")
