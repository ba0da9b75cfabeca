"""The Gaussian mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, GaussianPart
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER, check_fields
from service.privacy.trade_off.enclosed.ulps import quotient
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(AbstractStep):
    """Adds N(0, sigma^2) noise; `noise_multiplier` = sigma over the add/remove sensitivity. mu = sensitivity /
    noise_multiplier.

    Attained in every step and both directions by one pair of data sets: the record moves every query by its whole
    sensitivity in one direction (replaced: u by -u), and everything else adds nothing.
    """

    type: ClassVar[str] = "gaussian"
    noise_multiplier: Annotated[float, NOISE_MULTIPLIER]

    def __post_init__(self) -> None:
        check_fields(self)

    @override
    def curves(self, sensitivity: float) -> TradeOffPair:
        curve = gaussian_curve(self.part(sensitivity).shift)
        return TradeOffPair(curve, curve, source="Dong, Roth, Su 2022 (Gaussian differential privacy), Theorem 2.7")

    @override
    def part(self, sensitivity: float) -> GaussianPart:
        return GaussianPart(quotient(sensitivity, self.noise_multiplier), (sensitivity, self.noise_multiplier))

    @override
    def loss_law(self, sensitivity: float) -> LossLaw:
        from service.privacy.losses.steps import gaussian_loss

        return gaussian_loss(sensitivity / self.noise_multiplier)
