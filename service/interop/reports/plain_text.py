"""An assessment for who reads it in a shell."""

from __future__ import annotations

from api_schemas.assessments import AssessmentsResponse
from service.interop.numbers import as_given


def plain_text(response: AssessmentsResponse) -> str:
    """The statement, hazards that are present, and the verdict of the policy."""
    lines = [response.statement]
    present = [each for each in response.hazards if each.status == "present"]
    if present:
        lines += ["5. Hazards", *(f"- {each.code}: {each.text} {each.remedy}" for each in present)]
    decision = response.decision
    if decision is not None:
        lines.append(f"6. Policy {decision.name}: {decision.verdict}")
        for each in decision.rulings:
            rule = each.rule
            limit = (
                f"at most {as_given(rule.at_most)}" if rule.at_most is not None else f"at least {as_given(rule.limit)}"
            )
            margin = "" if each.margin is None else f", margin {each.margin:.3g}"
            lines.append(f"- {each.verdict}: {rule.name or rule.question.type} {limit} ({rule.severity}{margin})")
    return "\n".join(lines) + "\n"
