"""What a threat model is: who attacks, as a way from a mechanism to the curves that hold against that attacker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from service.privacy.composition.cost import Tariff
from service.privacy.composition.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.threat_models.worst_case import WorstCase


@dataclass(frozen=True, slots=True)
class Premise:
    """Something that the curves of a relaxed threat model rest on. `holds`: what the mechanism says about it."""

    text: str
    holds: Literal["yes", "no", "unknown"]


class AbstractThreatModel(ABC):
    """A frozen, final value. `type` is its name on the wire; its fields have the names of the wire."""

    __slots__ = ()
    type: ClassVar[str]

    @abstractmethod
    def curves(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> TradeOffPair:
        """The pair of curves of the whole mechanism against this attacker, by the given or the best engine: enclosures
        of the worst case over everything that mechanism and premises leave open (`trade_off/pair.py`). Raises
        UnsupportedCombination for a mechanism (field `mechanism`) or a method (field `method`) it does not cover.
        """

    def curves_by_method(
        self, mechanism: AbstractMechanism, methods: Sequence[str], options: EngineOptions = DEFAULT_OPTIONS
    ) -> dict[str, TradeOffPair]:
        """The same by each of the methods that can serve the mechanism, in their order.

        Cheap: engines say what they cannot serve when curves are asked for, and work when these are read.
        """
        found: dict[str, TradeOffPair] = {}
        for method in methods:
            try:
                found[method] = self.curves(mechanism, method, options)
            except UnsupportedCombination:
                continue
        return found

    @abstractmethod
    def tariff(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> Tariff:
        """The prices of readings of `curves`; nothing is allocated in proportion to step counts."""

    @abstractmethod
    def worst_case(self, mechanism: AbstractMechanism) -> WorstCase | None:
        """The worst case to stand beside the answers of a relaxed model; None where this is the worst case."""

    @abstractmethod
    def premises(self, mechanism: AbstractMechanism) -> tuple[Premise, ...]:
        """What the curves rest on beyond what the mechanism itself rests on."""

    def check_question(self, question: str, prior: float | None) -> None:  # noqa: B027 - most answer every question
        """Raises UnsupportedCombination for a question, by its name on the wire, that the curves do not answer, or not
        at this prior; None: the question has no prior.
        """
