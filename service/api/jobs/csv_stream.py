"""Incremental CSV of results. The first point with an answer determines the columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from typing import Any, final


@final
class CsvWriter:
    """Writer of one CSV document. `cells` converts a result object to cells by column name."""

    def __init__(self, cells: Callable[[dict[str, Any]], dict[str, str]]) -> None:
        self._cells = cells
        self._columns: tuple[str, ...] = ()
        self._pending: list[dict[str, Any]] = []
        """Objects without an answer that precede the first object with an answer."""

    def write(self, found: Iterable[dict[str, Any]]) -> bytes:
        """Return the result objects `found` as CSV (RFC 4180). The header precedes the first rows.

        The header has the columns of the first result object with an answer. Until there is one, rows are held back,
        and the bytes are empty.
        """
        self._pending += found
        if not self._columns and not any("answers" in row for row in self._pending):
            return b""
        return self._flush()

    def finish(self) -> bytes:
        """Return the rows that `write` held back because no result object had an answer.

        The bytes are empty if no rows were held back. The header precedes the rows, with the columns of the first of
        these result objects.
        """
        return self._flush() if self._pending else b""

    def _flush(self) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if not self._columns:
            first = next((row for row in self._pending if "answers" in row), self._pending[0])
            self._columns = tuple(self._cells(first))
            writer.writerow(self._columns)
        for row in map(self._cells, self._pending):
            writer.writerow([row.get(name, "") for name in self._columns])
        self._pending = []
        return text.getvalue().encode()
