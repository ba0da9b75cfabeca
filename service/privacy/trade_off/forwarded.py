"""What a curve that answers for another one says in its name: the extremes, which no reading changes."""

from __future__ import annotations

from typing_extensions import override

from service.privacy.enclosure import Enclosure
from service.privacy.trade_off.abstract import AbstractTradeOff


class Forwarded(AbstractTradeOff):
    """Base of curves with the numbers of `curve` that are read in another way: points kept, numbers known before."""

    curve: AbstractTradeOff

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self.curve.largest_log_ratio

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self.curve.smallest_log_ratio

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self.curve.singular_power

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        return self.curve.global_gdp_mu

    @property
    @override
    def global_gdp_mu_limit(self) -> float:
        return self.curve.global_gdp_mu_limit
