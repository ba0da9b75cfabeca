"""CONTRIBUTING.md names only existing files, and stays as short as it promises."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_every_named_file_exists() -> None:
    places = re.findall(r"`([\w.]+/[\w./]*)`", GUIDE)
    assert len(places) > 20
    assert [place for place in places if not any((ROOT / room / place).exists() for room in ("", "service"))] == []


def test_guide_is_at_most_two_screens_long() -> None:
    assert GUIDE.count("\n") <= 100
