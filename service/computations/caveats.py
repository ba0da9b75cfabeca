"""What the answers rest on, and the known ways in which runs like the one described are less private than they look."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from api_schemas.assumptions_and_hazards import Assumption, Hazard
from service.computations.parts import assumption_of
from service.privacy.mechanisms import caveats as core
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.worst_case import WorstCase


@dataclass(frozen=True, slots=True)
class AnswerCaveats:
    """What stands beside the answers about a mechanism."""

    assumptions: tuple[Assumption, ...]
    """What the answers rest on and the service cannot see."""
    hazards: tuple[Hazard, ...]
    """Known traps that the described mechanism may have fallen into."""


def caveats(mechanism: AbstractMechanism, *models: AbstractThreatModel) -> AnswerCaveats:
    """The caveats of the answers about a mechanism, as they travel, against these attackers: those for whom several
    records count have an answer to the hazard of one.
    """
    known = mechanism.caveats()
    if models and all(map(_of_several_records, models)):
        hazards = tuple(hazard for hazard in known.hazards if hazard is not core.ONE_RECORD_IS_PROTECTED)
        known = core.Caveats(known.premises, hazards)
    return _written(known)


def _of_several_records(model: AbstractThreatModel) -> bool:
    return isinstance(model, WorstCase) and model.records is not None and model.records > 1


@lru_cache(maxsize=64)  # mechanisms of a kind say the same, whatever their parameters
def _written(known: core.Caveats) -> AnswerCaveats:
    hazards = ({"code": each.code, "text": each.text} for each in known.hazards)
    return AnswerCaveats(tuple(map(assumption_of, known.premises)), tuple(map(Hazard.model_validate, hazards)))
