"""The `clt` engine: the central limit of a run, one Gaussian curve."""

from __future__ import annotations

import math
from typing import final

from typing_extensions import override

from service.privacy.composition.comparison.asymptotic.tails_curve import composed_loss
from service.privacy.composition.planning.options import EngineOptions
from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.mechanisms.abstract import Steps
from service.privacy.mechanisms.domain import MU
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.delegating import DelegatingCurve
from service.privacy.trade_off.pair import TradeOffPair
from service.privacy.trade_off.shifted.gaussian import GaussianTradeOff

SOURCE = "Dong, Roth, Su 2022 (Gaussian differential privacy), Corollary 5.4; Bu et al. 2020, Theorem 5"


def clt_pair(steps: Steps, options: EngineOptions) -> TradeOffPair:
    """The curve g_mu with mu^2 = sum over steps of N chi^2(P1, P0); mu^2 itself for Gaussian and gdp steps.

    A step sampled at rate p has chi^2 = p^2 chi^2 of its base: mu = p sqrt(N (e^{1/sigma^2} - 1)) for a sampled
    Gaussian. The limit holds for many steps of little loss; the error has either sign. mu is at most 1e6, from where on
    no curve changes. Raises UnsupportedCombination (`method`) for singular mass or no loss at all.
    """
    del options
    loss = composed_loss(steps, "clt")
    mu = math.sqrt(math.fsum(count * law.clt_mu_squared for law, count in loss.parts))
    curve = CentralLimitTradeOff(min(mu, MU.high))
    reason = f"clt: Gaussian limit with mu = {curve.mu:.6g}; an approximation without a bound (/errata#rero-clt)."
    return TradeOffPair(curve, curve, SOURCE, (reason,))


@final
class CentralLimitTradeOff(DelegatingCurve):
    """g_mu as an approximation: both ends of every number are the closed form's upper end."""

    def __init__(self, mu: float) -> None:
        super().__init__(GaussianTradeOff(Enclosure.point(mu)))
        self.evidence, self.method, self.mu = Evidence.ASYMPTOTIC, "clt", mu

    @override
    def reversed(self) -> AbstractTradeOff:
        return self

    @override
    def _number(self, number: Enclosure) -> Enclosure:
        return Enclosure(number.upper, number.upper, Evidence.ASYMPTOTIC, number.log_upper, number.log_upper)

    @override
    def _array(self, bounds: EnclosureArray) -> EnclosureArray:
        return EnclosureArray(bounds.upper, bounds.upper, bounds.log_upper, bounds.log_upper)
