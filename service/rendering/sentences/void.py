"""Reasons why the numbers of an assessment are void: a refuted assumption, or an unknown effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption, AssessedThreatModel

RELAXED: Final = "The numbers of this attacker are no bounds. The numbers of the worst case stay valid."
STILL: Final = "The numbers stay bounds, for a run that reveals at least as much."
"""Consequence of a refuted assumption that the worst case does not need."""
NOT_THIS_ATTACKER: Final = "An assumption about this attacker does not hold. The numbers of the worst case stay valid."
MOST_NAMED: Final = 3


def refuted(assumptions: Sequence[AssessedAssumption]) -> tuple[AssessedAssumption, ...]:
    """Return the assumptions that are attested not to hold and invalidate all numbers."""
    return tuple(each for each in assumptions if each.holds == "no" and each.if_not not in (STILL, RELAXED))


def is_refuted(attacked: AssessedThreatModel) -> bool:
    """Return whether an assumption about an attacker does not hold, so that numbers about the attacker are void."""
    return any(each.holds == "no" and each.if_not != STILL for each in attacked.assumptions)


def is_attested_against(attacked: AssessedThreatModel, context: AssessmentContext) -> bool:
    """Return whether somebody attests that an assumption about an attacker does not hold.

    An assumption that only the request contradicts does not count: charts then keep the curve of the attacker.
    """
    refused = {each.code for each in context.attested if each.holds == "no"}
    return any(each.code in refused for each in attacked.assumptions)


def void(broken: Sequence[AssessedAssumption]) -> str:
    """Return the sentence that replaces numbers if the assumptions `broken` are attested not to hold."""
    codes = ", ".join(each.code for each in broken[:MOST_NAMED])
    more = f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
    return f"Void: {codes}{more} {'is' if len(broken) == 1 else 'are'} attested not to hold, so nothing is proved."


def unproved(hazards: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentence that replaces all numbers, because some of these hazards have the effect `no_bound`."""
    titles = [str(each["title"]) for each in hazards if each["effect"] == "no_bound"]
    return f"Nothing is proved, because the effect of a present hazard is not known: {' '.join(titles)}"
