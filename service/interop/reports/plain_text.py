"""An assessment for who reads it in a shell."""

from __future__ import annotations

from api_schemas.assessments import AssessmentsResponse


def plain_text(response: AssessmentsResponse) -> str:
    """Return the statement and the hazards that are present. The verdict of a policy is part of the statement."""
    lines = [response.statement]
    present = [each for each in response.hazards if each.status == "present"]
    if present:
        lines.append("Hazards")
        for each in present:
            text = f" {each.text}" if response.summary.bounded else ""  # may contain numbers
            lines.append(f"- {each.title}{text} {each.effect_text} {each.remedy}")
    return "\n".join(lines) + "\n"
