"""Hazards of an assessment, as its documents show them."""

from __future__ import annotations

from typing import Final, NamedTuple, final

from api_schemas.assessments import AssessedHazard, AssessmentsResponse, Consequence
from api_schemas.assumptions_and_hazards import HazardCode
from service.rendering.documents.rows import rows

OF_NUMBERS: Final[frozenset[HazardCode]] = frozenset(
    {"epsilon_says_little", "one_point_hides_the_curve", "relaxed_number_alone"}
)
"""Hazards about the numbers. They are omitted if nothing is proved about the run, since the documents have no numbers.
"""


@final
class ShownHazard(NamedTuple):
    """Hazard of an assessment in words.

    `texts` has its description and effects, without numbers if nothing is proved about the run.
    """

    title: str
    status: str
    texts: tuple[str, ...]
    remedy: str


def shown_hazards(response: AssessmentsResponse) -> list[ShownHazard]:
    """Return the hazards that documents show, in the order of the assessment.

    If nothing is proved about the run, hazards that only concern numbers are left out.
    """
    if response.summary.bounded:
        return [
            _shown_hazard(each, each.text, each.effect_text, *map(_consequence_sentence, each.consequences))
            for each in response.hazards
        ]
    left = [each for each in response.hazards if each.code not in OF_NUMBERS]
    return [_shown_hazard(each, *([each.effect_text] if each.effect == "no_bound" else [])) for each in left]


def _shown_hazard(hazard: AssessedHazard, *texts: str) -> ShownHazard:
    return ShownHazard(hazard.title, hazard.status, texts, hazard.remedy)


def _consequence_sentence(consequence: Consequence) -> str:
    numbers = "; ".join(f"{row.title}: at most {row.at_most}" for row in rows((consequence.answer,)))
    return f"{consequence.text} {numbers}."
