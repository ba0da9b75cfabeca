"""Trade-off curve of steps that reveal everything with some probability.

Each hypothesis then has an output that the other hypothesis cannot have (singular mass). For the worst pair an (eps,
delta)-DP step is an eps-DP step that reveals everything with probability delta (Kairouz, Oh, Viswanath 2015, Theorem
2.1). In a composition the masses add up: with probability Delta = 1 - prod (1 - delta_i) at least one step reveals
everything. Otherwise the composition is that of the steps without these outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log, log_ends, moved, spanned
from service.privacy.trade_off.enclosed.weighted_sums import log_sum

SLACK = 4 * FUNCTION_ERROR
"""Relative error of a sum of products of bounds that are themselves rounded outwards."""
LARGEST_EXPONENT = 745.0
"""Largest exponent: e^-745 is the smallest double, so that a larger rate is certainly 1."""
LARGEST_FACTOR = 1e300
"""Largest finite exponent in a product of rates, in nats."""


@final
@dataclass(frozen=True, slots=True)
class SingularMass:
    """Probability Delta with which a composition reveals everything.

    Attributes
    ----------
    mass, rest : Enclosure
        Delta and 1 - Delta, each within a few units in the last place, however small.
    exponent : Enclosure
        -ln(1 - Delta), nats.
    """

    mass: Enclosure
    rest: Enclosure
    exponent: Enclosure

    @staticmethod
    def of(deltas: Iterable[tuple[float, int]]) -> SingularMass:
        """Return the probability Delta that at least one step reveals everything, from (delta, count) pairs.

        A step reveals everything with probability delta. -ln(1 - Delta) = sum count -log1p(-delta) has positive terms,
        so that its relative error is a few u (u = 2^-53). Every delta is in [0, 1]. A single step keeps its delta
        exactly.
        """
        given = [(delta, count) for delta, count in deltas if delta > 0 and count > 0]
        if any(delta == 1 for delta, _ in given):
            return SingularMass(Enclosure.point(1.0), Enclosure.point(0.0), Enclosure.point(math.inf))
        value = math.fsum(count * -math.log1p(-delta) for delta, count in given)
        error = FUNCTION_ERROR + 4 * UNIT_ROUNDOFF
        low, high = value * (1 - error), value * (1 + error) + (SMALLEST if value > 0 else 0.0)
        exponent = Enclosure(low, high, Evidence.EXACT)
        if len(given) == 1 and given[0][1] == 1:
            delta = given[0][0]
            mass = Enclosure.point(delta)
        else:
            mass = Enclosure(_mass(low, -1), _mass(high, 1), Evidence.EXACT)
        return SingularMass(mass, Enclosure(_rest(high, -1), _rest(low, 1), Evidence.EXACT), exponent)


def with_singular_mass(curve: AbstractTradeOff, deltas: Iterable[tuple[float, int]]) -> AbstractTradeOff:
    """Return the curve of a composition beside steps that reveal everything with positive probability, if any.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve of the composition where no step reveals everything.
    deltas : iterable of (float, int)
        The probabilities with which steps reveal everything, with their counts.

    Returns
    -------
    AbstractTradeOff
        The curve of the whole composition; `curve` itself if no probability is positive.
    """
    mass = SingularMass.of(deltas)
    return WithSingularMass(curve, mass) if mass.mass.upper > 0 else curve


def _mass(exponent: float, side: int) -> float:
    value = -math.expm1(-exponent)
    return min(max(value * (1 + side * FUNCTION_ERROR), 0.0), 1.0)


def _rest(exponent: float, side: int) -> float:
    if exponent == 0:
        return 1.0
    return min(max(math.exp(-exponent) * (1 + side * FUNCTION_ERROR) + side * SMALLEST, 0.0), 1.0)


@final
class WithSingularMass(AbstractTradeOff):
    """Curve of a composition that reveals everything with probability Delta, and otherwise has the curve g.

    The curve is f(alpha) = (1 - Delta) g(alpha/(1 - Delta)) up to 1 - Delta, and 0 above.

    Notes
    -----
    The power is Delta + (1 - Delta) power_g(alpha/(1 - Delta)), and delta(eps) = Delta + (1 - Delta) delta_g(eps) for
    every real eps. The best rejection set contains all outputs that only H1 can have, and no outputs that only H0 can
    have. Both hypotheses have the same mass Delta outside the other hypothesis. The relative error is a few u = 2^-53
    beyond that of g, at rates alpha/(1 - Delta) known to a few u.
    """

    def __init__(self, curve: AbstractTradeOff, mass: SingularMass) -> None:
        self.curve, self.mass = curve, mass
        self.evidence = Evidence.weakest(curve.evidence, mass.mass.evidence)
        self.method, self.has_only_profile = curve.method, curve.has_only_profile

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(math.inf) if self._has_mass else self.curve.largest_log_ratio

    @property
    @override
    def singular_power(self) -> Enclosure:
        inner, mass = self.curve.singular_power, self.mass.mass
        if inner.upper == 0:
            return mass
        least = mass.lower + self.mass.rest.lower * inner.lower
        most = mass.upper + self.mass.rest.upper * inner.upper
        return Enclosure(max(least * (1 - SLACK), mass.lower), min(most * (1 + SLACK), 1.0), self.evidence)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure | None:
        """Smallest mu for mu-GDP: infinite if a step may reveal everything.

        In this case the power at the false positive rate 0 is positive. None if that of the inner curve is unknown.
        """
        return Enclosure.point(math.inf) if self._has_mass else self.curve.global_gdp_mu

    @property
    def _has_mass(self) -> bool:
        return self.mass.exponent.lower > 0

    @override
    def reversed(self) -> AbstractTradeOff:
        return self._reversed

    @cached_property
    def _reversed(self) -> AbstractTradeOff:
        inverse = self.curve.reversed()
        return self if inverse is self.curve else WithSingularMass(inverse, self.mass)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        low, high = self._inner_rates(alpha)
        if (low == high).all():
            near = far = self.curve.points(low)
        else:
            both = self.curve.points(np.concatenate((low, high)))
            near, far = both[: len(alpha)], both[len(alpha) :]
        # If Delta is 1, the rates are 1 and the errors 0, so that every finite exponent is valid.
        least, most = (min(end, LARGEST_FACTOR) for end in (self.mass.exponent.lower, self.mass.exponent.upper))
        error_low, error_high = log_ends(far.type_two_error)[0], log_ends(near.type_two_error)[1]
        rounding = 4 * UNIT_ROUNDOFF
        error = EnclosureArray.from_logs(
            moved(error_low, -most, -rounding * most),
            np.minimum(moved(error_high, -least, rounding * least), 0.0),
        )
        power = self._raised(spanned(near.power, far.power))
        over, surely_over = high >= 1, low >= 1
        slope = EnclosureArray(
            np.where(over, -np.inf, far.log_slope.lower), np.where(surely_over, -np.inf, near.log_slope.upper)
        )
        return CurvePoints(error, power, slope)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        low, high = (float(end[0]) for end in self._inner_rates(np.array([rate])))
        near = self.curve.power_at(low)
        far = near if low == high else self.curve.power_at(high)
        return self._raised(spanned(EnclosureArray.of(near), EnclosureArray.of(far))).at(0, self.evidence)

    def _inner_rates(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of `alpha`/(1 - Delta), the rates of the curve without the probability Delta.

        Delta is the probability that a step reveals everything.
        """
        low, high = self.mass.exponent.lower, self.mass.exponent.upper
        if high == 0:
            return alpha, alpha
        ends: list[FloatArray] = []
        for exponent, side in ((low, -1), (high, 1)):
            # Multiply by the half twice, because the full factor may overflow.
            half = math.exp(0.5 * min(exponent, LARGEST_EXPONENT)) if exponent < 2 * LARGEST_EXPONENT else math.inf
            with np.errstate(over="ignore"):
                rate = alpha * half * half * (1 + side * SLACK) + side * SMALLEST
            ends.append(np.clip(rate, 0.0, 1.0))
        # Near 1 the complement ((1 - alpha) - Delta)/(1 - Delta) is more accurate; 1 - alpha is exact from 1/2 on.
        over, rest = 1 - alpha, self.mass.rest
        if rest.lower > 0:
            most = (over - self.mass.mass.lower) / rest.lower
            least = (over - self.mass.mass.upper) / rest.upper
            rounding = 4 * UNIT_ROUNDOFF
            beside = (
                np.nextafter(1 - most - rounding * np.abs(most), -1),
                np.nextafter(1 - least + rounding * np.abs(least), 2),
            )
            half = alpha >= 0.5
            ends[0] = np.where(half, np.clip(beside[0], ends[0], 1.0), ends[0])
            ends[1] = np.where(half, np.clip(beside[1], 0.0, ends[1]), ends[1])
        return ends[0], ends[1]

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return self._raised(self.curve.profile(epsilon))

    def _raised(self, inner: EnclosureArray) -> EnclosureArray:
        """Return Delta + (1 - Delta) x for the enclosures x = `inner`.

        Delta is the probability that a step reveals everything.
        """
        mass, rest = self.mass.mass, self.mass.rest
        if mass.upper == 0:
            return inner
        lower = (mass.lower + rest.lower * inner.lower) * (1 - SLACK)
        upper = (mass.upper + rest.upper * inner.upper) * (1 + SLACK) + SMALLEST
        lower = np.clip(np.maximum(np.maximum(lower, mass.lower), inner.lower), 0.0, 1.0)
        upper = np.where(inner.upper == 0, mass.upper, np.clip(upper, 0.0, 1.0))
        log_low, log_high = log_ends(inner)
        log_mass = (log(np.array(end)) for end in (mass.lower, mass.upper))
        least, most = (np.full_like(lower, end) for end in log_mass)
        log_lower = log_sum(least * (1 + SLACK), log_low - self.mass.exponent.upper, -1)
        log_upper = log_sum(most * (1 - SLACK), log_high - self.mass.exponent.lower, 1)
        return EnclosureArray(lower, np.maximum(lower, upper), np.minimum(log_lower, 0.0), np.minimum(log_upper, 0.0))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        mass, rest = self.mass.mass, self.mass.rest
        if mass.upper == 0:
            return self.curve.epsilon(delta)
        # (delta - Delta)/(1 - Delta), which is exactly 0 where Delta is exact and equal to delta.
        most = min(max(delta - mass.lower, 0.0) / rest.lower * (1 + SLACK), 1.0) if rest.lower > 0 else 1.0
        least = max(delta - mass.upper, 0.0) / rest.upper * (1 - SLACK) if rest.upper > 0 else 1.0
        lower = self.curve.epsilon(most).lower
        upper = math.inf if delta < mass.upper else self.curve.epsilon(least).upper
        return Enclosure(lower, upper, self.evidence)
