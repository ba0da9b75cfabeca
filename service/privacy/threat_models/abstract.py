"""What a threat model is: who attacks, as a way from a mechanism to the curves that hold against that attacker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from service.privacy.composition.planning.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.composition.planning.plan import Plan
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.mechanisms.caveats import Premise
from service.privacy.trade_off.pair import TradeOffPair


class AbstractThreatModel(ABC):
    """A frozen, final value. `type` is its name on the wire; its fields have the names of the wire."""

    __slots__ = ()
    type: ClassVar[str]

    @abstractmethod
    def plan(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> Plan:
        """The pair of curves of the whole mechanism against this attacker, by the given or the best engine: enclosures
        of the worst case over everything that mechanism and premises leave open (`trade_off/pair.py`); and the prices
        of their readings. Nothing is allocated in proportion to step counts.

        Raises UnsupportedCombination for a mechanism (field `mechanism`) or a method (field `method`) it does not
        cover, here or when the curves are made.
        """

    def curves(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> TradeOffPair:
        """The curves of the `plan`."""
        return self.plan(mechanism, method, options).curves

    def plans(
        self, mechanism: AbstractMechanism, methods: Sequence[str], options: EngineOptions = DEFAULT_OPTIONS
    ) -> dict[str, Plan]:
        """The plans by each of the methods that can serve the mechanism, in their order."""
        found: dict[str, Plan] = {}
        for method in methods:
            try:
                found[method] = self.plan(mechanism, method, options)
            except UnsupportedCombination:
                continue
        return found

    @abstractmethod
    def premises(self, mechanism: AbstractMechanism) -> tuple[Premise, ...]:
        """What the curves rest on beyond what the mechanism itself rests on."""

    def check_question(self, question: str, prior: float | None) -> None:  # noqa: B027 - most answer every question
        """Raises UnsupportedCombination for a question, by its name on the wire, that the curves do not answer, or not
        at this prior; None: the question has no prior.
        """
