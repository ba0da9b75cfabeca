"""The explorer page: location of its files, cache lifetime, and its content security policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.api.page_headers import page_headers
from tests.contract.published_document import PATH

WEB = Path(__file__).parents[2] / "service" / "web"
FIRST_VIEW_BYTES = 400_000


def directives(policy: str) -> dict[str, str]:
    return {name: sources for name, _, sources in (each.partition(" ") for each in policy.split("; "))}


def linked(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/explorer/[^"]+)"', page)


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_only_own_files_and_have_no_inline_script(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["x-content-type-options"] == "nosniff"
    allowed = directives(response.headers["content-security-policy"])
    assert allowed["default-src"] == "'none'"
    assert allowed["script-src"] == "'self'"
    assert "unsafe" not in response.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|javascript:|\sstyle=", response.text)
    for style in re.findall(r"<style>(.*?)</style>", response.text, flags=re.DOTALL):
        assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in allowed["style-src"]
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]+)"', response.text)
    assert all(address.startswith(("/explorer/", "/docs/", "data:")) for address in loaded)


def test_linked_files_exist_and_are_immutable(client: TestClient) -> None:
    page = client.get("/").text
    assert len(linked(page)) > 3
    for address in linked(page):
        response = client.get(address)
        assert response.status_code == 200, address
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-encoding"] == "gzip"
        again = client.get(address, headers={"If-None-Match": response.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        plain = client.get(address, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.content == response.content
        assert plain.headers["etag"] != response.headers["etag"]


def test_page_is_revalidated_by_etag(client: TestClient) -> None:
    response = client.get("/")
    assert response.headers["cache-control"] == "no-cache"
    assert client.get("/", headers={"If-None-Match": response.headers["etag"]}).status_code == 304
    assert client.head("/").headers["etag"] == response.headers["etag"]


def test_modules_import_existing_siblings(client: TestClient) -> None:
    build = linked(client.get("/").text)[0].rsplit("/", 1)[0].split("/explorer/")[1].split("/")[0]
    for source in (WEB / "explorer").glob("*.js"):
        for name in re.findall(r'from "([^"]+)"', source.read_text("utf-8")):
            assert client.get(f"/explorer/{build}/{name.removeprefix('./')}").status_code == 200, (source.name, name)


@pytest.mark.parametrize(
    "path", ["app.js", "../reference/index.html", "..%2freference%2findex.html", "vendor/", "", "%00", "index.html/"]
)
def test_unknown_explorer_path_returns_404(client: TestClient, path: str) -> None:
    response = client.get(f"/explorer/0000000000000000/{path}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"


def test_first_view_is_below_size_limit(client: TestClient) -> None:
    compressed = sum(len(gzip.compress(path.read_bytes(), 9)) for path in (WEB / "explorer").rglob("*.*"))
    assert compressed <= FIRST_VIEW_BYTES


def test_policy_directives_can_be_added() -> None:
    policy = page_headers("<style>a{}</style>", img_src="'self'")["Content-Security-Policy"]
    assert directives(policy)["img-src"] == "'self'"
    assert policy.count("img-src") == 1


def test_openapi_document_is_served_compressed_and_unchanged(client: TestClient) -> None:
    response = client.get("/openapi.json")
    assert response.json() == json.loads(PATH.read_text("utf-8"))
    assert response.headers["content-type"] == "application/json"
    assert response.headers["content-encoding"] == "gzip"
    assert int(response.headers["content-length"]) < len(response.content) / 5
    assert client.get("/openapi.json", headers={"If-None-Match": response.headers["etag"]}).status_code == 304
    plain = client.get("/openapi.json", headers={"Accept-Encoding": "identity"})
    assert (plain.content, plain.headers["etag"] == response.headers["etag"]) == (response.content, False)
    assert client.app.openapi_schema is None, "nothing was made for it"  # type: ignore[attr-defined]


def test_page_view_starts_no_process(client: TestClient) -> None:
    assert client.get("/").status_code == 200
    board: Any = client.app_state["services"].renderings._board
    assert board._starting is None
