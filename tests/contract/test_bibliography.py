"""The bibliography is complete: every source that code and pages name has an entry, and every entry is named."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from api_schemas.examples import response_examples
from service.bibliography import SOFTWARE_YEAR, SOURCES, citations, software, sources_of
from service.bibliography.source import Source
from service.resources.catalogue import RESOURCES, resources
from tests.contract.pages import PAGES, ROOT

PACKAGES = ("service/privacy", "service/resources", "service/rendering", "service/importers", "api_schemas")
NO_SOURCES = re.compile(r"^(?:January|February|March|April|May|June|July|August|September|October|November|December) ")
"""Dates of pages, which look like a family and a year."""
PART_OF_TITLE = "Guarantees 2025"
"""End of a title with its year. The number of the standard names the source."""
KNOWN = {name: source for source in SOURCES for name in source.cited_as}


def strings(folder: str) -> Iterator[tuple[str, str]]:
    """Yield every string of the modules below a folder, docstrings included, with its place."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


NAMED = {
    (place, name)
    for texts in (*map(strings, PACKAGES), PAGES.items())
    for place, text in texts
    for name in citations(text)
    if not NO_SOURCES.match(name) and name != PART_OF_TITLE
}


def test_every_named_source_has_an_entry() -> None:
    unknown = sorted((place, name) for place, name in NAMED if name not in KNOWN)
    assert unknown == [], "add the source to service/bibliography"
    assert len(NAMED) > 100


def test_every_entry_is_named() -> None:
    named = {name for _, name in NAMED}
    assert sorted(name for name in KNOWN if name not in named) == []


@pytest.mark.parametrize("operation", response_examples())
def test_sources_of_example_answers_name_the_resource(operation: str) -> None:
    names = {computation.operation: computation.name for computation in resources()}
    if operation not in names:
        return
    for text in texts_of("source", response_examples()[operation]):
        for source in sources_of(text):
            assert names[operation] in source.used_by, (source.key, text)


def texts_of(member: str, value: Any) -> Iterator[str]:
    """Yield the strings that stand under the JSON member `member` anywhere in a value."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == member and isinstance(inner, str):
                yield inner
            yield from texts_of(member, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(member, inner)


def test_entries_are_distinct_and_name_resources() -> None:
    keys = [source.key for source in SOURCES]
    assert len(set(keys)) == len(keys)
    assert len(KNOWN) == sum(len(source.cited_as) for source in SOURCES)
    for source in SOURCES:
        assert source.used_by
        assert set(source.used_by) <= set(RESOURCES), source.key
        assert len(set(source.used_by)) == len(source.used_by), source.key


@pytest.mark.parametrize("source", [*SOURCES, software(tuple(RESOURCES))], ids=lambda source: source.key)
def test_bibtex_has_title_author_and_year(source: Source) -> None:
    text = source.bibtex()
    fields = dict(re.findall(r"(?m)^  (\w+) = \{(.*)\},$", text))
    assert text.startswith(f"@{source.kind}{{{source.key},\n")
    assert text.endswith("\n}\n")
    assert fields["title"] == f"{{{source.title}}}"
    assert fields["year"] == str(source.year)
    assert len(fields["author"].split(" and ")) == len(source.authors)
    assert text.count("{") == text.count("}")
    assert source.arxiv is None or re.fullmatch(r"\d{4}\.\d{4,5}", source.arxiv)
    assert source.doi is None or re.fullmatch(r"10\.\d{4,}/\S+", source.doi)


def test_citations_are_read_in_every_spelling() -> None:
    text = (
        "Dong, Roth and Su 2022 (GDP); McSherry,\nTalwar 2007; Kaissis et al. (GLRT), Theorem 1; NIST SP 800-226 (2025)"
    )
    found = ["Dong, Roth, Su 2022", "McSherry, Talwar 2007", "Kaissis et al. (GLRT)", "NIST SP 800-226"]
    assert citations(text) == found


def test_citation_file_equals_package_and_changelog() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    released = re.findall(r"(?m)^## \[(\d[^\]]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"))[0]
    assert (cited["title"], cited["version"], cited["license"]) == (
        project["name"],
        project["version"],
        project["license"],
    )
    assert cited["abstract"] == project["description"]
    assert cited["keywords"] == project["keywords"]
    assert (cited["version"], str(cited["date-released"])) == released
    assert cited["date-released"].year == SOFTWARE_YEAR
    assert json.dumps(cited["authors"][0]["name"]).strip('"') in software(()).bibtex()
