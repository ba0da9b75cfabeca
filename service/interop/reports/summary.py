"""Texts to copy about a run: a title, a sentence, a paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

from api_schemas.assessment_context import AssessmentContext
from api_schemas.assessments import AssessedAssumption, RunSummary
from api_schemas.mechanisms import MechanismSpec
from api_schemas.threat_models import WorstCaseThreatModel
from service.interop.reports.title import run_title
from service.interop.reports.void import refuted

Fields = Mapping[str, Any]


@final
class Told(NamedTuple):
    """What texts about a run are made of.

    mechanism, threat_model: what all numbers are of. answers: to the standard questions, as fields of the response.
    gdp, hazards: likewise. changed: what hazards changed about the run, in a sentence.
    """

    mechanism: MechanismSpec
    threat_model: WorstCaseThreatModel
    context: AssessmentContext
    answers: Sequence[Fields]
    gdp: Fields | None
    assumptions: Sequence[AssessedAssumption]
    hazards: Sequence[Fields]
    changed: str | None

    @property
    def is_bounded(self) -> bool:
        """Whether any number is known to bound anything."""
        return not refuted(self.assumptions) and all(each["effect"] != "no_bound" for each in self.hazards)


def run_summary(told: Told) -> RunSummary:
    """Return the texts of an assessment."""
    return RunSummary(title=run_title(told.mechanism), bounded=told.is_bounded, sentence="", paragraph="")
