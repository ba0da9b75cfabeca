"""The build backend moves every import of a moved package, or refuses the module."""

from __future__ import annotations

import random
from typing import Final

import pytest

from deploy.packaging.wheel_backend import MOVED, PLACE, adapted_source, imported_names

MODULES: Final = {"service", "service.cli", "api_schemas", "api_schemas.base"}
STATEMENTS: Final = (
    "import {name}",
    "import os, {name}",
    "import {name} as x",
    "from {name} import x",
    "from  {name} import x",
    "from {name} import (x,\n    y)",
    "value = 1; from {name} import x",
    "if value: from {name} import x",
    "def f():\n    from {name} import x",
    "import {name}_of_a_user",
    "from .{name} import x",
    "from os import path",
)


@pytest.mark.parametrize("seed", range(20))
def test_no_import_of_the_old_place_remains(seed: int) -> None:
    drawn = random.Random(seed)
    text = "\n".join(drawn.choice(STATEMENTS).format(name=drawn.choice(sorted(MODULES))) for _ in range(3))
    sent = list(imported_names(text))
    try:
        found = list(imported_names(adapted_source(text, MODULES)))
    except ValueError as error:
        assert any(name.split(".")[0] in MOVED for name in sent)
        assert "from ... import" in str(error)
        return
    assert found == [f"{PLACE}.{name}" if name.split(".")[0] in MOVED else name for name in sent]


@pytest.mark.parametrize("statement", ["import {name}", "from {name} import x"])
def test_plain_statement_is_moved_or_refused(statement: str) -> None:
    text = statement.format(name="service.cli")
    if statement.startswith("from"):
        assert adapted_source(text, MODULES) == f"from {PLACE}.service.cli import x"
    else:
        with pytest.raises(ValueError, match=r"service\.cli"):
            adapted_source(text, MODULES)
