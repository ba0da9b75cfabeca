"""The Laplace mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import ATOM_DIGITS, AbstractStep, LaplacePart
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER, check_fields
from service.privacy.trade_off.enclosed.ulps import quotient
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff

if TYPE_CHECKING:
    from service.privacy.losses.law import LossLaw


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(AbstractStep):
    """Adds Laplace noise; `noise_multiplier` = its scale over the add/remove sensitivity. Pure DP with eps =
    sensitivity / noise_multiplier.

    Attained in every step and both directions by one pair of data sets: the record moves one coordinate of every query
    by its whole sensitivity (replaced: u by -u), and everything else adds nothing.
    """

    type: ClassVar[str] = "laplace"
    noise_multiplier: Annotated[float, NOISE_MULTIPLIER]

    def __post_init__(self) -> None:
        check_fields(self)

    @override
    def curves(self, sensitivity: float) -> TradeOffPair:
        curve = LaplaceTradeOff(quotient(sensitivity, self.noise_multiplier))
        return TradeOffPair(curve, curve, source="Kaissis et al. 2023 (ReRo), Corollary 1")

    @override
    def loss_atoms(self, sensitivity: float) -> tuple[tuple[float, float], ...]:
        import mpmath

        # More digits: the rounding of the shift would be multiplied by it in e^-shift.
        many_digits: Any = mpmath
        with many_digits.workdps(ATOM_DIGITS):
            shift = many_digits.mpf(sensitivity) / self.noise_multiplier
            return ((-float(shift), 0.5), (float(shift), float(many_digits.exp(-shift) / 2)))

    @override
    def part(self, sensitivity: float) -> LaplacePart:
        return LaplacePart(sensitivity / self.noise_multiplier, 1.0)

    @override
    def loss_law(self, sensitivity: float) -> LossLaw:
        from service.privacy.losses.steps import laplace_loss

        return laplace_loss(sensitivity / self.noise_multiplier)
