"""The `clt` engine: central limit approximation of a run's loss, a single Gaussian trade-off curve."""

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
    """Build the Gaussian curve g_mu with mu^2 = sum over steps of N chi^2(P1, P0).

    g_mu is the trade-off curve of N(0, 1) against N(mu, 1), N the number of equal steps, and P0, P1 the laws of a step
    without and with the record.

    Parameters
    ----------
    steps : Steps
        The run.
    options : EngineOptions
        Not used.

    Raises
    ------
    UnsupportedCombination
        With field `method`, for singular mass (outcomes that only one hypothesis has) or a loss of variance 0.

    Notes
    -----
    Gaussian and gdp steps contribute their own mu^2 instead. A step sampled at rate p has p^2 times the chi^2 of its
    base: mu = p sqrt(N (e^{1/sigma^2} - 1)) for a sampled Gaussian with noise multiplier sigma. The limit holds for
    many steps of small loss. The error has either sign. mu is limited to 1e6, because larger values do not change the
    curve.
    """
    del options
    loss = composed_loss(steps, "clt")
    mu = math.sqrt(math.fsum(count * law.clt_mu_squared for law, count in loss.parts))
    curve = CentralLimitTradeOff(min(mu, MU.high))
    reason = (
        f"clt: Gaussian limit with mu = {curve.mu:.6g}; the result is an approximation without bounds "
        "(/errata#rero-clt)."
    )
    return TradeOffPair(curve, curve, SOURCE, (reason,))


@final
class CentralLimitTradeOff(DelegatingCurve):
    """Gaussian trade-off curve as an approximation.

    The closed form of a Gaussian curve encloses every number; the upper bound of this enclosure is returned as both
    bounds.
    """

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
