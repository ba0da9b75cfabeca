"""Functions that read points from answers, shared by the figures of all papers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from service.rendering.paper_figures.figure import Answer, Axis, FigurePoint, Reader

RATE: Final = Axis("false_positive_rate", "False positive rate")
POWER: Final = Axis("power", "Power")
LINEAR_RATES: Final = tuple(count / 100 for count in range(1, 100))


def curves(names: Sequence[str]) -> Reader:
    """Return a function from a response for curves to figure points: the power on every curve at every rate.

    `names` are the series in the order of the curves; "" omits a curve.
    """

    def read(answer: Answer) -> list[FigurePoint]:
        return [
            FigurePoint(name, rate, value, lower, upper)
            for name, curve in zip(names, answer["curves"], strict=True)
            if name
            for rate, value, lower, upper in zip(
                answer["false_positive_rates"],
                *(_column(curve["power"], part) for part in ("value", "lower", "upper")),
                strict=True,
            )
        ]

    return read


def _column(power: Any, part: str) -> list[Any]:
    found: list[Any] | None = power[part]
    return [None] * len(power["value"]) if found is None else found


def answers(series: str, xs: Sequence[float], worst_case: str = "") -> Reader:
    """Return a function from a response for bounds to figure points: one number for each question.

    `xs` are the abscissae of the questions, and `series` is the name of the series. `worst_case` is the name of the
    series of worst-case answers beside those of a weaker attacker; "" omits that series.
    """

    def read(answer: Answer) -> list[FigurePoint]:
        found = [_point(series, x, number) for x, number in zip(xs, answer["answers"], strict=True)]
        if worst_case:
            beside = answer["worst_case"]["answers"]
            found += [_point(worst_case, x, number) for x, number in zip(xs, beside, strict=True)]
        return found

    return read


def _point(series: str, x: float, number: Any) -> FigurePoint:
    return FigurePoint(series, x, number["value"], number["lower"], number["upper"])


def simulated_roc(part: str, series: str) -> Reader:
    """Return a function from the response of an audit to figure points: the ROC curve in its member `part`.

    `series` is the name of the series. The band is the confidence band of the power.
    """

    def read(answer: Answer) -> list[FigurePoint]:
        roc = answer[part]["roc"]
        return [
            FigurePoint(series, rate, power, lower, upper)
            for rate, power, lower, upper in zip(
                roc["false_positive_rate"]["estimate"],
                *(roc["true_positive_rate"][each] for each in ("estimate", "lower", "upper")),
                strict=True,
            )
        ]

    return read
