"""The adversary of differential privacy: knows everything but the record, and tests as Neyman and Pearson allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, final

from service.privacy.composition import choose
from service.privacy.composition.options import DEFAULT_OPTIONS, EngineOptions
from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractMechanism
from service.privacy.trade_off.pair import TradeOffPair

NeighboringRelation = Literal["add_or_remove_one", "replace_one"]
SENSITIVITIES: Final[dict[str, float]] = {"add_or_remove_one": 1.0, "replace_one": 2.0}
"""Over the add/remove sensitivity: replacing a record moves a sum by at most twice as much as adding one."""


@final
@dataclass(frozen=True, slots=True)
class WorstCase:
    """`add_or_remove_one`, or `replace_one`, which doubles the sensitivity of Gaussian and Laplace steps, leaves `gdp`,
    `pure_dp`, `approximate_dp` and `exponential` as stated, and is not supported for sampled steps with a rate below 1
    (no dominating pair is known)."""

    type: ClassVar[str] = "worst_case"
    neighboring_relation: NeighboringRelation = "add_or_remove_one"

    def __post_init__(self) -> None:
        if self.neighboring_relation not in SENSITIVITIES:
            raise OutOfDomain("neighboring_relation", self.neighboring_relation, f"one of {', '.join(SENSITIVITIES)}")

    def curves(
        self, mechanism: AbstractMechanism, method: str = "auto", options: EngineOptions = DEFAULT_OPTIONS
    ) -> TradeOffPair:
        """The pair of worst-case curves of the whole mechanism, by the given or the best engine."""
        return choose.pair(mechanism, method, SENSITIVITIES[self.neighboring_relation], options)

    def curves_by_method(
        self, mechanism: AbstractMechanism, methods: Sequence[str], options: EngineOptions = DEFAULT_OPTIONS
    ) -> dict[str, TradeOffPair]:
        """The same by each of the methods that can serve the mechanism, in their order."""
        return choose.methods_for(mechanism, SENSITIVITIES[self.neighboring_relation], options, methods)
