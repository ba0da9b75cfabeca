"""Base class of attackers weaker than that of differential privacy; their answers always include the worst case."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import final

from typing_extensions import override

from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.threat_models.abstract import AbstractThreatModel
from service.privacy.threat_models.worst_case import WorstCase
from service.privacy.trade_off.pair import TradeOffPair


class RelaxedThreatModel(AbstractThreatModel):
    """Threat model whose attacker has less knowledge, or fewer options, than that of the worst case.

    A subclass defines `own_plan`, `worst_case` and `premises`. It overrides `is_bounded` if the worst case is not
    always known to be at least as strong as the attacker.
    """

    __slots__ = ()

    @final
    @override
    def plan(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> Plan:
        """Return the plan of this attacker: engine, curves and cost.

        The power of the curves is at most that of the worst case, if the worst case bounds this attacker.
        """
        try:
            worst = self.worst_case(mechanism).plan(mechanism, "auto", options)
        except UnsupportedCombination:
            worst = None
        own = self.own_plan(mechanism, method, options, worst)
        if worst is None:
            return own
        return replace(own, build=partial(self._beside_worst_case, own, worst, mechanism), worst_case=worst)

    @abstractmethod
    def own_plan(self, mechanism: AbstractMechanism, method: str, options: EngineOptions, worst: Plan | None) -> Plan:
        """Return the plan of this attacker alone, without the cap by the worst case.

        Parameters
        ----------
        mechanism, method, options
            As in `plan`.
        worst : Plan or None
            The plan of `worst_case`, or None if the worst case has no known curves.

        Returns
        -------
        Plan
            Engine, curves and cost.

        Raises
        ------
        UnsupportedCombination
            As in `plan`.
        """

    def _beside_worst_case(self, own: Plan, worst: Plan, mechanism: AbstractMechanism) -> TradeOffPair:
        curves = own.curves
        if curves.worst_case is not None or not self.is_bounded(mechanism):
            return curves
        return replace(curves, worst_case=worst.curves)

    @abstractmethod
    def worst_case(self, mechanism: AbstractMechanism) -> WorstCase:
        """Return the threat model of the worst case (strongest attacker) shown beside the answers about `mechanism`."""

    def is_bounded(self, mechanism: AbstractMechanism) -> bool:
        """Return whether the worst case shown with the answer has at least the power of this attacker at every rate.

        The default is True.
        """
        del mechanism
        return True


def worst_case_beside(model: AbstractThreatModel, mechanism: AbstractMechanism) -> WorstCase | None:
    """Return the threat model of the worst case shown beside the answers for a relaxed (weaker) attacker.

    The answers are about `mechanism`. The result is None if `model` is itself the worst case.
    """
    if type(model) is WorstCase:
        return None
    return model.worst_case(mechanism) if isinstance(model, RelaxedThreatModel) else None


def is_bounded_by_worst_case(model: AbstractThreatModel, mechanism: AbstractMechanism) -> bool:
    """Return whether the worst case shown with this attacker has at least the attacker's power at every rate.

    `model` is the attacker, and `mechanism` the mechanism attacked. The result is True for the worst case itself.
    """
    return not isinstance(model, RelaxedThreatModel) or model.is_bounded(mechanism)
