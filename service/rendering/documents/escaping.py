"""Escaping of texts from requests in Markdown and in file names."""

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
    """Escape a text of the service for a cell of a Markdown table.

    The text may contain code between backquotes.
    """
    return text.replace("|", "&#124;")


def plain(text: str) -> str:
    """Escape a text from a request, so that Markdown and HTML show the text unchanged.

    Addresses do not become links.
    """
    return "".join(f"&#{ord(each)};" if each in _MARKUP else each for each in text)


def prose(text: str) -> str:
    """Escape sentences that contain words from a request; characters that are not markup stay readable."""
    return _IN_PROSE.sub(lambda found: f"&#{ord(found[0])};", text)


def file_name(name: str) -> str:
    """Convert a name to at most 80 ASCII letters, digits and dashes for the name of a file.

    The result is empty if nothing is left.
    """
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", ascii_name)[:LONGEST_NAME].strip("-")
