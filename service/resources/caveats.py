"""Assumptions behind the answers about a mechanism, and hazards: known ways in which it may be less private."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from api_schemas.assumptions_and_hazards import Assumption, Hazard
from service.privacy.mechanisms import caveats as core
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.worst_case import WorstCase
from service.resources.parts import assumption_of


@dataclass(frozen=True, slots=True)
class AnswerCaveats:
    """Assumptions and hazards of the answers about a mechanism."""

    assumptions: tuple[Assumption, ...]
    """Conditions that the answers need and the service cannot check."""
    hazards: tuple[Hazard, ...]
    """Known mistakes that may apply to the described mechanism."""


def caveats(mechanism: AbstractMechanism, *models: AbstractThreatModel) -> AnswerCaveats:
    """Return the assumptions and hazards of answers about a mechanism, against these attackers.

    The hazard `one_record_is_protected` does not apply if every attacker counts several records.
    """
    known = mechanism.caveats()
    if models and all(map(_of_several_records, models)):
        hazards = tuple(hazard for hazard in known.hazards if hazard is not core.ONE_RECORD_IS_PROTECTED)
        known = core.Caveats(known.premises, hazards)
    return _written(known)


def _of_several_records(model: AbstractThreatModel) -> bool:
    return isinstance(model, WorstCase) and model.records is not None and model.records > 1


@lru_cache(maxsize=64)  # caveats depend on the kind of a mechanism only
def _written(known: core.Caveats) -> AnswerCaveats:
    hazards = ({"code": each.code, "text": each.text} for each in known.hazards)
    return AnswerCaveats(tuple(map(assumption_of, known.premises)), tuple(map(Hazard.model_validate, hazards)))
