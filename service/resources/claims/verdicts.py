"""Verdict on a claimed number by its enclosure: unsafe, loose or consistent, with the distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, final

from api_schemas.claims import Claim
from service.resources.abstract import ResponseFields
from service.resources.read_numbers import ReadNumber, rounded_down

VerdictName = Literal["unsafe", "loose", "consistent", "undecided"]
Held = Literal["yes", "no", "unknown"]

APPROXIMATION: Final = "The answer is an approximation without bounds and decides nothing."
BRACKET: Final = (
    "The claim lies between the lower and the upper bound of two theorems. No proof shows whether the claim is "
    "a valid guarantee."
)
WIDE: Final = (
    "The claim lies inside an enclosure that is wider than its tolerance. No proof shows whether the claim is "
    "a valid guarantee."
)
NEAR_ONE: Final = (
    "Type II errors this close to 1 differ by less than the tolerance wherever the power 1 - beta does. Claim "
    "the power (reads: power) instead."
)


@final
@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """Verdict on a claimed number.

    `holds` says whether the claim is true (`yes`, `no` or `unknown`). `by` is how far the number lies beyond the proved
    bound that decides, as fields of `Distance`; None for the verdicts `consistent` and `undecided`.
    """

    verdict: VerdictName
    holds: Held
    by: ResponseFields | None
    notes: tuple[str, ...]


def judge_claim(claim: Claim, found: ReadNumber) -> ClaimJudgement:
    """Return the verdict on `claim`: unsafe, loose (less private than is provable), consistent or undecided.

    `found` is the computed number. An unsafe claim states more privacy than there is, and an undecided one is about a
    number without proved bounds. Comparisons are exact.
    """
    value, tolerance = claim.number, claim.relative_tolerance
    if found.lower is None or found.upper is None:
        return ClaimJudgement("undecided", "unknown", None, (APPROXIMATION,))
    below, above = found.is_above(value, tolerance), found.is_below(value, tolerance)
    holds = _holds(value, found)
    if below or above:
        verdict: VerdictName = "unsafe" if below != found.guarantee else "loose"
        return ClaimJudgement(verdict, holds, _distance(value, found, "lower" if below else "upper"), ())
    notes: tuple[str, ...] = ()
    if holds == "unknown" and found.is_wider_than(tolerance):
        notes = (BRACKET if found.tight is False else WIDE,)
    if claim.reads == "type_two_error" and 1 - value <= tolerance and value < 1:
        notes += (NEAR_ONE,)
    return ClaimJudgement("consistent", holds, None, notes)


def _holds(value: float, found: ReadNumber) -> Held:
    if found.guarantee:
        if found.is_below(value):
            return "no"
        return "yes" if value == found.lower or found.is_above(value) else "unknown"
    if found.is_above(value):
        return "no"
    return "yes" if value == found.upper or found.is_below(value) else "unknown"


def _distance(value: float, found: ReadNumber, end: Literal["lower", "upper"]) -> dict[str, Any]:
    # difference and ratio are rounded downwards
    reached = found.lower if end == "lower" else found.upper
    small, large = sorted((value, reached or 0.0))
    if math.isinf(large):
        return {"end": end, "difference": math.inf, "ratio": math.inf}
    difference = rounded_down(Fraction(large) - Fraction(small))
    if found.log10 is None:
        ratio = rounded_down(Fraction(large) / Fraction(small)) if small > 0 else math.inf
        return {"end": end, "difference": difference, "ratio": ratio}
    if value == 0:
        return {"end": end, "difference": difference, "ratio": math.inf, "ratio_log10": math.inf}
    apart = abs(math.log10(value) - found.log10[0 if end == "lower" else 1])
    apart = max(apart - 2.0**-49 * (abs(math.log10(value)) + apart), 0.0)
    ratio = 10.0**apart * (1 - 2.0**-40) if apart < 308 else None
    return {"end": end, "difference": difference, "ratio": ratio, "ratio_log10": apart}
