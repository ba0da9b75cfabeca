"""Laplace mechanism with a bounded sensitivity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import ATOM_DIGITS, AbstractStep, LaplacePart
from service.privacy.mechanisms.caveats import NOISE_IS_FRESH, SENSITIVITY_BOUNDED
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER, resolved
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.trade_off.enclosed.ulps import quotient
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.laplace import LaplaceTradeOff


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace(AbstractStep):
    """Mechanism that adds Laplace noise; pure DP with eps = sensitivity / noise_multiplier.

    Attributes
    ----------
    noise_multiplier : float
        Scale of the noise over the sensitivity to one added record.
    sensitivity : int
        Sensitivity for the requested neighbours divided by the sensitivity for one added record.

    Notes
    -----
    One pair of data sets attains the curve in every step and in both directions. The records move one coordinate of
    every query by their whole sensitivity (replaced: u by -u; zeroed: u), and everything else adds nothing.
    """

    type: ClassVar[str] = "laplace"
    type_premises = (SENSITIVITY_BOUNDED, NOISE_IS_FRESH)
    noise_multiplier: Annotated[float, NOISE_MULTIPLIER]
    sensitivity: int = resolved(1)

    @override
    def under(self, neighbours: Neighbours) -> Laplace:
        # The argument is that of Gaussian steps, for norms that are sums.
        return replace(self, sensitivity=neighbours.distance)

    @property
    def largest_loss(self) -> float:
        """Largest privacy loss, sensitivity over scale, in nats, within one rounding."""
        return self.sensitivity / self.noise_multiplier

    @override
    def curves(self) -> TradeOffPair:
        curve = LaplaceTradeOff(quotient(float(self.sensitivity), self.noise_multiplier))
        return TradeOffPair(curve, curve, source="Kaissis et al. 2023 (ReRo), Corollary 1")

    @override
    def loss_atoms(self) -> tuple[tuple[float, float], ...]:
        return laplace_atoms(self.sensitivity, self.noise_multiplier)

    @override
    def part(self) -> LaplacePart:
        return LaplacePart(self.largest_loss, 1.0)


def laplace_atoms(numerator: int, denominator: float) -> tuple[tuple[float, float], ...]:
    """Return the losses of Laplace noise of scale 1 that have positive probability under H0.

    Parameters
    ----------
    numerator, denominator : number
        The shift of the noise is their quotient.

    Returns
    -------
    tuple of (float, float)
        Loss (nats, add direction) and its probability.
    """
    import mpmath

    # More digits, because e^-shift multiplies the rounding error of the shift by the shift.
    many_digits: Any = mpmath
    with many_digits.workdps(ATOM_DIGITS):
        shift = many_digits.mpf(numerator) / denominator
        return ((-float(shift), 0.5), (float(shift), float(many_digits.exp(-shift) / 2)))
