"""Reference rows of stated classes, selections, discrete laws and shuffled reports: values with relative tolerances."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.privacy.references import FOLDER


@cache
def _all() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "laws.json").read_text())["rows"]
    return found


def laws(kind: str) -> list[dict[str, Any]]:
    """Return the rows of one kind of value, for example `selected_attack_epsilon`."""
    return [row for row in _all() if row["kind"] == kind]
