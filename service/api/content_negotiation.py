"""Content negotiation (RFC 9110, section 12.5): media types and content codings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fastapi import Request

from service.problems import NotAcceptable

LARGEST_ACCEPT: Final = 32
GZIP_NAMES: Final = ("gzip", "x-gzip")


def joined_header(request: Request, name: bytes) -> str:
    """Return all lines of a header as one comma-separated list, or "". `name` is in lower case."""
    lines = [value for sent, value in request.scope["headers"] if sent == name]
    return b", ".join(lines).decode("latin-1")


def negotiate_media_type(accept: str, offered: Iterable[str]) -> str:
    """Return the offered media type that a client prefers. Raise NotAcceptable if the client accepts none.

    Among equally preferred media types, the first in the header wins. Within a range such as `text/*`, the first of
    `offered` wins. An unreadable header selects the first of `offered`.
    """
    known = tuple(offered)
    if accept in ("", "*/*"):
        return known[0]
    ranges = _names_by_quality(accept)
    refused = {name for quality, name in ranges if quality == 0}
    wanted = [name for quality, name in ranges if quality > 0 and "/" in name]
    for name in wanted:
        for media_type in known:
            if media_type not in refused and name in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
                return media_type
    if wanted:
        raise NotAcceptable(known)
    return known[0]


def requested_media_type(request: Request, offered: tuple[str, ...]) -> str:
    """Return the media type for the response to a request. Raise NotAcceptable if none of `offered` is accepted."""
    return negotiate_media_type(joined_header(request, b"accept"), offered)


def accepts_gzip(request: Request) -> bool:
    """Return whether the client accepts gzip, by name or by `*`, and does not prefer the uncompressed body.

    Without the header the result is False.
    """
    qualities = {
        name: quality for quality, name in reversed(_names_by_quality(joined_header(request, b"accept-encoding")))
    }
    rest = qualities.get("*", 0.0)
    gzip = next((qualities[name] for name in GZIP_NAMES if name in qualities), rest)
    return gzip > 0 and gzip >= qualities.get("identity", 0.0)


def _names_by_quality(given: str) -> list[tuple[float, str]]:
    found: list[tuple[float, str]] = []
    for part in given.split(",")[:LARGEST_ACCEPT]:
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        if re.fullmatch(r"[01](\.[0-9]{0,3})?", quality):
            found.append((float(quality), name))
    return sorted(found, key=lambda each: -each[0])
