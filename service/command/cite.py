"""Command `privacy-bounds cite`: BibTeX of the software and of the sources of its answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from service.command.arguments import Commands
from service.command.output import print_error
from service.resources.catalogue import RESOURCES

UNKNOWN_KEY: Final = 2
"""Exit code of a request that is refused."""


def add_cite_command(commands: Commands) -> None:
    """Add the command `cite`, which prints bibliography entries, to the parser."""
    citing = commands.add_parser(
        "cite",
        help="print BibTeX of the software or of sources",
        description="Print BibTeX of the software. With keys, print these sources. Equivalent to GET /v1/sources.",
    )
    citing.add_argument("key", nargs="*", metavar="KEY", help="key of a source, for example dong2022gaussian")
    citing.add_argument("--all", action="store_true", help="print the software and all sources")
    citing.add_argument("--list", action="store_true", help="list the keys with their titles")


def cite(keys: Sequence[str], *, every: bool, listed: bool) -> int:
    """Print BibTeX entries of the sources with these keys, and return the exit code of the command.

    `every` selects all sources, and `listed` prints a list of keys instead. Without keys, print the entry of the
    software. The code is 2 for an unknown key, else 0.
    """
    from service.bibliography import SOFTWARE_KEY, SOURCES, software
    from service.bibliography.source import join_bibtex

    known = {source.key: source for source in (software(tuple(RESOURCES)), *SOURCES)}
    if listed:
        sys.stdout.write("".join(f"{key}: {source.title} ({source.year})\n" for key, source in known.items()))
        return 0
    unknown = [key for key in keys if key not in known]
    if unknown:
        print_error(f"{', '.join(unknown)}: unknown key. List the keys with: privacy-bounds cite --list")
        return UNKNOWN_KEY
    sys.stdout.write(join_bibtex(known[key] for key in (known if every else keys or (SOFTWARE_KEY,))))
    return 0
