"""Folders of files for browsers, read once and kept compressed: they are part of the package and change with it."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, final

from fastapi import Request, Response

from service.api.answers import names_entity
from service.api.compression import TAGGED
from service.api.negotiation import header, takes_gzip
from service.api.page_headers import SAME_TYPE

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
"""What is served, by the ends of file names; other files of a folder are not."""
PACKED: Final = frozenset({"png", "woff2"})
"""Compressed already."""
IMMUTABLE: Final = "public, max-age=31536000, immutable"
REVALIDATED: Final = "no-cache"


@final
@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file: as it is, compressed where that helps, and the tag that names it."""

    body: bytes
    packed: bytes | None
    tag: str
    media_type: str

    def response(self, request: Request, cache_control: str, headers: dict[str, str] | None = None) -> Response:
        """The file, or 304 where the browser has it."""
        packed = self.packed if takes_gzip(request) else None
        tag = self.tag if packed is None else self.tag + TAGGED
        sent = SAME_TYPE | {"ETag": f'"{tag}"', "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
        sent |= headers or {}
        if names_entity(header(request, b"if-none-match"), tag):
            return Response(status_code=304, headers=sent)
        if packed is None:
            return Response(self.body, headers=sent, media_type=self.media_type)
        return Response(packed, headers=sent | {"Content-Encoding": "gzip"}, media_type=self.media_type)


def static_file(name: str, body: bytes) -> StaticFile:
    """A file that is served under a name of this kind."""
    end = name.rpartition(".")[2]
    packed = None if end in PACKED else gzip.compress(body, 9, mtime=0)
    smaller = packed if packed is not None and len(packed) < len(body) else None
    return StaticFile(body, smaller, hashlib.sha256(body).hexdigest()[:32], TYPES[end])


@final
class StaticFolder:
    """The files below `service/<place>`, and `build`, which names them all: addresses with it are kept for good."""

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
