"""Base class of curves that equal their inverse, so that the hypotheses may be swapped."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from service.privacy.trade_off.abstract import AbstractTradeOff


class AbstractSelfInverse(AbstractTradeOff):
    """Trade-off curve that equals its inverse, f = f^-1, for absolutely continuous hypotheses.

    The smallest log-likelihood ratio is minus the largest log-likelihood ratio. A subclass defines the latter,
    `_points_formula` and `_profile_formula`.
    """

    @final
    @override
    def reversed(self) -> AbstractTradeOff:
        return self
