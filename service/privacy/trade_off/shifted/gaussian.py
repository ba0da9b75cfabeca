"""Trade-off curve of N(0, 1) against N(mu, 1), that of mu-GDP."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

import numpy as np
from scipy import special
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, single
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root, decreasing_root_near
from service.privacy.trade_off.enclosed.logs import chosen, with_logs
from service.privacy.trade_off.enclosed.ulps import ERF_ERROR, SCALED_ERFC_ERROR, above
from service.privacy.trade_off.shifted.curve import AbstractShifted
from service.privacy.trade_off.shifted.location_law import NORMAL

SQRT_HALF = math.sqrt(0.5)
SQRT_HALF_PI = math.sqrt(math.pi / 2)
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

SMALL_SHIFT = 1 / 128
"""Largest mu for which R(a) - R(a + mu) is integrated. Above it the difference loses at most a factor (1 + a)/mu."""
LEFTMOST = -5.0
"""Value of a below which delta is close to 1, so that 1 - delta is computed."""
FAR = 1e4
"""Value of a above which R(a) - R(b) is mu / (a b) within 3 / a^2, less than the error of exp(-a^2 / 2) from a."""
GAUSS_LEGENDRE = (-math.sqrt(0.6), 0.0, math.sqrt(0.6))
SILENTLY = np.errstate(all="ignore")
MOST_NEWTON_STEPS = 50
NOISES = 1.5
"""Assumed displacement of a root, in units of the error of the function."""
MILLS_ERROR = SCALED_ERFC_ERROR + 8 * UNIT_ROUNDOFF
OUTWARD = np.array([[-1.0], [1.0]])

Difference = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def gaussian_curve(shift: Enclosure) -> AbstractTradeOff:
    """Return the Gaussian trade-off curve g_mu for an enclosed shift mu.

    For mu = 0 it is exactly the curve of two equal laws.
    """
    return ApproximateDpTradeOff(0.0, 0.0) if shift.upper == 0 else GaussianTradeOff(shift)


@final
class GaussianTradeOff(AbstractShifted):
    """Trade-off curve f(alpha) = Phi(Phi^-1(1 - alpha) - mu), mu > 0.

    Notes
    -----
    For eps >= 0 the profile is delta(eps) = phi(a) [R(a) - R(b)], where a = eps/mu - mu/2 and b = a + mu. The Mills
    ratio is R(x) = Phi(-x)/phi(x) = sqrt(pi/2) erfcx(x/sqrt 2). For negative arguments delta(-eps) = 1 - e^-eps +
    e^-eps delta(eps). phi is the normal density. The relative error is about a^2 u plus 30 u max(1, a)/min(mu, 1/128),
    where u = 2^-53; the second term is the cancellation. All computations use natural logarithms, so that nothing
    underflows.
    """

    def __init__(self, shift: Enclosure) -> None:
        super().__init__(NORMAL, shift)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(math.inf)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure:
        return self.shift

    @override
    @SILENTLY
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        value, error = self._log_profile(np.abs(epsilon), self.shift_ends)
        logs = np.minimum(value + OUTWARD * error, 0.0)
        bounds = EnclosureArray.from_logs(logs[0], logs[1])
        return reflected(bounds, epsilon) if epsilon.min() < 0 else bounds

    @override
    @SILENTLY
    def _profile_at_formula(self, epsilon: float) -> Enclosure:
        if not 0 <= epsilon <= FAR * self.shift.lower:
            return self._profile_formula(np.array([epsilon])).at(0, self.evidence)
        low, high = self._log_profile_end(epsilon, -1), self._log_profile_end(epsilon, 1)
        return Enclosure.from_logs(low, high, self.evidence)

    def _log_profile_end(self, epsilon: float, side: int) -> float:
        """Return the lower (`side` -1) or upper (1) bound of ln of the privacy profile at `epsilon` in nats.

        FAR mu is the largest allowed epsilon, where mu is the shift.
        """
        value, error = self._log_profile_at(epsilon, self.shift.lower if side < 0 else self.shift.upper)
        return min(value + side * error, 0.0)

    def _log_profile_at(self, epsilon: float, mu: float) -> tuple[float, float]:
        known = _plain_log_profile(epsilon, mu) if self.shift.upper > SMALL_SHIFT else None
        if known is not None:
            return known
        value, error = self._log_profile(single(epsilon), single(mu))
        return float(value), float(error)

    def _log_profile(self, epsilon: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _log_profile(epsilon, mu, _difference_small if self.shift.upper <= SMALL_SHIFT else _difference)

    @override
    @SILENTLY
    def _epsilon_formula(self, delta: float) -> Enclosure:
        # delta(0) = erf(mu / sqrt 8).
        if float(special.erf(self.shift.upper / math.sqrt(8))) * (1 + 2 * ERF_ERROR) <= delta:
            return Enclosure.point(0.0)
        # delta(eps) <= Phi(-a) <= delta once a >= -Phi^-1(delta).
        mu = self.shift.upper
        high = mu * max(-float(special.ndtri(delta)), 0.0) + 0.5 * mu * mu
        high = above(high, 64) if high > 0 else 1.0
        guess, radius = self._newton(math.log(delta), self._first_guess(delta, high))
        near = None
        if math.isfinite(radius) and math.isfinite(guess):
            near = decreasing_root_near(self._log_profile_end, delta, guess, radius, high)
        return near if near is not None else decreasing_root(self._profile_formula, delta, 0.0, high)

    def _first_guess(self, delta: float, high: float) -> float:
        """Return an approximate eps (nats) at which the profile is `delta`, from delta = Phi(-a) (1 - R(b)/R(a)).

        R(x) = Phi(-x)/phi(x) is the Mills ratio, a = eps/mu - mu/2 and b = a + mu. The second factor varies little.
        `high` is an upper bound of eps.
        """
        mu = self.shift.upper
        a = high / mu - 0.5 * mu
        for _ in range(2):
            factor = 1 - special.erfcx(SQRT_HALF * (a + mu)) / special.erfcx(SQRT_HALF * a)
            if not delta < factor:
                return high
            a = -float(special.ndtri(delta / factor))
        return min(max(mu * (a + 0.5 * mu), 0.0), high)

    def _newton(self, target: float, start: float) -> tuple[float, float]:
        """Return (approximate eps with ln delta(eps) = `target`, its possible displacement by rounding).

        The search begins at `start`. ln delta is concave and falls. So all steps after the first one stay to the right
        of the root.
        """
        mu = self.shift.upper
        slack = 8 * UNIT_ROUNDOFF * (1 - target)
        eps = start
        radius = math.inf
        for _ in range(MOST_NEWTON_STEPS):
            value, error = self._log_profile_at(eps, mu)
            # delta' = -e^eps Phi(-b)
            slope = math.exp(min(eps + float(special.log_ndtr(-(eps / mu + 0.5 * mu)) - value), 700.0))
            if slope == 0.0:  # underflows for very large mu: no guess
                return eps, math.inf
            radius = (NOISES * error + slack) / slope
            step = (value - target) / slope
            eps = max(eps + step, 0.0)
            # Convergence is quadratic: the error after this step is about the square of the step.
            if step * step <= radius * max(radius, self.shift.lower) or not math.isfinite(eps):
                break
        return eps, radius


@SILENTLY
def gaussian_log_profile(epsilon: FloatArray, mu: FloatArray) -> FloatArray:
    """Return lower and upper bounds of ln delta(eps) of N(0, 1) against N(mu, 1), for real eps: shape (2, n).

    `epsilon` and `mu` have the shape (2, n). Their first rows hold the arguments of the lower bounds (the larger eps,
    the smaller mu > 0), their second rows those of the upper bounds.
    """
    logs = np.empty_like(epsilon)
    small = mu[1] <= SMALL_SHIFT
    for places, difference in ((small, _difference_small), (~small, _difference)):
        if places.any():
            value, error = _log_profile(np.abs(epsilon[:, places]), mu[:, places], difference)
            logs[:, places] = np.minimum(value + OUTWARD * error, 0.0)
    negative = epsilon < 0
    if not negative.any():
        return logs
    e = np.where(negative, epsilon, 0.0)
    there = -np.expm1(e) + np.exp(e + logs)
    # Both terms are positive and within a few roundings. Close to 1 the error of the smaller term counts too.
    there = np.log(there) + OUTWARD * (8 * FUNCTION_ERROR * (1 + np.abs(np.log(there)) + np.exp(e) * np.abs(e)))
    return np.where(negative, np.minimum(there, 0.0), logs)


def reflected(bounds: EnclosureArray, epsilon: FloatArray) -> EnclosureArray:
    """Return the profile of a self-inverse curve at eps of either sign, from the profile `bounds` at |eps|.

    Entries with eps >= 0 are those of `bounds`. For eps < 0 the formula 1 - e^eps + e^eps delta(-eps) has no
    cancellation.
    """
    negative = epsilon < 0
    e = np.where(negative, epsilon, 0.0)
    rest, factor = -np.expm1(e), np.exp(e)
    slack = 4 * FUNCTION_ERROR
    lower, upper = (rest + factor * bounds.lower) * (1 - slack), (rest + factor * bounds.upper) * (1 + slack)
    return chosen(negative, with_logs(lower, np.minimum(upper, 1.0)), bounds)


def _log_profile(epsilon: FloatArray, mu: FloatArray, difference: Difference) -> tuple[FloatArray, FloatArray]:
    """Return ln delta(`epsilon`) of N(0, 1) against N(mu, 1), and a bound of its absolute error.

    epsilon >= 0 and mu > 0 are exact. `difference` computes the difference of two Mills ratios.
    """
    # Overflow and 0/0 occur only where a patch below replaces the result. Callers silence these warnings once.
    ratio = epsilon / mu
    a, b = ratio - 0.5 * mu, ratio + 0.5 * mu
    a_error = (2 * UNIT_ROUNDOFF) * b
    mills, relative = difference(a, b, ratio, mu, a_error)
    log_mills = np.log(mills)
    value = log_mills - (0.5 * a * a + LOG_SQRT_2PI)
    error = (
        relative
        + np.abs(a) * a_error
        + UNIT_ROUNDOFF * (a * a + 4 + np.abs(value))
        + FUNCTION_ERROR * np.abs(log_mills)
    )
    near_one, far = a < LEFTMOST, a > FAR
    if (near_one | far).any():
        value, error = _patch(near_one, _near_one(a, b, a_error), (value, error))
        if far.any():
            value, error = _patch(far, _far(a, b, mu, a_error), (value, error))
    return value, error


def _plain_log_profile(epsilon: float, mu: float) -> tuple[float, float] | None:
    """Return ln delta(`epsilon`) of N(0, 1) against N(mu, 1) and a bound of its absolute error for floats, or None.

    None means that eps/mu - mu/2 is outside the range of this formula, or that no digit of the difference of Mills
    ratios is left. The operations and their order are equal to those of `_log_profile`, and so are the doubles. Python
    floats are several times as fast as numbers of NumPy.
    """
    ratio = epsilon / mu
    a, b = ratio - 0.5 * mu, ratio + 0.5 * mu
    if not LEFTMOST <= a <= FAR:
        return None
    a_error = (2 * UNIT_ROUNDOFF) * b
    mills_a = SQRT_HALF_PI * float(special.erfcx(SQRT_HALF * a))
    mills_b = SQRT_HALF_PI * float(special.erfcx(SQRT_HALF * b))
    mills = mills_a - mills_b
    if not mills > 0:
        return None
    positive = 0.5 * (a + abs(a))
    negative = a - positive
    steepness = 1 / (1 + positive * positive) - negative * mills_a + 1 / (1 + b * b)
    absolute = mills_a * (MILLS_ERROR + (4 * UNIT_ROUNDOFF) * negative * negative) + mills_b * MILLS_ERROR
    relative = 1.01 * (absolute + steepness * a_error) / mills
    log_mills = float(np.log(mills))
    value = log_mills - (0.5 * a * a + LOG_SQRT_2PI)
    error = relative + abs(a) * a_error + UNIT_ROUNDOFF * (a * a + 4 + abs(value)) + FUNCTION_ERROR * abs(log_mills)
    return value, error


def _difference(
    a: FloatArray, b: FloatArray, _ratio: FloatArray, _mu: FloatArray, a_error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the difference R(a) - R(b) of Mills ratios and a bound of its relative error, for a >= -5.

    R(x) = Phi(-x)/phi(x) for the normal density phi, and `a_error` bounds the absolute error of a. The function ignores
    the other arguments, which `_difference_small` needs.
    """
    left = np.maximum(a, LEFTMOST)
    mills_a, mills_b = SQRT_HALF_PI * special.erfcx(SQRT_HALF * left), SQRT_HALF_PI * special.erfcx(SQRT_HALF * b)
    difference = mills_a - mills_b
    # |R'(x)| = 1 - x R(x) <= 1/(1 + x^2) for x >= 0. Both parts of a are exact.
    positive = 0.5 * (left + abs(left))
    negative = left - positive
    steepness = 1 / (1 + positive * positive) - negative * mills_a + 1 / (1 + b * b)
    absolute = mills_a * (MILLS_ERROR + (4 * UNIT_ROUNDOFF) * negative * negative) + mills_b * MILLS_ERROR
    return difference, 1.01 * (absolute + steepness * a_error) / difference


