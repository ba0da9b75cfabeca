"""Release that satisfies Renyi differential privacy at stated orders."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, final, get_args

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.domain import DIVERGENCE, ORDER, check_fields
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours
from service.privacy.mechanisms.stated_divergences import StatedDivergences, root_below
from service.privacy.numerics.rounding import rounded

if TYPE_CHECKING:
    from service.privacy.trade_off.stated_class.renyi import RenyiRegion

Directions = Literal["both", "forward_only"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rdp(StatedDivergences):
    """Any mechanism whose Renyi divergences at stated orders have stated bounds (Mironov 2017).

    Attributes
    ----------
    orders : tuple of float
        Rising orders a >= 1. Order 1 is the Kullback-Leibler divergence, order infinity the largest log ratio.
    epsilons : tuple of float
        Bounds of D_a, nats, that do not fall. An infinite bound is no bound; at least one is finite.
    directions : {"both", "forward_only"}
        Whether the bounds hold for both orders of neighbours, or only for D_a of the law with the record from the law
        without it. Replaced records exchange their roles, so that the bounds then hold for both.
    """

    type: ClassVar[str] = "rdp"
    orders: Annotated[tuple[float, ...], ORDER]
    epsilons: Annotated[tuple[float, ...], DIVERGENCE]
    directions: Directions = "both"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.directions not in get_args(Directions):
            raise OutOfDomain("directions", self.directions, f"one of {', '.join(get_args(Directions))}")
        if not self.orders or any(low >= high for low, high in pairwise(self.orders)):
            raise OutOfDomain("orders", self.orders, "rising numbers")
        if len(self.epsilons) != len(self.orders):
            raise OutOfDomain("epsilons", self.epsilons, "as many numbers as orders")
        if any(low > high for low, high in pairwise(self.epsilons)):
            raise OutOfDomain("epsilons", self.epsilons, "numbers that do not fall", "D_a rises with its order a.")
        if math.isinf(self.epsilons[0]):
            raise OutOfDomain("epsilons", self.epsilons, "numbers of which at least one is finite")

    @property
    def _finite(self) -> list[tuple[float, float]]:
        """Orders with finite bounds, and these bounds."""
        return [pair for pair in zip(self.orders, self.epsilons, strict=True) if math.isfinite(pair[1])]

    @override
    def region(self) -> RenyiRegion | None:
        from service.privacy.trade_off.stated_class.renyi import RenyiRegion

        if self.epsilons[0] == 0:  # D_a = 0 for one order: both laws are equal
            return None
        orders, bounds = zip(*self._finite, strict=True)
        return RenyiRegion(orders, bounds)

    @property
    @override
    def gaussian_mu(self) -> float:
        # N(0, 1) against N(mu, 1) has D_a = a mu^2/2, and no finite D_a of order infinity.
        if math.isinf(self._finite[-1][0]):
            return 0.0
        return root_below(min(2 * Fraction(bound) / Fraction(order) for order, bound in self._finite))

    @property
    @override
    def is_forward_only(self) -> bool:
        return self.directions == "forward_only"

    @override
    def resolved_for(self, neighbours: Neighbours) -> Rdp:
        directions = "both" if neighbours.relation == REPLACE else self.directions
        return replace(self, records=neighbours.records, directions=directions)

    @override
    def widened(self, bound: float) -> Rdp:
        return replace(self, epsilons=tuple(max(each, bound) for each in self.epsilons))

    @override
    def added(self, count: int) -> Rdp | None:
        totals = tuple(
            rounded(Fraction(bound) * count, 1) if math.isfinite(bound) else math.inf for bound in self.epsilons
        )
        return replace(self, epsilons=totals) if all(total in DIVERGENCE for total in totals) else None
