"""The exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.caveats import Premise
from service.privacy.mechanisms.domain import EPSILON
from service.privacy.mechanisms.groups import between, multiple
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import rounded
from service.privacy.trade_off.bounded_range import exponential_curve
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

SCORES_BOUNDED: Final = Premise(
    "scores_bounded",
    "The exponential mechanism draws by weights exp(epsilon score/(2 Delta)), and no record changes the score of any "
    "outcome by more than Delta; the random numbers are secret and not predictable.",
    about="scores",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(AbstractStep):
    """Chooses outcome y with probability proportional to exp(epsilon u(y)/(2 Delta)); Delta: the most that u(y) moves
    for any y, under the neighbouring relation of the threat model.

    Between neighbours L = epsilon (u'(y) - u(y))/(2 Delta) less a constant, so that it stays in an interval of length
    epsilon. The curve of one step is exact: every question is attained by one shift of that interval. No shift attains
    all questions, so that several steps are not the composition of this curve
    (`composition/adaptive_exponential/engine.py`); one exponential step beside others is, as it may come last.
    """

    type: ClassVar[str] = "exponential"
    type_premises = (SCORES_BOUNDED,)
    epsilon: Annotated[float, EPSILON]

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        # Stated for one record under the relation in force. Scores that move by k Delta are reached by k changes of
        # Delta each, so that these are all the exponential mechanisms of k epsilon, and no others.
        if neighbours.records == 1:
            return self
        total = multiple(self.epsilon, neighbours, self.type)
        low, high = (Exponential(epsilon=rounded(total, side)) for side in (-1, 1))
        return between(low, high)

    @override
    def curves(self) -> TradeOffPair:
        curve = exponential_curve(float(self.epsilon))
        return TradeOffPair(
            curve,
            curve,
            source="Dong, Durfee, Rogers 2020 (bounded range), worst shift of generalised randomised response",
        )

    @property
    @override
    def adaptive_range(self) -> float:
        return self.epsilon

    @override
    def loss_law(self) -> LossLaw:
        from service.privacy.losses.steps import bounded_range_loss

        return bounded_range_loss(float(self.epsilon))
