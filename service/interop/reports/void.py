"""Whether the numbers of an assessment say nothing, because something that they rest on is attested not to hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api_schemas.assessments import AssessedAssumption

RELAXED: Final = "The numbers of this attacker say nothing about the release; those of the worst case stand."
STILL: Final = "The numbers stay bounds, for a run that reveals no less."
"""What follows where an assumption does not hold without which the worst case stands."""


def refuted(assumptions: Sequence[AssessedAssumption]) -> tuple[AssessedAssumption, ...]:
    """What was attested not to hold and makes the numbers void: approximations that are known as such are none."""
    return tuple(each for each in assumptions if each.holds == "no" and each.if_not not in (STILL, RELAXED))


def void(broken: Sequence[AssessedAssumption]) -> str:
    """Instead of numbers."""
    codes = ", ".join(each.code for each in broken)
    said = f"Void: {codes} is attested not to hold, so nothing is proved about this run"
    return f"{said}, and no number here bounds anything."
