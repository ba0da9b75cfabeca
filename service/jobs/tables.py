"""Rows of points as CSV, piece by piece: the columns are those of the first point that has an answer."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from typing import Any, final


@final
class ResultTable:
    """One table. `cells`: a row as cells by the names of their columns."""

    def __init__(self, cells: Callable[[dict[str, Any]], dict[str, str]]) -> None:
        self._cells = cells
        self._columns: tuple[str, ...] = ()
        self._held: list[dict[str, Any]] = []
        """Rows without an answer, before the first that has one."""

    def rows(self, found: Iterable[dict[str, Any]]) -> bytes:
        """Some rows, the first ones below the names of the columns (RFC 4180)."""
        self._held += found
        if not self._columns and not any("answers" in row for row in self._held):
            return b""
        return self._written()

    def rest(self) -> bytes:
        """What was held back, where no row has an answer."""
        return self._written() if self._held else b""

    def _written(self) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if not self._columns:
            first = next((row for row in self._held if "answers" in row), self._held[0])
            self._columns = tuple(self._cells(first))
            writer.writerow(self._columns)
        for row in map(self._cells, self._held):
            writer.writerow([row.get(name, "") for name in self._columns])
        self._held = []
        return text.getvalue().encode()
