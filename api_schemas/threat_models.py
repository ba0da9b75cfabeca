"""Threat models: who attacks."""

from __future__ import annotations

from typing import Literal

from api_schemas.base import Request
from api_schemas.quantities import NeighboringRelation


class WorstCaseThreatModel(Request):
    """The adversary of differential privacy: knows all other records and runs the Neyman-Pearson optimal test."""

    type: Literal["worst_case"]
    neighboring_relation: NeighboringRelation = "add_or_remove_one"


# A union with one member; it becomes one on `type` with the second.
ThreatModelSpec = WorstCaseThreatModel
