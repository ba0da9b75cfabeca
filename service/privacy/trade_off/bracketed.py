"""The worst case over a class of mechanisms or data sets, known from two sides by two theorems."""

from __future__ import annotations

from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Bounds, Enclosure, Evidence, FloatArray
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.logs import log_ends


@final
class Bracketed(AbstractTradeOff):
    """A worst-case curve f between two others: `attained` >= f >= `dominating`, as type II errors.

    `attained` is the curve of one choice (of a pair of data sets, of a mechanism in the class) that is made in every
    step, so that no worst case gives the attacker less; `dominating` that of a pair which a theorem proves to be at
    least as easy to tell apart as every choice. The more private end of each reading comes from the first, the other
    from the second; where they differ no theorem here says which is true.
    """

    def __init__(self, attained: AbstractTradeOff, dominating: AbstractTradeOff) -> None:
        self.attained, self.dominating = attained, dominating
        self.evidence = Evidence.weakest(attained.evidence, dominating.evidence)
        self.method = dominating.method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return self._between(self.attained.largest_log_ratio, self.dominating.largest_log_ratio)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return self._between(self.dominating.smallest_log_ratio, self.attained.smallest_log_ratio)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return self._between(self.attained.singular_power, self.dominating.singular_power)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        least, most = self.attained.global_gdp_mu, self.dominating.global_gdp_mu
        return None if least is None or most is None else self._between(least, most)

    @override
    def reversed(self) -> AbstractTradeOff:
        return Bracketed(self.attained.reversed(), self.dominating.reversed())

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        least, most = self.attained.points(alpha), self.dominating.points(alpha)
        anything = np.full_like(alpha, np.inf)
        return CurvePoints(
            _joined(most.type_two_error, least.type_two_error),
            _joined(least.power, most.power),
            Bounds(-anything, anything),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        return _joined(self.attained.profile(epsilon), self.dominating.profile(epsilon))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        return self._between(self.attained.epsilon(delta), self.dominating.epsilon(delta))

    def _between(self, least: Enclosure, most: Enclosure) -> Enclosure:
        return Enclosure(least.lower, most.upper, self.evidence)


def _joined(least: Bounds, most: Bounds) -> Bounds:
    """From the lower end of the first to the upper end of the second."""
    return Bounds.from_logs(log_ends(least)[0], log_ends(most)[1])
