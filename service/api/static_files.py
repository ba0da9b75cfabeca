"""Static files of the package, read from their folder once and kept compressed."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, final

from fastapi import Request, Response

from service.api.compression import GZIP_ETAG_SUFFIX
from service.api.conditional_requests import etag_matches
from service.api.content_negotiation import accepts_gzip, joined_header
from service.api.page_headers import NOSNIFF

TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "woff2": "font/woff2",
}
"""Media types by file extension. Other files of a folder are not served."""
COMPRESSED_TYPES: Final = frozenset({"png", "woff2"})
"""Extensions of files that are already compressed."""
IMMUTABLE: Final = "public, max-age=31536000, immutable"
REVALIDATED: Final = "no-cache"


@final
@dataclass(frozen=True, slots=True)
class StaticFile:
    """Static file with its compressed variant (None if that is not shorter), and its entity tag."""

    body: bytes
    compressed: bytes | None
    tag: str
    media_type: str

    def response(self, request: Request, cache_control: str, headers: dict[str, str] | None = None) -> Response:
        """Return the file as a response, or the status 304 if the browser already has the file.

        `cache_control` is the value of the header `Cache-Control`.
        """
        compressed = self.compressed if accepts_gzip(request) else None
        tag = self.tag if compressed is None else self.tag + GZIP_ETAG_SUFFIX
        sent = NOSNIFF | {"ETag": f'"{tag}"', "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
        sent |= headers or {}
        if etag_matches(joined_header(request, b"if-none-match"), tag):
            return Response(status_code=304, headers=sent)
        if compressed is None:
            return Response(self.body, headers=sent, media_type=self.media_type)
        return Response(compressed, headers=sent | {"Content-Encoding": "gzip"}, media_type=self.media_type)


def static_file(name: str, body: bytes) -> StaticFile:
    """Return the static file with content `body` and the media type that follows from its name.

    Raise KeyError for an extension that is not in TYPES.
    """
    end = name.rpartition(".")[2]
    compressed = None if end in COMPRESSED_TYPES else gzip.compress(body, 9, mtime=0)
    smaller = compressed if compressed is not None and len(compressed) < len(body) else None
    return StaticFile(body, smaller, hashlib.sha256(body).hexdigest()[:32], TYPES[end])


@final
class StaticFolder:
    """Static files in a folder of the package `service`, whose URLs contain a digest of all files, `build`.

    The folder is `service/<place>`. A URL that contains the digest never changes its content. `files` has them by path
    below the folder; files with other extensions than those of TYPES are left out.
    """

    def __init__(self, *place: str) -> None:
        self.files = {
            name: static_file(name, source.read_bytes()) for name, source in _below(files("service").joinpath(*place))
        }
        tags = "".join(f"{name}:{self.files[name].tag}\n" for name in sorted(self.files))
        self.build = hashlib.sha256(tags.encode()).hexdigest()[:16]


def _below(folder: Traversable, before: str = "") -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _below(each, f"{before}{each.name}/")
        elif each.name.rpartition(".")[2] in TYPES:
            found.append((before + each.name, each))
    return found
