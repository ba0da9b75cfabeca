"""Access from pages of other origins (CORS), which the operator lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

PREFLIGHT_SECONDS: Final = 600
METHODS: Final = ("GET", "HEAD", "POST", "DELETE")
REQUEST_HEADERS: Final = (
    "Accept",
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Last-Event-ID",
    "Prefer",
    "X-Request-Id",
)
"""Headers that a page may send."""
RESPONSE_HEADERS: Final = (
    "Allow",
    "Cache-Status",
    "Content-Disposition",
    "Content-Location",
    "Deprecation",
    "ETag",
    "Link",
    "Location",
    "Preference-Applied",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "Server-Timing",
    "Sunset",
    "WWW-Authenticate",
    "X-Request-Id",
)
"""Headers that a page may read."""


def cross_origin_access(origins: tuple[str, ...]) -> Callable[[ASGIApp], ASGIApp]:
    """Return a middleware that allows pages of exactly these origins to call the service, without cookies."""
    return partial(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=METHODS,
        allow_headers=REQUEST_HEADERS,
        expose_headers=RESPONSE_HEADERS,
        max_age=PREFLIGHT_SECONDS,
    )
