"""Texts of other people inside Markdown and file names."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST_NAME: Final = 80
_MARKUP: Final = "\\`*_{}[]<>#|&!~@:."
_IN_PROSE: Final = re.compile(
    r"""[\\`*{}\[\]<>\#|&!~@]     # markup wherever it stands
    | (?<![A-Za-z0-9])_ | _(?![A-Za-z0-9])  # inside a word it is none
    | :(?=\S) | (?<=www)\.        # addresses and :emoji: become links and pictures
    """,
    re.IGNORECASE | re.VERBOSE,
)


def cell(text: str) -> str:
    """Return a text of ours, which may have code spans, for a table."""
    return text.replace("|", "&#124;")


def plain(text: str) -> str:
    """Return a text that somebody sent as Markdown and HTML show it. No links are made of addresses."""
    return "".join(f"&#{ord(each)};" if each in _MARKUP else each for each in text)


def prose(text: str) -> str:
    """Return sentences in which somebody's words stand as Markdown shows them, readable where nothing is markup."""
    return _IN_PROSE.sub(lambda found: f"&#{ord(found[0])};", text)


def file_name(name: str) -> str:
    """Return a name of ASCII letters, digits and dashes, "" where nothing of it is left."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", ascii_name)[:LONGEST_NAME].strip("-")
