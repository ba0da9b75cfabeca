"""Attackers weaker than that of differential privacy. Their answers never come alone: the worst case stands beside."""

from __future__ import annotations

from abc import abstractmethod

from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.worst_case import WorstCase


class RelaxedThreatModel(AbstractThreatModel):
    """A threat model whose attacker knows, or may do, less than that of the worst case."""

    __slots__ = ()

    @abstractmethod
    def worst_case(self, mechanism: AbstractMechanism) -> WorstCase:
        """Return the worst case that stands beside the answers."""

    def is_bounded(self, mechanism: AbstractMechanism) -> bool:
        """Return whether the worst case beside bounds this attacker at every rate."""
        del mechanism
        return True


def worst_case_beside(model: AbstractThreatModel, mechanism: AbstractMechanism) -> WorstCase | None:
    """The worst case that stands beside the answers of a relaxed model; None: the model is the worst case."""
    if type(model) is WorstCase:
        return None
    return model.worst_case(mechanism) if isinstance(model, RelaxedThreatModel) else None


def is_bounded_by_worst_case(model: AbstractThreatModel, mechanism: AbstractMechanism) -> bool:
    """Return whether no power of this attacker exceeds that of `worst_case_beside`; True for the worst case itself."""
    return not isinstance(model, RelaxedThreatModel) or model.is_bounded(mechanism)
