"""Routes `/`, the explorer for browsers, and `/openapi.json`, the published document for programs."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request, Response

from service.api.page_headers import page_headers
from service.api.static_files import IMMUTABLE, REVALIDATED, StaticFile, StaticFolder, static_file

router = APIRouter(include_in_schema=False)

TRUSTED_TYPES = {"require_trusted_types_for": "'script'", "trusted_types": "default"}
"""Directives that forbid HTML from strings: request data cannot become markup or scripts."""


@router.get("/")
async def explorer(request: Request) -> Response:
    """Return the explorer, an HTML page with a form for requests."""
    page = await asyncio.to_thread(_explorer_page)
    return page.response(request, REVALIDATED, page_headers(page.body.decode(), **TRUSTED_TYPES))


@router.get("/explorer/{build}/{path:path}")
def explorer_file(request: Request, build: str, path: str) -> Response:
    """Return the file `path` of the explorer.

    `build` is a hash of all files of the explorer, so that URLs change with them.
    """
    folder = _explorer_folder()
    if build != folder.build or path not in folder.files:
        raise HTTPException(404)
    return folder.files[path].response(request, IMMUTABLE)


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """Return the published document.

    The package contains its bytes, and a contract test compares them with the application.
    """
    document = await asyncio.to_thread(_published_document)
    return document.response(request, REVALIDATED)


@cache
def _published_document() -> StaticFile:
    document = json.loads(files("api_schemas").joinpath("openapi.json").read_bytes())
    return static_file("openapi.json", json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())


@cache
def _explorer_folder() -> StaticFolder:
    return StaticFolder("web", "explorer")


@cache
def _explorer_page() -> StaticFile:
    folder = _explorer_folder()
    page = folder.files["index.html"].body.replace(b"{{files}}", f"/explorer/{folder.build}".encode())
    return static_file("index.html", page)
