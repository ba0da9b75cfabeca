"""GET /errata: a page to read, for people with a browser."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)


@router.get("/errata")
def errata() -> HTMLResponse:
    """Printed formulas that differ from what is served, each with a number that shows it."""
    return HTMLResponse(_page("errata.html"), headers={"Cache-Control": "public, max-age=3600"})


@cache
def _page(name: str) -> str:
    return files("service").joinpath("web", name).read_text("utf-8")
