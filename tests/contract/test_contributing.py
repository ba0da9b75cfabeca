"""The places that CONTRIBUTING.md sends people to are there, and it stays as short as it promises."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_every_place_that_it_names_exists() -> None:
    places = re.findall(r"`([\w.]+/[\w./]*)`", GUIDE)
    assert len(places) > 20
    assert [place for place in places if not any((ROOT / room / place).exists() for room in ("", "service"))] == []


def test_it_is_two_screens_long() -> None:
    assert GUIDE.count("\n") <= 100
