"""Each public class at module level has a unique name, so that a search for the name finds one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("service", "api_schemas", "privacy_bounds")


def files_by_class() -> dict[str, list[str]]:
    """Return the files, relative to the checkout, in which each public class is defined."""
    found = defaultdict[str, list[str]](list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def test_class_names_are_unique() -> None:
    repeated = {name: files for name, files in files_by_class().items() if len(files) > 1}
    assert not repeated, f"rename all but one class of each name: {repeated}"
