"""Release that satisfies pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.approximate_dp import TWO_POINTS, StatedDp
from service.privacy.mechanisms.groups import (
    MOST_RECORDS,
    STATED,
    BracketedStep,
    GroupOfStated,
    attained_noise,
    multiple,
)
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import rounded
from service.privacy.trade_off.pair import TradeOffPair


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PureDp(StatedDp):
    """Any mechanism that is eps-DP for the neighbouring relation of the threat model."""

    type: ClassVar[str] = "pure_dp"

    @property
    @override
    def revealed_probability(self) -> float:
        return 0.0

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        # The parameter holds for one record under the relation in force.
        if neighbours.records == 1 or self.epsilon == 0:
            return self
        above = PureDp(epsilon=rounded(multiple(self.epsilon, neighbours, self.type), 1))
        below = attained_noise(self.epsilon, neighbours) or self
        if neighbours.records > MOST_RECORDS:
            return BracketedStep(below=((below, 1),), above=above, bracket=STATED)
        return GroupOfStated(
            epsilon=self.epsilon,
            delta=0.0,
            records=neighbours.records,
            below=((below, 1),),
            above=above,
            bracket=STATED,
        )

    @override
    def curves(self) -> TradeOffPair:
        return replace(super(PureDp, self).curves(), source=f"Wasserman, Zhou 2010; {TWO_POINTS}")
