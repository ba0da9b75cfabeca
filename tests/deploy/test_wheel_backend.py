"""The build backend moves every import of a moved package, or refuses the module."""

from __future__ import annotations

import random
from typing import Final

import pytest

from deploy.packaging.wheel_backend import MOVED, PLACE, adapted_source, imported_names

MODULES: Final = {"service", "service.cli", "api_schemas", "api_schemas.base"}
MOVABLE: Final = (
    "from {name} import x",
    "from {name} import (x,\n    y)",
    "def f():\n    from {name} import x",
    "import my_{name}",
    "from .{name} import x",
    "from os import path",
)
REFUSED: Final = (
    "import {name}",
    "import os, {name}",
    "import {name} as x",
    "from  {name} import x",
    "value = 1; from {name} import x",
    "if value: from {name} import x",
)


def drawn_text(drawn: random.Random, *kinds: tuple[str, ...]) -> str:
    """Return a module with one random statement of each kind."""
    return "\n".join(drawn.choice(kind).format(name=drawn.choice(sorted(MODULES))) for kind in kinds)


@pytest.mark.parametrize("seed", range(10))
def test_every_import_is_moved(seed: int) -> None:
    text = drawn_text(random.Random(seed), MOVABLE, MOVABLE, MOVABLE)
    found = list(imported_names(adapted_source(text, MODULES)))
    roots = [f"{PLACE}.{name}" if name.split(".")[0] in MOVED else name for name in imported_names(text)]
    assert found == roots


@pytest.mark.parametrize("seed", range(10))
def test_import_that_would_stay_is_refused(seed: int) -> None:
    text = drawn_text(random.Random(seed), MOVABLE, REFUSED, MOVABLE)
    with pytest.raises(ValueError, match=r"from \.\.\. import"):
        adapted_source(text, MODULES)


def test_strings_that_name_a_module_are_moved_and_words_stay() -> None:
    kept = ('Finding("service", "ok")', "{'service': 'api_schemas'}", '"service.unknown"', '"my_service.cli"')
    moved = ('files("service").joinpath("service.cli")', "('api_schemas.base',)")
    for text in kept:
        assert adapted_source(text, MODULES) == text
    assert adapted_source(moved[0], MODULES) == f'files("{PLACE}.service").joinpath("{PLACE}.service.cli")'
    assert adapted_source(moved[1], MODULES) == f"('{PLACE}.api_schemas.base',)"
