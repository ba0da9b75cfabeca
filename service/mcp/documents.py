"""Documents that assistants read: pages of the guide with the errata, and the catalogue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from mcp_types import Resource, TextResourceContents

from api_schemas.catalogue import catalogue
from service.engine_version import ENGINE_VERSION

SCHEME: Final = "privacy-bounds://"
CATALOGUE: Final = f"{SCHEME}catalogue"
ERRATA: Final = f"{SCHEME}errata"
GUIDE: Final = f"{SCHEME}guide/"
INDEX: Final = ("web", "guide", "search", "search_index.json")
"""Texts of the pages of the built guide. The file does not exist before `make guide`."""


def listed_documents() -> list[Resource]:
    """Return all documents that assistants may read (pages and the contract), with their titles."""
    found = [
        Resource(
            name="catalogue",
            uri=CATALOGUE,
            title="Mechanisms, questions and threat models",
            description="All types with their fields, ranges, units and examples.",
            mime_type="application/json",
        )
    ]
    pages = _guide_pages()
    if "errata" in pages:
        title = "Errors in papers, with the right form"
        found.append(Resource(name="errata", uri=ERRATA, title=title, mime_type="text/plain"))
    found += [
        Resource(name=f"guide/{name}", uri=f"{GUIDE}{name}", title=page["title"], mime_type="text/plain")
        for name, page in pages.items()
    ]
    return found


def document(uri: str) -> TextResourceContents | None:
    """Return the document at the address `uri`, or None for an unknown address."""
    if uri == CATALOGUE:
        text = catalogue(ENGINE_VERSION, ()).model_dump_json(exclude_none=True)
        return TextResourceContents(uri=uri, mime_type="application/json", text=text)
    name = "errata" if uri == ERRATA else uri.removeprefix(GUIDE) if uri.startswith(GUIDE) else ""
    page = _guide_pages().get(name)
    if page is None:
        return None
    return TextResourceContents(uri=uri, mime_type="text/plain", text=page["text"])


@cache
def _guide_pages() -> Mapping[str, Mapping[str, str]]:
    # empty before the guide is built
    file = files("service").joinpath(*INDEX)
    if not file.is_file():
        return {}
    entries: list[dict[str, str]] = json.loads(file.read_text("utf-8"))["docs"]
    # Entries with a fragment repeat a section of their page.
    return {entry["location"].removesuffix(".html"): entry for entry in entries if "#" not in entry["location"]}
