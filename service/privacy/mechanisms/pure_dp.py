"""A release known to satisfy pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, TwoPointPart
from service.privacy.mechanisms.caveats import PARAMETERS_ARE_PROVED, STATED_PARAMETERS_ALONE, MechanismHazard, Premise
from service.privacy.mechanisms.domain import EPSILON, check_fields
from service.privacy.mechanisms.groups import STATED, BracketedStep, attained_noise, multiple
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import rounded
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PureDp(AbstractStep):
    """Any mechanism that is eps-DP for the neighbouring relation of the threat model.

    Randomised response on the one bit in which the data sets differ is one of them, has the step's pair, and may be run
    in every step: attained in both directions, whatever else is composed (Kairouz, Oh, Viswanath 2015, Theorem 3.3).
    """

    type: ClassVar[str] = "pure_dp"
    epsilon: Annotated[float, EPSILON]

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    @override
    def premises(self) -> tuple[Premise, ...]:
        return (PARAMETERS_ARE_PROVED,)

    @property
    @override
    def hazards(self) -> tuple[MechanismHazard, ...]:
        return (STATED_PARAMETERS_ALONE,)

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        # Stated for one record under the relation in force.
        if neighbours.records == 1 or self.epsilon == 0:
            return self
        above = PureDp(epsilon=rounded(multiple(self.epsilon, neighbours, self.type), 1))
        below = attained_noise(self.epsilon, neighbours) or self
        return BracketedStep(below=((below, 1),), above=above, bracket=STATED)

    @override
    def curves(self) -> TradeOffPair:
        curve = ApproximateDpTradeOff(float(self.epsilon), 0.0)
        return TradeOffPair(curve, curve, source="Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015, Theorem 2.1")

    @override
    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        rare = math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))
        return ((-self.epsilon, 1 / (1 + math.exp(-self.epsilon))), (self.epsilon, rare))

    @override
    def two_point(self) -> TwoPointPart:
        return TwoPointPart(float(self.epsilon), 0.0)

    @override
    def loss_law(self) -> LossLaw:
        from service.privacy.losses.steps import two_point_loss

        return two_point_loss(float(self.epsilon), 0.0)
