"""The text of a report, and its tables."""

from __future__ import annotations

import html
import re

_STYLE = re.compile(r"<style>.*?</style>|<pre class=\"request\">.*?</pre>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def page_text(page: str) -> str:
    """Return the visible text of a page, without styles and without the repeated request."""
    return html.unescape(_TAG.sub(" ", _STYLE.sub(" ", page)))


def section_of(page: str, name: str) -> str:
    """Return the part of a page under a heading, or "" if it is missing."""
    found = re.search(rf'<section [^>]*aria-labelledby="{name}">.*?</section>', page, re.DOTALL)
    return found[0] if found else ""


def table_of(part: str) -> list[list[str]]:
    """Return the cells of the first table of a part, without its header row."""
    body = re.search(r"<tbody>(.*?)</tbody>", part, re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL) if body else []
    return [
        [page_text(cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows
    ]
