"""The documentation pages, parsed: README.md and the guide, their sections, and their examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide"
PAGES: Mapping[str, str] = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted(GUIDE.glob("*.md")))
}
"""Texts of the pages by path."""

FENCE = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
CURL = re.compile(
    r"(?ms)^curl -si? \S+?8000(/\S*)((?: -H '[^']*')*)(?: -d '\n?(.*?)'| --data-binary (@\S+))?(?: > \S+)?$"
)
HEADER = re.compile(r"-H '([\w-]+): ([^']*)'")
COMMAND = re.compile(r"(?m)^(?:\.venv/bin/)?privacy-bounds ([^#|\n]+)")
OBJECT = re.compile(r"`(\{.*?\})`")


class Call(NamedTuple):
    """An HTTP request that a page shows as a curl command. A body that starts with `@` is the name of a file."""

    path: str
    headers: dict[str, str]
    body: str


class Block(NamedTuple):
    """A fenced block: its page, the line where it begins, its language and its content."""

    page: str
    line: int
    language: str
    text: str


def page(name: str) -> str:
    """Return the text of a page of the guide, or of README.md."""
    return PAGES["README.md" if name == "README" else f"docs/guide/{name}.md"]


def section(heading: str, name: str) -> str:
    """Return the text below a heading of the second level, up to the next one."""
    return page(name).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def blocks(name: str) -> list[Block]:
    """List the fenced blocks of a page in order."""
    text = PAGES[name]
    return [Block(name, text.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in FENCE.finditer(text)]


def calls(text: str) -> list[Call]:
    """List the curl requests in a block or a page."""
    return [Call(found[1], dict(HEADER.findall(found[2])), found[3] or found[4] or "") for found in CURL.finditer(text)]


def commands(text: str) -> list[list[str]]:
    """List the shell commands of the command line, split at spaces."""
    return [found[1].split() for found in COMMAND.finditer(text)]


def objects_of_tables(name: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in the rows of tables, except abbreviated ones. Every object must be valid input."""
    for row in PAGES[name].splitlines():
        if row.startswith("|"):
            yield from (json.loads(code) for code in OBJECT.findall(row) if "..." not in code)
