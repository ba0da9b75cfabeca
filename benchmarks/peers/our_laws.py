"""This project for the same laws: the enclosure of every number, as its lower and its upper bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.neighbours import NeighboringRelation
from service.privacy.questions import profile, reconstruction
from service.privacy.threat_models.worst_case import WorstCase
from tests.privacy.cases import built


def answer(spec: Mapping[str, Any], relation: NeighboringRelation, kind: str, argument: float) -> Enclosure:
    """Build new curves of a mechanism, and evaluate one number: `eps`, `delta` or `gamma` at its argument."""
    pair = WorstCase(relation).curves(built(spec))
    if kind == "gamma":
        return reconstruction.gamma(pair.both, argument).value
    reading = profile.epsilon if kind == "eps" else profile.delta
    return reading(pair.both, argument).value
