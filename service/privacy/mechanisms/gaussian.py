"""Gaussian mechanism with a bounded sensitivity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep, GaussianPart
from service.privacy.mechanisms.caveats import NOISE_IS_FRESH, SENSITIVITY_BOUNDED
from service.privacy.mechanisms.domain import NOISE_MULTIPLIER, resolved
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.trade_off.enclosed.ulps import quotient
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(AbstractStep):
    """Mechanism that adds Gaussian noise of standard deviation sigma.

    Attributes
    ----------
    noise_multiplier : float
        sigma over the sensitivity to one added record. The shift is mu = sensitivity / noise_multiplier.
    sensitivity : int
        Sensitivity for the requested neighbours divided by the sensitivity for one added record.

    Notes
    -----
    One pair of data sets attains the curve in every step and in both directions. The records move every query by their
    whole sensitivity along one unit vector u (replaced: from u to -u; zeroed: u), and everything else adds nothing.
    """

    type: ClassVar[str] = "gaussian"
    type_premises = (SENSITIVITY_BOUNDED, NOISE_IS_FRESH)
    noise_multiplier: Annotated[float, NOISE_MULTIPLIER]
    sensitivity: int = resolved(1)

    @override
    def under(self, neighbours: Neighbours) -> Gaussian:
        # k records move a query at most k times as far (triangle inequality). Records in one direction attain this.
        return self if self.sensitivity == neighbours.distance else replace(self, sensitivity=neighbours.distance)

    @override
    def curves(self) -> TradeOffPair:
        curve = gaussian_curve(self.part().shift)
        return TradeOffPair(curve, curve, source="Dong, Roth, Su 2022 (Gaussian differential privacy), Theorem 2.7")

    @override
    def part(self) -> GaussianPart:
        return GaussianPart(
            quotient(float(self.sensitivity), self.noise_multiplier), (float(self.sensitivity), self.noise_multiplier)
        )
