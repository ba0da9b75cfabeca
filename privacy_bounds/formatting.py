"""Numbers rounded to the safe side, short texts for `repr`, and tables for notebooks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from api_schemas.answers import Answer

UP, DOWN, NEAREST = ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN
VALUE_DIGITS: Final = 5
BOUND_DIGITS: Final = 9
SMALLEST_PLAIN, LARGEST_PLAIN = -4, 8
"""Powers of ten between which numbers are written without an exponent."""
EXACT_DIGITS: Final = 1100
"""More digits than any double has."""
FORMAT: Final = re.compile(
    r"(?P<begin>(?:.?[<>=^])?[-+ ]?z?#?0?[0-9]*[,_]?)(?P<precision>\.[0-9]+)?(?P<type>[eEfFgG%]?)"
)
"""Format specification of a float, in parts."""
LOWER_IS_SAFE: Final = ("deletion_capacity", "unlearning_guarantee")
"""Questions whose safe bound is the lower bound."""
LINE: Final = 120
LINES: Final = 15


def rounded(value: float, digits: int, rounding: str) -> str:
    """Return a number with at most `digits` significant digits, rounded in the direction `rounding`.

    The directions are those of the module `decimal`, such as `ROUND_CEILING`. Infinity is `Infinity`, as in JSON
    responses, minus infinity is `-inf`, and NaN is `nan`.
    """
    if not math.isfinite(value):
        return "Infinity" if value > 0 else str(value)
    context = Context(prec=digits, rounding=rounding)
    number = context.create_decimal_from_float(float(value)).normalize(context)
    is_plain = not number or SMALLEST_PLAIN <= number.adjusted() <= LARGEST_PLAIN
    return f"{number:f}" if is_plain else f"{number:e}"


def formatted(value: float, spec: str, rounding: str) -> str:
    """Return `value` in the format specification `spec` of Python, rounded in the direction `rounding`.

    The directions are those of the module `decimal`. A specification without precision and type, or that is none for
    floats, is applied without this rounding. Without a precision the type `e`, `f`, `g` or `%` has six digits, as for a
    float.
    """
    parts = FORMAT.fullmatch(spec)
    if parts is None or not math.isfinite(value) or not (parts["precision"] or parts["type"]):
        return format(float(value), spec)
    with localcontext(prec=EXACT_DIGITS, rounding=rounding):
        return format(Decimal(float(value)), parts["begin"] + (parts["precision"] or ".6") + parts["type"])


def question_direction(question: Any, reads: str = "power") -> str:
    """Return the direction of rounding that keeps an answer to a question on the safe side.

    The direction is that of the module `decimal`: downwards (`ROUND_FLOOR`) for type II errors, deletion capacities,
    unlearning guarantees and predictive values with `at_least`, else upwards (`ROUND_CEILING`). `question` is a
    question of the request or of an answer. `reads` is the quantity of a trade-off point, "power" or "type_two_error".
    """
    if question.type == "trade_off":
        return DOWN if reads == "type_two_error" else UP
    return DOWN if question.type in LOWER_IS_SAFE or getattr(question, "side", "at_most") == "at_least" else UP


def safe_direction(answer: Answer) -> str:
    """Return the direction of rounding that keeps the value of an answer on the safe side.

    The directions are those of the module `decimal`. The result for approximations is `ROUND_HALF_EVEN`, to nearest.
    """
    return NEAREST if answer.evidence == "asymptotic" else question_direction(answer.question)


def _bounds_text(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return "no bounds"
    return f"{rounded(lower, BOUND_DIGITS, DOWN)} to {rounded(upper, BOUND_DIGITS, UP)}"


def answer_line(answer: Answer) -> str:
    """Return an answer in one line. Of a trade-off curve only the first and last of its points are shown.

    Numbers whose logarithms the answer has (below 1e-290) are written as powers of ten.
    """
    relaxed = ", conditional" if answer.conditional else ""
    if answer.type == "trade_off":
        return f"{_power_text(answer.points)} ({answer.evidence}{relaxed})"
    value = rounded(answer.value, VALUE_DIGITS, safe_direction(answer))
    ends = _bounds_text(answer.lower, answer.upper)
    logarithms = [getattr(answer, f"{name}_log10", None) for name in ("value", "lower", "upper")]
    if all(each is not None and math.isfinite(each) for each in logarithms):
        of_value, of_lower, of_upper = (float(each) for each in logarithms)  # type: ignore[arg-type]
        value = f"10^{rounded(of_value, VALUE_DIGITS, safe_direction(answer))}"
        ends = f"10^{rounded(of_lower, VALUE_DIGITS, DOWN)} to 10^{rounded(of_upper, VALUE_DIGITS, UP)}"
    return f"{answer.type} {value} ({answer.evidence}, {ends}{relaxed})"


def _power_text(points: Sequence[Any]) -> str:
    shown = [f"{point['false_positive_rate']:.6g}: {rounded(point['power']['value'], 4, UP)}" for point in points]
    if len(shown) > 2:
        shown = [shown[0], "...", shown[-1]]
    rates = "1 rate" if len(points) == 1 else f"{len(points)} rates"
    return f"power at {rates}, {', '.join(shown)}"


def shortened(text: str, width: int = LINE) -> str:
    """Return a text in one line of at most `width` characters. The end of a longer text is left out."""
    line = text.replace("\n", " ")
    return line if len(line) <= width else line[: width - 3] + "..."


def shortened_lines(lines: Sequence[str], most: int = LINES) -> str:
    """Return at most `most` lines of at most 120 characters. The last line counts the lines that are left out."""
    shown = [shortened(line) for line in lines]
    if len(shown) > most:
        shown = [*shown[: most - 1], f"... and {len(shown) - most + 1} more"]
    return "\n".join(shown)


def aligned(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table with this header as lines of text with columns of equal width."""
    cells = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def html_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", notes: Iterable[str] = ()
) -> str:
    """Return a table as HTML. All texts are escaped. `notes` follow below, one paragraph each."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<div><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


ANSWER_HEADER: Final = ("question", "value", "lower", "upper", "evidence", "method")


def answer_rows(answer: Answer) -> list[tuple[str, ...]]:
    """Return an answer as rows of a table, one for each number.

    The columns are question, value, lower and upper bound, evidence and method. The value is rounded to the safe side,
    and bounds are rounded outwards.
    """
    grounds = (answer.evidence + (", conditional" if answer.conditional else ""), answer.method)
    direction = safe_direction(answer)
    if answer.type == "trade_off":
        return [
            (f"power at rate {point['false_positive_rate']:.6g}", *_cells(point["power"], direction), *grounds)
            for point in answer.points
        ]
    ends = {"value": answer.value, "lower": answer.lower, "upper": answer.upper}
    return [(f"{answer.type}{_parameters(answer)}", *_cells(ends, direction), *grounds)]


def _cells(number: Any, direction: str) -> tuple[str, str, str]:
    lower, upper = number["lower"], number["upper"]
    return (
        rounded(number["value"], VALUE_DIGITS, direction),
        "" if lower is None else rounded(lower, BOUND_DIGITS, DOWN),
        "" if upper is None else rounded(upper, BOUND_DIGITS, UP),
    )


def _parameters(answer: Answer) -> str:
    asked: dict[str, Any] = answer.question.model_dump(exclude_none=True, exclude={"type", "direction"})
    shown = ", ".join(f"{name} {value:g}" for name, value in asked.items() if isinstance(value, int | float))
    return f" ({shown})" if shown else ""
