"""Releases of which only the parameters of differential privacy are known, pure or approximate."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, TwoPointPart
from service.privacy.mechanisms.caveats import PARAMETERS_ARE_PROVED, STATED_PARAMETERS_ALONE
from service.privacy.mechanisms.domain import DELTA, EPSILON
from service.privacy.mechanisms.groups import (
    MOST_RECORDS,
    STATED,
    BracketedStep,
    GroupOfStated,
    attained_noise,
    between,
    group_delta,
    multiple,
)
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import rounded
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.atomic_law import AtomicLaw, two_atoms
from service.privacy.trade_off.pair import TradeOffPair

TWO_POINTS = "Kairouz, Oh, Viswanath 2015, Theorem 2.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedDp(AbstractStep):
    """Any mechanism that is (eps, delta)-DP for the neighbouring relation of the threat model.

    A subclass defines `revealed_probability` (delta) and `under`.

    Notes
    -----
    One such mechanism is randomised response that reveals the differing bit with probability delta. Randomised response
    has the worst-case pair of laws of this step, and every step may be randomised response. So the pair is attained in
    both directions, with any other steps (Kairouz, Oh, Viswanath 2015, Theorem 3.3).
    """

    type_premises = (PARAMETERS_ARE_PROVED,)
    type_hazards = (STATED_PARAMETERS_ALONE,)
    epsilon: Annotated[float, EPSILON]

    @property
    @abstractmethod
    def revealed_probability(self) -> float:
        """Probability delta with which the mechanism may reveal everything."""

    @override
    def curves(self) -> TradeOffPair:
        curve = ApproximateDpTradeOff(float(self.epsilon), float(self.revealed_probability))
        return TradeOffPair(curve, curve, source=TWO_POINTS)

    @final
    @override
    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        rest, rare = 1 - self.revealed_probability, math.exp(-self.epsilon) / (1 + math.exp(-self.epsilon))
        return ((-self.epsilon, rest / (1 + math.exp(-self.epsilon))), (self.epsilon, rest * rare))

    @final
    @override
    def atomic_law(self) -> AtomicLaw | None:
        return two_atoms(float(self.epsilon)) if self.epsilon > 0 else None

    @final
    @override
    def two_point(self) -> TwoPointPart:
        return TwoPointPart(float(self.epsilon), float(self.revealed_probability))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateDp(StatedDp):
    """Any mechanism that is (eps, delta)-DP for the neighbouring relation of the threat model."""

    type: ClassVar[str] = "approximate_dp"
    delta: Annotated[float, DELTA]

    @property
    @override
    def revealed_probability(self) -> float:
        return self.delta

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        # The parameters hold for one record under the relation in force.
        k = neighbours.records
        if k == 1:
            return self
        total = multiple(self.epsilon, neighbours, self.type)
        above = ApproximateDp(epsilon=rounded(total, 1), delta=group_delta(self.epsilon, self.delta, k))
        revealing = ApproximateDp(epsilon=0.0, delta=rounded(min(Fraction(self.delta) * k, Fraction(1)), -1))
        if self.epsilon == 0:
            # A uniform law that every record moves by delta attains the guarantee.
            return between(revealing, above)
        noise = attained_noise(self.epsilon, neighbours)
        below = ((self, 1),) if noise is None else ((noise, 1), (revealing, 1))
        if k > MOST_RECORDS or self.delta == 1:
            return BracketedStep(below=below, above=above, bracket=STATED)
        return GroupOfStated(
            epsilon=self.epsilon, delta=self.delta, records=k, below=below, above=above, bracket=STATED
        )
