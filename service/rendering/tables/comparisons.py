"""Comparisons as a table: CSV for a spreadsheet, and text for a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from api_schemas.answers import Answer, TradeOffAnswer
from api_schemas.comparisons import ComparedPair, ComparisonsResponse, RankedQuantity
from service.rendering.numbers import SHOWN, exact_cell, format_exact, rounded_down, rounded_up


class Cell(NamedTuple):
    """Number of one run in a comparison: its safe value and both bounds, which are None for an approximation.

    The safe value is the bound that never states more privacy than there is, or the approximation.
    """

    value: float
    lower: float | None
    upper: float | None


def cells(response: ComparisonsResponse, quantity: RankedQuantity) -> Iterator[Cell]:
    """Yield the numbers of one compared quantity, run by run.

    For a trade-off curve the number is the power at the point of the quantity.
    """
    for run in response.runs:
        yield _cell(run.answers[quantity.question], quantity.point)


def _cell(answer: Answer, point: int | None) -> Cell:
    if isinstance(answer, TradeOffAnswer):
        power = answer.points[point or 0]["power"]
        return Cell(power["value"], power["lower"], power["upper"])
    return Cell(answer.value, answer.lower, answer.upper)


def to_csv(response: ComparisonsResponse) -> str:
    """Write a comparison as CSV (RFC 4180) with a row for each quantity.

    A row has the safe value, lower and upper bound of each run as exact doubles, the best runs, and whether it is
    proved that they are the best.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    columns = [f"{run.name}{end}" for run in response.runs for end in ("", " lower", " upper")]
    writer.writerow(["quantity", "better", *columns, "best", "certain"])
    for quantity in response.quantities:
        numbers = [number for cell in cells(response, quantity) for number in cell]
        certain = "true" if quantity.certain else "false"
        best = "; ".join(quantity.best)
        writer.writerow([quantity.label, quantity.better, *map(exact_cell, numbers), best, certain])
    return text.getvalue()


def to_text(response: ComparisonsResponse) -> str:
    """Write a comparison as a text table with a column for each run, and a line for each pair of runs.

    Numbers have six digits and are rounded to the safe side. Both bounds are shown if they differ in six digits. `~`
    marks approximations, `*` the provably best run, and `?` the best one by its safe bound.
    """
    head = ["", *(run.name for run in response.runs)]
    rows = [[quantity.label, *_row(response, quantity)] for quantity in response.quantities]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [_aligned(row, widths) for row in (head, *rows)]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines += ["", *map(_sentence, response.pairs)]
    lines += ["", *_legend(response)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _aligned(row: list[str], widths: list[int]) -> str:
    first, *others = row
    numbers = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
    return "  ".join((first.ljust(widths[0]), *numbers))


def _row(response: ComparisonsResponse, quantity: RankedQuantity) -> Iterator[str]:
    for run, cell in zip(response.runs, cells(response, quantity), strict=True):
        mark = ("*" if quantity.certain else "?") if run.name in quantity.best else " "
        yield _short(cell, quantity.better == "smaller") + mark


def _short(cell: Cell, upper_is_safe: bool) -> str:
    if cell.lower is None or cell.upper is None:
        return f"~{cell.value:.6g}"
    lower, upper = rounded_down(cell.lower), rounded_up(cell.upper)
    if cell.upper - cell.lower <= 2e-6 * cell.upper or cell.lower == cell.upper:
        return upper if upper_is_safe else lower
    return f"{lower}..{upper}"


def _sentence(pair: ComparedPair) -> str:
    first, second, found = pair.first, pair.second, pair.curves
    read = " that was evaluated" if pair.theorem is None else ""
    match found.verdict:
        case "first_is_harder":
            finding = f"{first} is at least as hard to attack at every rate{read}"
        case "second_is_harder":
            finding = f"{second} is at least as hard to attack at every rate{read}"
        case "equal":
            finding = f"equally hard to attack at every rate{read}"
        case "crossing":
            ranges = (
                (_exact_or_rounded_rate(each["start"], rounded_down), _exact_or_rounded_rate(each["end"], rounded_up))
                for each in found.crossings
            )
            between = ", ".join(f"{start} and {end}" for start, end in ranges)
            finding = f"the curves cross between {between}"
        case "undecided":
            finding = f"undecided at {found.undecided_rates} rates"
    approximate = " (by approximations)" if found.evidence == "asymptotic" else ""
    return f"{first} / {second}: {finding}{approximate}."


LONGEST_RATE: Final = 8
"""Largest number of characters of a rate that is written with all its digits."""


def _exact_or_rounded_rate(rate: float, outward: Callable[[float, int], str]) -> str:
    given = format_exact(rate)
    return given if len(given) <= LONGEST_RATE else outward(rate, SHOWN)


def _legend(response: ComparisonsResponse) -> Iterator[str]:
    rates = response.false_positive_rates
    yield "* provably best; ? best by its safe bound. Six digits, rounded to the safe side; lower..upper if wider."
    yield (
        f"Curves: direction {response.direction}, {len(rates)} false positive rates from "
        f"{format_exact(rates[0])} to {format_exact(rates[-1])}."
    )
    yield from response.notes


COMPARISON_WRITERS: Final[Mapping[str, Callable[[ComparisonsResponse], str]]] = {
    "text/csv": to_csv,
    "text/plain": to_text,
}
"""Functions that write a comparison, by media type."""
