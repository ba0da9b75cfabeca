"""Vendored scripts are the published files of their authors, with their licences."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).parents[2] / "service" / "web"
FOLDERS = sorted(WEB.glob("*/vendor"))
MANIFESTS: dict[Path, list[dict[str, Any]]] = {
    folder: json.loads((folder / "manifest.json").read_text("utf-8")) for folder in FOLDERS
}
FILES = [(folder, each) for folder, manifest in MANIFESTS.items() for each in manifest]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_every_file_is_in_manifest(folder: Path) -> None:
    known = {each["file"] for each in MANIFESTS[folder]} | {"manifest.json", "LICENSES.txt"}
    assert {path.name for path in folder.iterdir()} == known


@pytest.mark.parametrize(("folder", "each"), FILES, ids=[each["file"] for _, each in FILES])
def test_files_have_published_hashes(folder: Path, each: dict[str, Any]) -> None:
    assert hashlib.sha256((folder / each["file"]).read_bytes()).hexdigest() == each["sha256"]
    assert all(each[name] for name in ("package", "version", "path", "licence"))
    licences = (folder / "LICENSES.txt").read_text("utf-8")
    assert each["package"] in licences
    assert each["licence"] in licences
