"""Bibliographic entry of one source, and its BibTeX form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["article", "inproceedings", "book", "techreport", "misc", "software"]

VENUE_FIELDS: Final[dict[Kind, str]] = {
    "article": "journal",
    "inproceedings": "booktitle",
    "book": "publisher",
    "techreport": "institution",
}
"""BibTeX field that holds the venue, by the kind of entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Paper, book or software that answers, errata or pages name.

    Fields that the source does not have, or that are not verified, are None.
    """

    key: str
    kind: Kind
    title: str
    authors: tuple[str, ...]
    """Names as `Family, Given`, in the order of the source."""
    year: int
    venue: str | None = None
    """Journal, proceedings, publisher or institution."""
    volume: str | None = None
    pages: str | None = None
    """First and last page, separated by two hyphens."""
    doi: str | None = None
    arxiv: str | None = None
    """Identifier without the version, for example 2307.03928."""
    number: str | None = None
    edition: str | None = None
    note: str | None = None
    version: str | None = None
    cited_as: tuple[str, ...]
    """Names of the source in answers and pages: families and year, separated by commas."""
    used_by: tuple[str, ...]
    """Names of the resources whose answers rest on the source."""

    def bibtex(self) -> str:
        """Return the source as an entry in BibTeX. Double braces keep the capitals of the title."""
        venue = VENUE_FIELDS.get(self.kind, "howpublished")
        fields = {
            "title": f"{{{_escape_latex(self.title)}}}",
            "author": _escape_latex(" and ".join(self.authors)),
            venue: _optional(self.venue),
            "volume": self.volume,
            "number": self.number,
            "pages": self.pages,
            "edition": self.edition,
            "year": str(self.year),
            "version": self.version,
            "doi": self.doi,
            "eprint": self.arxiv,
            "archiveprefix": None if self.arxiv is None else "arXiv",
            "note": _optional(self.note),
        }
        lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value is not None)
        return f"@{self.kind}{{{self.key},\n{lines}}}\n"


def _optional(text: str | None) -> str | None:
    return None if text is None else _escape_latex(text)


def _escape_latex(text: str) -> str:
    return "".join(f"\\{each}" if each in "&%#_$" else each for each in text)


def join_bibtex(sources: Iterable[Source]) -> str:
    """Return a BibTeX file of several sources, separated by empty lines."""
    return "\n".join(source.bibtex() for source in sources)
