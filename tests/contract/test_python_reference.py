"""The reference page of the Python client is what the script makes of the docstrings, and names every export."""

from __future__ import annotations

import re

import privacy_bounds
from docs import python_reference


def test_page_matches_docstrings() -> None:
    assert python_reference.PAGE.read_text("utf-8") == python_reference.reference(), (
        "run python docs/python_reference.py"
    )


def test_page_names_every_export() -> None:
    text = python_reference.reference()
    named = set(re.findall(r"(?m)^### (\w+)$|^- `(\w+)", text))
    names = {name for pair in named for name in pair if name}
    assert set(privacy_bounds.__all__) - {"Asking"} <= names


def test_every_member_of_the_page_has_a_description() -> None:
    bare = [line for line in python_reference.reference().splitlines() if re.search(r"\)(?: -> [^`]*)?`: ?$", line)]
    assert bare == []
