"""Routes `/guide`, `/docs` and `/errata`: documentation pages for browsers."""

from __future__ import annotations

from functools import cache
from typing import Final

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from service.api.page_headers import page_headers
from service.api.static_files import REVALIDATED, StaticFolder

GUIDE: Final = ("web", "guide")
"""Folder that `make guide` writes. It does not exist before."""
NOT_BUILT: Final = (
    "<!doctype html><title>No guide</title><p>The guide was not built. <code>make guide</code> builds it; its pages "
    "are also files in the folder <code>docs/guide</code>.</p>"
)


def router(*guide: str) -> APIRouter:
    """Return the routes of the documentation.

    `guide` names the folder of the built guide, below `service` or absolute.
    """
    routes = APIRouter(include_in_schema=False)

    @cache
    def pages() -> StaticFolder:
        return StaticFolder(*guide)

    @cache
    def reference() -> StaticFolder:
        return StaticFolder("web", "reference")

    @routes.get("/guide")
    def guide_start() -> Response:
        """Redirect to the guide. Its relative links need the trailing slash."""
        return RedirectResponse("/guide/", 308)

    @routes.get("/guide/{path:path}")
    def guide_file(request: Request, path: str) -> Response:
        """Return a page of the guide, or a file that it uses."""
        try:
            folder = pages()
        except FileNotFoundError:
            return HTMLResponse(NOT_BUILT, 404, page_headers(NOT_BUILT))
        return _file(folder, path or "index.html", request)

    @routes.get("/errata")
    def errata() -> Response:
        """Redirect to the errata, a page of the guide. Browsers keep the fragment."""
        return RedirectResponse("/guide/errata.html", 308)

    @routes.get("/docs")
    def reference_page(request: Request) -> Response:
        """Return the API reference, with requests to try."""
        return _file(reference(), "index.html", request)

    @routes.get("/docs/{path:path}")
    def reference_file(request: Request, path: str) -> Response:
        """Return a script or style sheet of the reference."""
        return _file(reference(), path, request)

    return routes


def _file(folder: StaticFolder, name: str, request: Request) -> Response:
    file = folder.files.get(name)
    if file is None:
        raise HTTPException(404)
    headers = page_headers(file.body.decode()) if file.media_type.startswith("text/html") else {}
    return file.response(request, REVALIDATED, headers)
