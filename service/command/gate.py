"""Explanation of a failed policy on standard error, in three lines for a log of continuous integration."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from api_schemas.assessments import AssessmentsResponse
from api_schemas.policies import Decision, Ruling
from service.rendering.numbers import percent_up, rounded_down, rounded_up

SEVEREST: Final = ("violated", "undecided", "unsupported")
"""Verdicts of rules that stop a run, in the order in which they are reported; all others follow."""


def explain_failure(response: BaseModel) -> tuple[str, ...]:
    """Return three sentences about a policy that is not met, or nothing.

    They name the policy and its verdict, the first failed limit with its margin, and what remains to be done.
    """
    decided = response.decision if isinstance(response, AssessmentsResponse) else None
    if decided is None or decided.verdict == "met":
        return ()
    name = decided.name if decided.revision is None else f"{decided.name}, revision {decided.revision}"
    return f"Policy {name!r}: {decided.verdict}. {decided.sentence}", _first_failure(decided), _rest(decided)


def _first_failure(decided: Decision) -> str:
    failed = _failed(decided)
    if failed:
        return f"{failed[0].meaning} {_amount(failed[0])}"
    if decided.missing:
        return f"Nobody attests: {', '.join(decided.missing)}."
    return "No single limit decides the verdict; the JSON has all rulings."


def _failed(decided: Decision) -> list[Ruling]:
    """Return the rules that stop the run, the severest first."""
    stopping = [each for each in decided.rulings if each.rule.severity == "error" and each.verdict != "met"]
    order = {verdict: place for place, verdict in enumerate(SEVEREST)}
    return sorted(stopping, key=lambda each: (order.get(each.verdict, len(order)), each.margin or 0.0))


def _amount(ruling: Ruling) -> str:
    """Return by how much a limit is exceeded, or why it is undecided."""
    number = _number(ruling)
    if ruling.verdict == "violated" and ruling.margin is not None and number is not None:
        lower, upper = number
        return (
            f"Violated: the run has {rounded_down(lower)} to {rounded_up(upper)}, beyond the limit by "
            f"{percent_up(-ruling.margin)} of it."
        )
    if ruling.reason is not None:
        return f"{ruling.verdict.capitalize()}: {ruling.reason}"
    if number is None:
        return f"{ruling.verdict.capitalize()}: no bounds are proved."
    lower, upper = number
    return (
        f"{ruling.verdict.capitalize()}: the limit lies within the bounds {rounded_down(lower)} to {rounded_up(upper)}."
    )


def _number(ruling: Ruling) -> tuple[float, float] | None:
    """Return both bounds of the number that a rule limits, or None without bounds."""
    answer: dict[str, Any] = ruling.answer.model_dump()
    found = answer["points"][0][ruling.rule.reads] if "points" in answer else answer
    if found.get("lower") is None or found.get("upper") is None:
        return None
    return found["lower"], found["upper"]


def _rest(decided: Decision) -> str:
    others = max(0, len(_failed(decided)) - 1)
    limits = f"{others} more {'limit is' if others == 1 else 'limits are'} not met. " if others else ""
    if decided.missing and not _failed(decided):
        return f"Attest {', '.join(decided.missing)} in the context. --json has all rulings."
    return f"{limits}Change the run: `privacy-bounds calibrate` finds the noise for a limit. --json has all rulings."
