"""Routes `/problems` and `/problems/{name}`: pages that explain each type of problem."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Path
from fastapi.responses import HTMLResponse

from service.api.page_headers import page_headers
from service.api.problem_texts import TEXTS
from service.problems import ALL_PROBLEMS

PREFIX: Final = "/problems/"
STYLE: Final = (
    ":root{color-scheme:light dark;font:1.05rem/1.6 system-ui,sans-serif}body{max-width:44rem;margin:3rem auto;"
    "padding:0 1rem}code{font-size:.9em}dt{float:left;clear:left;width:6rem}h1{line-height:1.2}"
)
CACHED: Final = {"Cache-Control": "public, max-age=3600"}

router = APIRouter(include_in_schema=False)


@router.get("/problems")
def index() -> HTMLResponse:
    """Return a page that lists all types of problems."""
    return _response(_index_page())


@router.get("/problems/{name}")
def problem_page(name: Annotated[str, Path(max_length=64)]) -> HTMLResponse:
    """Return the page about one type of problem."""
    kind = PREFIX + name
    if kind not in TEXTS:
        raise HTTPException(404)
    return _response(page(kind))


def _response(text: str) -> HTMLResponse:
    return HTMLResponse(text, headers=page_headers(text) | CACHED)


@cache
def _index_page() -> str:
    statuses = sorted({(status, kind) for kind in TEXTS for status in _statuses_of(kind)})
    rows = "".join(
        f'<li>{status} <a href="{kind}">{html.escape(_title_of(kind))}</a> <code>{kind}</code></li>'
        for status, kind in statuses
    )
    return _document(
        "Problems",
        "<p>The service reports failures as problems (RFC 9457). The <code>type</code> of a problem is the address of "
        f"its page.</p><ul>{rows}</ul>",
    )


@cache
def page(kind: str) -> str:
    """Return the HTML of the page about the type of problem `kind`."""
    text, statuses = TEXTS[kind], " or ".join(map(str, _statuses_of(kind)))
    remedies = "".join(f"<li>{_html_with_code_spans(remedy)}</li>" for remedy in text.remedies)
    return _document(
        _title_of(kind),
        f"<dl><dt>type</dt><dd><code>{kind}</code></dd><dt>status</dt><dd>{statuses}</dd></dl>"
        f"<h2>What it means</h2><p>{_html_with_code_spans(text.meaning)}</p><h2>How to fix it</h2><ul>{remedies}</ul>"
        '<p><a href="/problems">All problems</a>, <a href="/docs">API reference</a>, <a href="/guide/">guide</a></p>',
    )


def _title_of(kind: str) -> str:
    return next((each.title for each in ALL_PROBLEMS if each.type == kind), "Request refused")


def _statuses_of(kind: str) -> list[str]:
    return sorted({str(each.status) for each in ALL_PROBLEMS if each.type == kind}) or ["4xx"]


def _html_with_code_spans(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text, quote=False))


def _document(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><main><h1>{html.escape(title)}</h1>{body}</main></body></html>"
    )
