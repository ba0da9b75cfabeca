"""Worst-case curves that are known from two sides: from two theorems, or from two roundings of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import final

from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.work import share_between
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_ends


@final
class Bracketed(AbstractTradeOff):
    """Enclosure of a worst-case curve f between two curves: `attained` >= f >= `dominating`, as type II errors.

    Parameters
    ----------
    attained : AbstractTradeOff
        Curve of one choice (a pair of data sets, a mechanism of the class), the same in every step. The worst case
        gives the attacker at least its power.
    dominating : AbstractTradeOff
        Curve of a pair which a theorem proves to be at least as easy to distinguish as every choice.

    Notes
    -----
    `attained` gives the more private bound of each answer, `dominating` the less private bound. Where both bounds
    differ, no theorem here determines the true value between them. The log slopes of points have no bounds.
    """

    def __init__(self, attained: AbstractTradeOff, dominating: AbstractTradeOff) -> None:
        self.attained = attained.attained if isinstance(attained, Bracketed) else attained
        self.dominating = dominating.dominating if isinstance(dominating, Bracketed) else dominating
        attained, dominating = self.attained, self.dominating
        self.evidence = Evidence.weakest(attained.evidence, dominating.evidence)
        self.method = dominating.method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        least, most = self.attained.largest_log_ratio, self.dominating.largest_log_ratio
        # The first edge of a polygon through tests with rounded rates may be steeper than every curve.
        return Enclosure(min(least.lower, most.upper), most.upper, self.evidence)

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
        most, least = share_between(lambda: self.dominating.points(alpha), lambda: self.attained.points(alpha))
        return CurvePoints.without_slopes(
            _joined(most.type_two_error, least.type_two_error), _joined(least.power, most.power)
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        most, least = share_between(lambda: self.dominating.profile(epsilon), lambda: self.attained.profile(epsilon))
        return _joined(least, most)

    @override
    def epsilon_cap(self, delta: float, enough: float = -math.inf) -> float:
        return self.dominating.epsilon_cap(delta, enough)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        most, least = share_between(lambda: self.dominating.epsilon(delta), lambda: self.attained.epsilon(delta))
        return self._between(least, most)

    def _between(self, least: Enclosure, most: Enclosure) -> Enclosure:
        return Enclosure(least.lower, most.upper, self.evidence)


def between(curves: Sequence[AbstractTradeOff]) -> AbstractTradeOff:
    """Return the worst-case curve that lies between the first and the last of `curves`, listed by rising power.

    A single curve is returned as it is.
    """
    return curves[0] if len(curves) == 1 else Bracketed(curves[0], curves[-1])


def map_bracket(combine: Callable[..., AbstractTradeOff], *curves: AbstractTradeOff) -> AbstractTradeOff:
    """Return `combine(*curves)`, also if some curves are only known from two sides (`Bracketed`).

    More power of the combined curves must give more power of the combination. Then the combinations of the lower
    sides and of the upper sides bracket the result.
    """
    if not any(isinstance(curve, Bracketed) for curve in curves):
        return combine(*curves)
    attained = [curve.attained if isinstance(curve, Bracketed) else curve for curve in curves]
    dominating = [curve.dominating if isinstance(curve, Bracketed) else curve for curve in curves]
    return Bracketed(combine(*attained), combine(*dominating))


def _joined(least: EnclosureArray, most: EnclosureArray) -> EnclosureArray:
    return EnclosureArray.from_logs(log_ends(least)[0], log_ends(most)[1])
