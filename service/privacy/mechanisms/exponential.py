"""Exponential mechanism with a bounded score."""

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
    "The exponential mechanism draws an outcome with weights exp(epsilon score/(2 Delta)). One "
    "record changes the score of every outcome by no more than Delta. The random numbers are secret "
    "and not predictable.",
    about="scores",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(AbstractStep):
    """Mechanism that chooses outcome y with probability proportional to exp(epsilon u(y)/(2 Delta)).

    Delta is the largest change of u(y) over all y, under the neighbouring relation of the threat model.

    Notes
    -----
    Between neighbours the privacy loss is L = epsilon (u'(y) - u(y))/(2 Delta) minus a constant, so that L stays in an
    interval of length epsilon. The curve of one step is exact: for every question one shift of this interval attains
    the answer. No single shift attains the answers to all questions. So composing this curve with itself is not the
    worst case of several steps (`composition/adaptive_exponential/engine.py`). A single exponential step beside other
    steps is exact, because it may come last. Beside another selection mechanism that may come last, too, a run is a
    bracket. The attacks on a selection have one fixed shift (`discrete/fixed_shift.py`).
    """

    type: ClassVar[str] = "exponential"
    type_premises = (SCORES_BOUNDED,)
    epsilon: Annotated[float, EPSILON]

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        # The parameter holds for one record under the relation in force. Scores that move by k Delta result from k
        # changes of Delta each. So these are exactly the exponential mechanisms of k epsilon.
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
