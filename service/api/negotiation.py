"""What a client accepts (RFC 9110, section 12.5): media types and content codings, over all lines of a header."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fastapi import Request

from service.api.problems import NotAcceptable

LARGEST_ACCEPT: Final = 32
GZIP: Final = ("gzip", "x-gzip")


def header(request: Request, name: bytes) -> str:
    """Return all lines of a header as one list; "" without the header. `name` in lower case."""
    lines = [value for sent, value in request.scope["headers"] if sent == name]
    return b", ".join(lines).decode("latin-1")


def preferred(accept: str, offered: Iterable[str]) -> str:
    """Return the media type that a client prefers, the first that is offered where the header cannot be read.

    Of media types that are preferred equally, the first that the client names; of a range, the first that is offered.
    Raises NotAcceptable where the client accepts nothing that is offered.
    """
    known = tuple(offered)
    if accept in ("", "*/*"):
        return known[0]
    ranges = _qualities(accept)
    refused = {name for quality, name in ranges if quality == 0}
    wanted = [name for quality, name in ranges if quality > 0 and "/" in name]
    for name in wanted:
        for form in known:
            if form not in refused and name in (form, f"{form.partition('/')[0]}/*", "*/*"):
                return form
    if wanted:
        raise NotAcceptable(known)
    return known[0]


def accepted_form(request: Request, offered: tuple[str, ...]) -> str:
    """Return the media type to answer this request in. Raises NotAcceptable."""
    return preferred(header(request, b"accept"), offered)


def takes_gzip(request: Request) -> bool:
    """Whether the client accepts gzip, by its name or by `*`, and does not prefer the plain text."""
    qualities = {name: quality for quality, name in reversed(_qualities(header(request, b"accept-encoding")))}
    rest = qualities.get("*", 0.0)
    gzip = next((qualities[name] for name in GZIP if name in qualities), rest)
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def _qualities(given: str) -> list[tuple[float, str]]:
    """What a header lists, the most preferred first."""
    found: list[tuple[float, str]] = []
    for part in given.split(",")[:LARGEST_ACCEPT]:
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        if re.fullmatch(r"[01](\.[0-9]{0,3})?", quality):
            found.append((float(quality), name))
    return sorted(found, key=lambda each: -each[0])
