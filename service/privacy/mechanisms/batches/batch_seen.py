"""Noisy SGD without noise or without clipping: the batches reveal whether the record was in one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, final

from typing_extensions import override

from service.privacy.errors import UnsupportedCombination
from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.neighbours import ADD_OR_REMOVE, Neighbours
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.bracketed import between
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.sampling.sampled import SampledAdd

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw

SOURCE: Final = "Dong, Roth, Su 2022, Theorem 4.2 (subsampling without replacement), without noise"
NOTE: Final = "Without noise or clipping, the release reveals every sampled record."


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSeen(AbstractStep):
    """All steps of a run as one step, which reveals whether the record was in a batch.

    The probability that a batch held the record is in [`least`, `most`].

    Notes
    -----
    Let C be the law of the release if no batch holds the record, and let A and B be the laws of releases that show the
    record or its replacement. If the record is replaced, the pair is (1 - p) C + p A against (1 - p) C + p B, the pair
    of (0, p)-DP. If the record is added, the pair is C against (1 - p) C + p B. An empty record in the place of the
    record is visible like another record if the other records add something. One pair of data sets, in which all other
    records have the gradient 0, attains both pairs in every step and direction. Without clipping but with noise they
    are attained in the limit of large gradients.
    """

    type: ClassVar[str] = "noisy_sgd"
    least: float
    most: float
    replaced: bool = False

    @override
    def under(self, neighbours: Neighbours) -> BatchSeen:
        if neighbours.records > 1:
            reason = "the probability that a batch of fixed size contains any of several records is not derived here."
            raise neighbours.refused("noisy_sgd without noise", reason, ("one record",))
        return replace(self, replaced=neighbours.relation != ADD_OR_REMOVE)

    @override
    def curves(self) -> TradeOffPair:
        chances = list(dict.fromkeys((self.least, self.most)))
        if self.replaced or self.least == 1:
            curve = between([ApproximateDpTradeOff(0.0, chance) for chance in chances])
            return TradeOffPair(curve, curve, SOURCE, (NOTE,))
        revealed = ApproximateDpTradeOff(0.0, 1.0)
        add = between([revealed if chance == 1 else SampledAdd(revealed, chance) for chance in chances])
        return TradeOffPair(add, add.reversed(), SOURCE, (NOTE,))

    @override
    def loss_law(self) -> LossLaw:
        from service.privacy.losses.steps import two_point_loss

        if self.replaced or self.least == 1:
            return two_point_loss(0.0, 0.5 * (self.least + self.most))
        reason = (
            "outcomes that are possible under only one hypothesis are outside every expansion and every sample here."
        )
        supported = ("auto", "closed_form", "discretised", "replace_one")
        raise UnsupportedCombination("method", "an approximation for noisy_sgd without noise", reason, supported)
