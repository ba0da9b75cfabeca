"""Assessments as plain text for a terminal."""

from __future__ import annotations

from api_schemas.assessments import AssessmentsResponse
from service.rendering.documents.hazards import shown_hazards


def plain_text(response: AssessmentsResponse) -> str:
    """Return the statement of an assessment as plain text, with the verdict of the policy and the present hazards."""
    lines = [response.statement]
    present = [each for each in shown_hazards(response) if each.status == "present"]
    if present:
        lines.append("Hazards")
        lines += (f"- {' '.join((each.title, *each.texts, each.remedy))}" for each in present)
    return "\n".join(lines) + "\n"
