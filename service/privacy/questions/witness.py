"""Witnesses against a stated bound: a false positive rate, the power there, and the power that the bound allows.

Most bounds are lines above the power: power <= offset + e^s alpha at every rate alpha. (eps, delta)-DP is the line of
slope eps and offset delta. A bound of the advantage has slope 0, a bound of the Bayes accuracy the slope of the prior
odds. The best attack on a line is the test at the likelihood ratio e^s. Its rate is -delta'(s) e^-s, because the
profile is the conjugate of the power (`trade_off/abstract.py`). The slope of a chord of the profile near s gives this
rate at little cost. The rate need not be exact: the certified lower bound of the power at this very rate proves every
witness.

A line without offset bounds every likelihood ratio, as a posterior probability does. Attacks on such a line are best at
rates near 0, where curves are expensive to evaluate and no attack is practical. So the search tries a few practical
rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.questions.normal_points import SMALLEST_RATE, normal_points
from service.privacy.trade_off.abstract import AbstractTradeOff

CHORDS: Final = (2.0**-10, 2.0**-16, 2.0**-5)
"""Half the width of a chord, relative to the scale of the slope. A later width is tried if an earlier one fails."""
ALLOWED_ERROR: Final = 2.0**-46
"""Relative error of the power that a bound allows, per nat of 1 + its slope."""
RATES: Final = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-9, 0.0)
"""Rates of practical attacks. Rate 0 belongs to an attack that never accuses, rate 1 to one that always does."""
GRID, ROUNDS = 33, 3
"""Rates on a grid, and rounds that narrow the grid around its best rate."""


@final
@dataclass(frozen=True, slots=True)
class SupportingLine:
    """Bound on the power of every attack: power <= offset + e^log_slope alpha, at every false positive rate alpha.

    Attributes
    ----------
    log_slope : float
        Logarithm of the slope, nats.
    offset : float
        Power that the bound allows at rate 0.
    """

    log_slope: float
    offset: float

    def at(self, rate: float) -> float:
        """Return the power that the line allows at a false positive rate.

        Parameters
        ----------
        rate : float
            In [0, 1].

        Returns
        -------
        float
            The power, rounded upwards.
        """
        if self.log_slope > 700:
            rise = math.exp(min(self.log_slope + math.log(rate), 1.0)) if rate > 0 else 0.0
        else:
            rise = math.exp(self.log_slope) * rate
        rise *= 1 + ALLOWED_ERROR * (1 + abs(self.log_slope))
        return rise + self.offset + ALLOWED_ERROR * abs(self.offset)


@final
@dataclass(frozen=True, slots=True)
class Witness:
    """Attack that refutes a bound: a rate at which the power exceeds the power that the bound allows.

    Attributes
    ----------
    false_positive_rate : float
        The rate.
    power : Enclosure
        Power of the best attack at this rate, with power.lower > allowed.
    allowed : float
        Power that the bound allows.
    """

    false_positive_rate: float
    power: Enclosure
    allowed: float


def witness_at(curve: AbstractTradeOff, rate: float, allowed: float) -> Witness | None:
    """Return a witness against a bound at one false positive rate.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    rate : float
        False positive rate in [0, 1].
    allowed : float
        Power that the bound allows.

    Returns
    -------
    Witness or None
        None unless the power is proved to exceed `allowed`.
    """
    power = curve.power_at(rate)
    return Witness(rate, power, allowed) if power.lower > allowed else None


def witness_at_common_rates(curve: AbstractTradeOff, line: SupportingLine) -> Witness | None:
    """Return a witness against a line at the largest common false positive rate that shows one.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    line : SupportingLine
        Bound of the power.

    Returns
    -------
    Witness or None
        None if the power is not proved to be above the line at any rate of `RATES`, and for an infinite slope.
    """
    if not math.isfinite(line.log_slope):
        return None
    power = curve.power(np.array(RATES))
    for place, rate in enumerate(RATES):
        allowed = line.at(rate)
        if power.lower[place] > allowed:
            return Witness(rate, power.at(place, curve.evidence), allowed)
    return None


def witness_above_line(curve: AbstractTradeOff, line: SupportingLine) -> Witness | None:
    """Return a rate at which the power is proved to be above a line.

    Parameters
    ----------
    curve : AbstractTradeOff
        The trade-off curve.
    line : SupportingLine
        Bound of the power.

    Returns
    -------
    Witness or None
        None if no tried rate proves it, and for an infinite slope. Another rate may exist nevertheless.
    """
    if not math.isfinite(line.log_slope):
        return None
    scale = abs(line.log_slope)
    if scale < 1:  # weak privacy losses are of the size of the advantage
        scale = max(scale, curve.profile_at(0.0).upper)
    for chord in CHORDS:
        rate = _touching(curve, line.log_slope, chord * scale)
        found = witness_at(curve, rate, line.at(rate)) if rate > 0 else None
        if found is not None:
            return found
    return witness_at_common_rates(curve, line)


def _touching(curve: AbstractTradeOff, log_slope: float, half: float) -> float:
    """Return the approximate false positive rate of the test "likelihood ratio above e^`log_slope`"; 0 for underflow.

    A chord of the privacy profile between the log slopes at the distance `half` on both sides gives the rate.
    """
    ends = curve.profile(np.array([log_slope - half, log_slope + half]))
    middle = (ends.lower + ends.upper) / 2
    fall = float(middle[0] - middle[1]) / (2 * half) if half > 0 else 0.0
    if not fall > 0:
        return 0.0
    log_rate = math.log(fall) - log_slope
    return min(math.exp(log_rate), 1.0) if log_rate > -690 else 0.0


def witness_above_gaussian(curve: AbstractTradeOff, mu: float, rate_min: float, error_min: float) -> Witness | None:
    """Return a rate at which the power provably exceeds that of mu-GDP, N(0, 1) against N(mu, 1), or None.

    Parameters
    ----------
    curve : AbstractTradeOff
        The curve under test.
    mu : float
        The stated mu, >= 0.
    rate_min, error_min : float
        Smallest false positive rate and smallest type II error of a witness, in [0, 1].

    Returns
    -------
    Witness or None
        None if the search finds no rate; such a rate may exist nevertheless.
    """
    low, high = max(rate_min, SMALLEST_RATE), 1 - max(error_min, 2.0**-50)
    if not low < high:
        return None
    rates = _normal_grid(low, high)
    for _ in range(ROUNDS):
        points = curve.points(rates)
        found = normal_points(rates, points.power, points.type_two_error).mu.lower
        found = np.where(points.type_two_error.lower >= error_min, found, -np.inf)
        place = int(np.argmax(found))
        if found[place] > mu:
            rate = float(rates[place])
            allowed = float(special.ndtr(special.ndtri(rate) + mu)) * (1 + ALLOWED_ERROR * (1 + mu))
            power = EnclosureArray(points.power.lower[place : place + 1], points.power.upper[place : place + 1])
            if power.lower[0] > allowed:
                return Witness(rate, power.at(0, curve.evidence), allowed)
        rates = _normal_grid(float(rates[max(place - 1, 0)]), float(rates[min(place + 1, len(rates) - 1)]))
    return None


def _normal_grid(low: float, high: float) -> FloatArray:
    """Return rates from `low` to `high` with equal distances of their normal quantiles, shape (n,)."""
    quantiles = np.linspace(float(special.ndtri(low)), float(special.ndtri(high)), GRID)
    return np.unique(np.clip(special.ndtr(quantiles), low, high))
