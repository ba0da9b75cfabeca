"""Privacy units in words: whose data the numbers of an assessment protect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api_schemas.assessment_context import ONE_RECORD_UNITS, AssessmentContext
from api_schemas.threat_models import WorstCaseThreatModel

MEMBERS: Final[Mapping[str, str]] = {
    "example": "records",
    "sequence": "sequences",
    "document": "documents",
    "device": "devices",
    "user": "users",
    "household": "households",
    "organisation": "organisations",
}


def unit_name(context: AssessmentContext) -> str:
    """Return the privacy unit in words. The unit `example` is one record of the data set."""
    return "record" if context.privacy_unit == "example" else context.privacy_unit


def cap_of(context: AssessmentContext, threat_model: WorstCaseThreatModel) -> int | None:
    """Return the largest number of records that one privacy unit (for example a person) has, or None if unknown.

    The number of the threat model counts before that of the context. A unit that is one record by definition has one.
    """
    if context.privacy_unit in ONE_RECORD_UNITS:
        return threat_model.records or 1
    return context.records if threat_model.records is None else threat_model.records


def protected(context: AssessmentContext, threat_model: WorstCaseThreatModel) -> str:
    """Return the protected privacy unit in words, with its largest number of records.

    If that number is unknown, only a single record of the unit is protected.
    """
    unit, cap = unit_name(context), cap_of(context, threat_model)
    if cap is None:
        return f"record of one {unit}"
    return f"{unit} with up to {cap} records" if cap > 1 else unit


def members(context: AssessmentContext, threat_model: WorstCaseThreatModel) -> str:
    """Return the plural noun for what an attacker identifies, such as "people".

    The noun is "records" if the largest number of records of a privacy unit is unknown.
    """
    return "records" if cap_of(context, threat_model) is None else MEMBERS[context.privacy_unit]
