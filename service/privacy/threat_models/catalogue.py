"""Catalogue of all threat models, by their names in requests."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.glrt import Glrt
from service.privacy.threat_models.membership import Membership
from service.privacy.threat_models.mixture import AdversaryMixture
from service.privacy.threat_models.practical import Practical
from service.privacy.threat_models.worst_case import WorstCase

THREAT_MODELS: Final[Mapping[str, type[AbstractThreatModel]]] = MappingProxyType(
    {kind.type: kind for kind in (WorstCase, Glrt, Membership, Practical, AdversaryMixture)}
)
