"""The hazards of an assessment as its texts show them."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from api_schemas.assessments import AssessedHazard, AssessmentsResponse, Consequence
from api_schemas.assumptions_and_hazards import HazardCode
from service.rendering.documents.rows import rows

OF_NUMBERS: Final[frozenset[HazardCode]] = frozenset(
    {"epsilon_says_little", "one_point_hides_the_curve", "relaxed_number_alone"}
)
"""Hazards about the numbers. Where nothing is proved about the run, there are no numbers to be careful with."""


@final
class ShownHazard(NamedTuple):
    """A hazard in words. texts: what it is and does; they contain no numbers where nothing is proved about the run."""

    title: str
    status: str
    texts: tuple[str, ...]
    remedy: str


def shown_hazards(response: AssessmentsResponse) -> list[ShownHazard]:
    """Return the hazards to be shown, in their order."""
    if response.summary.bounded:
        return [
            _shown(each, each.text, each.effect_text, *map(_consequence, each.consequences))
            for each in response.hazards
        ]
    left = [each for each in response.hazards if each.code not in OF_NUMBERS]
    return [_shown(each, *([each.effect_text] if each.effect == "no_bound" else [])) for each in left]


def _shown(hazard: AssessedHazard, *texts: str) -> ShownHazard:
    return ShownHazard(hazard.title, hazard.status, texts, hazard.remedy)


def _consequence(consequence: Consequence) -> str:
    """Return the numbers of a consequence, rounded up."""
    numbers = "; ".join(f"{row.title}: at most {row.at_most}" for row in rows((consequence.answer,)))
    return f"{consequence.text} {numbers}."
