"""The pages for people, taken apart: README.md and the guide, their sections, and the examples in them."""

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
"""Texts by their paths."""

FENCE = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
CURL = re.compile(
    r"(?ms)^curl -si? \S+?8000(/\S*)((?: -H '[^']*')*)(?: -d '\n?(.*?)'| --data-binary (@\S+))?(?: > \S+)?$"
)
HEADER = re.compile(r"-H '([\w-]+): ([^']*)'")
COMMAND = re.compile(r"(?m)^(?:\.venv/bin/)?privacy-bounds ([^#|\n]+)")
OBJECT = re.compile(r"`(\{.*?\})`")


class Call(NamedTuple):
    """A request over HTTP as a page writes it for curl. A body that starts with `@` is the name of a file."""

    path: str
    headers: dict[str, str]
    body: str


class Block(NamedTuple):
    """A fenced block: the page, the line it begins at, its language and what is in it."""

    page: str
    line: int
    language: str
    text: str


def page(name: str) -> str:
    """A page of the guide, or README.md."""
    return PAGES["README.md" if name == "README" else f"docs/guide/{name}.md"]


def section(heading: str, name: str) -> str:
    """The text below a heading of the second level, up to the next one."""
    return page(name).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def blocks(name: str) -> list[Block]:
    """The fenced blocks of a page in their order."""
    text = PAGES[name]
    return [Block(name, text.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in FENCE.finditer(text)]


def calls(text: str) -> list[Call]:
    """What a block, or a page, calls with curl."""
    return [Call(found[1], dict(HEADER.findall(found[2])), found[3] or found[4] or "") for found in CURL.finditer(text)]


def commands(text: str) -> list[list[str]]:
    """What is run with the command line, split at spaces."""
    return [found[1].split() for found in COMMAND.finditer(text)]


def objects_of_tables(name: str) -> Iterator[dict[str, Any]]:
    """JSON objects in the rows of tables, but for those that leave something out: what they say can be sent."""
    for row in PAGES[name].splitlines():
        if row.startswith("|"):
            yield from (json.loads(code) for code in OBJECT.findall(row) if "..." not in code)
