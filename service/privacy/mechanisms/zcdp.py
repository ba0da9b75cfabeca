"""Release that satisfies zero-concentrated differential privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, final

from typing_extensions import override

from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.domain import RHO
from service.privacy.mechanisms.neighbours import Neighbours
from service.privacy.mechanisms.stated_divergences import StatedDivergences, root_below
from service.privacy.numerics.rounding import rounded

if TYPE_CHECKING:
    from service.privacy.trade_off.stated_class.zcdp import ZcdpRegion


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Zcdp(StatedDivergences):
    """Any mechanism that is rho-zCDP for the neighbouring relation of the threat model.

    Its Renyi divergences D_a between neighbours, in both orders, are at most rho a for all a >= 1 (Bun, Steinke 2016).
    """

    type: ClassVar[str] = "zcdp"
    rho: Annotated[float, RHO]

    @override
    def region(self) -> ZcdpRegion | None:
        from service.privacy.trade_off.stated_class.zcdp import ZcdpRegion

        return ZcdpRegion(float(self.rho)) if self.rho > 0 else None

    @property
    @override
    def gaussian_mu(self) -> float:
        # N(0, 1) against N(mu, 1) has D_a = a mu^2/2.
        return root_below(2 * Fraction(self.rho))

    @property
    @override
    def is_forward_only(self) -> bool:
        return False

    @override
    def resolved_for(self, neighbours: Neighbours) -> Zcdp:
        return replace(self, records=neighbours.records)

    @override
    def widened(self, bound: float) -> Zcdp:
        return replace(self, rho=max(self.rho, bound))

    @override
    def added(self, count: int) -> Zcdp | None:
        return self._with(Fraction(self.rho) * count)

    @override
    def plus(self, other: AbstractStep) -> Zcdp | None:
        if not isinstance(other, Zcdp) or other.records != self.records:
            return None
        return self._with(Fraction(self.rho) + Fraction(other.rho))

    def _with(self, total: Fraction) -> Zcdp | None:
        """Return the step with rho = `total`, rounded up; None if rho exceeds the largest that a request may state."""
        rho = rounded(total, 1)
        return replace(self, rho=rho) if rho in RHO else None
