"""Scripts of others are what their authors published, with their licences."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

VENDOR = Path(__file__).parents[2] / "service" / "web" / "explorer" / "vendor"
MANIFEST: list[dict[str, Any]] = json.loads((VENDOR / "manifest.json").read_text("utf-8"))


def test_every_file_is_accounted_for() -> None:
    known = {each["file"] for each in MANIFEST} | {"manifest.json", "LICENSES.txt"}
    assert {path.name for path in VENDOR.iterdir()} == known


@pytest.mark.parametrize("each", MANIFEST, ids=lambda each: each["file"])
def test_files_are_as_they_were_published(each: dict[str, Any]) -> None:
    assert hashlib.sha256((VENDOR / each["file"]).read_bytes()).hexdigest() == each["sha256"]
    assert all(each[name] for name in ("package", "version", "path", "licence"))
    licences = (VENDOR / "LICENSES.txt").read_text("utf-8")
    assert each["package"] in licences
    assert each["licence"] in licences
