"""Release that satisfies Renyi differential privacy at stated orders."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, final, get_args

from typing_extensions import override

from service.privacy.errors import OutOfDomain
from service.privacy.mechanisms.abstract import AbstractStep
from service.privacy.mechanisms.domain import DIVERGENCE, ORDER, check_fields
from service.privacy.mechanisms.neighbours import REPLACE, Neighbours
from service.privacy.mechanisms.stated_divergences import StatedDivergences, root_below
from service.privacy.numerics.rounding import rounded

if TYPE_CHECKING:
    from service.privacy.trade_off.stated_class.renyi import RenyiRegion

Directions = Literal["both", "forward_only"]
MOST_ORDERS: Final = 1000
"""Largest number of different orders of a sum of bounds."""


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
        """Pairs (order, bound in nats) of all orders with a finite bound of the Renyi divergence."""
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
    def stated_orders(self) -> tuple[float, ...]:
        return self.orders

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
        return self._with(self.orders, [count * bound for bound in self.bounds_at(self.orders)])

    @override
    def plus(self, other: AbstractStep) -> Rdp | None:
        if not isinstance(other, Rdp) or other.records != self.records:
            return None
        orders = tuple(sorted({*self.orders, *other.orders}))
        if len(orders) > MOST_ORDERS:
            orders = max(self.orders, other.orders, key=len)
        totals = [one + another for one, another in zip(self.bounds_at(orders), other.bounds_at(orders), strict=True)]
        known = self._with(orders, totals)
        return known if known is None or not other.is_forward_only else replace(known, directions=other.directions)

    def bounds_at(self, orders: Sequence[float]) -> list[Fraction | float]:
        """Return bounds of the Renyi divergences D_a at any orders a.

        Parameters
        ----------
        orders : sequence of float
            Orders a >= 1.

        Returns
        -------
        list of Fraction or float
            Bounds in nats: that of the next stated order, because D_a rises with a. Infinite where no bound is stated.
        """
        stated, bounds = zip(*self._finite, strict=True)
        exact = [*map(Fraction, bounds), math.inf]
        return [exact[bisect_left(stated, order)] for order in orders]

    def _with(self, orders: tuple[float, ...], bounds: Sequence[Fraction | float]) -> Rdp | None:
        """Return the step with other orders and bounds (nats, rounded up), or None.

        The result is None if a bound exceeds the largest that a request may state, or if none is finite.
        """
        totals = tuple(rounded(bound, 1) if isinstance(bound, Fraction) else math.inf for bound in bounds)
        if math.isinf(totals[0]) or any(total not in DIVERGENCE for total in totals):
            return None
        return replace(self, orders=orders, epsilons=totals)
