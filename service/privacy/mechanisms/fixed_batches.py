"""One Gaussian step on a batch of fixed size, drawn without replacement, before its neighbours are known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, Part
from service.privacy.mechanisms.batch_mean import BatchMean
from service.privacy.mechanisms.neighbours import ADD_OR_REMOVE, ONE_ADDED, REPLACE, ZERO_OUT, Neighbours
from service.privacy.trade_off.pair import TradeOffPair

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedBatches(AbstractStep):
    """The noisy sum over a uniform batch of `batch_size` of `dataset_size` records, those of the larger data set.

    `noise_multiplier` is the exact noise on the sum over the largest length of what one record adds. A full batch is
    all that the smaller data set has. `batch_mean.py` has the pairs, and what of them is attained.
    """

    type: ClassVar[str] = "noisy_sgd"
    dataset_size: int
    batch_size: int
    noise_multiplier: Fraction

    @override
    def under(self, neighbours: Neighbours) -> AbstractStep:
        rate, noise = Fraction(self.batch_size, self.dataset_size), self.noise_multiplier
        if neighbours.relation == ZERO_OUT:
            raise neighbours.refused(
                "batches of fixed size",
                "no dominating pair is known of a batch that may hold an empty record in place of another.",
                (ADD_OR_REMOVE, REPLACE),
            )
        if neighbours.records > 1:
            raise neighbours.refused(
                "batches of fixed size",
                "no dominating pair is known of several records of a batch.",
                (ADD_OR_REMOVE, REPLACE),
            )
        return BatchMean(sample_rate=rate, noise_multiplier=noise, symmetrised=neighbours.relation == REPLACE)

    @override
    def curves(self) -> TradeOffPair:
        return self.under(ONE_ADDED).curves()

    @override
    def part(self) -> Part | None:
        return self.under(ONE_ADDED).part()

    @override
    def loss_law(self) -> LossLaw:
        return self.under(ONE_ADDED).loss_law()
