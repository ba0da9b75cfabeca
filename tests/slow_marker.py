"""Marker for slow test cases that add little: `make thorough` runs them, `make test` does not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def thorough(*values: Any) -> Any:
    """Return a row of `parametrize` with these values, which only `make thorough` runs, because it is slow."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def crossed(*columns: Iterable[Any]) -> list[Any]:
    """Return all combinations of the columns as rows of `parametrize`.

    `make test` runs a part in which every value occurs, each time with others. The rest is marked as slow.
    """
    lists = [list(column) for column in columns]
    longest = max(map(len, lists))
    kept = {tuple(i % len(values) for values in lists) for i in range(longest)}
    indices = itertools.product(*(range(len(values)) for values in lists))
    rows = ((key, tuple(values[i] for values, i in zip(lists, key, strict=True))) for key in indices)
    return [row if key in kept else thorough(*row) for key, row in rows]
