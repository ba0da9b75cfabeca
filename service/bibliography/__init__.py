"""Bibliography of the sources that answers, errata and pages name, and of the software itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from service.bibliography.attacks import ATTACKS
from service.bibliography.composition import COMPOSITION
from service.bibliography.discrete import DISCRETE
from service.bibliography.divergences import DIVERGENCES
from service.bibliography.numerics import NUMERICS
from service.bibliography.source import Source
from service.bibliography.statistics import STATISTICS
from service.engine_version import ENGINE_VERSION

SOURCES: Final = (*ATTACKS, *COMPOSITION, *DISCRETE, *DIVERGENCES, *STATISTICS, *NUMERICS)
"""All sources but software: attacks, composition, discrete mechanisms, divergences, statistics, numerical methods."""
SOFTWARE_KEY: Final = "privacy-bounds"
SOFTWARE_YEAR: Final = 2026
"""Year of the release that `CITATION.cff` names."""
_FAMILY: Final = r"(?:Mc)?[A-Z][a-z]+(?:-[A-Z][a-z]+)?"
_CITATION: Final = re.compile(
    rf"((?:{_FAMILY}(?:,|,?\s+and)\s+)*{_FAMILY}(?:\s+et\s+al\.)?)(?:\s+\((GLRT)\),|,?\s+\(?(1[89]\d\d|20\d\d)\b)"
    r"|(NIST SP [0-9-]+)"
)
"""Families with a year, families with the abbreviation of a paper, or the number of a standard."""


def software(resources: Sequence[str]) -> Source:
    """Return the bibliography entry of this software. `resources` names the resources of the service."""
    return Source(
        key=SOFTWARE_KEY,
        kind="software",
        title="privacy-bounds: certified bounds on what an attacker can learn from a private release",
        authors=("{The privacy-bounds maintainers}",),
        year=SOFTWARE_YEAR,
        version=version(SOFTWARE_KEY),
        note=f"Engine version {ENGINE_VERSION}",
        cited_as=(SOFTWARE_KEY,),
        used_by=tuple(resources),
    )


def citations(text: str) -> list[str]:
    """Return the citations in a text, in order.

    Their form is that of `Source.cited_as`: names and a year, the name of a standard, or names and an abbreviation. The
    list is empty without citations.
    """
    found: list[str] = []
    for families, label, year, standard in _CITATION.findall(text):
        names = re.sub(r",? and\s+", ", ", " ".join(families.split()))
        found.append(standard or (f"{names} ({label})" if label else f"{names} {year}"))
    return found


def sources_of(text: str) -> list[Source]:
    """Return the sources that a text cites, in the order of SOURCES and each once.

    Other names with a year are ignored.
    """
    names = set(citations(text))
    return [source for source in SOURCES if not names.isdisjoint(source.cited_as)]
