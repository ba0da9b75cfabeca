"""Whose data the numbers of an assessment protect together, in words."""

from __future__ import annotations

from api_schemas.assessment_context import ONE_RECORD_UNITS, AssessmentContext
from api_schemas.threat_models import WorstCaseThreatModel


def cap_of(context: AssessmentContext, threat_model: WorstCaseThreatModel) -> int | None:
    """Records that one unit has at most; None where nothing says it."""
    if context.privacy_unit in ONE_RECORD_UNITS:
        return threat_model.records or 1
    return context.records if threat_model.records is None else threat_model.records


def protected(context: AssessmentContext, threat_model: WorstCaseThreatModel) -> str:
    """The unit with its cap; without one, a record of the unit is all that is protected."""
    unit, cap = context.privacy_unit, cap_of(context, threat_model)
    if cap is None:
        return f"record of one {unit}"
    return f"{unit} with at most {cap} records" if cap > 1 else unit
