"""Curves as CSV, with a row for each false positive rate."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from api_schemas.curves import Curve, CurvesResponse
from service.rendering.numbers import exact_cell

QUANTITIES: Final = ("type_two_error", "power")
ENDS: Final = ("value", "lower", "upper", "value_log10", "lower_log10", "upper_log10")
"""Columns of a quantity, in the order of the table. The logarithms are written only if there are any."""


def to_csv(response: CurvesResponse) -> str:
    """Write trade-off curves as CSV (RFC 4180): header row, rates, and the bounds of every curve as exact doubles.

    The columns of several curves start with the threat model, the requested method and the direction of the curve.
    """
    columns = dict(_named_columns(response))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["false_positive_rate", *columns])
    for place, rate in enumerate(response.false_positive_rates):
        writer.writerow([exact_cell(rate), *(exact_cell(column[place]) for column in columns.values())])
    return text.getvalue()


def _named_columns(response: CurvesResponse) -> Iterator[tuple[str, list[Any]]]:
    for prefix, curve in zip(_column_prefixes(response.curves), response.curves, strict=True):
        for quantity in QUANTITIES:
            enclosed: Mapping[str, list[Any] | None] = getattr(curve, quantity)
            for end in ENDS:
                column = enclosed.get(end)
                if column is not None:
                    yield f"{prefix}{quantity}" + ("" if end == "value" else f" {end}"), column


def _column_prefixes(curves: tuple[Curve, ...]) -> Iterator[str]:
    names = [f"{each.threat_model.type} {each.requested_method} {each.direction}" for each in curves]
    found = Counter[str]()
    for name in names:
        found[name] += 1
        number = f" {found[name]}" if names.count(name) > 1 else ""
        yield "" if len(curves) == 1 else f"{name}{number}: "


CURVE_WRITERS: Final[Mapping[str, Callable[[CurvesResponse], str]]] = {"text/csv": to_csv}
"""Functions that write curves, by media type."""