def _difference_small(
    _a: FloatArray, _b: FloatArray, ratio: FloatArray, mu: FloatArray, a_error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the difference R(a) - R(a + mu) of Mills ratios and a bound of its relative error, for mu <= 1/128.

    R(x) = Phi(-x)/phi(x). `ratio` is eps/mu = a + mu/2, and `a_error` bounds the absolute error of a. The function
    ignores the arguments `_a` and `_b`, which `_difference` needs. The difference is the integral of 1 - x R(x) over
    [a, a + mu], by three Gauss-Legendre nodes. The quadrature error is mu^6/2016000 times at most 48 (the largest ratio
    of the sixth derivative of the integrand to the integrand, at 0), relatively below 1e-17.
    """
    nodes = [np.minimum(ratio, FAR) + node * (0.5 * mu) for node in GAUSS_LEGENDRE]
    first, middle, last = (1 - x * (SQRT_HALF_PI * special.erfcx(SQRT_HALF * x)) for x in nodes)
    difference = mu * (5 / 18 * (first + last) + 8 / 18 * middle)
    # |ln(1 - x R)'| <= 3 everywhere on x >= -1/256; the absolute error of 1 - x R is relative to x R <= 1.
    return difference, 2 * MILLS_ERROR / last + 4 * a_error + 16 * UNIT_ROUNDOFF


def _near_one(a: FloatArray, b: FloatArray, a_error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln delta and a bound of its absolute error for a < -5, where delta is close to 1.

    The formula is delta = 1 - phi(a) [R(-a) + R(b)]. `a_error` bounds the absolute error of a. R is the Mills ratio
    Phi(-x)/phi(x), with a = eps/mu - mu/2 and b = a + mu for curves of N(0, 1) against N(mu, 1).
    """
    density = np.exp(-0.5 * a * a - LOG_SQRT_2PI)
    rest = density * SQRT_HALF_PI * (special.erfcx(-SQRT_HALF * a) + special.erfcx(SQRT_HALF * b))
    value = np.log1p(-rest)
    return value, 2 * rest * (MILLS_ERROR + 4 * np.abs(a) * a_error + 2 * UNIT_ROUNDOFF * a * a) + 5e-324


def _far(a: FloatArray, b: FloatArray, mu: FloatArray, a_error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln delta and a bound of its absolute error for a > FAR, from an asymptotic difference of Mills ratios.

    delta is the profile of N(0, 1) against N(mu, 1) at eps. R(x) = Phi(-x)/phi(x) is the Mills ratio, a = eps/mu - mu/2
    and b = a + mu. The difference is R(a) - R(b) = mu / (a b) (1 - s / a^2), 0 <= s <= 3. `a_error` bounds the absolute
    error of a. The result has no lower bound where a^2 overflows.
    """
    exponent = 0.5 * np.minimum(a, 1e154) ** 2
    value = np.log(mu) - np.log(np.minimum(a, 1e154)) - np.log(np.minimum(b, 1e154)) - LOG_SQRT_2PI - exponent
    error = 3 / a**2 + np.minimum(a, 1e154) * a_error + 20 * UNIT_ROUNDOFF * np.abs(value)
    # For a > 1e153 only the bound ln delta <= -a^2/2 <= -5e305 is known.
    beyond = a > 1e153
    return np.where(beyond, -1e306, value), np.where(beyond, np.array([[np.inf], [5e305]]), error)


def _patch(
    where: np.ndarray, new: tuple[FloatArray, FloatArray], old: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    return np.where(where, new[0], old[0]), np.where(where, new[1], old[1])
