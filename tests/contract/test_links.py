"""Every relative link of the pages leads to a file and to an anchor that exist."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]
GUIDE: Final = ROOT / "docs" / "guide"
PAGES: Final = (
    *sorted(GUIDE.glob("*.md")),
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
)
LINK: Final = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION: Final = re.compile(r"(?m)^\[[^\]]+\]:\s*(\S+)")
HTML_LINK: Final = re.compile(r"<(?:a|img)\s[^>]*?(?:href|src)=\"([^\"]+)\"")
HEADING: Final = re.compile(r"(?m)^#{1,6}\s+(.+?)\s*#*$")
HTML_ANCHOR: Final = re.compile(r"<[a-z]+\s[^>]*?\bid=\"([^\"]+)\"")
ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:")
"""Schemes, such as `https:`. No test follows them."""
FILE_IN_TEXT: Final = re.compile(r"`((?:benchmarks|deploy|docs|requirements|service|tests)/[\w./-]*\w)`")


class Broken(NamedTuple):
    """Link without a target: the page, the target as it is written, and the reason."""

    page: str
    target: str
    reason: str


def without_code(text: str) -> str:
    """Return a page without its code blocks and code spans."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?ms)^```.*?^```$", "", text))


def slug_of_guide(heading: str) -> str:
    """Return the anchor that Python-Markdown gives a heading, which the served guide has."""
    ascii_only = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def slug_of_host(heading: str) -> str:
    """Return the anchor that Git hosts give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page that work both in the served guide and on a Git host."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    headings = [re.sub(r"<[^>]+>|[`*]", "", found) for found in HEADING.findall(text)]
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    by_guide, by_host = (set(map(slug, headings)) for slug in (slug_of_guide, slug_of_host))
    return (by_guide & by_host) | set(HTML_ANCHOR.findall(text))


def targets(text: str) -> Iterator[str]:
    """Yield the targets of all links and pictures of a page."""
    text = without_code(text)
    for pattern in (LINK, DEFINITION, HTML_LINK):
        yield from pattern.findall(text)


def broken_links(page: Path, text: str, root: Path = ROOT) -> list[Broken]:
    """Return the relative links of a page that lead nowhere. Pages of the guide may link within the guide only."""
    name = page.relative_to(root).as_posix()
    guide = root / "docs" / "guide"
    found: list[Broken] = []
    for target in targets(text):
        if ELSEWHERE.match(target):
            continue
        path, _, anchor = target.partition("#")
        if path.startswith("/"):
            found.append(Broken(name, target, "absolute: a Git host and a folder have another root"))
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(Broken(name, target, "no such file"))
        elif page.is_relative_to(guide) and not file.is_relative_to(guide):
            found.append(Broken(name, target, "outside docs/guide, and so not in the served guide"))
        elif anchor and anchor not in anchors(text if file == page else file.read_text("utf-8")):
            found.append(Broken(name, target, "no such anchor"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_targets(page: Path) -> None:
    assert broken_links(page, page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    named = FILE_IN_TEXT.findall(re.sub(r"(?ms)^```.*?^```$", "", page.read_text("utf-8")))
    assert [(page.name, name) for name in named if not (ROOT / name).exists()] == []


def test_broken_links_are_reported(tmp_path: Path) -> None:
    guide = tmp_path / "docs" / "guide"
    guide.mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Readme\n")
    (guide / "there.md").write_text('# There\n\n## What `this` is, and why\n\n<a id="kept"></a>\n')
    page = guide / "here.md"
    text = """
    [a](there.md) [b](there.md#what-this-is-and-why) [c](there.md#kept) [d](https://example.org/nowhere) [e](#here)
    ![f](figures/none.svg) [g](nowhere.md) [h](there.md#none) [i](../../README.md) [j](/docs) [k](#none)
    `[l](in-code.md)` <a href="none.html">m</a>
    """.replace("    ", "")
    text = f"# Here\n{text}\n[n]: none.md\n\n```md\n[o](in-block.md)\n```\n"
    page.write_text(text)
    found = broken_links(page, text, tmp_path)
    assert {each.page for each in found} == {"docs/guide/here.md"}
    wrong = [
        "figures/none.svg",
        "nowhere.md",
        "there.md#none",
        "../../README.md",
        "/docs",
        "#none",
        "none.md",
        "none.html",
    ]
    assert [each.target for each in found] == wrong


def test_links_of_explorer_into_guide_have_targets() -> None:
    sources = [path for path in (ROOT / "service/web").rglob("*.*") if path.suffix in (".html", ".js")]
    own = [path for path in sources if not {"vendor", "guide"} & set(path.relative_to(ROOT / "service/web").parts)]
    linked = {
        found for path in own for found in re.findall(r"/guide/([\w-]+)\.html(?:#([\w-]+))?", path.read_text("utf-8"))
    }
    assert linked
    for name, anchor in sorted(linked):
        page = GUIDE / f"{name}.md"
        assert page.exists(), name
        assert not anchor or anchor in anchors(page.read_text("utf-8")), (name, anchor)


def test_all_pages_are_checked() -> None:
    assert len(PAGES) > 60
    assert sum(len(list(targets(page.read_text("utf-8")))) for page in PAGES) > 100
