"""Trade-off curves of two scaled noncentral chi-square laws with a monotone likelihood ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.chi_square.law import Tail
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.chi_square.ratio import AbstractLogRatio
from service.privacy.trade_off.chi_square.scaled_law import ScaledChiSquare
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root
from service.privacy.trade_off.enclosed.logs import log, log_down, log_up

_Ends = tuple[FloatArray, FloatArray]
Gain = Callable[[FloatArray], _Ends]

SLACK = 4 * UNIT_ROUNDOFF
MOST_WIDENINGS = 40


@dataclass(frozen=True, slots=True)
class _Errors:
    """Bounds of ln P(test rejects H0) and of ln P(test accepts H0), under one hypothesis, H0 or H1.

    Each is a lower (`_low`) or upper (`_high`) bound at n thresholds, shape (n,).
    """

    reject_low: FloatArray
    reject_high: FloatArray
    accept_low: FloatArray
    accept_high: FloatArray


@final
class ChiSquareTradeOff(AbstractTradeOff):
    """Trade-off curve of a test statistic T with scaled chi-square laws: `null` under H0 and `alternative` under H1.

    Notes
    -----
    The best test rejects large T if L = `ratio` increases, and small T otherwise. f(alpha) = P1(T <= t) with P0(T > t)
    = alpha, or the same formula with swapped tails. The profile is delta(eps) = P1(reject) - e^eps P0(reject) for L(t)
    = eps. It is the largest such difference over t, so that every t gives a lower bound, which an error e of t makes
    smaller by about e^2. For c = L(t) <= eps the profile is at most delta(c), which is known at t. This upper bound is
    larger by about (eps - c) e^eps P0(reject), where eps - c is a few rounding errors of eps.

    The relative error of power and type II error is about 1e-13, plus 1e-14 times their logarithms. For delta this
    error is divided by 1 - e^{eps} P0/P1, which is small for curves that reveal little. Tails below 1e-300 are
    represented by their logarithms.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"

    def __init__(
        self,
        null: ScaledChiSquare,
        alternative: ScaledChiSquare,
        ratio: AbstractLogRatio,
        global_gdp_mu: Enclosure,
        gain: Gain | None = None,
    ) -> None:
        """Build the curve from both laws and their ratio.

        Parameters
        ----------
        null, alternative : ScaledChiSquare
            Laws of the statistic T under H0 and H1.
        ratio : AbstractLogRatio
            ln dH1/dH0 as a function of T.
        global_gdp_mu : Enclosure
            Smallest mu with f >= g_mu, infinite without such a mu; equal for the inverse curve.
        gain : callable, optional
            Returns (lower, upper) bounds of ln |P1(T > t) - P0(T > t)| at thresholds t, for curves that reveal little.
        """
        self._null, self._alternative, self._ratio, self._mu = null, alternative, ratio, global_gdp_mu
        self._gain = gain

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(math.inf) if self._ratio.increasing else self._ratio.at_zero

    @property
    @override
    def global_gdp_mu(self) -> Enclosure:
        return self._mu

    @override
    def reversed(self) -> ChiSquareTradeOff:
        return ChiSquareTradeOff(self._alternative, self._null, self._ratio.reversed(), self._mu, self._gain)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        below, above = self._thresholds(alpha)
        errors, slope = self._errors(self._alternative, below, above), self._slopes(below, above)
        # Chords to (0, 0) are steeper than the tangent and flatter than the largest ratio. Chords to (1, 1) are flatter
        # than the tangent and steeper than the smallest ratio. These bounds count where thresholds over- or underflow.
        log_alpha, log_rest = np.log(alpha), np.log1p(-alpha)
        largest, smallest = self.largest_log_ratio.upper, self.smallest_log_ratio.lower
        power_low = np.maximum(errors.reject_low, _log_product(log_alpha, slope.lower, -1))
        power_high = np.minimum(errors.reject_high, _log_product(log_alpha, largest, 1))
        error_low = np.maximum(errors.accept_low, _log_product(log_rest, smallest, -1))
        error_high = np.minimum(errors.accept_high, _log_product(log_rest, slope.upper, 1))
        return CurvePoints(
            EnclosureArray.from_logs(error_low, error_high), EnclosureArray.from_logs(power_low, power_high), slope
        )

    def _slopes(self, below: FloatArray, above: FloatArray) -> EnclosureArray:
        known = np.isfinite(above)
        low, high = self._ratio.at(np.concatenate((below, np.where(known, above, below))))
        n = len(below)
        if self._ratio.increasing:
            return EnclosureArray(low[:n], np.where(known, high[n:], np.inf))
        return EnclosureArray(np.where(known, low[n:], -np.inf), high[:n])

    def _thresholds(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (lower, upper) bounds of the thresholds t at which the test rejects with probability `alpha` under H0.

        The bounds have the shape of `alpha` and follow from the smaller tail of the statistic.
        """
        below, above = np.empty_like(alpha), np.empty_like(alpha)
        small = alpha <= 0.5
        rejected, accepted = self._tails
        sides: tuple[tuple[BoolArray, Tail], ...] = ((small, rejected), (~small, accepted))
        for which, tail in sides:
            if which.any():
                value = np.log(alpha[which]) if tail == rejected else np.log1p(-alpha[which])
                ends = value * (1 + FUNCTION_ERROR), value * (1 - FUNCTION_ERROR)
                below[which], above[which] = self._null.quantiles(*ends, tail)
        return below, above

    @property
    def _tails(self) -> tuple[Tail, Tail]:
        """Tail ("lower" or "upper") of the statistic T in which the test rejects H0, and tail in which it accepts."""
        return ("upper", "lower") if self._ratio.increasing else ("lower", "upper")

    def _errors(self, law: ScaledChiSquare, low: FloatArray, high: FloatArray) -> _Errors:
        tails = law.log_tails(low, high)
        lower, upper = (tails.lower_low, tails.lower_high), (tails.upper_low, tails.upper_high)
        return _Errors(*upper, *lower) if self._ratio.increasing else _Errors(*lower, *upper)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        t, slope = self._rejecting_enough(epsilon)
        null, alternative = self._errors(self._null, t, t), self._errors(self._alternative, t, t)
        log_high = _log_difference(alternative.reject_high, null.reject_low + slope, 1)
        log_low = _log_difference(alternative.reject_low, null.reject_high + epsilon, -1)
        if epsilon.min() < 0:
            low, high = _from_accepted(null, alternative, epsilon, slope)
            negative = epsilon < 0
            log_low = np.where(negative, np.maximum(log_low, low), log_low)
            log_high = np.where(negative, np.minimum(log_high, high), log_high)
        if self._gain is not None:
            low, high = _from_gain(self._gain(t), null, epsilon, slope)
            log_low, log_high = np.maximum(log_low, low), np.minimum(log_high, high)
        if self._ratio.increasing:
            return _no_ratio_below(self.smallest_log_ratio.lower, epsilon, log_low, log_high)
        beyond = epsilon >= self.largest_log_ratio.upper
        return EnclosureArray.from_logs(np.where(beyond, -np.inf, log_low), np.where(beyond, -np.inf, log_high))

    def _rejecting_enough(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return nearly equal thresholds t with L(t) <= `epsilon`, and lower bounds of L(t); both of shape (n,).

        L is the log-likelihood ratio of the statistic. t is 0 where L increases and L(0) is at least `epsilon`.
        `epsilon` is in nats. Raises NumericalFailure if no such t is proved.
        """
        margin = 8 * UNIT_ROUNDOFF * (np.abs(epsilon) + abs(self._ratio.at_zero.upper))
        t = self._ratio.inverse(epsilon - margin)
        low, high = self._ratio.at(t)
        for _ in range(MOST_WIDENINGS):
            over = (high > epsilon) & ((t > 0) | (not self._ratio.increasing))
            if not over.any():
                return t, low
            margin[over] = np.maximum(2 * margin[over], 2 * (high[over] - epsilon[over]))
            t[over] = self._ratio.inverse(epsilon[over] - margin[over])
            low[over], high[over] = self._ratio.at(t[over])
        raise NumericalFailure("the threshold of a likelihood ratio was not bracketed")

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        at_zero = self._profile_formula(np.zeros(1))
        if at_zero.upper[0] <= delta:
            return Enclosure(0.0, 0.0, self.evidence)
        # delta(L(t)) <= P1(reject) at t.
        tail, _ = self._tails
        target = np.full(1, math.log(delta))
        below, above = self._alternative.quantiles(target * (1 + FUNCTION_ERROR), target * (1 - FUNCTION_ERROR), tail)
        end = above if self._ratio.increasing else below
        high = float(self._ratio.at(end)[1][0])
        return decreasing_root(self._profile_formula, delta, 0.0, max(high, 1e-300), self.evidence)


def _log_product(log_value: FloatArray, log_factor: FloatArray | float, side: int) -> FloatArray:
    value = log_value + log_factor
    size = np.abs(log_value) + np.where(np.isfinite(value), np.abs(value), 0.0)
    return np.minimum(value + side * FUNCTION_ERROR * size, 0.0)


def _log_difference(larger: FloatArray, smaller: FloatArray, side: int) -> FloatArray:
    """Return ln(e^`larger` - e^`smaller`), rounded down (`side` -1) or up (1).

    The result is minus infinity where the difference is not positive.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = smaller - larger
        gap = gap - side * SLACK * (np.abs(smaller) + np.abs(larger))
        share = np.where(np.isneginf(smaller), 0.0, np.log(-np.expm1(np.minimum(gap, 0.0))))
        value = larger + share
        value = value + side * (FUNCTION_ERROR * (1 + np.abs(share)) + UNIT_ROUNDOFF * np.abs(value))
    return np.where(np.isnan(value) | np.isneginf(larger), -np.inf, np.minimum(value, 0.0))


def _from_accepted(null: _Errors, alternative: _Errors, epsilon: FloatArray, slope: FloatArray) -> _Ends:
    """Return (lower, upper) bounds of ln of the profile at `epsilon` < 0, from the probabilities that the test accepts.

    The profile is 1 - e^eps + e^eps P0(accept) - P1(accept), with the probabilities `null` under H0 and `alternative`
    under H1. `slope` is the log-likelihood ratio of the test's threshold.
    """
    epsilon, slope = np.minimum(epsilon, 0.0), np.minimum(slope, 0.0)
    high = _rest(slope, null.accept_high, alternative.accept_low, 1)
    low = _rest(epsilon, null.accept_low, alternative.accept_high, -1)
    return log_down(np.maximum(low, 0.0)), log_up(np.minimum(high, 1.0))


def _from_gain(gain: _Ends, null: _Errors, epsilon: FloatArray, slope: FloatArray) -> _Ends:
    """Return (lower, upper) bounds of ln of the profile at `epsilon`, from the gain P1(reject) - P0(reject).

    The profile is the gain minus (e^eps - 1) P0(reject), for the test that rejects H0 where the log-likelihood ratio
    exceeds `slope`. `null` has the probabilities under H0.
    """
    low, unit = gain
    with np.errstate(over="ignore", invalid="ignore"):
        least, most = np.exp(null.reject_low - unit), np.exp(null.reject_high - unit)
        grown, falling = np.expm1(epsilon), np.expm1(slope)
        high_share = 1 - falling * np.where(slope > 0, least, most)
        low_share = np.exp(low - unit) - grown * np.where(epsilon > 0, most, least)
        slack = SLACK * (16 + 2 * np.abs(unit) + np.abs(null.reject_high)) * (1 + np.abs(grown) * most)
        low = unit + log(np.maximum(low_share - slack, 0.0))
        high = unit + log(high_share + slack)
        rounding = FUNCTION_ERROR * (np.abs(unit) + np.abs(high))
    return np.where(np.isnan(low), -np.inf, low - rounding), np.where(np.isnan(high), 0.0, high + rounding)


def _rest(epsilon: FloatArray, log_gained: FloatArray, log_lost: FloatArray, side: int) -> FloatArray:
    """Return 1 - e^eps + e^eps `gained` - `lost` for eps = `epsilon` <= 0, rounded down (`side` -1) or up (1).

    The probabilities are e^`log_gained` and e^`log_lost`.
    """
    exponent = epsilon + log_gained
    rest, gained, lost = -np.expm1(epsilon), np.exp(exponent), np.exp(log_lost)
    size = np.where(np.isfinite(exponent), np.abs(epsilon) + np.abs(log_gained), 0.0)
    slack = 2 * FUNCTION_ERROR * (rest + gained + lost) + SLACK * size * gained
    return (rest + gained - lost) + side * slack


def _no_ratio_below(least: float, epsilon: FloatArray, log_low: FloatArray, log_high: FloatArray) -> EnclosureArray:
    """Return the profile, replaced by 1 - e^eps where eps = `epsilon` is at most `least`.

    `log_low` and `log_high` are the bounds of ln of the profile, and `least` is the smallest log-likelihood ratio.
    """
    below = epsilon <= least
    if below.any():
        value = -np.expm1(np.minimum(epsilon, 0.0))
        log_low = np.where(below, log_down(value * (1 - FUNCTION_ERROR)), log_low)
        log_high = np.where(below, log_up(np.minimum(value * (1 + FUNCTION_ERROR), 1.0)), log_high)
    return EnclosureArray.from_logs(np.minimum(log_low, log_high), log_high)
