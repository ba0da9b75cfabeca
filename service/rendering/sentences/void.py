"""Why the numbers of an assessment say nothing: something that they rest on does not hold, or is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption, AssessedThreatModel

RELAXED: Final = "The numbers of this attacker say nothing about the release; those of the worst case stand."
STILL: Final = "The numbers stay bounds, for a run that reveals no less."
"""What follows where an assumption does not hold without which the worst case stands."""
NOT_THIS_ATTACKER: Final = "An assumption about this attacker does not hold. The numbers of the worst case stand."
MOST_NAMED: Final = 3


def refuted(assumptions: Sequence[AssessedAssumption]) -> tuple[AssessedAssumption, ...]:
    """Return the assumptions that are attested not to hold and make all numbers void."""
    return tuple(each for each in assumptions if each.holds == "no" and each.if_not not in (STILL, RELAXED))


def is_refuted(attacked: AssessedThreatModel) -> bool:
    """Whether the numbers of an attacker say nothing: an assumption about this attacker does not hold."""
    return any(each.holds == "no" and each.if_not != STILL for each in attacked.assumptions)


def is_attested_against(attacked: AssessedThreatModel, context: AssessmentContext) -> bool:
    """Whether somebody attests that an assumption about an attacker does not hold.

    Where the request itself says so (a susceptibility that is a mean, not a bound), pictures keep the curve of the
    attacker: the attacker is conditional there, and the curve is that of the stated number.
    """
    refused = {each.code for each in context.attested if each.holds == "no"}
    return any(each.code in refused for each in attacked.assumptions)


def void(broken: Sequence[AssessedAssumption]) -> str:
    """Return the sentence that stands in place of numbers where assumptions are refuted."""
    codes = ", ".join(each.code for each in broken[:MOST_NAMED])
    more = f" and {len(broken) - MOST_NAMED} more" if len(broken) > MOST_NAMED else ""
    return f"Void: {codes}{more} {'is' if len(broken) == 1 else 'are'} attested not to hold, so nothing is proved."


def unproved(hazards: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentence that stands in place of numbers where hazards leave a run that nobody can compute."""
    titles = [str(each["title"]) for each in hazards if each["effect"] == "no_bound"]
    return f"Nothing is proved, because it is not known how private the run is with this: {' '.join(titles)}"
