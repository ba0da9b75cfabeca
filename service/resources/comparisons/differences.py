"""Comparison of one quantity of two runs: sign, difference and ratio; and the best of several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from service.resources.abstract import ResponseFields
from service.resources.read_numbers import ReadNumber, rounded_down, rounded_up

Sign = Literal["first_smaller", "second_smaller", "equal", "undecided"]

LARGEST_LOG10 = 308.0


def sign_of(first: Sequence[ReadNumber], second: Sequence[ReadNumber]) -> Sign:
    """Return whether `first` or `second` is smaller, whether both are equal, or that the enclosures do not decide.

    Each side has one number, or a power and the type II error: the larger error means the smaller power. Either number
    may decide.
    """
    for one, other in zip(first, second, strict=True):
        turned = one.guarantee and len(first) > 1
        if _is_surely_below(one, other):
            return "second_smaller" if turned else "first_smaller"
        if _is_surely_below(other, one):
            return "first_smaller" if turned else "second_smaller"
    return "equal" if _is_one_point(first[0], second[0]) else "undecided"


def _is_surely_below(one: ReadNumber, other: ReadNumber) -> bool:
    # wherever both lie in their enclosures
    if one.upper is None or other.lower is None:
        return False
    if one.log10 is not None and other.log10 is not None:
        return one.log10[1] < other.log10[0]
    return one.upper < other.lower


def _is_one_point(one: ReadNumber, other: ReadNumber) -> bool:
    ends = (one.lower, one.upper, other.lower, other.upper)
    plain = one.log10 is None and other.log10 is None
    return plain and one.lower is not None and all(end == one.lower for end in ends)


SAME: ResponseFields = {
    "verdict": "equal",
    "difference": {"lower": 0.0, "upper": 0.0},
    "ratio": {"lower": 1.0, "upper": 1.0},
}
"""Result for a run and the same run under another name."""


def difference_of(first: Sequence[ReadNumber], second: Sequence[ReadNumber]) -> ResponseFields:
    """Return difference (first - second), ratio (first/second) and sign, as fields of `ComparedQuantity`.

    Each side has one number, or a power and its type II error, which may decide the sign.
    """
    return {
        "verdict": sign_of(first, second),
        "difference": _difference(first[0], second[0]),
        "ratio": _ratio(first[0], second[0]),
    }


def _difference(first: ReadNumber, second: ReadNumber) -> ResponseFields | None:
    if first.lower is None or first.upper is None or second.lower is None or second.upper is None:
        return None
    if math.isinf(first.upper) and math.isinf(second.upper):
        return None
    return {
        "lower": _difference_rounded(first.lower, second.upper, -1),
        "upper": _difference_rounded(first.upper, second.lower, 1),
    }


def _difference_rounded(one: float, other: float, side: int) -> float:
    if math.isinf(one) or math.isinf(other):
        return one - other
    exact = Fraction(one) - Fraction(other)
    return rounded_down(exact) if side < 0 else rounded_up(exact)


def _ratio(first: ReadNumber, second: ReadNumber) -> ResponseFields | None:
    if first.lower is None or first.upper is None or second.lower is None or second.upper is None:
        return None
    if (math.isinf(first.upper) and math.isinf(second.upper)) or second.upper == 0:
        return None
    if first.log10 is not None and second.log10 is not None:
        (first_low, first_high), (second_low, second_high) = first.log10, second.log10
        return {"lower": _power_of_ten(first_low - second_high, -1), "upper": _power_of_ten(first_high - second_low, 1)}
    return {
        "lower": _ratio_rounded(first.lower, second.upper, -1),
        "upper": _ratio_rounded(first.upper, second.lower, 1),
    }


def _ratio_rounded(one: float, other: float, side: int) -> float:
    if one == 0 or math.isinf(other):
        return 0.0
    if math.isinf(one) or other == 0:
        return math.inf
    exact = Fraction(one) / Fraction(other)
    return rounded_down(exact) if side < 0 else rounded_up(exact)


def _power_of_ten(log10: float, side: int) -> float:
    if math.isnan(log10):
        return 0.0 if side < 0 else math.inf
    log10 += side * abs(log10) * 2.0**-49
    if log10 > LARGEST_LOG10:
        return math.inf if side > 0 else math.nextafter(math.inf, 0)
    return math.nextafter(10.0**log10 * (1 + side * 2.0**-40), math.inf if side > 0 else 0.0)


def best_of(numbers: Sequence[ReadNumber], signs: Sequence[Sequence[Sign]]) -> tuple[list[int], bool]:
    """Return the indices of the numbers with the most private safe bound, and whether they are provably the best.

    `signs[i][j]` says which of the numbers i (first) and j (second) is smaller. Numbers without an enclosure are never
    best and make the ranking uncertain.
    """
    known = [place for place, number in enumerate(numbers) if number.lower is not None]
    if not known:
        return [], False
    guarantee = numbers[0].guarantee
    choose = max if guarantee else min
    value = choose(numbers[place].value for place in known)
    logs = [_log10_of_safe_bound(numbers[place]) for place in known if numbers[place].value == value]
    finest = choose(logs)
    found = [
        place for place in known if numbers[place].value == value and _log10_of_safe_bound(numbers[place]) == finest
    ]
    wanted: Sign = "second_smaller" if guarantee else "first_smaller"
    others = [place for place in range(len(numbers)) if place not in found]
    beaten = all(signs[best][other] == wanted for best in found for other in others)
    alike = all(signs[one][other] == "equal" for one in found for other in found if one != other)
    return found, beaten and alike and len(known) == len(numbers)


def _log10_of_safe_bound(number: ReadNumber) -> float:
    # orders numbers whose safe bounds are too small for doubles
    if number.log10 is None:
        return -math.inf if number.value == 0 else 0.0
    return number.log10[0 if number.guarantee else 1]
