"""The guide: its build, its links, and the security policy under which it is served."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.api.routes import documentation_pages
from tests.timeouts import TEST_TIMEOUT

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.stem for path in (ROOT / "docs" / "guide").glob("*.md"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the guide: `--strict` fails on a broken link, unless `--quiet` drops the warnings that it counts."""
    folder = tmp_path_factory.mktemp("guide")
    command = [sys.executable, "-W", "error::SyntaxWarning", "-m", "properdocs", "build", "--strict"]
    command += ["--config-file", "docs/guide.yml", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=TEST_TIMEOUT)
    return folder


@pytest.fixture(scope="module")
def guide_client(built: Path) -> TestClient:
    app = FastAPI()
    app.include_router(documentation_pages.router(str(built)))
    return TestClient(app)


def test_every_page_is_served_and_loads_only_own_files(guide_client: TestClient) -> None:
    for name in PAGES:
        response = guide_client.get(f"/guide/{name}.html")
        assert response.status_code == 200, name
        policy = response.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|javascript:|\sstyle=", response.text), name
        for address in re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^"]+)"', response.text):
            assert address.startswith("data:") or guide_client.get(f"/guide/{address}").status_code == 200, (
                name,
                address,
            )


def test_search_index_has_every_page(guide_client: TestClient) -> None:
    index = json.loads(guide_client.get("/guide/search/search_index.json").text)
    assert {f"{name}.html" for name in PAGES} <= {each["location"].partition("#")[0] for each in index["docs"]}
    assert len(guide_client.get("/guide/search/lunr.js").text) > 50_000


def test_guide_redirects_to_slash_and_unknown_page_returns_404(guide_client: TestClient) -> None:
    moved = guide_client.get("/guide", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (308, "/guide/")
    assert "<h1" in guide_client.get("/guide/").text
    for path in ("nothing.html", "../reference/index.html", "..%2freference%2findex.html", "%00"):
        assert guide_client.get(f"/guide/{path}").status_code == 404


def test_guide_not_built_returns_404_with_remedy(tmp_path: Path) -> None:
    app = FastAPI()
    app.include_router(documentation_pages.router(str(tmp_path / "nothing")))
    response = TestClient(app).get("/guide/")
    assert response.status_code == 404
    assert "make guide" in response.text
