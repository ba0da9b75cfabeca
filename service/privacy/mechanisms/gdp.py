"""Release that satisfies Gaussian differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.mechanisms.abstract import AbstractStep, GaussianPart
from service.privacy.mechanisms.caveats import PARAMETERS_ARE_PROVED
from service.privacy.mechanisms.domain import MU, resolved
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.numerics.rounding import rounded
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import gaussian_curve


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Gdp(AbstractStep):
    """Any mechanism that is mu-GDP for the neighbouring relation of the threat model.

    mu holds for one changed record. `records` is the number of records that differ.

    Notes
    -----
    For one record such a mechanism is at most as easy to attack as N(0, 1) against N(mu, 1), for k records as N(0, 1)
    against N(k mu, 1). Gaussian noise on a query that each record moves by mu is one of these mechanisms. So the
    trade-off curve is attained in every step and in both directions.
    """

    type: ClassVar[str] = "gdp"
    type_premises = (PARAMETERS_ARE_PROVED,)
    mu: Annotated[float, MU]
    records: int = resolved(1)

    @override
    def under(self, neighbours: Neighbours) -> Gdp:
        # Dong, Roth, Su 2022, Theorem 2.14. The Gaussian query, which k records move by k mu, attains the bound.
        return replace(self, records=neighbours.records)

    @override
    def curves(self) -> TradeOffPair:
        curve = gaussian_curve(self.part().shift)
        return TradeOffPair(curve, curve, source="Dong, Roth, Su 2022 (Gaussian differential privacy), Definition 2.6")

    @override
    def part(self) -> GaussianPart:
        # mu holds for one record under the relation in force.
        total = Fraction(self.mu) * self.records
        shift = Enclosure(rounded(total, -1), rounded(total, 1), Evidence.EXACT)
        return GaussianPart(shift, (total, Fraction(1)))
