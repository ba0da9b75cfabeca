"""Explanation of a failed policy on standard error, as three sentences for the log of continuous integration."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel

from api_schemas.assessments import AssessmentsResponse
from api_schemas.policies import Decision, Ruling
from service.rendering.numbers import percent_up, rounded_down, rounded_up


def explain_failure(response: BaseModel) -> tuple[str, ...]:
    """Return three sentences about a policy that is not met, or an empty tuple.

    The tuple is empty if the policy is met, without a policy, and for responses that are no assessment. The sentences
    name the policy and its verdict, the first failed limit with its margin, and what remains to be done.
    """
    decided = response.decision if isinstance(response, AssessmentsResponse) else None
    if decided is None or decided.verdict == "met":
        return ()
    name = decided.name if decided.revision is None else f"{decided.name}, revision {decided.revision}"
    return f"Policy {name!r}: {decided.verdict}. {decided.sentence}", _first_failure(decided), _rest(decided)


def _first_failure(decided: Decision) -> str:
    if failed := _stopping_rules(decided):
        return f"{failed[0].meaning} {_reason_sentence(failed[0])}"
    if decided.missing:
        return f"Not attested: {', '.join(decided.missing)}."
    return "No limit failed. An attestation in the context refutes an assumption of the numbers."


def _stopping_rules(decided: Decision) -> list[Ruling]:
    stopping = [each for each in decided.rulings if each.rule.severity == "error" and each.verdict != "met"]
    return sorted(stopping, key=lambda each: (each.verdict == "undecided", _margin(each)))


def _margin(ruling: Ruling) -> float:
    return -math.inf if ruling.margin is None else ruling.margin


def _reason_sentence(ruling: Ruling) -> str:
    number = _proved_bounds(ruling)
    if number is None or ruling.reason is not None:
        return f"{ruling.verdict.capitalize()}: {ruling.reason or 'no bounds are proved.'}"
    lower, upper = rounded_down(number[0]), rounded_up(number[1])
    if ruling.verdict == "undecided":
        return f"Undecided: the limit lies within the bounds {lower} to {upper}."
    if ruling.margin is None or ruling.rule.limit == 0:
        return f"Violated: the run has {lower} to {upper}."
    return f"Violated: the run has {lower} to {upper}, beyond the limit by {percent_up(-ruling.margin)} of it."


def _proved_bounds(ruling: Ruling) -> tuple[float, float] | None:
    answer: dict[str, Any] = ruling.answer.model_dump()
    found = answer["points"][0][ruling.rule.reads] if "points" in answer else answer
    if found.get("lower") is None or found.get("upper") is None:
        return None
    return found["lower"], found["upper"]


def _rest(decided: Decision) -> str:
    failed = _stopping_rules(decided)
    if failed:
        others = len(failed) - 1
        more = f"{others} more {'limit is' if others == 1 else 'limits are'} not met. " if others else ""
        return f"{more}Change the run: `privacy-bounds calibrate` finds the noise for a limit. --json has all rulings."
    if decided.missing:
        return f"Attest {', '.join(decided.missing)} in the context. --json has all rulings."
    return "Correct the attestation, or describe the run as it was. --json has all assumptions."
