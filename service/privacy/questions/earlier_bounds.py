"""Bounds of the literature on membership attacks against (eps, delta)-DP, for comparison: valid, and never tighter.

Each bound is an enclosure from the value that guessing reaches up to the bound. p is the prior, alpha the false
positive rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.questions import membership
from service.privacy.questions.bayes import widened
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff

EVEN_PRIOR: Final = 0.5
"""Prior of the experiments of Yeom et al. and of Erlingsson et al."""
YEOM: Final = "Yeom et al. 2018, Theorem 1: advantage <= e^eps - 1; accuracy min(1, e^eps/2) at prior 1/2"
ERLINGSSON: Final = (
    "Erlingsson et al. 2019: advantage <= 1 - e^-eps (1 - delta); accuracy 1 - e^-eps (1 - delta)/2 at prior 1/2"
)
SABLAYROLLES: Final = "Sablayrolles et al. 2019: P(member | release) <= min(1, p + eps/4)"
JAYARAMAN: Final = (
    "Jayaraman et al. 2020: power <= min(1, delta + e^eps alpha, 1 - e^-eps (1 - delta - alpha)) at a fixed rate alpha"
)


@dataclass(frozen=True, slots=True)
class EarlierBound:
    """A bound of the literature with its source.

    Attributes
    ----------
    name : str
        Name of the first author.
    value : Enclosure
        Interval from the value that guessing reaches up to the bound.
    source : str
        The theorem.
    """

    name: str
    value: Enclosure
    source: str


@dataclass(frozen=True, slots=True)
class DpParameters:
    """Parameters of an (eps, delta)-DP mechanism: eps >= 0 in nats, delta in [0, 1].

    Every method returns the bounds of the literature for its question, possibly none. Priors and rates are in [0, 1].
    """

    epsilon: float
    delta: float

    @property
    def _curve(self) -> ApproximateDpTradeOff:
        return ApproximateDpTradeOff(self.epsilon, self.delta)

    def advantage(self) -> tuple[EarlierBound, ...]:
        """Return bounds of the literature for the membership advantage.

        The advantage is the largest difference of power and false positive rate.
        """
        largest = -math.expm1(-self.epsilon) + self.delta * math.exp(-self.epsilon)
        found = [_bound("erlingsson", 0.0, largest, ERLINGSSON)]
        if self.delta == 0:
            found.insert(0, _bound("yeom", 0.0, math.expm1(min(self.epsilon, 1.0)), YEOM))
        return tuple(found)

    def attack_accuracy(self, prior: float, false_positive_rate: float | None) -> tuple[EarlierBound, ...]:
        """Return bounds of the literature for the largest accuracy of a membership attack.

        `prior` is the probability of membership, and `false_positive_rate` the rate of the attack, or None for any
        rate. Bounds without a fixed rate hold at prior 1/2 only.
        """
        if false_positive_rate is not None:
            value = membership.attack_accuracy(self._curve, prior, false_positive_rate).value
            guessed = prior * false_positive_rate + (1 - prior) * (1 - false_positive_rate)
            return (_bound("jayaraman", guessed, value.upper, JAYARAMAN),)
        if prior != EVEN_PRIOR:
            return ()
        share = math.exp(-self.epsilon) * (1 - self.delta) / 2
        erlingsson = _bound("erlingsson", EVEN_PRIOR, 1 - share, ERLINGSSON)
        if self.delta > 0:
            return (erlingsson,)
        yeom = _bound("yeom", EVEN_PRIOR, math.exp(min(self.epsilon, 1.0)) / 2, YEOM)
        return (yeom, erlingsson, self._sablayrolles(EVEN_PRIOR))

    def positive_predictive_value(self, prior: float, false_positive_rate: float | None) -> tuple[EarlierBound, ...]:
        """Return bounds of the literature for the largest P(member | attacker says member).

        `prior` is the probability of membership, and `false_positive_rate` the rate of the attack, or None for any
        rate.
        """
        found = () if self.delta > 0 else (self._sablayrolles(prior),)
        if false_positive_rate is None:
            return found
        value = membership.positive_predictive_value(self._curve, prior, false_positive_rate).value
        return (*found, _bound("jayaraman", prior, value.upper, JAYARAMAN))

    def advantage_over_prior(self, prior: float) -> tuple[EarlierBound, ...]:
        """Return bounds of the literature for the advantage over the prior, 2 (v - p).

        v is the largest positive predictive value, and p = `prior` the probability of membership.
        """
        if self.delta > 0:
            return ()
        gain = 2 * min(1 - prior, self.epsilon / 4)
        return (_bound("sablayrolles", 0.0, gain, SABLAYROLLES, largest=2.0),)

    def _sablayrolles(self, prior: float) -> EarlierBound:
        return _bound("sablayrolles", prior, prior + self.epsilon / 4, SABLAYROLLES)


def _bound(name: str, guessed: float, bound: float, source: str, largest: float = 1.0) -> EarlierBound:
    return EarlierBound(name, widened(min(guessed, bound), bound, Evidence.CERTIFIED, largest), source)
