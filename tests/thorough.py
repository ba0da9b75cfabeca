"""Cases that take long for what they add to others beside them: `make thorough` runs them, `make test` does not."""

from __future__ import annotations

from typing import Any

import pytest


def thorough(*values: Any) -> Any:
    """A row of `parametrize` that takes long."""
    return pytest.param(*values, marks=pytest.mark.thorough)
