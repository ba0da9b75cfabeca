"""Trade-off curves of classes of mechanisms whose Renyi divergences have bounds in one direction only."""

from __future__ import annotations

import math
from functools import cached_property
from typing import final

from flint import arb, ctx
from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.numerics.balls import doubles
from service.privacy.trade_off.stated_class.boundary import AbstractFrontier
from service.privacy.trade_off.stated_class.curve import AbstractClassTradeOff, logs_of
from service.privacy.trade_off.stated_class.frontiers import ForwardFrontier, ReverseFrontier


@final
class ForwardClassTradeOff(AbstractClassTradeOff):
    """Trade-off curve of a class of mechanisms with bounds for one direction: the record is present under H1 only."""

    @override
    def _link(self) -> AbstractFrontier:
        return ForwardFrontier(self.region)

    @override
    def reversed(self) -> BackwardClassTradeOff:
        return self._reversed

    @cached_property
    def _reversed(self) -> BackwardClassTradeOff:
        """Curve of the class with swapped hypotheses, the inverse function of this curve, made once."""
        return BackwardClassTradeOff(self.region, self.records)


@final
class BackwardClassTradeOff(AbstractClassTradeOff):
    """Trade-off curve of a class of forward bounds with swapped hypotheses.

    Notes
    -----
    Nothing bounds the Renyi divergence of the law without the record from the law with the record. A mechanism of the
    class may have outcomes that are possible without the record only: with probability 1 - e^-eps for the smallest
    bound eps. In a chain of k changed records the probability is 1 - e^{-k eps} of these outcomes.
    """

    @override
    def _link(self) -> AbstractFrontier:
        return ReverseFrontier(self.region)

    @override
    def log_delta(self, epsilon: float) -> tuple[float, float]:
        # At rate 0 the slope of one link is e^-eps a/(a - 1) for the order a of the smallest bound. A chain is less
        # steep than the power of this slope, because links at larger rates are less steep.
        order, bound = self.region.order_of_least_bound, self.region.least_bound
        if order > 1 and epsilon > self.records * (-math.log1p(-1 / order) - bound):
            return logs_of(self.singular_power)
        return AbstractClassTradeOff.log_delta(self, epsilon)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(math.inf)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._singular

    @cached_property
    def _singular(self) -> Enclosure:
        with ctx.workprec(self.frontier.bits):
            lower, upper = doubles(-(-arb(self.region.least_bound) * self.records).expm1())
        return Enclosure(max(lower, 0.0), min(upper, 1.0), self.evidence)

    @override
    def reversed(self) -> ForwardClassTradeOff:
        return self._reversed

    @cached_property
    def _reversed(self) -> ForwardClassTradeOff:
        """Curve of the class with swapped hypotheses, the inverse function of this curve, made once."""
        return ForwardClassTradeOff(self.region, self.records)
