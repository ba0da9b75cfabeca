"""A release known to satisfy Gaussian differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.mechanisms.abstract import AbstractStep, GaussianPart
from service.privacy.mechanisms.domain import MU, check_fields
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gdp(AbstractStep):
    """Any mechanism that is mu-GDP for the neighbouring relation of the threat model: never easier to attack than
    N(0,1) against N(mu,1), which is one of them: attained in every step and both directions by Gaussian noise on a
    query that the record moves by mu.
    """

    type: ClassVar[str] = "gdp"
    mu: Annotated[float, MU]

    def __post_init__(self) -> None:
        check_fields(self)

    @override
    def curves(self, sensitivity: float) -> TradeOffPair:
        curve = gaussian_curve(self.part(sensitivity).shift)
        return TradeOffPair(curve, curve, source="Dong, Roth, Su 2022 (Gaussian differential privacy), Definition 2.6")

    @override
    def part(self, sensitivity: float) -> GaussianPart:
        # mu is stated for the relation in force: sensitivity does not change it.
        return GaussianPart(Enclosure.point(float(self.mu)), (self.mu, 1.0))

    @override
    def loss_law(self, sensitivity: float) -> LossLaw:
        from service.privacy.losses.steps import gaussian_loss

        return gaussian_loss(float(self.mu))
