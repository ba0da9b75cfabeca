"""Curves that are their own inverse, with a largest log-likelihood ratio: of runs of bounded losses on two sides."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.trade_off.abstract import AbstractTradeOff


class AbstractSelfInverse(AbstractTradeOff):
    """A curve with f = f^-1 whose loss stays within its largest value, and of whose mu nothing is known.

    Its hypotheses may be exchanged, so that the smallest ratio is minus the largest.
    """

    @property
    @abstractmethod
    @override
    def largest_log_ratio(self) -> Enclosure: ...

    @property
    @final
    @override
    def smallest_log_ratio(self) -> Enclosure:
        """Minus the largest."""
        largest = self.largest_log_ratio
        return Enclosure(-largest.upper, -largest.lower, largest.evidence)

    @property
    @final
    @override
    def singular_power(self) -> Enclosure:
        """0: a bounded loss leaves no mass outside either hypothesis."""
        return Enclosure.point(0.0)

    @final
    @override
    def reversed(self) -> AbstractTradeOff:
        return self
