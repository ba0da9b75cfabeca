"""Conditional requests (RFC 9110, section 13): entity tags of results that a client already has."""

from __future__ import annotations

from fastapi import Request

from service.api.content_negotiation import joined_header


def is_not_modified(request: Request, tag: str) -> bool:
    """Return whether the client already has the result with the entity tag `tag`, so that 304 answers it.

    The status 304 is for GET and HEAD only (RFC 9110, section 13.1.2). A POST always receives its answer.
    """
    return request.scope["method"] == "GET" and etag_matches(joined_header(request, b"if-none-match"), tag)


def etag_matches(if_none_match: str, own: str) -> bool:
    """Return whether the header `If-None-Match` lists the entity tag `own`, by weak comparison (RFC 9110).

    `*` matches every tag.
    """
    tags = (tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
    return any(tag in ("*", f'"{own}"') for tag in tags)
