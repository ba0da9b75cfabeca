"""Abstract base class of threat models: an attacker, as a way from a mechanism to the curves that hold against it."""

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
    """Frozen, final description of an attacker.

    `type` is the name of the threat model in requests, and the fields have the names of requests. A subclass defines
    `plan` and `premises`, and overrides `check_question` if some questions have no answer.
    """

    __slots__ = ()
    type: ClassVar[str]

    @abstractmethod
    def plan(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> Plan:
        """Return the plan (engine, curves and cost) for the trade-off curves of a mechanism against this attacker.

        The curves enclose the worst case over everything that mechanism and premises leave open (`trade_off/pair.py`).
        No allocation is proportional to step counts.

        Parameters
        ----------
        mechanism : AbstractMechanism
            The release.
        method : str
            Name of an engine; "auto" for the best engine.
        options : EngineOptions
            Accuracy and limits.

        Returns
        -------
        Plan
            The chosen engine. The curves are built and evaluated later.

        Raises
        ------
        UnsupportedCombination
            For a mechanism (field `mechanism`) or a method (field `method`) that the threat model does not cover, here
            or when the curves are built.
        """

    def curves(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> TradeOffPair:
        """Return the trade-off curves of a mechanism against this attacker, in both directions.

        `method` is the name of an engine or auto, and `options` are those of the engines.
        """
        return self.plan(mechanism, method, options).curves

    def plans(
        self, mechanism: AbstractMechanism, methods: Sequence[str], options: EngineOptions = DEFAULT_OPTIONS
    ) -> dict[str, Plan]:
        """Return the plan (engine, curves and cost) for each of `methods`, by method.

        Methods that do not cover the mechanism are left out. The `options` are those of the engines.
        """
        found: dict[str, Plan] = {}
        for method in methods:
            try:
                found[method] = self.plan(mechanism, method, options)
            except UnsupportedCombination:
                continue
        return found

    @abstractmethod
    def premises(self, mechanism: AbstractMechanism) -> tuple[Premise, ...]:
        """Return the premises of the curves of `mechanism`: conditions beyond those of the mechanism itself."""

    def check_question(self, question: str, prior: float | None) -> None:  # noqa: B027 - most answer every question
        """Raise UnsupportedCombination for a question without an answer against this attacker.

        `question` is its name in requests. `prior` is its prior probability of membership, or None if the question has
        none.
        """
