"""Base class of curves that equal their inverse, so that the hypotheses may be swapped."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.trade_off.abstract import AbstractTradeOff


class AbstractSelfInverse(AbstractTradeOff):
    """Trade-off curve that equals its inverse, f = f^-1, for absolutely continuous hypotheses.

    The smallest log-likelihood ratio is minus the largest log-likelihood ratio.
    """

    @property
    @abstractmethod
    @override
    def largest_log_ratio(self) -> Enclosure: ...

    @property
    @final
    @override
    def smallest_log_ratio(self) -> Enclosure:
        """Smallest log-likelihood ratio: minus the largest one.

        The curve is its own inverse, so swapped hypotheses have the same curve.
        """
        largest = self.largest_log_ratio
        return Enclosure(-largest.upper, -largest.lower, largest.evidence)

    @final
    @override
    def reversed(self) -> AbstractTradeOff:
        return self
