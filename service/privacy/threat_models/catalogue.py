"""Catalogue of all threat models, by their names in requests. A threat model is imported at its first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from service.privacy.threat_models.abstract import AbstractThreatModel

THREAT_MODELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "worst_case": "worst_case:WorstCase",
        "glrt": "glrt:Glrt",
        "membership": "membership:Membership",
        "practical": "practical:Practical",
        "mixture": "mixture:AdversaryMixture",
    }
)
"""Module in this package and name of the class, by the name in requests."""

PACKAGE: Final = __name__.rpartition(".")[0]
"""Package of the threat models, wherever it is installed."""


@cache
def threat_model_class(name: str) -> type[AbstractThreatModel]:
    """Return the class of the threat model with this name in requests.

    Raise KeyError for an unknown name.
    """
    found: type[AbstractThreatModel] = resolve_name(f"{PACKAGE}.{THREAT_MODELS[name]}")
    return found
